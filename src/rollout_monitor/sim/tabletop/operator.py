"""The scripted operator: what a skilled or clumsy person would do at the table, tick by tick, from privileged state.

A script is a generator of `Act`: it is asked for one at every control tick (50 ms) and reads the world. A mode steers
it and never decides the outcome: that is read from the state.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from rollout_monitor.errors import InputError
from rollout_monitor.sim.tabletop.catalogue import (
    BAR_GRIP_M,
    CUBES,
    FIXTURES,
    FLOOR,
    FOOTPRINTS,
    JOINT_RANGE,
    OBJECTS,
    PEG_HEIGHT,
    POT_GRIP_M,
    RING_HANDLE_M,
)
from rollout_monitor.sim.tabletop.goals import BESIDE_M, LIFT_DONE_M, Goal, Task
from rollout_monitor.sim.tabletop.scene import TABLE_Z
from rollout_monitor.sim.tabletop.world import TableWorld

Vector = npt.NDArray[np.float64]
Script = Generator["Act", None, None]
Fault = Generator["Act", None, bool]
"""A part of a script; its value says whether the operator goes on after it."""

TICK_S = 0.05
ARRIVED_M = 0.008
PATIENCE_S = 4.0
"""A motion that has not arrived after this time is given up; the script goes on, as a person would."""

HAULED = 0.05
"""Share of its way within which a drawer or door counts as moved there."""

LOST_M = 0.04
"""A handle further than this from the grasp point has slipped away."""

SLIPPERY = 0.002
"""Friction at which no gripper holds a thing."""

LOWEST_M = 0.014
"""Height of the grasp point above the table below which the fingers would scrape it."""

PLACING = ("on", "in", "left", "right", "peg")
CARRYING = (*PLACING, "lift")

MODES: dict[str, str] = {
    "success": "does the task",
    "miss": "closes the fingers beside the thing (or pushes past it) and gives up",
    "retry": "misses first, backs off, tries again and goes on",
    "drop": "lets go on the way and gives up",
    "drop_recover": "lets go on the way, picks it up again and goes on",
    "slip": "the thing slides slowly out of the fingers; gives up or goes on",
    "stall": "freezes and never goes on (now and then it does)",
    "put_back": "takes the thing, then sets it down elsewhere and leaves",
    "wrong_object": "works with the wrong thing, the wrong target or swapped roles; now and then notices and corrects",
    "wrong_order": "does the steps in another order",
    "undo": "does the task and then undoes the last step; now and then does it again",
    "shove": "a person pushes the thing away, before it is taken or after it was placed; goes on or gives up",
    "collide": "runs into another thing on the way",
    "jitter": "does the task with a shaking hand",
}
MODE_SHARES: dict[str, float] = {
    "success": 0.24,
    "miss": 0.06,
    "retry": 0.07,
    "drop": 0.07,
    "drop_recover": 0.10,
    "slip": 0.05,
    "stall": 0.08,
    "put_back": 0.05,
    "wrong_object": 0.14,
    "wrong_order": 0.10,
    "undo": 0.07,
    "shove": 0.06,
    "collide": 0.03,
    "jitter": 0.03,
}
NOT_FOR: dict[str, tuple[str, ...]] = {
    "open": ("slip", "put_back", "wrong_object", "wrong_order", "shove", "collide"),
    "close": ("slip", "put_back", "wrong_object", "wrong_order", "shove", "collide"),
    "both": ("slip", "put_back", "wrong_object", "wrong_order", "shove", "collide", "undo"),
    "give": ("slip", "put_back", "wrong_object", "wrong_order", "shove", "collide", "undo"),
    "zone": ("slip", "put_back"),
    "peg": ("wrong_object",),
}


def modes_of(task: Task) -> tuple[str, ...]:
    """The modes that make sense for a task: an order needs two goals, a wrong object another one."""
    barred = {"wrong_order"} if len(task.goals) < 2 else set()
    if len(task.goals) == 1:
        barred |= set(NOT_FOR.get(task.goals[0].kind, ()))
    if any(goal.kind == "zone" for goal in task.goals):
        barred |= {"slip", "put_back"}
    return tuple(mode for mode in MODES if mode not in barred)


def check_mode(task: Task, mode: str) -> None:
    """Refuse a mode that does not exist or does not fit the task.

    Raises:
        InputError: the message lists the modes of the task.
    """
    if mode not in modes_of(task):
        raise InputError(f"mode {mode!r} is not one of task {task.key}'s: {', '.join(modes_of(task))}")


@dataclass(frozen=True)
class Aim:
    """What one hand shall do in the next tick: grasp point (m), turn about the vertical (rad), fingers, speed (m/s)."""

    target: Vector
    yaw: float
    closed: bool
    speed: float


@dataclass(frozen=True)
class Act:
    """One tick: an aim per arm; which object a hand from outside pushes (m/s), which one slides from the fingers."""

    aims: tuple[Aim, ...]
    shove: tuple[str, tuple[float, float]] | None = None
    slides: str | None = None


@dataclass(frozen=True)
class Manner:
    """The variety of one take: what a person would do a little differently each time. SI units."""

    speed: float
    fine_speed: float
    hover: float
    lift: float
    grasp_offset: Vector
    miss_offset: Vector
    think: float
    pause: float
    detour: Vector
    fault_at: float
    stall_stage: int
    stall_time: float
    shake: float
    settle: float
    goes_on: bool


def draw_manner(rng: np.random.Generator, mode: str) -> Manner:
    """Draw the variety of one take."""
    angle, reach = rng.uniform(0, 2 * np.pi), rng.uniform(0.045, 0.075)
    chance = {"slip": 0.5, "stall": 0.2, "wrong_object": 0.3, "undo": 0.3, "shove": 0.6, "collide": 0.75}.get(mode, 0.0)
    return Manner(
        speed=float(rng.uniform(0.16, 0.34)),
        fine_speed=float(rng.uniform(0.08, 0.16)),
        hover=float(rng.uniform(0.07, 0.12)),
        lift=float(rng.uniform(0.135, 0.175)),
        grasp_offset=rng.normal(0, 0.003, 2),
        miss_offset=reach * np.array([np.cos(angle), np.sin(angle)]),
        think=float(rng.exponential(0.25)),
        pause=float(rng.exponential(0.2)),
        detour=rng.normal(0, 0.04, 2),
        fault_at=float(rng.uniform(0.3, 0.95)),
        stall_stage=int(rng.choice(3, p=(0.35, 0.25, 0.4))),
        stall_time=float(rng.uniform(4.2, 6.0)),
        shake=float(rng.uniform(0.10, 0.2)) if mode == "jitter" else float(rng.uniform(0.0, 0.015)),
        settle=float(rng.uniform(0.6, 1.4)),
        goes_on=bool(rng.random() < chance),
    )


@dataclass
class Held:
    """What the watcher tells the operator: bits of the arms that hold each object, by `OBJECTS`."""

    bits: npt.NDArray[np.int8] = field(default_factory=lambda: np.zeros(len(OBJECTS), dtype=np.int8))

    def by(self, name: str) -> int:
        """Bits of the arms that hold an object."""
        return int(self.bits[OBJECTS.index(name)])


class Operator:
    """Carries out one take.

    Args:
        world: laid out for the take.
        task: what is asked for.
        mode: one of `MODES` that fits.
        manner: the variety.
        held: kept up to date by the take.
        rng: choices within the mode.
    """

    def __init__(
        self, world: TableWorld, task: Task, mode: str, manner: Manner, held: Held, rng: np.random.Generator
    ) -> None:
        check_mode(task, mode)
        self.world, self.task, self.mode, self.manner = world, task, mode, manner
        self._held, self._rng = held, rng
        count = len(world.arms)
        self._closed, self._yaw = [False] * count, [0.0] * count
        self._fault = int(rng.integers(len(task.goals)))

    # --- whole takes ----------------------------------------------------------------------------------------------

    def script(self) -> Script:
        """The whole take; ends when the operator would stop."""
        yield from self.wait(self.manner.think)
        yield from self._goals()
        yield from self.wait(self.manner.settle)

    def _goals(self) -> Script:
        goals = list(self.task.goals)
        if self.mode == "wrong_order":
            goals = self._another_order(goals)
        for number, goal in enumerate(goals):
            if number == self._fault and self.mode not in ("success", "jitter", "wrong_order", "undo"):
                go_on = yield from self._with_fault(goal)
                if not go_on:
                    return
            else:
                yield from self._do(goal)
        if self.mode == "undo":
            yield from self.wait(0.3 + self.manner.pause)
            yield from self._undo(goals[-1])
            if self.manner.goes_on:
                yield from self._do(goals[-1])

    def _another_order(self, goals: list[Goal]) -> list[Goal]:
        while True:
            order = self._rng.permutation(len(goals))
            if (order != np.arange(len(goals))).any():
                return [goals[i] for i in order]

    def _with_fault(self, goal: Goal) -> Fault:
        """The goal with the mode's fault."""
        faults: dict[str, Callable[[Goal], Fault]] = {
            "miss": self._miss,
            "retry": self._retry,
            "drop": self._drop,
            "drop_recover": self._drop_recover,
            "slip": self._slip,
            "stall": self._stall,
            "put_back": self._put_back,
            "wrong_object": self._wrong,
            "shove": self._shove,
            "collide": self._collide,
        }
        return (yield from faults[self.mode](goal))

    # --- faults ---------------------------------------------------------------------------------------------------

    def _miss(self, goal: Goal) -> Fault:
        yield from self._grab(goal, offset=self.manner.miss_offset)
        yield from self._up(self.manner.lift)
        return False

    def _retry(self, goal: Goal) -> Fault:
        yield from self._grab(goal, offset=self.manner.miss_offset)
        yield from self._up(self.manner.lift * 0.7)
        yield from self._open()
        yield from self._do(goal)
        return True

    def _drop(self, goal: Goal) -> Fault:
        yield from self._lose(goal)
        yield from self.wait(0.3 + self.manner.pause)
        yield from self._up(0.05)
        return False

    def _drop_recover(self, goal: Goal) -> Fault:
        yield from self._lose(goal)
        yield from self.wait(0.2 + self.manner.pause)
        yield from self._up(0.05)
        yield from self._do(goal)
        return True

    def _lose(self, goal: Goal) -> Script:
        yield from self._part_way(goal)
        yield from self._open()

    def _slip(self, goal: Goal) -> Fault:
        if goal.kind not in CARRYING:
            yield from self._do(goal)
            return True
        yield from self._part_way(goal)
        self.world.set_friction(goal.what, SLIPPERY)
        here = [arm.tool for arm in self.world.arms]
        for _ in range(int(3.0 / TICK_S)):
            if not self._held.by(goal.what):
                break
            yield replace(self._act(here, 0.05), slides=goal.what)
        self.world.set_friction(goal.what, 1.0)
        yield from self.wait(0.4)
        if self.manner.goes_on:
            yield from self._open()
            yield from self._up(0.05)
            yield from self._do(goal)
        return self.manner.goes_on

    def _stall(self, goal: Goal) -> Fault:
        stage = self.manner.stall_stage
        if stage == 0:
            grip = self._grip_places(goal)
            parts = [
                arm.tool + self.manner.fault_at * (place + np.array([0, 0, self.manner.hover]) - arm.tool)
                for arm, place in zip(self.world.arms, grip, strict=False)
            ]
            yield from self.move(lambda: parts, self.manner.speed)
        elif stage == 1:
            yield from self._grab(goal)
        else:
            yield from self._part_way(goal)
        yield from self.wait(self.manner.stall_time)
        if self.manner.goes_on:
            yield from self._do(goal, fresh=stage == 0)
        return self.manner.goes_on

    def _put_back(self, goal: Goal) -> Fault:
        if goal.kind not in CARRYING:
            yield from self._do(goal)
            return True
        yield from self._part_way(goal)
        yield from self.wait(self.manner.pause)
        yield from self._set_down(goal.what)
        return False

    def _wrong(self, goal: Goal) -> Fault:
        other = self._confused(goal)
        if self.manner.goes_on and other.kind in CARRYING and other.what != goal.what:
            yield from self._part_way(other)
            yield from self.wait(0.3 + self.manner.pause)
            yield from self._set_down(other.what)
            yield from self._do(goal)
            return True
        yield from self._do(other)
        return False

    def _confused(self, goal: Goal) -> Goal:
        """Another goal of the same kind: roles swapped, another object, or another target."""
        facts = self.world.facts
        assert facts is not None  # noqa: S101 - the take laid the world out
        used = self.task.things
        cubes = [c for c in CUBES if c in facts.present and c not in (goal.what, goal.target)]
        free = [c for c in cubes if c not in used] or cubes
        options = [replace(goal, what=cube) for cube in free] if goal.what in (*CUBES, "can") else []
        if goal.kind in ("on", "left", "right"):
            if goal.target in CUBES and goal.what in CUBES:
                options += [Goal(goal.kind, str(goal.target), goal.what)] * max(1, len(free))
            options += [replace(goal, target=cube) for cube in free]
        if goal.kind in ("left", "right"):
            options += [replace(goal, kind="right" if goal.kind == "left" else "left")] * 2
        if goal.kind in ("in", "zone"):
            family = [f for f in FIXTURES if f in FLOOR and f in facts.present and f != goal.target]
            options += [Goal("zone" if f in ("white_zone", "black_zone") else "in", goal.what, f) for f in family] * 2
        if not options:
            return goal
        return options[int(self._rng.integers(len(options)))]

    def _shove(self, goal: Goal) -> Fault:
        if self._rng.random() < 0.3 and goal.kind in (*PLACING, "zone"):
            yield from self._do(goal)
            yield from self._push_away(goal.what)
            if self.manner.goes_on:
                yield from self._do(goal)
            return self.manner.goes_on
        above = self._grip_places(goal)[0] + np.array([0, 0, self.manner.hover])
        yield from self._go(above, self.manner.speed, within=0.02)
        yield from self._push_away(goal.what)
        if self.manner.goes_on:
            yield from self._do(goal)
            return True
        down = above - np.array([0, 0, self.manner.hover])
        yield from self._go(down, self.manner.fine_speed)
        self._closed[0] = True
        yield from self.wait(0.5)
        yield from self._up(self.manner.lift)
        return False

    def _push_away(self, name: str) -> Script:
        """A person moves an object by 8 to 16 cm, over the table's middle rather than off its edge."""
        place = self.world.place(name)
        angle = np.arctan2(-place[1], -place[0]) + self._rng.uniform(-1.2, 1.2)
        speed = self._rng.uniform(0.25, 0.4)
        velocity = (float(speed * np.cos(angle)), float(speed * np.sin(angle)))
        here = [arm.tool for arm in self.world.arms]
        for _ in range(int(0.4 / TICK_S)):
            yield replace(self._act(here, 0.05), shove=(name, velocity))
        yield from self.wait(0.3)

    def _collide(self, goal: Goal) -> Fault:
        facts = self.world.facts
        assert facts is not None  # noqa: S101 - as above
        others = [c for c in (*CUBES, "can") if c in facts.present and c not in self.task.things]
        others = others or [c for c in CUBES if c in facts.present and c != goal.what]
        if others:
            place = self.world.place(others[int(self._rng.integers(len(others)))])
            away = place[:2] - self.world.arms[0].tool[:2]
            away /= max(float(np.linalg.norm(away)), 1e-6)
            before, beyond = place.copy(), place.copy()
            before[:2] -= 0.07 * away
            beyond[:2] += 0.05 * away
            before[2] = beyond[2] = place[2] + 0.005
            self._closed[0] = True
            yield from self.move(lambda: [before + np.array([0, 0, 0.08])], self.manner.speed, within=0.02)
            yield from self._go(before, self.manner.speed, within=0.015)
            yield from self._go(beyond, self.manner.speed, within=0.015)
            yield from self._up(0.08)
        if self.manner.goes_on:
            yield from self._do(goal)
        return self.manner.goes_on

    def _undo(self, goal: Goal) -> Script:
        if goal.kind in ("open", "close"):
            yield from self._do(replace(goal, kind="close" if goal.kind == "open" else "open"))
        elif goal.kind == "zone":
            spot = self._free_spot()
            yield from self._push(goal.what, spot)
        elif goal.kind == "lift":
            yield from self._set_down(goal.what)
        else:
            yield from self._secure(goal)
            yield from self._set_down(goal.what)

    # --- goals ----------------------------------------------------------------------------------------------------

    def _do(self, goal: Goal, *, fresh: bool = True) -> Script:
        """Carry out one goal as well as the operator can; not ``fresh``: the thing may be in the hand already."""
        if goal.kind in ("open", "close"):
            yield from self._haul(goal, 1.0)
        elif goal.kind == "zone":
            target = self._target(goal)
            yield from self._push(goal.what, target)
        elif goal.kind == "both":
            yield from self._lift_together(goal, self.manner.lift)
        elif goal.kind == "give":
            yield from self._hand_over(goal, 1.0)
        else:
            if fresh or not self._held.by(goal.what):
                yield from self._secure(goal)
            if goal.kind == "lift":
                yield from self._up_to(self._height_for(goal.what))
            else:
                yield from self._carry(goal)
                yield from self._lower(goal)
                yield from self._open()
                yield from self._up(0.09)

    def _height_for(self, name: str) -> float:
        """Height of the hand above the table at which what it holds counts as lifted, with a little to spare."""
        facts = self.world.facts
        assert facts is not None  # noqa: S101 - as above
        hang = float(self.world.arms[0].tool[2] - self.world.place(name)[2]) if self._held.by(name) else 0.0
        lifted = LIFT_DONE_M + 0.02 + hang + float(facts.half[OBJECTS.index(name)][2])
        return max(self.manner.lift, lifted)

    def _part_way(self, goal: Goal) -> Script:
        """Some of the way, with the thing in hand."""
        where = self.manner.fault_at
        if goal.kind in ("open", "close"):
            yield from self._haul(goal, where * 0.7)
        elif goal.kind == "zone":
            place, target = self.world.place(goal.what), self._target(goal)
            yield from self._push(goal.what, place + 0.7 * where * (target - place), tries=1)
        elif goal.kind == "both":
            yield from self._lift_together(goal, self.manner.lift * where)
        elif goal.kind == "give":
            yield from self._hand_over(goal, where * 0.5)
        else:
            yield from self._secure(goal)
            if goal.kind == "lift":
                yield from self._up_to(self._height_for(goal.what) * max(where, 0.4))
            else:
                yield from self._carry(goal, share=where)

    # --- one arm --------------------------------------------------------------------------------------------------

    def _secure(self, goal: Goal) -> Script:
        """Take the thing; looks whether it has it, and tries again where not."""
        for _ in range(3):
            yield from self._grab(goal)
            yield from self._up(0.04)
            if self._held.by(goal.what):
                return
            yield from self._open()

    def _grab(self, goal: Goal, offset: Vector | None = None) -> Script:
        """Approach from above, go down, close the fingers; with an offset it closes beside the thing."""
        if goal.kind in ("both", "give"):
            yield from self._grab_ends(goal, offset)
            return
        manner, arm = self.manner, self.world.arms[0]
        shift = np.zeros(3)
        shift[:2] = manner.grasp_offset if offset is None else offset
        push = goal.kind == "zone"
        self._closed[0] = push
        self._yaw[0] = self._grip_yaw(goal)
        place = self._grip_places(goal)[0]
        middle = 0.5 * (arm.tool + place) + np.array([*manner.detour, 0.0])
        middle[2] = max(middle[2], place[2] + manner.hover, TABLE_Z + 0.12)
        yield from self._go(middle, manner.speed, within=0.03)
        above = np.array([0, 0, manner.hover])
        yield from self.move(lambda: [self._grip_places(goal)[0] + shift + above], manner.speed, within=0.015)
        yield from self.wait(manner.pause)
        down = self._grip_places(goal)[0] + shift
        down[2] = max(down[2], TABLE_Z + LOWEST_M)
        yield from self._go(down, manner.fine_speed)
        if not push:
            self._closed[0] = True
            yield from self.wait(0.5)

    def _grip_places(self, goal: Goal) -> list[Vector]:
        """Where the fingers take the thing, per arm that takes part."""
        world, name = self.world, goal.what
        if goal.kind in ("open", "close"):
            return [world.grip_of(name)]
        if name == "pot":
            return list(world.ends("pot", POT_GRIP_M))
        if name == "bar":
            return list(world.ends("bar", BAR_GRIP_M))
        place = world.place(name)
        if name == "ring":
            yaw = world.yaw(name)
            return [place + RING_HANDLE_M * np.array([np.cos(yaw), np.sin(yaw), 0.0]) + np.array([0, 0, 0.004])]
        if name == "can":
            return [place + np.array([0, 0, 0.012])]
        return [place]

    def _grip_yaw(self, goal: Goal) -> float:
        if goal.what in CUBES:
            return nearest(self.world.yaw(goal.what), np.pi / 2)
        if goal.what == "ring":
            return nearest(self.world.yaw("ring"), np.pi)
        return 0.0

    def _target(self, goal: Goal) -> Vector:
        """Where the thing's centre shall come to rest; z is that of the surface below it."""
        target = goal.target
        facts = self.world.facts
        assert facts is not None  # noqa: S101 - as above
        assert target is not None  # noqa: S101 - goals of these kinds have one
        if target in FIXTURES:
            place: Vector = facts.fixtures[FIXTURES.index(target)].copy()
            place[2] += FLOOR.get(target, 0.0)
            return place
        place = self.world.place(target)
        if goal.kind == "on":
            place[2] += facts.half[OBJECTS.index(target)][2]
            return place
        place[1] += BESIDE_M if goal.kind == "left" else -BESIDE_M
        place[2] = TABLE_Z
        return place

    def _carry(self, goal: Goal, share: float = 1.0) -> Script:
        yield from self._up_to(self.manner.lift + (PEG_HEIGHT * 0.6 if goal.kind == "peg" else 0.0))
        arm = self.world.arms[0]
        if goal.kind == "on":
            turn = self.world.yaw(str(goal.target)) - self._yaw[0]
            self._yaw[0] += nearest(turn, np.pi / 2)
            if abs(self._yaw[0]) > 1.2:
                self._yaw[0] -= np.sign(self._yaw[0]) * np.pi / 2
        start, height = arm.tool, arm.tool[2]

        def goal_now() -> list[Vector]:
            hang = arm.tool - self.world.place(goal.what) if self._held.by(goal.what) else np.zeros(3)
            place = self._target(goal)[:2] + hang[:2]
            return [np.array([*(start[:2] + share * (place - start[:2])), height])]

        yield from self.move(goal_now, self.manner.speed)

    def _lower(self, goal: Goal) -> Script:
        arm, name = self.world.arms[0], goal.what
        facts = self.world.facts
        assert facts is not None  # noqa: S101 - as above
        hang = arm.tool - self.world.place(name) if self._held.by(name) else np.zeros(3)
        place = self._target(goal) + hang
        drop = 0.002 if goal.kind in ("on", "left", "right", "peg") else float(self._rng.uniform(0.002, 0.02))
        place[2] += facts.half[OBJECTS.index(name)][2] + drop
        place[2] = max(place[2], TABLE_Z + LOWEST_M)
        yield from self._go(place, self.manner.fine_speed * 0.8)
        yield from self.wait(0.15)

    def _set_down(self, name: str) -> Script:
        """Put what is in the hand on a free spot of the table."""
        spot = self._free_spot()
        arm = self.world.arms[0]
        facts = self.world.facts
        assert facts is not None  # noqa: S101 - as above
        yield from self._up_to(self.manner.lift)
        hang = arm.tool - self.world.place(name) if self._held.by(name) else np.zeros(3)
        over = np.array([*(spot[:2] + hang[:2]), arm.tool[2]])
        yield from self._go(over, self.manner.speed)
        rest = over.copy()
        rest[2] = max(TABLE_Z + LOWEST_M, TABLE_Z + facts.half[OBJECTS.index(name)][2] + hang[2] + 0.003)
        yield from self._go(rest, self.manner.fine_speed * 0.8)
        yield from self._open()
        yield from self._up(0.1)

    def _free_spot(self) -> Vector:
        """A place of the table with room, as far from everything as twenty draws find."""
        world, facts = self.world, self.world.facts
        assert facts is not None  # noqa: S101 - as above
        taken = [(world.place(n)[:2], FOOTPRINTS[n]) for n in world.bodies if n in facts.present]
        taken += [(facts.fixtures[FIXTURES.index(n)][:2], FOOTPRINTS[n] + 0.03) for n in FIXTURES if n in facts.present]
        spots = self._rng.uniform((world.spec.x[0], -world.spec.y), (world.spec.x[1], world.spec.y), (20, 2))
        room = [min(float(np.linalg.norm(spot - place)) - size for place, size in taken) for spot in spots]
        return np.array([*spots[int(np.argmax(room))], TABLE_Z])

    def _push(self, name: str, target: Vector, tries: int = 3) -> Script:
        """Push a cube over the table with closed fingers, straight to a place."""
        world, arm = self.world, self.world.arms[0]
        facts = world.facts
        assert facts is not None  # noqa: S101 - as above
        half = float(facts.half[OBJECTS.index(name)][0])
        for number in range(tries):
            place = world.place(name)
            way = target[:2] - place[:2]
            length = float(np.linalg.norm(way))
            if length < 0.025 and number:
                return
            way /= max(length, 1e-6)
            self._closed[0] = True
            self._yaw[0] = nearest(float(np.arctan2(way[1], way[0])), np.pi)
            if abs(self._yaw[0]) > 1.3:
                self._yaw[0] = nearest(float(np.arctan2(way[1], way[0])), np.pi / 2)
            behind = np.array([*(place[:2] - (half * 1.3 + 0.05) * way), TABLE_Z + 0.12])
            yield from self._up_to(0.12)
            yield from self._go(behind, self.manner.speed, within=0.012)
            low = np.array([*behind[:2], TABLE_Z + 0.02])
            yield from self._go(low, self.manner.speed * 0.7)
            side = np.array([-way[1], way[0]])
            for _ in range(int(6.0 / TICK_S)):
                gap = target[:2] - world.place(name)[:2]
                ahead = float((world.place(name)[:2] - arm.tool[:2]) @ way)
                if float(gap @ way) < 0.006 or abs(float(gap @ side)) > 0.04 + 0.1 * (length > 0.2) or ahead < 0.0:
                    break  # there, off to the side, or climbed over
                # Keep behind the cube: steer to its middle.
                off = float((world.place(name)[:2] - arm.tool[:2]) @ side)
                aim = np.array([*(arm.tool[:2] + 0.06 * way + 0.8 * off * side), TABLE_Z + 0.02])
                yield self._act([aim], self.manner.fine_speed)
            back = np.array([*(arm.tool[:2] - 0.02 * way), arm.tool[2]])
            yield from self._go(back, self.manner.fine_speed)
            yield from self._up(0.10)

    def _haul(self, goal: Goal, share: float) -> Script:
        """Take the handle and move drawer or door by a share of its way; a handle that slipped away is taken again."""
        world, name = self.world, goal.what
        start, full = world.opening(name), JOINT_RANGE[name]
        end = start + share * ((full if goal.kind == "open" else 0.0) - start)
        for _ in range(3):
            yield from self._grab(goal)
            yield from self._drag(name, end)
            if abs(end - world.opening(name)) < 2 * HAULED * full:
                break
            yield from self._open()
            yield from self._up(0.1)
        if share >= 1.0:
            yield from self._open()
            yield from self._up(0.1)

    def _drag(self, name: str, end: float) -> Script:
        """Move drawer or door with the handle in hand until it is open by ``end``, the handle is lost or time is up."""
        world, arm = self.world, self.world.arms[0]
        height = arm.tool[2]
        for _ in range(int(8.0 / TICK_S)):
            left = end - world.opening(name)
            behind = world.grip_of(name)[:2] - arm.tool[:2]
            if abs(left) < HAULED * JOINT_RANGE[name] or float(np.linalg.norm(behind)) > LOST_M:
                return
            aim = arm.tool + self._along(name, np.sign(left)) * 0.06
            # The hand follows the handle, a little ahead of it.
            aim[:2] += 0.6 * behind
            aim[2] = height
            yield self._act([aim], self.manner.fine_speed)

    def _along(self, name: str, sense: float) -> Vector:
        """Direction in which the handle moves when the fixture opens (sense 1) or closes (-1)."""
        data, model = self.world.data, self.world.model
        joint = model.joint(name)
        axis = data.xaxis[joint.id]
        if name == "drawer":
            return np.asarray(sense * axis)
        arm = self.world.grip_of(name) - data.xanchor[joint.id]
        way = np.cross(axis, arm)
        return np.asarray(sense * way / np.linalg.norm(way))

    # --- two arms -------------------------------------------------------------------------------------------------

    def _grab_ends(self, goal: Goal, offset: Vector | None, which: tuple[int, ...] = (0, 1)) -> Script:
        """Both hands (or one) to their ends of the thing, down, fingers closed."""
        if goal.kind == "give" and which == (0, 1):
            which = (0,)
        manner, arms = self.manner, self.world.arms
        shift = np.zeros(3)
        if offset is not None:
            shift[:2] = offset
        for number in which:
            self._closed[number] = False
            self._yaw[number] = 0.0
        rest = [arm.tool for arm in arms]

        def over(height: float) -> list[Vector]:
            ends = self._grip_places(goal)
            raised = np.array([0, 0, height])
            return [ends[i] + shift + raised if i in which else rest[i] for i in range(len(arms))]

        yield from self.move(lambda: over(manner.hover), manner.speed, within=0.015)
        down = over(0.0)
        for number in which:
            down[number][2] = max(down[number][2], TABLE_Z + LOWEST_M)
        yield from self.move(lambda: down, manner.fine_speed)
        for number in which:
            self._closed[number] = True
        yield from self.wait(0.6)

    def _lift_together(self, goal: Goal, height: float) -> Script:
        for _ in range(2):
            if self._held.by(goal.what) == 3:
                break
            yield from self._grab_ends(goal, None)
        targets = [arm.tool + np.array([0, 0, height]) for arm in self.world.arms]
        yield from self.move(lambda: targets, self.manner.fine_speed)

    def _hand_over(self, goal: Goal, share: float) -> Script:
        """Arm 0 takes its end and lifts; arm 1 takes the other end; arm 0 lets go; arm 1 lifts on."""
        first, second = self.world.arms
        if not self._held.by(goal.what) & 1:
            for _ in range(2):
                yield from self._grab_ends(goal, None)
                yield from self.move(lambda: [first.tool + np.array([0, 0, 0.05]), second.tool], 0.06, patience=0.6)
                if self._held.by(goal.what) & 1:
                    break
        rest = second.tool
        high = first.tool.copy()
        high[2] = TABLE_Z + self.manner.lift * min(1.0, max(0.3, 2 * share))
        yield from self.move(lambda: [high, rest], self.manner.fine_speed)
        if share < 1.0:
            return
        yield from self._grab_ends(goal, None, which=(1,))
        yield from self.wait(self.manner.pause)
        self._closed[0] = False
        yield from self.wait(0.5)
        away = first.tool + np.array([0, -0.06, 0.05])
        up = second.tool + np.array([0, 0, 0.02])
        yield from self.move(lambda: [away, up], self.manner.fine_speed)

    # --- primitives -----------------------------------------------------------------------------------------------

    def _act(self, targets: list[Vector], speed: float) -> Act:
        arms = self.world.arms
        places = [targets[i] if i < len(targets) else arm.tool for i, arm in enumerate(arms)]
        return Act(tuple(Aim(p, self._yaw[i], self._closed[i], speed) for i, p in enumerate(places)))

    def move(
        self, targets: Callable[[], list[Vector]], speed: float, within: float = ARRIVED_M, patience: float = PATIENCE_S
    ) -> Script:
        """Go to (perhaps moving) targets until there and turned right, or out of patience."""
        arms = self.world.arms
        for _ in range(int(patience / TICK_S)):
            goals = targets()
            pairs = list(zip(arms, goals, strict=False))
            near = all(float(np.linalg.norm(arm.tool - goal)) < within for arm, goal in pairs)
            turned = all(abs(arm.yaw - self._yaw[i]) < 0.06 or within > ARRIVED_M for i, (arm, _) in enumerate(pairs))
            if near and turned:
                return
            yield self._act(goals, speed)

    def _go(self, place: Vector, speed: float, within: float = ARRIVED_M) -> Script:
        """Bring the first arm's hand to a place that does not move."""
        yield from self.move(lambda: [place], speed, within)

    def wait(self, seconds: float) -> Script:
        """Keep the hands where they are."""
        here = [arm.tool for arm in self.world.arms]
        for _ in range(round(seconds / TICK_S)):
            yield self._act(here, 0.05)

    def _open(self) -> Script:
        """Let go with all hands."""
        self._closed = [False] * len(self._closed)
        yield from self.wait(0.4)

    def _up(self, height: float) -> Script:
        targets = [arm.tool + np.array([0, 0, height]) for arm in self.world.arms]
        yield from self.move(lambda: targets, self.manner.speed * 0.8, within=0.012)

    def _up_to(self, height: float) -> Script:
        """Raise the hand to a height above the table, if it is lower."""
        arm = self.world.arms[0]
        if arm.tool[2] < TABLE_Z + height - 0.01:
            target = arm.tool.copy()
            target[2] = TABLE_Z + height
            yield from self._go(target, self.manner.speed * 0.8, within=0.012)


def nearest(angle: float, period: float) -> float:
    """``angle`` folded to the turn of least size that looks the same, for a symmetry of ``period`` rad."""
    return float(angle - period * np.round(angle / period))
