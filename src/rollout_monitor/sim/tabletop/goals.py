"""Tasks as data, and their ground truth: how far a task is, read from privileged states alone.

A task is an ordered list of goals, written ``in:red:bin>on:blue:yellow``. Its progress is

    (number of goals done in order + progress of the next goal) / number of goals

and it grows with the true state and falls when it gets worse; how the state came about plays no part, but for one
thing: a goal that was reached before its turn does not count until it has been undone and reached again in turn.
Tasks of one arm that ask for something before its turn make no progress while the robot works at the wrong thing.

Progress of one goal (moving object M, target T; every term clipped to 0..1)
    lift:M          free 0.35 near; held 0.50 + 0.50 rise / 0.10 m. Done: held, rise >= 0.08 m
    on:M:T          M stacked on T                            } free 0.30 near; held 0.40 + 0.15 up + 0.30 up * over;
    in:M:T          M in bin, bowl or on plate T              } where it belongs 0.90; let go there and at rest 1
    left:M:T right:M:T   M beside T, seen from the robot      } 0 while T is held, or rests on M
    peg:ring:peg    the ring around the peg                   }
    zone:M:T        M within the marked zone, not held: 0.25 near + 0.65 over; done 1
    open:F close:F  drawer or door: 0.25 near its handle + 0.75 share of the way; done at 80 % of the way
    both:pot        two arms: free 0.35 near (mean of both); one grip 0.42; two grips 0.50 + 0.50 rise / 0.10 m
    give:bar        from arm 0 to arm 1: free 0.30 near; held by 0 0.35 + 0.15 up + 0.20 up * near of arm 1; by both
                    0.75; by 1 alone 0.80 + 0.20 rise / 0.10 m. Done: held by 1 alone, rise >= 0.06 m
    free, another object held                                 0

``near`` = 1 - distance(tool, grip) / that distance at the start, the last 15 mm free; ``rise`` is M's height above
where it lay; ``up`` = rise / height to clear T, and 1 over its place (but for a stack), where M has to come down again;
``over`` = 1 - horizontal distance to the place / that at the start. An object that left the table gives 0.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from rollout_monitor.errors import InputError
from rollout_monitor.sim.tabletop.catalogue import (
    CONTAINERS,
    CUBES,
    FIXTURE_INDEX,
    FIXTURES,
    FLOOR,
    INSIDE,
    JOINT_RANGE,
    JOINTED,
    NOUNS,
    OBJECT_INDEX,
    OBJECTS,
    PEG_HEIGHT,
    ZONES,
)

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

LIFT_GOAL_M = 0.10
LIFT_DONE_M = 0.08
HANDED_M = 0.06
LEVEL = 0.94
"""Smallest cosine of the pot's tilt: 20 degrees."""

ALIGNED_M = 0.03
LOW_M = 0.035
"""Height above a target's surface up to which an object lies in it, tilted or on its way down the last bit."""

FAR_M = 0.05
"""Shortest start distance used as a unit, so that an object lying very near does not make progress jump."""

FREE_M = 0.015
BESIDE_M = 0.075
"""Distance between the centres of two objects that stand side by side."""

BESIDE_MIN_M, BESIDE_MAX_M, BESIDE_ACROSS_M = 0.04, 0.12, 0.04
OPEN_SHARE = 0.8
GONE_M = -0.03
JOINTED_WAY_M = 0.3
STILL_M_S = 0.05

KINDS = ("lift", "on", "in", "left", "right", "peg", "zone", "open", "close", "both", "give")
TARGETED = ("on", "in", "left", "right", "peg", "zone")


@dataclass(frozen=True)
class Goal:
    """One step of a task: ``kind``, the object (or jointed fixture) it is about, and the target where it has one."""

    kind: str
    what: str
    target: str | None = None

    @property
    def key(self) -> str:
        """Written form, for example ``on:red:green``."""
        return ":".join(part for part in (self.kind, self.what, self.target) if part)


@dataclass(frozen=True)
class Task:
    """An ordered list of goals."""

    goals: tuple[Goal, ...]

    @property
    def key(self) -> str:
        """Written form, for example ``in:red:bin>on:blue:yellow``."""
        return ">".join(goal.key for goal in self.goals)

    @property
    def things(self) -> set[str]:
        """Everything the task names."""
        return {name for goal in self.goals for name in (goal.what, goal.target) if name is not None}


@lru_cache(maxsize=4096)
def parse(key: str) -> Task:
    """Read a task's written form.

    Raises:
        InputError: a part that is no goal; the message says which.
    """
    return Task(tuple(_parse_goal(part) for part in key.split(">")))


def _parse_goal(text: str) -> Goal:
    kind, what, target, *rest = [*text.split(":"), "", "", ""]
    goal = Goal(kind, what, target or None)
    movable = (*CUBES, "can")
    targets: dict[str, tuple[str, ...]] = {
        "on": CUBES,
        "in": CONTAINERS,
        "left": movable,
        "right": movable,
        "peg": ("peg",),
        "zone": ZONES,
    }
    whats: dict[str, tuple[str, ...]] = {
        **dict.fromkeys(("lift", "in", "left", "right", "zone"), movable),
        "on": CUBES,
        "peg": ("ring",),
        "open": JOINTED,
        "close": JOINTED,
        "both": ("pot",),
        "give": ("bar",),
    }
    fits = goal.kind in KINDS and goal.what in whats[goal.kind] and goal.key == text and not any(rest)
    if not fits or goal.target == goal.what or (goal.target not in targets.get(goal.kind, (None,))):
        raise InputError(f"{text!r} is no goal: write kind:object or kind:object:target with kinds {', '.join(KINDS)}")
    return goal


@dataclass(frozen=True)
class SceneFacts:
    """What stays the same during a take: sizes and places, metres, world frame.

    Attributes:
        present: names of the objects and fixtures on the table.
        half: half sizes (x, y, z) of objects by `OBJECTS`, shape (objects, 3).
        fixtures: places of fixtures on the table by `FIXTURES`, shape (fixtures, 3).
        table_z: height of the table top.
    """

    present: frozenset[str]
    half: FloatArray
    fixtures: FloatArray
    table_z: float


@dataclass(frozen=True)
class States:
    """The privileged states of n moments, metres and m/s in the world frame; absent objects are NaN.

    Attributes:
        tools: grasp points, shape (n, arms, 3).
        objects: objects' centres, shape (n, objects, 3).
        speeds: objects' linear speeds, shape (n, objects).
        held: which arms hold an object, one bit per arm, int8, shape (n, objects).
        touching: contacts between objects, bool, shape (n, objects, objects).
        joints: opening of the jointed fixtures by `JOINTED`, m or rad, shape (n, 2).
        grips: where the jointed fixtures are gripped, shape (n, 2, 3).
        level: cosine of an object's tilt, shape (n, objects).
        pot_grips: the two handles of the pot, shape (n, 2, 3).
    """

    tools: FloatArray
    objects: FloatArray
    speeds: FloatArray
    held: npt.NDArray[np.int8]
    touching: npt.NDArray[np.bool_]
    joints: FloatArray
    grips: FloatArray
    level: FloatArray
    ends: FloatArray

    def __len__(self) -> int:
        return len(self.tools)

    def take(self, rows: slice | npt.NDArray[np.int64]) -> States:
        """Some of the moments."""
        return States(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})


@dataclass(frozen=True)
class Judgement:
    """Ground truth of a take under one instruction.

    Attributes:
        progress: 0..1, shape (n,).
        done: the whole task is done at that moment, bool, shape (n,).
        subtask: index of the goal in turn, the number of goals when all are done, int64, shape (n,).
    """

    progress: FloatArray
    done: npt.NDArray[np.bool_]
    subtask: npt.NDArray[np.int64]


def judge(task: Task | str, states: States, facts: SceneFacts) -> Judgement:
    """True progress of every moment of a take under any instruction that fits its scene.

    Args:
        task: the instruction; it need not be the one the robot was given.
        states: the take's states from its first moment on: the first one is the unit of distances.
        facts: what stays the same.

    Raises:
        InputError: the scene lacks something that the task names.
    """
    meters = measure(task, states, facts)
    return _in_order(meters)


@dataclass(frozen=True)
class Meters:
    """Every goal of a task measured on its own; all of shape (n, goals).

    Attributes:
        met: it is reached: in its place, let go, at rest.
        kept: once reached it still counts: in its place and not held, whether it is at rest or was just knocked.
        shares: how far it is while it is not reached.
    """

    met: BoolArray
    kept: BoolArray
    shares: FloatArray


def measure(task: Task | str, states: States, facts: SceneFacts) -> Meters:
    """What `judge` counts up; arguments and errors as there."""
    task = parse(task) if isinstance(task, str) else task
    missing = sorted(task.things - facts.present)
    if missing:
        raise InputError(f"task {task.key} cannot be judged: the scene has no {', '.join(missing)}")
    parts = [_Meter(goal, states, facts) for goal in task.goals]
    return Meters(
        met=np.stack([part.done() for part in parts], axis=1),
        kept=np.stack([part.kept() for part in parts], axis=1),
        shares=np.stack([part.share() for part in parts], axis=1),
    )


FLAGS = ("held", "held by the second arm", "another held", "in place", "blocked")
DETAILS = (*FLAGS, "distance to grip", "distance to place", "rise")
"""What `details` tells of a goal, in its order."""


def details(task: Task | str, states: States, facts: SceneFacts) -> FloatArray:
    """What progress is made of, goal by goal: what a network can be taught to see.

    Args:
        task: the instruction.
        states: the take's states.
        facts: what stays the same.

    Returns:
        Shape (n, goals, 8) by `DETAILS`: flags, then metres; NaN where a goal has no such thing. "Held" is by the first
        arm; of a goal without a place "in place" says that it is done; the way of a drawer or a door counts as 0.3 m.
    """
    task = parse(task) if isinstance(task, str) else task
    return np.stack([_Meter(goal, states, facts).details() for goal in task.goals], axis=1)


def judge_path(meters: Meters, path: npt.NDArray[np.int64]) -> Judgement:
    """True progress of moments in another order than they were recorded in, as if it had happened so.

    Args:
        meters: of the take as it was recorded.
        path: which moments, in their new order, shape (t,).
    """
    return _in_order(Meters(meters.met[path], meters.kept[path], meters.shares[path]))


def _in_order(meters: Meters) -> Judgement:
    """Count goals done in order; one that was reached before its turn counts for nothing until it is undone."""
    moments, count = meters.met.shape
    progress, subtask = np.zeros(moments), np.zeros(moments, dtype=np.int64)
    early = np.zeros(count, dtype=bool)
    before = meters.met[0].copy() if moments else early
    for row in range(moments):
        now = meters.met[row] | (before & meters.kept[row])
        turn = 0
        while turn < count and now[turn] and not early[turn]:
            turn += 1
        # What became true in this moment although something before it is still open came out of turn.
        newly = now & ~before
        newly[: turn + 1] = False
        early = (early | newly) & now
        subtask[row] = turn
        share = 0.0 if turn == count or early[turn] else min(float(meters.shares[row, turn]), 0.97)
        progress[row] = (turn + share) / count
        before = now
    return Judgement(progress, subtask == count, subtask)


class _Meter:
    """Measures one goal over all moments at once."""

    def __init__(self, goal: Goal, states: States, facts: SceneFacts) -> None:
        self.goal, self.states, self.facts = goal, states, facts
        if goal.what in OBJECT_INDEX:
            self.me = OBJECT_INDEX[goal.what]
            self.at: FloatArray = states.objects[:, self.me]
            self.half: FloatArray = facts.half[self.me]
            self.rise: FloatArray = self.at[:, 2] - (facts.table_z + self.half[2])
            held = states.held[:, self.me]
            self.held: BoolArray = held > 0
            self.holders: npt.NDArray[np.int8] = held
            self.other_held: BoolArray = np.any(np.delete(states.held, self.me, axis=1) > 0, axis=1)
            self.gone: BoolArray = ~(self.rise > GONE_M)
        else:
            self.jointed = JOINTED.index(goal.what)

    def done(self) -> BoolArray:
        """Whether the goal is met."""
        kind = self.goal.kind
        if kind == "lift":
            return self.held & (self.rise >= LIFT_DONE_M)
        if kind in ("open", "close"):
            return self._way() >= OPEN_SHARE
        if kind == "both":
            level: FloatArray = self.states.level[:, self.me]
            return np.asarray((self.holders == 3) & (self.rise >= LIFT_DONE_M) & (level > LEVEL))
        if kind == "give":
            return np.asarray((self.holders == 2) & (self.rise >= HANDED_M))
        still = self.states.speeds[:, self.me] < STILL_M_S
        return self.kept() & still

    def kept(self) -> BoolArray:
        """Whether the goal, once met, still counts as met."""
        if self.goal.kind not in TARGETED:
            return self.done()
        return self._in_place() & ~self.held & ~self.gone

    def share(self) -> FloatArray:
        """Progress of the goal short of its end."""
        kind = self.goal.kind
        if kind in ("open", "close"):
            near = self._near(self.states.grips[:, self.jointed], 0)
            value = 0.25 * near + 0.75 * self._way() / OPEN_SHARE
            return np.clip(value, 0.0, 0.97)
        if kind == "lift":
            free = np.where(self.other_held, 0.0, 0.35 * self._near(self.at, 0))
            value = np.where(self.held, 0.5 + 0.5 * _unit(self.rise / LIFT_GOAL_M), free)
        elif kind == "both":
            value = self._both()
        elif kind == "give":
            value = self._give()
        elif kind == "zone":
            value = 0.25 * self._near(self.at, 0) + 0.65 * self._over()
            value = np.where(self.other_held, 0.0, value)
        else:
            value = self._place()
        return np.where(self.gone, 0.0, value)

    def details(self) -> FloatArray:
        """See the function `details`; shape (n, 8)."""
        tools = self.states.tools
        out = np.full((len(tools), len(DETAILS)), np.nan)
        out[:, 4] = 0.0
        if self.goal.kind in ("open", "close"):
            out[:, :3] = 0.0
            out[:, 3] = self.done()
            out[:, 5] = np.linalg.norm(tools[:, 0] - self.states.grips[:, self.jointed], axis=1)
            out[:, 6] = JOINTED_WAY_M * (1.0 - self._way())
            return out
        grips = self.states.ends if self.goal.kind == "both" else np.stack([self.at] * tools.shape[1], axis=1)
        gaps = np.linalg.norm(tools - grips[:, : tools.shape[1]], axis=2)
        out[:, 0], out[:, 1], out[:, 2] = self.holders & 1, self.holders >> 1 & 1, self.other_held
        out[:, 5] = gaps.mean(axis=1) if self.goal.kind == "both" else gaps[:, 0]
        out[:, 7] = self.rise
        if self.goal.kind in TARGETED:
            out[:, 3], out[:, 4] = self._in_place(), self._blocked()
            out[:, 6] = np.linalg.norm((self.at - self._place_of())[:, :2], axis=1)
        else:
            out[:, 3] = self.done()
            out[:, 6] = gaps[:, 1] if self.goal.kind == "give" else np.nan
        return np.where(np.isfinite(out), out, np.nan)

    def _place(self) -> FloatArray:
        free = np.where(self.other_held, 0.0, 0.30 * self._near(self.at, 0))
        # Over its place the object has to come down again: that costs nothing.
        up = np.maximum(_unit(self.rise / self._clearance()), self._settling())
        carried = 0.40 + 0.15 * up + 0.30 * up * self._over()
        value = np.where(self._in_place(), 0.90, np.where(self.held, carried, free))
        return np.where(self._blocked(), 0.0, value)

    def _both(self) -> FloatArray:
        near = [self._near(self.states.ends[:, arm], arm) for arm in (0, 1)]
        grips = (self.holders & 1) + (self.holders >> 1 & 1)
        two = 0.5 + 0.5 * _unit(self.rise / LIFT_GOAL_M)
        return np.where(grips == 2, two, np.where(grips == 1, 0.42, 0.175 * (near[0] + near[1])))

    def _give(self) -> FloatArray:
        up = _unit(self.rise / 0.08)
        first = 0.35 + 0.15 * up + 0.20 * up * self._near(self.at, 1)
        second = 0.80 + 0.20 * _unit(self.rise / LIFT_GOAL_M)
        options = [0.30 * self._near(self.at, 0), first, second, np.full(len(self.at), 0.75)]
        return np.choose(self.holders, options)

    def _near(self, grip: FloatArray, arm: int) -> FloatArray:
        gap = np.linalg.norm(self.states.tools[:, arm] - grip, axis=1)
        return _unit(1.0 - np.maximum(gap - FREE_M, 0.0) / max(float(gap[0]), FAR_M))

    def _over(self) -> FloatArray:
        gap = np.linalg.norm((self.at - self._place_of())[:, :2], axis=1)
        free = INSIDE[self.goal.target] * 0.8 if self.goal.target in INSIDE else 0.0
        return _unit(1.0 - np.maximum(gap - free, 0.0) / max(float(gap[0]) - free, FAR_M))

    def _settling(self) -> FloatArray:
        """1 within the place as seen from above, falling to 0 over the same distance around it."""
        if self.goal.kind == "on":
            return np.zeros(len(self.at))  # a stack is higher than the way to it
        gap = np.linalg.norm((self.at - self._place_of())[:, :2], axis=1)
        size = INSIDE.get(str(self.goal.target), 0.015 if self.goal.kind == "peg" else 0.03)
        return _unit((2.0 * size - gap) / size)

    def _place_of(self) -> FloatArray:
        """Where the object's centre shall be; shape (n, 3)."""
        target = self.goal.target
        assert target is not None  # noqa: S101 - _parse_goal gives these kinds a target
        if target in FIXTURES:
            return np.broadcast_to(self.facts.fixtures[..., FIXTURE_INDEX[target], :], self.at.shape)
        place = self.states.objects[:, OBJECT_INDEX[target]]
        if self.goal.kind in ("left", "right"):
            # The robot looks along +x: its left is +y.
            return np.asarray(place + np.array([0.0, BESIDE_M if self.goal.kind == "left" else -BESIDE_M, 0.0]))
        return place

    def _in_place(self) -> BoolArray:
        """The object is where it belongs, let go or not."""
        offset = self.at - self._place_of()
        gap = np.linalg.norm(offset[:, :2], axis=1)
        kind, target = self.goal.kind, self.goal.target
        assert target is not None  # noqa: S101 - as above
        if kind == "on":
            other = OBJECT_INDEX[target]
            clear = offset[:, 2] > 0.8 * (self.half[2] + self.facts.half[other][2])
            return np.asarray((gap < ALIGNED_M) & clear & self.states.touching[:, self.me, other])
        if kind in ("left", "right"):
            side = 1.0 if kind == "left" else -1.0
            apart = (self.at - self.states.objects[:, OBJECT_INDEX[target]]) * side
            inside = (apart[:, 1] > BESIDE_MIN_M) & (apart[:, 1] < BESIDE_MAX_M)
            return inside & (np.abs(apart[:, 0]) < BESIDE_ACROSS_M) & (self.rise < 0.012)
        if kind == "peg":
            return np.asarray((gap < 0.02) & (self.rise < 0.5 * PEG_HEIGHT))
        low = self.rise < FLOOR[target] + LOW_M
        return np.asarray((gap < INSIDE[target]) & low)

    def _clearance(self) -> float:
        """Height at which the object clears its target, metres."""
        kind, target = self.goal.kind, self.goal.target
        if kind == "on":
            return 2.0 * float(self.facts.half[OBJECT_INDEX[str(target)]][2])
        return PEG_HEIGHT if kind == "peg" else 0.05

    def _blocked(self) -> BoolArray:
        """The roles are swapped: the target is held, or it rests on the object."""
        target = self.goal.target
        if target not in OBJECTS:
            return np.zeros(len(self.at), dtype=bool)
        other = OBJECT_INDEX[target]
        offset = self.states.objects[:, other] - self.at
        above = (offset[:, 2] > 0.5 * (self.half[2] + self.facts.half[other][2])) & (
            np.linalg.norm(offset[:, :2], axis=1) < ALIGNED_M
        )
        fell = ~(self.states.objects[:, other, 2] - self.facts.table_z - self.facts.half[other][2] > GONE_M)
        resting = above & self.states.touching[:, self.me, other]
        return np.asarray((self.states.held[:, other] > 0) | resting | fell)

    def _way(self) -> FloatArray:
        """Share of a jointed fixture's way."""
        opening = self.states.joints[:, self.jointed] / JOINT_RANGE[self.goal.what]
        return _unit(opening if self.goal.kind == "open" else 1.0 - opening)


def _unit(value: FloatArray) -> FloatArray:
    return np.clip(value, 0.0, 1.0)


def text_of(goal: Goal) -> str:
    """The goal in the plainest words."""
    what, target = f"the {NOUNS[goal.what]}", f"the {NOUNS[goal.target]}" if goal.target else ""
    words = {
        "lift": f"lift {what}",
        "on": f"stack {what} on {target}",
        "in": f"put {what} {'on' if goal.target == 'plate' else 'in'} {target}",
        "left": f"place {what} left of {target}",
        "right": f"place {what} right of {target}",
        "peg": f"put {what} on {target}",
        "zone": f"push {what} to {target}",
        "open": f"open {what}",
        "close": f"close {what}",
        "both": f"lift {what} with both arms",
        "give": f"hand {what} over to the other arm",
    }
    return words[goal.kind]
