"""The true progress: grows with the state, falls when it gets worse, swaps with the instruction."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollout_monitor.sim.progress import SceneStart, SceneState, done, pack, progress, unpack
from rollout_monitor.sim.tasks import get_task

LIFT = get_task("lift")
RED_ON_GREEN = get_task("stack_red_on_green")
GREEN_ON_RED = get_task("stack_green_on_red")
TABLE = 0.8
HALF = {"red": 0.02, "green": 0.025}
RED, GREEN = np.array([0.0, 0.1, TABLE + 0.02]), np.array([0.05, -0.1, TABLE + 0.025])
FIRST = SceneState(np.array([-0.2, 0.0, 1.0]), {"red": RED, "green": GREEN}, None, None, False)
START = SceneStart(FIRST, HALF, TABLE)


def held(height: float, x: float = 0.0, y: float = 0.1) -> SceneState:
    cube = np.array([x, y, TABLE + 0.02 + height])
    return replace(FIRST, tool=cube, cubes={"red": cube, "green": GREEN}, held="red")


unit = st.floats(0.0, 1.0)


@given(unit, unit)
def test_reaching_is_monotone_and_below_grasping(a: float, b: float) -> None:
    near, far = sorted((a, b))
    states = [replace(FIRST, tool=RED + share * (FIRST.tool - RED)) for share in (far, near)]
    for task in (LIFT, RED_ON_GREEN):
        low, high = (progress(task, state, START) for state in states)
        assert 0.0 <= low <= high < progress(task, held(0.0), START)


@given(st.floats(0.0, 0.2), st.floats(0.0, 0.2))
def test_lifting_is_monotone(a: float, b: float) -> None:
    low, high = sorted((a, b))
    assert progress(LIFT, held(low), START) <= progress(LIFT, held(high), START) <= 1.0


@given(unit, unit)
def test_carrying_towards_the_base_is_monotone(a: float, b: float) -> None:
    far, near = sorted((a, b))
    values = []
    for share in (far, near):
        x, y = RED[:2] + share * (GREEN[:2] - RED[:2])
        values.append(progress(RED_ON_GREEN, held(0.06, x, y), START))
    assert values[0] <= values[1] <= 0.85 + 1e-9


def test_dropping_loses_progress_and_letting_go_in_place_wins() -> None:
    lifted = held(0.08)
    fallen = replace(lifted, cubes={"red": RED, "green": GREEN}, held=None)
    assert progress(LIFT, lifted, START) - progress(LIFT, fallen, START) > 0.4
    top = GREEN + np.array([0.0, 0.0, 0.045])
    touching = replace(FIRST, tool=top, cubes={"red": top, "green": GREEN}, held="red", touching=True)
    placed = replace(touching, held=None, stacked="red")
    assert progress(RED_ON_GREEN, touching, START) == pytest.approx(0.9)
    assert progress(RED_ON_GREEN, placed, START) == 1.0
    assert done(RED_ON_GREEN, placed, START)
    assert not done(RED_ON_GREEN, touching, START)
    # What one instruction wants is the worst state of the other.
    assert progress(GREEN_ON_RED, placed, START) == 0.0
    assert progress(GREEN_ON_RED, held(0.05), START) == 0.0
    assert not done(GREEN_ON_RED, placed, START)


def test_a_cube_that_left_the_table_gives_nothing() -> None:
    gone = replace(FIRST, cubes={"red": np.array([0.6, 0.0, 0.1]), "green": GREEN})
    assert progress(LIFT, gone, START) == progress(RED_ON_GREEN, gone, START) == 0.0


def test_lift_is_done_only_in_the_hand() -> None:
    assert done(LIFT, held(0.09), START)
    assert not done(LIFT, held(0.05), START)
    assert not done(LIFT, replace(held(0.09), held=None), START)


def test_states_survive_storage() -> None:
    states = [FIRST, held(0.04), replace(FIRST, cubes={"red": RED}, stacked=None)]
    back = unpack(pack(states))
    assert [(s.held, s.stacked, s.touching, sorted(s.cubes)) for s in back] == [
        (s.held, s.stacked, s.touching, sorted(s.cubes)) for s in states
    ]
    np.testing.assert_allclose(back[1].cubes["red"], states[1].cubes["red"], atol=1e-6)
