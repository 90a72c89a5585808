"""Scripted experts: what a skilled (or clumsy) operator would do, step by step, from privileged state.

A script is a generator of `Command`: it is asked for one at every control tick and reads the world through `Sight`,
which the cell keeps up to date. Scripts know nothing of physics engines, cameras or stamps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from rollout_monitor.sim.modes import Manner
from rollout_monitor.sim.tasks import Task

Vector = npt.NDArray[np.float64]
Script = Iterator["Command"]

TICK_S = 0.05
"""Control period: one command every 50 ms."""

ARRIVED_M = 0.008
PATIENCE_S = 4.0
"""A motion that has not arrived after this time is given up; the script goes on, as a person would."""


@dataclass(frozen=True)
class Command:
    """What the hand shall do in the next tick.

    Attributes:
        target: where the grasp point shall go, world frame, metres, shape (3,).
        yaw: turn of the hand about the vertical against its start, rad.
        closed: fingers closed.
        speed: speed limit, m/s.
    """

    target: Vector
    yaw: float
    closed: bool
    speed: float


@dataclass
class Sight:
    """What the expert sees now; the cell writes it before every tick."""

    tool: Vector = field(default_factory=lambda: np.zeros(3))
    yaw: float = 0.0
    cubes: dict[str, Vector] = field(default_factory=dict)
    cube_yaws: dict[str, float] = field(default_factory=dict)
    half: dict[str, float] = field(default_factory=dict)
    table_z: float = 0.0
    held: str | None = None


class Expert:
    """Carries out one attempt at a task in a mode, with a given manner."""

    def __init__(self, task: Task, mode: str, manner: Manner, sight: Sight) -> None:
        self.task = task
        self.mode = mode
        self.manner = manner
        self.sight = sight
        self._closed = False
        self._yaw = 0.0

    def script(self) -> Script:
        """The whole attempt; ends when the operator would stop."""
        yield from self.wait(self.manner.think)
        acts: dict[str, Callable[[], Script]] = {
            "miss": self._miss,
            "drop": self._drop,
            "drop_recover": self._drop_recover,
            "stall": self._stall,
            "retry": self._retry,
            "put_back": self._put_back,
            "wrong": self._wrong,
        }
        yield from acts.get(self.mode, self._do)()
        yield from self.wait(self.manner.settle)

    # --- whole attempts ---------------------------------------------------------------------------------------

    def _do(self) -> Script:
        yield from self._pick(self.task.moving)
        yield from self._finish(self.task.moving, self.task.base)

    def _wrong(self) -> Script:
        assert self.task.base is not None  # noqa: S101 - check_mode refuses this mode for a lift
        yield from self._pick(self.task.base)
        yield from self._finish(self.task.base, self.task.moving)

    def _miss(self) -> Script:
        if self.manner.miss_place and self.task.base is not None:
            yield from self._pick(self.task.moving)
            yield from self._carry(self.task.base, offset=self._wide_miss(self.task.base))
            yield from self._release()
            yield from self._up(0.06)
            return
        yield from self._pick(self.task.moving, offset=np.array(self.manner.miss_offset))
        yield from self._up(self.manner.lift)

    def _drop(self) -> Script:
        yield from self._pick(self.task.moving)
        yield from self._lose()
        yield from self.wait(0.3 + self.manner.pause)
        yield from self._up(0.03)

    def _drop_recover(self) -> Script:
        yield from self._pick(self.task.moving)
        yield from self._lose()
        yield from self.wait(0.2 + self.manner.pause)
        yield from self._do()

    def _stall(self) -> Script:
        stage = self.manner.stall_stage
        moving = self.task.moving
        if stage == "reach":
            above = self.sight.cubes[moving] + np.array([0, 0, self.manner.hover])
            part = self.sight.tool + self.manner.fault_at * (above - self.sight.tool)
            yield from self.move(lambda: part, self.manner.speed)
        else:
            yield from self._pick(moving)
            if stage == "carry":
                yield from self._part_way()
        yield from self.wait(self.manner.stall_time)

    def _retry(self) -> Script:
        yield from self._pick(self.task.moving, offset=np.array(self.manner.miss_offset))
        yield from self._up(self.manner.lift * 0.7)
        yield from self._release()
        yield from self._do()

    def _put_back(self) -> Script:
        rest = self.sight.table_z + self.sight.half[self.task.moving] + 0.004
        yield from self._pick(self.task.moving)
        yield from self._part_way()
        yield from self.wait(self.manner.pause)
        down = np.array([*self.sight.tool[:2], rest])
        yield from self.move(lambda: down, self.manner.fine_speed * 0.7)
        yield from self._release()
        yield from self._up(0.10 + self.manner.lift * 0.5)

    # --- parts ------------------------------------------------------------------------------------------------

    def _pick(self, colour: str, offset: Vector | None = None) -> Script:
        """Approach from above, go down, close the fingers."""
        manner, sight = self.manner, self.sight
        shift = np.zeros(3)
        shift[:2] = np.array(manner.grasp_offset) if offset is None else offset
        self._closed = False
        self._yaw = nearest_quarter(sight.cube_yaws[colour])
        detour = np.array([*manner.detour, 0.0])
        middle = 0.5 * (sight.tool + sight.cubes[colour]) + detour
        middle[2] = max(middle[2], sight.cubes[colour][2] + manner.hover)
        yield from self.move(lambda: middle, manner.speed, within=0.03)
        above = np.array([0, 0, manner.hover])
        yield from self.move(lambda: sight.cubes[colour] + shift + above, manner.speed, within=0.015)
        yield from self.wait(manner.pause)
        goal = sight.cubes[colour] + shift
        goal[2] = max(goal[2], sight.table_z + 0.015)
        yield from self.move(lambda: goal, manner.fine_speed)
        self._closed = True
        yield from self.wait(0.55)

    def _finish(self, moving: str, base: str | None) -> Script:
        """Lift, and for a stack carry over, lower and let go."""
        if base is None:
            yield from self._up(self.manner.lift)
            return
        yield from self._carry(base)
        yield from self._lower(moving, base)
        yield from self._release()
        yield from self._up(0.07)

    def _carry(self, base: str, offset: Vector | None = None) -> Script:
        yield from self._up(self.manner.lift)
        shift = np.zeros(2) if offset is None else offset
        height = self.sight.tool[2]
        goal = np.array([*(self.sight.cubes[base][:2] + shift), height])
        self._yaw = self._yaw + nearest_quarter(self.sight.cube_yaws[base] - self._yaw)
        yield from self.move(lambda: goal, self.manner.speed)
        if offset is not None:
            low = np.array([*goal[:2], self.sight.table_z + self.sight.half[self.task.moving] + 0.004])
            yield from self.move(lambda: low, self.manner.fine_speed)

    def _lower(self, moving: str, base: str) -> Script:
        sight = self.sight
        hang = sight.tool - sight.cubes[moving]
        height = sight.cubes[base][2] + sight.half[base] + sight.half[moving] + 0.001
        goal = np.array([*sight.cubes[base][:2], height]) + hang
        yield from self.move(lambda: goal, self.manner.fine_speed * 0.7)
        yield from self.wait(0.15)

    def _part_way(self) -> Script:
        """Some of the way with the cube in hand."""
        where, base = self.manner.fault_at, self.task.base
        if base is None:
            yield from self._up(self.manner.lift * where)
            return
        yield from self._up(self.manner.lift * min(1.0, 2 * where))
        goal = np.array([*self.sight.cubes[base][:2], self.sight.tool[2]])
        goal[:2] = self.sight.tool[:2] + max(0.0, where - 0.4) * (goal[:2] - self.sight.tool[:2])
        yield from self.move(lambda: goal, self.manner.speed)

    def _lose(self) -> Script:
        yield from self._part_way()
        self._closed = False
        yield from self.wait(0.45)

    def _release(self) -> Script:
        self._closed = False
        yield from self.wait(0.45)

    def _up(self, height: float) -> Script:
        goal = self.sight.tool + np.array([0, 0, height])
        yield from self.move(lambda: goal, self.manner.speed * 0.8)

    def _wide_miss(self, base: str) -> Vector:
        """A place beside the base, away from it by at least both cubes' width, on the side it came from."""
        away = self.sight.cubes[self.task.moving][:2] - self.sight.cubes[base][:2]
        return np.asarray(away / max(float(np.linalg.norm(away)), 1e-6) * 0.065)

    # --- primitives -------------------------------------------------------------------------------------------

    def move(self, target: Callable[[], Vector], speed: float, within: float = ARRIVED_M) -> Script:
        """Go to a (perhaps moving) target until within ``within`` metres and turned right, or out of patience."""
        for _ in range(int(PATIENCE_S / TICK_S)):
            goal = target()
            turned = abs(self.sight.yaw - self._yaw) < 0.06 or within > ARRIVED_M
            if float(np.linalg.norm(self.sight.tool - goal)) < within and turned:
                return
            yield Command(goal, self._yaw, self._closed, speed)

    def wait(self, seconds: float) -> Script:
        """Keep the hand where it is."""
        here = self.sight.tool.copy()
        for _ in range(round(seconds / TICK_S)):
            yield Command(here, self._yaw, self._closed, 0.05)


def nearest_quarter(angle: float) -> float:
    """The turn of least size that lines the hand up with a square cube: ``angle`` folded into -45..45 degrees."""
    quarter = np.pi / 2
    return float(angle - quarter * np.round(angle / quarter))
