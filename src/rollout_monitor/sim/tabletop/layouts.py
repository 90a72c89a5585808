"""Draws the start of a take: what is on the table besides what the task names, and where everything lies."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rollout_monitor.errors import RolloutMonitorError
from rollout_monitor.sim.tabletop.arms import ArmSpec
from rollout_monitor.sim.tabletop.catalogue import (
    CONTAINERS,
    CUBES,
    FIXTURES,
    FOOTPRINTS,
    JOINT_RANGE,
    JOINTED,
    OBJECTS,
    ZONES,
)
from rollout_monitor.sim.tabletop.goals import BESIDE_M, Task
from rollout_monitor.sim.tabletop.world import Layout

Vector = npt.NDArray[np.float64]

HALF_EDGE_M = (0.018, 0.025)
PUSH_ROOM_M = (0.10, 0.26)
"""Distance between a cube that is to be pushed and its zone."""

TRIES = 400


def draw_layout(rng: np.random.Generator, task: Task, spec: ArmSpec, *, two_arms: bool, rare: bool) -> Layout:
    """Draw a scene in which the task can be done.

    Args:
        rng: seeded generator.
        task: everything it names is there.
        spec: the arm, for its work space.
        two_arms: the table between two arms.
        rare: the can and the bowl, which training never shows, may lie about.

    Raises:
        RolloutMonitorError: the things do not fit on the table.
    """
    extras = _extras(rng, task, rare) if not two_arms else list(rng.permutation(CUBES)[: int(rng.integers(0, 3))])
    for keep in range(len(extras), -1, -1):
        for _ in range(12):
            layout = _arrange(rng, task, [*sorted(task.things), *extras[:keep]], spec, two_arms)
            if layout is not None:
                return layout
    raise RolloutMonitorError(f"the things of task {task.key} do not fit in front of arm {spec.robot}")


def _extras(rng: np.random.Generator, task: Task, rare: bool) -> list[str]:
    """Things the task does not name: other cubes nearly always, so that colours must be read."""
    named = task.things
    cubes = [c for c in rng.permutation(CUBES) if c not in named]
    inside = sum(c in named for c in CUBES)
    extras = [str(c) for c in cubes[: int(rng.integers(1, 3)) if inside < 3 else int(rng.integers(0, 2))]]
    targets = [t for t in (*CONTAINERS, *ZONES) if t in named]
    chance = 0.85 if targets else 0.25
    others = [t for t in ("bin", "plate", *ZONES, *(("bowl",) if rare else ())) if t not in named]
    if targets and targets[0] in ZONES:
        others.sort(key=lambda name: name not in ZONES)
    elif targets:
        others.sort(key=lambda name: name in ZONES)
    if others and rng.random() < chance:
        extras.insert(1, others[0] if targets else others[int(rng.integers(len(others)))])
    if rare and "can" not in named and rng.random() < 0.3:
        extras.append("can")
    if "ring" not in named and "peg" not in named and rng.random() < 0.08:
        extras.append("ring")
    return extras


def _arrange(rng: np.random.Generator, task: Task, names: list[str], spec: ArmSpec, two_arms: bool) -> Layout | None:
    """Place things one after the other, big ones first; None where one finds no room."""
    taken: list[tuple[Vector, float]] = []
    places: dict[str, tuple[float, float, float]] = {}
    for name in sorted(names, key=lambda n: -FOOTPRINTS[n]):
        for _ in range(TRIES):
            spot = _spot(rng, name, spec, two_arms)
            claims = _claims(name, spot, task)
            if _fits(claims, taken, spec, two_arms) and _reachable(name, spot, places, task):
                taken += claims
                places[name] = spot
                break
        else:
            return None
    closing = {goal.what for goal in task.goals if goal.kind == "close"}
    joints = {
        name: JOINT_RANGE[name] * float(rng.uniform(0.85, 1.0) if name in closing else 0.0)
        for name in JOINTED
        if name in places
    }
    return Layout(
        objects={n: p for n, p in places.items() if n in OBJECTS},
        sizes={n: float(rng.uniform(*HALF_EDGE_M)) for n in CUBES if n in places},
        fixtures={n: p for n, p in places.items() if n in FIXTURES},
        joints=joints,
    )


def _spot(rng: np.random.Generator, name: str, spec: ArmSpec, two_arms: bool) -> tuple[float, float, float]:
    if name in ("pot", "bar"):
        return float(rng.uniform(-0.05, 0.05)), float(rng.uniform(-0.03, 0.03)), float(rng.uniform(-0.12, 0.12))
    if two_arms:
        return float(rng.choice((-1, 1)) * rng.uniform(0.16, 0.28)), float(rng.uniform(-0.2, 0.2)), 0.0
    if name in JOINTED:
        return (
            spec.x[1] - float(rng.uniform(0.0, 0.04)),
            float(rng.uniform(-0.5, 0.5)) * spec.y,
            float(rng.uniform(-0.2, 0.2)),
        )
    x, y = float(rng.uniform(*spec.x)), float(rng.uniform(-spec.y, spec.y))
    yaw = rng.uniform(-0.7, 0.7) if name in OBJECTS else rng.uniform(-0.4, 0.4)
    return x, y, float(yaw)


def _claims(name: str, spot: tuple[float, float, float], task: Task) -> list[tuple[Vector, float]]:
    """The room a thing takes: its own, and what has to stay free beside it."""
    at = np.array(spot[:2])
    if name in JOINTED:
        ahead = np.array([np.cos(spot[2]), np.sin(spot[2])])
        return [(at, 0.11), (at - 0.16 * ahead, 0.10), (at - 0.24 * ahead, 0.05)]
    if name == "pot":
        return [(at, 0.13)]
    claims = [(at, FOOTPRINTS[name])]
    for goal in task.goals:
        if goal.kind in ("left", "right") and goal.target == name:
            claims.append((at + np.array([0.0, BESIDE_M if goal.kind == "left" else -BESIDE_M]), 0.04))
    return claims


def _fits(claims: list[tuple[Vector, float]], taken: list[tuple[Vector, float]], spec: ArmSpec, two_arms: bool) -> bool:
    for at, size in claims:
        if not two_arms and abs(at[1]) > spec.y + 0.02:
            return False
        if any(float(np.linalg.norm(at - other)) < size + room for other, room in taken):
            return False
    return True


def _reachable(
    name: str, spot: tuple[float, float, float], places: dict[str, tuple[float, float, float]], task: Task
) -> bool:
    """Pushes need a run-up and a way of fair length; nothing else is asked for."""
    for goal in task.goals:
        if goal.kind != "zone" or goal.what != name or goal.target not in places:
            continue
        way = np.array(places[goal.target][:2]) - np.array(spot[:2])
        length = float(np.linalg.norm(way))
        if not PUSH_ROOM_M[0] <= length <= PUSH_ROOM_M[1]:
            return False
        # The hand has to come down behind the cube, and the base must not be in its way.
        behind = np.array(spot[:2]) - 0.09 * way / length
        if behind[0] < -0.22:
            return False
    return True
