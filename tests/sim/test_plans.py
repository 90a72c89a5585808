"""Plans of data sets, modes and scripted experts, without physics."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rollout_monitor.errors import InputError
from rollout_monitor.sim.experts import Expert, Sight, nearest_quarter
from rollout_monitor.sim.generate import plan_rollouts, read_index, split_of
from rollout_monitor.sim.modes import MODE_SHARES, MODES, draw_manner, modes_of
from rollout_monitor.sim.tasks import TASKS, get_task


def test_a_longer_run_begins_with_the_shorter_one() -> None:
    assert plan_rollouts(30, 5)[:10] == plan_rollouts(10, 5)
    assert plan_rollouts(30, 5)[3:] == plan_rollouts(27, 8)


def test_plans_cover_tasks_and_modes() -> None:
    plans = plan_rollouts(400, 0)
    assert {plan.task for plan in plans} == set(TASKS)
    assert {plan.mode for plan in plans} == set(MODES)
    assert not any(plan.mode == "wrong" for plan in plans if plan.task == "lift")
    shares = {mode: sum(plan.mode == mode for plan in plans) / 400 for mode in MODES}
    assert all(abs(shares[mode] - share) < 0.08 for mode, share in MODE_SHARES.items())


def test_splits_go_by_seed() -> None:
    assert [split_of(seed) for seed in range(1000, 1010)] == ["train"] * 7 + ["val"] + ["test"] * 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 1), "at least 1"),
        ((3, 1, "fold_laundry"), "known tasks: lift"),
        ((3, 1, "lift", "wrong"), "lift's: success"),
        ((3, 1, None, "explode"), "explode"),
    ],
)
def test_bad_plans_are_refused(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        plan_rollouts(*arguments)  # type: ignore[arg-type]


def test_no_index_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="sim generate"):
        read_index(tmp_path)


def test_the_hand_turns_no_further_than_needed() -> None:
    for angle in np.linspace(-7, 7, 60):
        folded = nearest_quarter(float(angle))
        assert abs(folded) <= np.pi / 4 + 1e-9
        assert np.isclose((angle - folded) % (np.pi / 2), 0) or np.isclose((angle - folded) % (np.pi / 2), np.pi / 2)


@pytest.mark.parametrize("task_name", list(TASKS))
def test_every_script_ends(task_name: str) -> None:
    """Scripts must end even where nothing obeys them: the sight never changes here."""
    task = get_task(task_name)
    for mode in modes_of(task):
        half = {"red": 0.02, "green": 0.025}
        cubes = {"red": np.array([0.0, 0.1, 0.82]), "green": np.array([0.0, -0.1, 0.825])}
        sight = Sight(np.array([-0.2, 0.0, 1.0]), 0.0, cubes, {"red": 0.1, "green": -0.2}, half, 0.8)
        manner = draw_manner(np.random.default_rng(3), task, mode)
        ticks = sum(1 for _ in Expert(task, mode, manner, sight).script())
        assert 20 < ticks < 2000
