"""Other instructions under which the same take can be judged: look-alike pairs, so that language must be read."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np

from rollout_monitor.sim.tabletop.catalogue import CONTAINERS, CUBES, JOINTED, ZONES
from rollout_monitor.sim.tabletop.goals import Goal, SceneFacts, States, Task, judge, parse

NEAR, FAR = 9, 3
"""How many similar and how many quite different instructions a take lists at most."""


def every_goal(present: frozenset[str]) -> list[Goal]:
    """All goals that a scene allows."""
    movable = [name for name in (*CUBES, "can") if name in present]
    cubes = [name for name in CUBES if name in present]
    goals = [Goal("lift", m) for m in movable]
    goals += [Goal("on", m, t) for m in cubes for t in cubes if m != t]
    goals += [Goal("in", m, t) for m in movable for t in CONTAINERS if t in present]
    goals += [Goal("zone", m, t) for m in cubes for t in ZONES if t in present]
    goals += [Goal(side, m, t) for side in ("left", "right") for m in cubes for t in cubes if m != t]
    goals += [Goal("peg", "ring", "peg")] if {"ring", "peg"} <= present else []
    goals += [Goal(kind, f) for f in JOINTED if f in present for kind in ("open", "close")]
    goals += [Goal("both", "pot")] if "pot" in present else []
    return goals + ([Goal("give", "bar")] if "bar" in present else [])


def similar(task: Task, present: frozenset[str]) -> list[Task]:
    """Instructions that differ from the task's in one role, one thing, one side or the order; swapped roles first."""
    first: list[Task] = []
    rest: list[Task] = []
    if len(task.goals) > 1:
        first += [Task(order) for order in permutations(task.goals) if order != task.goals]
        rest += [Task((goal,)) for goal in task.goals]
    known = set(every_goal(present))
    for number, goal in enumerate(task.goals):
        for other, swapped in _variants(goal, known):
            changed = Task((*task.goals[:number], other, *task.goals[number + 1 :]))
            (first if swapped else rest).append(changed)
    return first + rest


def _variants(goal: Goal, known: set[Goal]) -> list[tuple[Goal, bool]]:
    """Goals one step away, and whether the step swaps roles or sides."""
    swapped = []
    if goal.target is not None:
        swapped.append(Goal(goal.kind, goal.target, goal.what))
    if goal.kind in ("left", "right"):
        swapped.append(replace(goal, kind="right" if goal.kind == "left" else "left"))
        swapped.append(Goal("right" if goal.kind == "left" else "left", str(goal.target), goal.what))
    if goal.kind in ("open", "close"):
        swapped.append(replace(goal, kind="close" if goal.kind == "open" else "open"))
    near = sorted(
        (g for g in known if g.kind == goal.kind and g != goal and (g.what == goal.what or g.target == goal.target)),
        key=lambda g: g.key,
    )
    return [(g, True) for g in swapped if g in known] + [(g, False) for g in near if g not in swapped]


def alternatives(task: Task | str, states: States, facts: SceneFacts, seed: int) -> list[str]:
    """Up to `NEAR` similar and `FAR` other instructions for a take that are not done at its start.

    Args:
        task: the take's own instruction.
        states: its states; only the first is looked at.
        facts: its scene.
        seed: draws which of many are listed; swapped roles and orders come before all others.
    """
    task = parse(task) if isinstance(task, str) else task
    rng = np.random.default_rng([seed, 17])
    start = states.take(slice(0, 1))
    near = [t for t in similar(task, facts.present) if t.key != task.key]
    turned = [t for t in near if sorted(t.things) == sorted(task.things)]
    others = [t for t in near if t not in turned]
    goals = [Task((g,)) for g in every_goal(facts.present)]
    far = [g for g in goals if g not in near and g != task]
    chosen = [*_shuffled(rng, turned), *_shuffled(rng, others)][:NEAR] + _shuffled(rng, far)[:FAR]
    keys = dict.fromkeys(t.key for t in chosen)
    return [key for key in keys if not judge(key, start, facts).done[0]]


def _shuffled(rng: np.random.Generator, tasks: list[Task]) -> list[Task]:
    return [tasks[i] for i in rng.permutation(len(tasks))]
