"""Which takes a data set holds. Splits go by seed and by structure; they are fixed here, see docs/simulation.md.

A take's specification depends on its plan and its seed alone, so a longer run begins with the shorter one. Plans never
share a random sequence: the plan's name is part of every seed.

What training never shows: the arms `HELD_OUT_ARMS`; the can and the bowl; every long task of `HELD_OUT_STAGES`; the
looks of range ``side``; the wordings `phrases.HELD_OUT`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rollout_monitor.errors import InputError
from rollout_monitor.sim.tabletop.catalogue import CUBES
from rollout_monitor.sim.tabletop.goals import parse
from rollout_monitor.sim.tabletop.operator import MODE_SHARES, check_mode, modes_of
from rollout_monitor.sim.tabletop.phrases import draw_phrase
from rollout_monitor.sim.tabletop.takes import TakeSpec
from rollout_monitor.sim.tabletop.world import TWO_ARMS

TRAIN_ARMS: dict[str, float] = {"ur5e": 0.28, "panda": 0.28, "iiwa": 0.22, "sawyer": 0.22}
HELD_OUT_ARMS: dict[str, float] = {"kinova3": 0.5, "arx5": 0.5}
LEFT_OUT = frozenset({("arx5", "peg"), ("arx5", "stages")})
"""Pairs of arm and kind of goal that the operator does in fewer than 70 % of its takes."""

STAGES: dict[str, float] = {
    "in>on>zone": 0.20,
    "on>zone": 0.14,
    "in>on": 0.14,
    "zone>in": 0.12,
    "left>zone": 0.12,
    "in>left": 0.12,
    "tower": 0.16,
}
HELD_OUT_STAGES: dict[str, float] = {"zone>on>in": 0.35, "left>in>on": 0.35, "on>in>left": 0.3}
FAMILIES: dict[str, float] = {
    "lift": 0.10,
    "on": 0.20,
    "in": 0.14,
    "zone": 0.11,
    "beside": 0.12,
    "peg": 0.05,
    "jointed": 0.08,
    "both": 0.03,
    "give": 0.03,
    "stages": 0.14,
}
ONE_ARM_FAMILIES = {name: share for name, share in FAMILIES.items() if name not in ("both", "give")}
"""For arms kept from training: tasks of two arms are done by two UR5e, which are in it."""

NEAR_FAMILIES: dict[str, float] = {"lift_can": 0.4, "in_bowl": 0.4, "can_in": 0.2}


@dataclass(frozen=True)
class Plan:
    """What a plan draws from: shares of arms, of families of tasks and of wordings kept from training, and the look.

    In a ``cell`` arm, task, wording and look are drawn once: takes differ in where things lie and in how it goes.
    """

    arms: dict[str, float]
    families: dict[str, float]
    about: str
    look: str = "train"
    held_out_phrases: float = 0.0
    rare: bool = False
    cell: bool = False


def _cell(arm: str, family: str, about: str) -> Plan:
    return Plan({arm: 1.0}, {family: 1.0}, f"a user's own cell: {about}", rare=True, cell=True)


PLANS: dict[str, Plan] = {
    "train": Plan(TRAIN_ARMS, FAMILIES, "training"),
    "val": Plan(TRAIN_ARMS, FAMILIES, "choosing and calibrating; other seeds than training"),
    "test": Plan(TRAIN_ARMS, FAMILIES, "in distribution: other seeds, half of the wordings new", held_out_phrases=0.5),
    "unseen_arm": Plan(HELD_OUT_ARMS, ONE_ARM_FAMILIES, "arms that training never shows", held_out_phrases=0.5),
    "unseen_camera": Plan(
        TRAIN_ARMS, FAMILIES, "camera from the side, low tinted light, shadows", look="side", held_out_phrases=0.5
    ),
    "unseen_task_near": Plan(
        TRAIN_ARMS, NEAR_FAMILIES, "new object or new target for a trained skill", held_out_phrases=0.5, rare=True
    ),
    "unseen_task_multistage": Plan(
        TRAIN_ARMS,
        {"held_out_stages": 1.0},
        "three steps in combinations that training never shows",
        held_out_phrases=0.5,
    ),
    "unseen_both": Plan(
        HELD_OUT_ARMS,
        {**{name: 0.5 * share for name, share in NEAR_FAMILIES.items()}, "held_out_stages": 0.5},
        "unseen arms doing unseen tasks, seen from the side",
        look="side",
        held_out_phrases=0.5,
        rare=True,
    ),
    "cell_dev_near": _cell("iiwa", "can_in", "for choosing how to adapt; no figure is taken from it"),
    "cell_dev_stages": _cell("sawyer", "held_out_stages", "for choosing how to adapt; no figure is taken from it"),
    "cell_near_1": _cell("panda", "lift_can", "an object that training never shows"),
    "cell_near_2": _cell("ur5e", "in_bowl", "a target that training never shows"),
    "cell_near_3": _cell("sawyer", "can_in", "an object that training never shows, put away"),
    "cell_stages_1": _cell("ur5e", "held_out_stages", "three steps in a combination that training never shows"),
    "cell_stages_2": _cell("panda", "held_out_stages", "three steps in a combination that training never shows"),
    "cell_stages_3": _cell("iiwa", "held_out_stages", "three steps in a combination that training never shows"),
}


def plan_takes(
    plan: str, count: int, seed: int = 0, *, task: str | None = None, mode: str | None = None, arm: str | None = None
) -> list[TakeSpec]:
    """Specify ``count`` takes of a plan with the seeds ``seed``, ``seed + 1``, ...

    Args:
        plan: a name of `PLANS`.
        count: how many.
        seed: the first.
        task: keep this task instead of drawing one.
        mode: keep this mode where it fits the task.
        arm: keep this arm; tasks of two arms keep theirs.

    Raises:
        InputError: nothing to make, no such plan or task, or a mode that does not fit the task.
    """
    if plan not in PLANS:
        raise InputError(f"unknown plan {plan!r}; known plans: {', '.join(PLANS)}")
    if count < 1 or seed < 0:
        raise InputError(f"rollouts must be at least 1 and the seed at least 0, not {count} and {seed}")
    if mode is not None and task is not None:
        check_mode(parse(task), mode)
    if mode is not None and mode not in MODE_SHARES:
        raise InputError(f"unknown mode {mode!r}; known modes: {', '.join(MODE_SHARES)}")
    return [_plan_one(plan, number, task, mode, arm) for number in range(seed, seed + count)]


def _plan_one(plan: str, seed: int, task: str | None, mode: str | None, arm: str | None) -> TakeSpec:
    chosen = PLANS[plan]
    rng = np.random.default_rng([seed, 3, *plan.encode()])
    own = np.random.default_rng([0, 7, *plan.encode()]) if chosen.cell else rng
    while True:
        arms, key = arm or _draw(own, chosen.arms), task or _TASKS[_draw(own, chosen.families)](own)
        kinds = {goal.kind for goal in parse(key).goals}
        if kinds & {"both", "give"}:
            arms = TWO_ARMS
            break
        if task or arm or not any((arms, kind) in LEFT_OUT for kind in _kinds(key)):
            break
    fitting = modes_of(parse(key))
    if mode is None or mode not in fitting:
        mode = _draw(rng, {m: MODE_SHARES[m] for m in fitting})
    held_out = bool(rng.random() < chosen.held_out_phrases)
    return TakeSpec(
        plan=plan,
        seed=seed,
        arms=arms,
        task=key,
        mode=mode,
        text=draw_phrase(own, key, held_out=held_out),
        phrasing="held_out" if held_out else "known",
        look=chosen.look,
        rare=chosen.rare,
        one_look=chosen.cell,
    )


def _kinds(key: str) -> set[str]:
    """Kinds of goals, drawer and door by name (``open:door``), and ``stages`` where there is more than one."""
    kinds = {g.key if g.kind in ("open", "close") else g.kind for g in parse(key).goals}
    return kinds | ({"stages"} if ">" in key else set())


def _draw(rng: np.random.Generator, shares: dict[str, float]) -> str:
    weights = np.array(list(shares.values()))
    return list(shares)[int(rng.choice(len(weights), p=weights / weights.sum()))]


def _pick(rng: np.random.Generator, count: int) -> list[str]:
    """Different cubes, every order equally likely: no colour has a role of its own."""
    return [str(c) for c in rng.permutation(CUBES)[:count]]


def _one(rng: np.random.Generator, *options: str) -> str:
    return options[int(rng.integers(len(options)))]


def _staged(rng: np.random.Generator, shares: dict[str, float], containers: tuple[str, ...]) -> str:
    stages = _draw(rng, shares)
    a, b, c, d = _pick(rng, 4)
    if stages == "tower":
        return f"on:{b}:{c}>on:{a}:{b}"
    box, zone = _one(rng, *containers), _one(rng, "white_zone", "black_zone")
    # In every order each cube keeps to one goal, and the base of a stack is not moved any more.
    beside = a if "zone" in stages else d
    parts = {"in": f"in:{a}:{box}", "on": f"on:{b}:{c}", "zone": f"zone:{d}:{zone}", "left": f"left:{beside}:{c}"}
    return ">".join(parts[part] for part in stages.split(">"))


_TASKS: dict[str, Callable[[np.random.Generator], str]] = {
    "lift": lambda rng: f"lift:{_pick(rng, 1)[0]}",
    "on": lambda rng: "on:" + ":".join(_pick(rng, 2)),
    "in": lambda rng: f"in:{_pick(rng, 1)[0]}:{_one(rng, 'bin', 'plate')}",
    "zone": lambda rng: f"zone:{_pick(rng, 1)[0]}:{_one(rng, 'white_zone', 'black_zone')}",
    "beside": lambda rng: f"{_one(rng, 'left', 'right')}:" + ":".join(_pick(rng, 2)),
    "peg": lambda _: "peg:ring:peg",
    "jointed": lambda rng: f"{_one(rng, 'open', 'close')}:{_one(rng, 'drawer', 'door')}",
    "both": lambda _: "both:pot",
    "give": lambda _: "give:bar",
    "stages": lambda rng: _staged(rng, STAGES, ("bin", "plate")),
    "lift_can": lambda _: "lift:can",
    "in_bowl": lambda rng: f"in:{_pick(rng, 1)[0]}:bowl",
    "can_in": lambda rng: f"in:can:{_one(rng, 'bin', 'plate')}",
    "held_out_stages": lambda rng: _staged(rng, HELD_OUT_STAGES, ("bin", "plate")),
}
