"""Thresholds by split conformal prediction, on answers made by hand."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from rollout_monitor.events.settings import EventSettings
from rollout_monitor.judges.measures import Answers
from rollout_monitor.train.thresholds import calibrate, largest_drawdown, level_for, longest_stall, success_threshold

RATE_HZ = 5.0


def answers(values: npt.NDArray[np.float64], succeeded: bool) -> Answers:
    return Answers(
        rollout="t",
        value=values,
        lower=values,
        upper=values,
        success=values,
        direction=np.zeros(len(values), dtype=np.int64),
        truth=values,
        succeeded=succeeded,
    )


def climb(top: float, fall: float = 0.0) -> npt.NDArray[np.float64]:
    """Up to half of the top, down by ``fall``, up to the top, and 2 s there."""
    half = 0.5 * top
    parts = [np.linspace(0, half, 20), np.linspace(half, half - fall, 10), np.linspace(half - fall, top, 20)]
    return np.concatenate([*parts, np.full(10, top)])


def test_a_further_success_passes_a_threshold_at_most_at_its_level() -> None:
    """19 draws and a 20th of the same kind, many times: that is what the quantile promises."""
    rng = np.random.default_rng(0)
    missed = raised = 0
    for _ in range(300):
        tops, falls = rng.uniform(0.85, 1.0, 20), rng.uniform(0.0, 0.4, 20)
        good = [answers(climb(top, fall), True) for top, fall in zip(tops, falls, strict=True)]
        bad = [answers(climb(top), False) for top in rng.uniform(0.2, 0.6, 19)]
        found = calibrate([*good[:-1], *bad], RATE_HZ)
        assert found.alpha == 0.1 and found.n == 19
        missed += good[-1].value[-1] < found.values["outcome.progress_threshold"]
        raised += largest_drawdown(good[-1].value) > found.values["drawdown.warn"]
    assert missed / 300 <= 0.1 and raised / 300 <= 0.14  # 0.1 and two standard deviations


def test_the_threshold_lies_between_the_outcomes() -> None:
    good, bad = ([answers(climb(top), top > 0.6) for top in tops] for tops in ((0.8, 0.9, 0.85), (0.3, 0.5, 0.4)))
    threshold, promise = success_threshold(good, bad)
    assert threshold == pytest.approx(0.65) and "a further success ends above 0.65" in promise


def test_outcomes_that_overlap_are_told() -> None:
    good, bad = [answers(climb(t), True) for t in (0.6, 0.9, 0.95)], [answers(climb(t), False) for t in (0.7, 0.2)]
    threshold, promise = success_threshold(good, bad)
    assert 0.7 < threshold < 0.9 and "overlap" in promise


def test_few_takes_get_the_level_they_allow() -> None:
    assert level_for(20) == 0.1 and level_for(4) == pytest.approx(0.2)
    found = calibrate([answers(climb(1.0), True)] * 4 + [answers(climb(0.3), False)] * 3, RATE_HZ)
    assert found.alpha == pytest.approx(0.2) and any("4 successes allow no level below 0.20" in n for n in found.notes)


def test_a_stall_is_the_longest_stand_before_the_end() -> None:
    events = EventSettings()
    curve = np.concatenate([np.linspace(0, 0.5, 11), np.full(20, 0.5), np.linspace(0.5, 1.0, 11), np.full(50, 1.0)])
    assert longest_stall(curve, RATE_HZ, events) == pytest.approx(4.0, abs=0.41)
    assert longest_stall(np.full(6, 0.95), RATE_HZ, events) == 0.0
