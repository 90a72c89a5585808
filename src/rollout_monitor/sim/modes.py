"""How an attempt is meant to go. A mode steers the scripted expert; it never decides the outcome.

What really happened is read from the simulated state (`progress.succeeded`): a few stalls come too late to hurt,
and some jittery attempts fail.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rollout_monitor.errors import InputError
from rollout_monitor.sim.tasks import Task

MODES: dict[str, str] = {
    "success": "does the task",
    "miss": "closes the gripper beside the cube, or puts it down beside its place, and gives up",
    "drop": "lets the cube fall on the way and gives up",
    "drop_recover": "lets the cube fall on the way, picks it up again and finishes",
    "stall": "freezes in the middle and never goes on",
    "retry": "misses the cube first, backs off, tries again and finishes",
    "put_back": "lifts the cube, then sets it down where it was and leaves",
    "jitter": "does the task with a shaking hand",
    "wrong": "does the task with the two cubes' roles swapped (stacking only)",
}

# Shares in a generated data set: half of the attempts go well in some way, every failure is seen often enough.
MODE_SHARES: dict[str, float] = {
    "success": 0.24,
    "miss": 0.10,
    "drop": 0.10,
    "drop_recover": 0.14,
    "stall": 0.12,
    "retry": 0.08,
    "put_back": 0.07,
    "jitter": 0.05,
    "wrong": 0.10,
}


def modes_of(task: Task) -> tuple[str, ...]:
    """The modes that make sense for a task: ``wrong`` needs two objects."""
    return tuple(mode for mode in MODES if mode != "wrong" or task.base is not None)


def check_mode(task: Task, mode: str) -> None:
    """Refuse a mode that does not exist or does not fit the task.

    Raises:
        InputError: the message lists the modes of the task.
    """
    if mode not in modes_of(task):
        raise InputError(f"mode {mode!r} is not one of task {task.name}'s: {', '.join(modes_of(task))}")


@dataclass(frozen=True)
class Manner:
    """The variety of one attempt: what a person would do a little differently each time. SI units.

    Attributes:
        speed: free-motion speed, m/s.
        fine_speed: speed close to objects, m/s.
        hover: height above the cube from which it is approached, m.
        lift: how high the cube is carried above where it rested, m.
        grasp_offset: horizontal grasp error, m, shape (2,).
        miss_offset: horizontal error of a missed grasp or place, m, shape (2,).
        think: pause before moving, s.
        pause: pause above the cube, s.
        detour: sideways way point on the approach, m, shape (2,).
        fault_at: where on the way (0..1 of the carrying stage) a drop or a stall happens.
        stall_stage: ``reach``, ``grasp`` or ``carry``.
        stall_time: how long a stall is watched before the attempt is ended, s.
        miss_place: a miss happens at the place rather than at the grasp (stacking only).
        shake: standard deviation of the velocity noise, m/s.
        settle: pause at the end, s.
    """

    speed: float
    fine_speed: float
    hover: float
    lift: float
    grasp_offset: tuple[float, float]
    miss_offset: tuple[float, float]
    think: float
    pause: float
    detour: tuple[float, float]
    fault_at: float
    stall_stage: str
    stall_time: float
    miss_place: bool
    shake: float
    settle: float


def draw_manner(rng: np.random.Generator, task: Task, mode: str) -> Manner:
    """Draw the variety of one attempt.

    Args:
        rng: seeded generator; the same seed gives the same manner.
        task: the task.
        mode: one of `MODES`; only ``jitter`` changes a distribution here.
    """
    angle = rng.uniform(0, 2 * np.pi)
    reach = rng.uniform(0.05, 0.075)
    stages = ("reach", "grasp", "carry")
    return Manner(
        speed=float(rng.uniform(0.14, 0.28)),
        fine_speed=float(rng.uniform(0.07, 0.13)),
        hover=float(rng.uniform(0.07, 0.13)),
        lift=float(rng.uniform(0.11, 0.15) if task.base is None else rng.uniform(0.085, 0.13)),
        grasp_offset=(float(rng.normal(0, 0.003)), float(rng.normal(0, 0.003))),
        miss_offset=(float(reach * np.cos(angle)), float(reach * np.sin(angle))),
        think=float(rng.exponential(0.25)),
        pause=float(rng.exponential(0.2)),
        detour=(float(rng.normal(0, 0.04)), float(rng.normal(0, 0.05))),
        fault_at=float(rng.uniform(0.35, 0.95)),
        stall_stage=stages[int(rng.choice(3, p=(0.35, 0.25, 0.4)))],
        stall_time=float(rng.uniform(4.2, 6.0)),
        miss_place=bool(task.base is not None and rng.random() < 0.5),
        shake=float(rng.uniform(0.08, 0.16)) if mode == "jitter" else float(rng.uniform(0.0, 0.012)),
        settle=float(rng.uniform(0.6, 1.4)),
    )
