"""Rollouts side by side get the numbers that each gets by itself."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from rollout_monitor.errors import InputError
from rollout_monitor.frames import FrameSet, RgbImage
from rollout_monitor.prm.embedded import EmbeddedModel
from rollout_monitor.prm.protocol import Observation
from rollout_monitor.prm.side_by_side import score

TASK = "stack the red cube on the green cube"
LENGTHS = (7, 1, 0, 12, 3, 9)


def rollout(seed: int) -> list[tuple[int, RgbImage]]:
    rng = np.random.default_rng(seed)
    scene = rng.integers(0, 255, (12, 16, 3)).repeat(5, axis=0).repeat(5, axis=1)
    return [
        (step * 1_000_000_000, np.clip(scene + 15 * step, 0, 255).astype(np.uint8)) for step in range(LENGTHS[seed])
    ]


def alone(model: EmbeddedModel, pictures: list[tuple[int, RgbImage]]) -> list[Observation]:
    model.reset(TASK)
    return [model.observe(FrameSet(stamp, {"front": picture}, {"front": stamp})) for stamp, picture in pictures]


@pytest.mark.parametrize("lanes", [1, 2, 4, 8])
def test_same_numbers_as_one_by_one(tiny: EmbeddedModel, lanes: int) -> None:
    given = ((seed, iter(rollout(seed))) for seed in range(len(LENGTHS)))
    found: dict[int, list[tuple[int, Observation]]] = {seed: [] for seed in range(len(LENGTHS))}
    for seed, stamp_ns, answer in score(tiny, TASK, given, lanes):
        found[seed].append((stamp_ns, answer))
    ends = set()
    for seed in range(len(LENGTHS)):
        pictures = rollout(seed)
        wanted = alone(tiny, pictures)
        assert [stamp for stamp, _ in found[seed]] == [stamp for stamp, _ in pictures]
        for (_, said), want in zip(found[seed], wanted, strict=True):
            for name in ("progress", "lower", "upper", "success_probability"):
                assert getattr(said, name) == pytest.approx(getattr(want, name), abs=1e-5)
            assert (said.direction, said.subtask) == (want.direction, want.subtask)
        ends |= {round(want.progress or 0.0, 4) for want in wanted[-1:]}
    assert len(ends) == sum(length > 0 for length in LENGTHS), "the rollouts differ by more than the tolerance"


def test_no_more_rollouts_are_opened_than_there_are_lanes(tiny: EmbeddedModel) -> None:
    open_now: set[int] = set()
    most = 0

    def pictures(seed: int) -> Iterator[tuple[int, RgbImage]]:
        nonlocal most
        open_now.add(seed)
        most = max(most, len(open_now))
        yield from rollout(seed)
        open_now.remove(seed)

    answers = list(score(tiny, TASK, ((seed, pictures(seed)) for seed in range(len(LENGTHS))), 2))
    assert len(answers) == sum(LENGTHS)
    assert most == 2 and not open_now


def test_threads_may_share_a_model(tiny: EmbeddedModel) -> None:
    def work(seed: int) -> list[Observation]:
        return [answer for *_, answer in score(tiny, TASK, [(seed, iter(rollout(seed)))], 1)]

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(work, [0, 3, 5] * 4))
    assert found[:3] * 4 == found


def test_what_cannot_be_scored_is_refused(tiny: EmbeddedModel) -> None:
    with pytest.raises(InputError, match="empty"):
        list(score(tiny, " ", []))
    with pytest.raises(InputError, match="at least one"):
        list(score(tiny, TASK, [], 0))
    with pytest.raises(InputError, match="shape"):
        list(score(tiny, TASK, [(0, iter([(0, np.zeros((4, 4), dtype=np.uint8))]))]))
