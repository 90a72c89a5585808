"""Tasks at the simulated table and their true progress, on states made by hand; no simulator needed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollout_monitor.errors import InputError
from rollout_monitor.sim.tabletop.alternatives import alternatives, every_goal, similar
from rollout_monitor.sim.tabletop.catalogue import FIXTURE_INDEX, FIXTURES, JOINT_RANGE, JOINTED, OBJECT_INDEX, OBJECTS
from rollout_monitor.sim.tabletop.goals import SceneFacts, States, judge, parse

TABLE = 0.8
HALF = 0.02
HOME = np.array([-0.12, 0.0, TABLE + 0.22])
PLACES = {"red": (0.0, 0.12), "green": (0.05, -0.1), "blue": (-0.1, -0.15), "can": (0.1, 0.0)}
FIXED = {"bin": (0.1, 0.2), "plate": (0.1, -0.2), "white_zone": (-0.05, 0.05), "drawer": (0.14, 0.05)}


def facts() -> SceneFacts:
    half = np.full((len(OBJECTS), 3), np.nan)
    for name in PLACES:
        half[OBJECT_INDEX[name]] = HALF
    fixtures = np.full((len(FIXTURES), 3), np.nan)
    for name, place in FIXED.items():
        fixtures[FIXTURE_INDEX[name]] = (*place, TABLE)
    return SceneFacts(frozenset(PLACES) | frozenset(FIXED), half, fixtures, TABLE)


class Story:
    """Builds states one after the other; what is not changed stays as it was."""

    def __init__(self) -> None:
        self.tool = HOME.copy()
        self.at = {name: np.array([*place, TABLE + HALF]) for name, place in PLACES.items()}
        self.held: str | None = None
        self.touching: set[frozenset[str]] = set()
        self.drawer = 0.0
        self.speed = 0.0
        self.rows: list[States] = []
        self.keep()

    def keep(self) -> Story:
        objects = np.full((1, len(OBJECTS), 3), np.nan)
        held = np.zeros((1, len(OBJECTS)), dtype=np.int8)
        touching = np.zeros((1, len(OBJECTS), len(OBJECTS)), dtype=bool)
        for name, place in self.at.items():
            objects[0, OBJECT_INDEX[name]] = place
        if self.held:
            held[0, OBJECT_INDEX[self.held]] = 1
        for a, b in map(sorted, self.touching):
            touching[0, OBJECT_INDEX[a], OBJECT_INDEX[b]] = touching[0, OBJECT_INDEX[b], OBJECT_INDEX[a]] = True
        joints = np.array([[self.drawer if name == "drawer" else 0.0 for name in JOINTED]])
        grip = np.array([0.03 - self.drawer, 0.05, TABLE + 0.09])
        self.rows.append(
            States(
                tools=self.tool[None, None].copy(),
                objects=objects,
                speeds=np.where(np.isnan(objects[..., 0]), np.nan, self.speed),
                held=held,
                touching=touching,
                joints=joints,
                grips=np.array([[grip, grip]]),
                level=np.ones((1, len(OBJECTS))),
                ends=np.full((1, 2, 3), np.nan),
            )
        )
        return self

    def reach(self, name: str, share: float = 1.0) -> Story:
        self.tool = self.tool + share * (self.at[name] - self.tool)
        return self.keep()

    def hold(self, name: str, place: tuple[float, float, float]) -> Story:
        self.held = name
        self.touching = {pair for pair in self.touching if name not in pair}
        self.at[name] = np.array(place)
        self.tool = self.at[name].copy()
        return self.keep()

    def put(self, name: str, place: tuple[float, float, float], *, on: str | None = None) -> Story:
        self.held = None
        self.at[name] = np.array(place)
        if on:
            self.touching.add(frozenset((name, on)))
        return self.keep()

    def stack(self, name: str, base: str) -> Story:
        x, y, z = self.at[base]
        self.hold(name, (*PLACES[name], TABLE + HALF + 0.08))
        self.hold(name, (x, y, z + 2 * HALF + 0.03))
        return self.put(name, (x, y, z + 2 * HALF), on=base)

    @property
    def states(self) -> States:
        names = ("tools", "objects", "speeds", "held", "touching", "joints", "grips", "level", "ends")
        return States(**{n: np.concatenate([getattr(row, n) for row in self.rows]) for n in names})

    def judge(self, task: str) -> list[float]:
        return judge(task, self.states, facts()).progress.tolist()


unit = st.floats(0.0, 1.0)


@settings(max_examples=60)
@given(unit, unit)
def test_coming_nearer_never_costs_progress(a: float, b: float) -> None:
    near, far = max(a, b), min(a, b)
    for task in ("lift:red", "on:red:green", "in:red:bin", "zone:red:white_zone", "left:red:green"):
        values = [Story().reach("red", share).judge(task)[-1] for share in (far, near)]
        assert 0.0 <= values[0] <= values[1] + 1e-9 < 0.5


@settings(max_examples=60)
@given(unit, unit)
def test_carrying_nearer_never_costs_progress(a: float, b: float) -> None:
    start, goal = np.array(PLACES["red"]), np.array(PLACES["green"])
    values = []
    for share in (min(a, b), max(a, b)):
        x, y = start + share * (goal - start)
        values.append(Story().hold("red", (x, y, TABLE + HALF + 0.09)).judge("on:red:green")[-1])
    assert 0.4 <= values[0] <= values[1] + 1e-9 <= 0.9


def test_the_same_take_under_swapped_roles_is_the_worst_state_of_the_other() -> None:
    story = Story().reach("red").stack("red", "green")
    ours, swapped = story.judge("on:red:green"), story.judge("on:green:red")
    assert ours[-1] == 1.0
    assert ours == sorted(ours)
    assert swapped[-1] == 0.0
    assert max(swapped[2:]) == 0.0


@pytest.mark.parametrize("task", ["in:red:bin", "in:red:plate", "left:red:green", "right:red:green"])
def test_coming_down_over_the_place_never_costs_progress(task: str) -> None:
    story = Story()
    x, y = FIXED.get(task.split(":")[2], PLACES["green"])
    y += {"left": 0.075, "right": -0.075, "in": 0.0}[task[: task.index(":")]]
    for height in np.arange(0.12, 0.0, -0.01):
        story.hold("red", (x, y, TABLE + HALF + 0.006 * ("in" in task) + float(height)))
    story.put("red", (x, y, TABLE + HALF + 0.006 * ("in" in task)))
    values = story.judge(task)[1:]
    assert values == sorted(values)
    assert values[-1] == 1.0


def test_another_target_and_another_side_are_told_apart() -> None:
    x, y = FIXED["bin"]
    story = Story().hold("red", (x, y, TABLE + 0.1)).put("red", (x, y, TABLE + HALF + 0.006))
    assert story.judge("in:red:bin")[-1] == 1.0
    assert story.judge("in:red:plate")[-1] < 0.4
    gx, gy = PLACES["green"]
    beside = Story().hold("red", (gx, gy + 0.07, TABLE + 0.1)).put("red", (gx, gy + 0.07, TABLE + HALF))
    assert beside.judge("left:red:green")[-1] == beside.judge("right:green:red")[-1] == 1.0
    assert beside.judge("right:red:green")[-1] < 0.4
    assert beside.judge("left:green:red")[-1] < 0.4


def test_a_drop_falls_and_taking_it_up_again_rises() -> None:
    story = Story().reach("red").hold("red", (0.0, 0.12, TABLE + 0.09))
    story.put("red", (0.02, 0.1, TABLE + HALF)).hold("red", (0.02, 0.1, TABLE + 0.12))
    values = story.judge("lift:red")
    assert values[3] < values[2] - 0.3
    assert values[4] == 1.0
    assert judge("lift:red", story.states, facts()).done.tolist() == [False] * 4 + [True]


def test_goals_count_in_the_order_of_the_text() -> None:
    task = "on:red:green>in:blue:bin"
    in_order = Story().stack("red", "green")
    half_way = in_order.judge(task)[-1]
    in_order.hold("blue", (*FIXED["bin"], TABLE + 0.1)).put("blue", (*FIXED["bin"], TABLE + HALF))
    assert 0.5 <= half_way < 0.7
    assert in_order.judge(task)[-1] == 1.0
    other_way = Story().hold("blue", (*FIXED["bin"], TABLE + 0.1)).put("blue", (*FIXED["bin"], TABLE + HALF))
    assert other_way.judge(task)[-1] < 0.2
    other_way.stack("red", "green")
    verdict = judge(task, other_way.states, facts())
    assert verdict.progress[-1] == 0.5
    assert not verdict.done[-1]
    assert verdict.subtask[-1] == 1
    assert other_way.judge("in:blue:bin>on:red:green")[-1] == 1.0
    # Undone and done again, now in its turn, it counts.
    other_way.hold("blue", (*FIXED["bin"], TABLE + 0.1)).put("blue", (*FIXED["bin"], TABLE + HALF))
    assert other_way.judge(task)[-1] == 1.0


def test_a_knock_neither_costs_a_goal_nor_makes_an_early_one_count() -> None:
    story = Story().stack("red", "green")
    story.speed = 0.2
    story.keep()
    assert story.judge("on:red:green")[-1] == 1.0
    falling = Story()
    falling.speed = 0.2
    falling.stack("red", "green")
    assert falling.judge("on:red:green")[-1] == 0.9, "it has to come to rest first"
    # The upper part of the tower comes first; moving both together does not undo it.
    tower, task = Story().stack("red", "green"), "on:green:blue>on:red:green"
    tower.speed = 0.2
    tower.held = "green"
    tower.keep()
    tower.speed = 0.0
    x, y, z = tower.at["blue"]
    tower.at["red"] = np.array([x, y, z + 4 * HALF])
    tower.touching |= {frozenset(("green", "blue")), frozenset(("red", "green"))}
    tower.held = None
    tower.at["green"] = np.array([x, y, z + 2 * HALF])
    tower.keep()
    assert tower.judge("on:green:blue")[-1] == tower.judge("on:red:green")[-1] == 1.0
    assert tower.judge(task)[-1] == 0.5
    assert tower.judge("on:red:green>on:green:blue")[-1] == 1.0


def test_undoing_the_first_goal_costs_everything_after_it() -> None:
    story = Story().stack("red", "green").hold("red", (0.0, 0.12, TABLE + 0.1)).put("red", (0.0, 0.12, TABLE + HALF))
    values = story.judge("on:red:green>in:blue:bin")
    assert max(values) >= 0.5
    assert values[-1] < 0.2


def test_a_drawer_opens_and_closes() -> None:
    story = Story()
    for share in (0.3, 0.6, 0.9):
        story.drawer = share * JOINT_RANGE["drawer"]
        story.keep()
    opening, closing = story.judge("open:drawer"), story.judge("close:drawer")
    assert opening == sorted(opening)
    assert opening[-1] == 1.0
    assert closing[0] == 1.0
    assert closing[-1] < 0.4


def test_what_left_the_table_gives_nothing() -> None:
    story = Story().put("red", (0.7, 0.0, 0.1))
    assert story.judge("lift:red")[-1] == story.judge("on:red:green")[-1] == story.judge("on:green:red")[-1] == 0.0


@pytest.mark.parametrize(
    "text", ["", "lift", "lift:purple", "on:red", "on:red:red", "in:red:green", "open:red", "fly:red", "lift:red:green",
             "on:red:green:blue", "lift:red>"]
)  # fmt: skip
def test_what_is_no_task_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="no goal"):
        parse(text)


def test_a_task_of_another_scene_is_refused() -> None:
    with pytest.raises(InputError, match="no yellow"):
        judge("lift:yellow", Story().states, facts())


def test_every_goal_has_a_written_form_that_reads_back() -> None:
    goals = every_goal(facts().present)
    assert len({goal.key for goal in goals}) == len(goals) > 25
    assert all(parse(goal.key).goals == (goal,) for goal in goals)


def test_alternatives_begin_with_swapped_roles_and_orders() -> None:
    scene, states = facts(), Story().states
    assert alternatives("on:red:green", states, scene, 0)[0] == "on:green:red"
    assert alternatives("in:red:bin>on:blue:green", states, scene, 0)[0] in (
        "on:blue:green>in:red:bin",
        "in:red:bin>on:green:blue",
    )
    for seed in range(20):
        keys = alternatives("left:red:green", states, scene, seed)
        assert "left:red:green" not in keys
        assert 3 <= len(keys) <= 12
        assert len(set(keys)) == len(keys)
        assert "close:drawer" not in keys, "it is closed at the start: nothing is asked for"
    assert {"right:red:green", "left:green:red"} <= {
        task.key for task in similar(parse("left:red:green"), scene.present)
    }
