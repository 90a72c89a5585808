"""Ground truth: how far a task is, read from the simulated state alone.

Both definitions grow with the true state and fall when it gets worse; how the state came about plays no part.

Lift (moving cube M)
    not held           0.35 * near
    held               0.50 + 0.50 * rise / 0.10 m
Stack (moving cube M on base cube B)
    not held           0.30 * near
    held               0.40 + 0.15 * up + 0.30 * up * over
    held, touching B and over it    0.90
    resting on B, not held          1.00
    B held, or B resting on M       0.00      (the roles are swapped: this has to be undone first)

``near`` = 1 - distance(tool, M) / distance at the start; ``rise`` is M's height above where it lay; ``up`` = rise /
B's height; ``over`` = 1 - horizontal distance(M, B) / that distance at the start; all clipped to 0..1. A cube that
left the table gives 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rollout_monitor.sim.tasks import COLOURS, Task

LIFT_GOAL_M = 0.10
LIFT_SUCCESS_M = 0.08
"""Rise at which a held cube counts as lifted; robosuite's own Lift asks for 0.04 m."""

ALIGNED_M = 0.03
"""Largest horizontal distance between the cubes' centres at which one is over the other."""

FAR_M = 0.05
"""Shortest start distance used as a unit, so that an object lying very near does not make progress jump."""


@dataclass(frozen=True)
class SceneState:
    """The privileged state of one moment, metres in the world frame.

    Attributes:
        tool: grasp point between the finger tips, shape (3,).
        cubes: cube centre by colour, each of shape (3,).
        held: colour of the cube between the fingers, if any.
        stacked: colour of the cube that rests on the other one, if any.
        touching: the two cubes touch.
    """

    tool: npt.NDArray[np.float64]
    cubes: dict[str, npt.NDArray[np.float64]]
    held: str | None
    stacked: str | None
    touching: bool


@dataclass(frozen=True)
class SceneStart:
    """What the state is measured against: the first moment and the cubes' sizes (half edges, metres)."""

    state: SceneState
    half: dict[str, float]
    table_z: float

    def rise(self, state: SceneState, colour: str) -> float:
        """Height of a cube above its place on the table, metres."""
        return float(state.cubes[colour][2] - (self.table_z + self.half[colour]))


def _unit(value: float) -> float:
    return min(1.0, max(0.0, value))


def _near(state: SceneState, start: SceneStart, colour: str) -> float:
    first = float(np.linalg.norm(start.state.tool - start.state.cubes[colour]))
    now = float(np.linalg.norm(state.tool - state.cubes[colour]))
    # A grasp point never meets the centre exactly: the last 15 mm are free.
    return _unit(1.0 - max(0.0, now - 0.015) / max(first, FAR_M))


def progress(task: Task, state: SceneState, start: SceneStart) -> float:
    """True progress of a moment in 0..1, by the definition at the top of this module.

    Args:
        task: the instruction that is judged; it need not be the one the robot was given.
        state: the moment.
        start: the first moment of the attempt.
    """
    moving = task.moving
    if start.rise(state, moving) < -0.02:
        return 0.0
    if task.base is None:
        if state.held == moving:
            return 0.5 + 0.5 * _unit(start.rise(state, moving) / LIFT_GOAL_M)
        return 0.0 if state.held else 0.35 * _near(state, start, moving)
    return _stack_progress(task.base, moving, state, start)


def _stack_progress(base: str, moving: str, state: SceneState, start: SceneStart) -> float:
    if base in (state.held, state.stacked) or start.rise(state, base) < -0.02:
        return 0.0
    if state.held != moving:
        return 1.0 if state.stacked == moving else 0.30 * _near(state, start, moving)
    gap = _horizontal(state, base, moving)
    if state.touching and gap < ALIGNED_M and start.rise(state, moving) > start.half[base]:
        return 0.90
    up = _unit(start.rise(state, moving) / (2.0 * start.half[base]))
    over = _unit(1.0 - gap / max(_horizontal(start.state, base, moving), FAR_M))
    return 0.40 + 0.15 * up + 0.30 * up * over


def _horizontal(state: SceneState, one: str, other: str) -> float:
    return float(np.linalg.norm(state.cubes[one][:2] - state.cubes[other][:2]))


def done(task: Task, state: SceneState, start: SceneStart) -> bool:
    """Whether the task is done at this moment: the cube is held high enough, or it rests on the base, let go."""
    if task.base is None:
        return state.held == task.moving and start.rise(state, task.moving) >= LIFT_SUCCESS_M
    return state.held is None and state.stacked == task.moving


def pack(states: list[SceneState]) -> dict[str, npt.NDArray[np.float32]]:
    """States as arrays for storage: tool (n, 3), cubes (n, 2, 3) with NaN for an absent one, flags (n, 3)."""
    nowhere = np.full(3, np.nan)
    code: dict[str | None, int] = {None: -1}
    code.update({colour: i for i, colour in enumerate(COLOURS)})
    return {
        "tool": np.array([s.tool for s in states], dtype=np.float32),
        "cubes": np.array([[s.cubes.get(c, nowhere) for c in COLOURS] for s in states], dtype=np.float32),
        "flags": np.array([(code[s.held], code[s.stacked], s.touching) for s in states], dtype=np.float32),
    }


def unpack(arrays: dict[str, npt.NDArray[np.float32]]) -> list[SceneState]:
    """The inverse of `pack`, to float32 precision."""
    names: dict[int, str | None] = {-1: None, **dict(enumerate(COLOURS))}
    states = []
    for tool, cubes, flags in zip(arrays["tool"], arrays["cubes"], arrays["flags"], strict=True):
        present = {c: cubes[i].astype(np.float64) for i, c in enumerate(COLOURS) if np.isfinite(cubes[i]).all()}
        states.append(
            SceneState(tool.astype(np.float64), present, names[int(flags[0])], names[int(flags[1])], bool(flags[2]))
        )
    return states
