"""Plans and wordings of the simulated table: fixed by seed, balanced, and nothing of the tests in training."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from rollout_monitor.errors import InputError
from rollout_monitor.sim.tabletop.arms import ARMS, get_arm
from rollout_monitor.sim.tabletop.catalogue import CUBES
from rollout_monitor.sim.tabletop.goals import KINDS, parse
from rollout_monitor.sim.tabletop.layouts import draw_layout
from rollout_monitor.sim.tabletop.looks import draw_look
from rollout_monitor.sim.tabletop.operator import MODES, modes_of
from rollout_monitor.sim.tabletop.phrases import (
    COMMANDS,
    HELD_OUT,
    HELD_OUT_JOINS,
    JOINS,
    WISHES,
    draw_phrase,
    phrases,
    plain,
)
from rollout_monitor.sim.tabletop.plans import (
    HELD_OUT_ARMS,
    HELD_OUT_STAGES,
    LEFT_OUT,
    PLANS,
    STAGES,
    TRAIN_ARMS,
    plan_takes,
)
from rollout_monitor.sim.tabletop.rotations import about_vertical, rotation_vector

TRAIN = plan_takes("train", 3000)


def stages(key: str) -> str:
    return ">".join(goal.kind for goal in parse(key).goals)


def test_a_longer_run_begins_with_the_shorter_one() -> None:
    assert plan_takes("train", 30, 5)[:10] == plan_takes("train", 10, 5)
    assert plan_takes("train", 30, 5)[3:] == plan_takes("train", 27, 8)


def test_no_two_plans_share_a_seed() -> None:
    first = {name: plan_takes(name, 1)[0] for name in PLANS}
    assert len({tuple(spec.numbers(1)) for spec in first.values()}) == len(PLANS)
    assert len({spec.look_seed for spec in first.values()}) == len(PLANS)


def test_training_has_every_kind_of_goal_and_every_mode() -> None:
    kinds = {goal.kind for spec in TRAIN for goal in parse(spec.task).goals}
    assert kinds == set(KINDS)
    assert {spec.mode for spec in TRAIN} == set(MODES)
    assert all(spec.mode in modes_of(parse(spec.task)) for spec in TRAIN)


def test_no_colour_has_a_role_of_its_own() -> None:
    stacks = [parse(spec.task).goals[0] for spec in TRAIN if stages(spec.task) == "on"]
    pairs = Counter((goal.what, goal.target) for goal in stacks)
    assert len(pairs) == 12
    assert max(pairs.values()) < 1.8 * min(pairs.values())
    for kind in ("lift", "in", "zone"):
        colours = Counter(g.what for spec in TRAIN for g in parse(spec.task).goals if g.kind == kind)
        assert set(colours) == set(CUBES)
        assert max(colours.values()) < 1.5 * min(colours.values())
    targets = Counter(g.target for spec in TRAIN for g in parse(spec.task).goals if g.kind in ("in", "zone"))
    assert set(targets) == {"bin", "plate", "white_zone", "black_zone"}


def test_training_shows_nothing_of_the_structural_tests() -> None:
    assert {spec.arms for spec in TRAIN} == set(TRAIN_ARMS) | {"two_ur5e"}
    assert not set(TRAIN_ARMS) & set(HELD_OUT_ARMS)
    assert not {"can", "bowl"} & {thing for spec in TRAIN for thing in parse(spec.task).things}
    assert not any(spec.rare for spec in TRAIN)
    assert not set(STAGES) & set(HELD_OUT_STAGES)
    long = {stages(spec.task) for spec in TRAIN if ">" in spec.task}
    assert long == {"on>on" if name == "tower" else name for name in STAGES}
    assert {stages(spec.task) for spec in plan_takes("unseen_task_multistage", 60)} == set(HELD_OUT_STAGES)
    assert {spec.look for spec in TRAIN} == {"train"}
    assert {spec.look for spec in plan_takes("unseen_camera", 5)} == {"side"}
    near = plan_takes("unseen_task_near", 60)
    assert all({"can", "bowl"} & parse(spec.task).things for spec in near)
    both = plan_takes("unseen_both", 60)
    assert {spec.arms for spec in both} == set(HELD_OUT_ARMS)
    assert not {spec.task for spec in both} & {spec.task for spec in TRAIN}
    assert {spec.arms for spec in plan_takes("unseen_arm", 200)} == set(HELD_OUT_ARMS)


def test_pairs_that_the_operator_cannot_do_are_left_out() -> None:
    assert ("arx5", "stages") in LEFT_OUT
    for spec in [*TRAIN, *plan_takes("unseen_arm", 400), *plan_takes("unseen_both", 100)]:
        assert spec.arms != "arx5" or ">" not in spec.task
        for goal in parse(spec.task).goals:
            assert not {(spec.arms, goal.kind), (spec.arms, goal.key)} & LEFT_OUT


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("train", 0), "at least 1"),
        (("moon", 3), "known plans: train"),
        (("train", 1, -1), "at least 0"),
    ],
)
def test_bad_plans_are_refused(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        plan_takes(*arguments)  # type: ignore[arg-type]


def test_bad_choices_are_refused() -> None:
    with pytest.raises(InputError, match="unknown mode"):
        plan_takes("train", 1, mode="explode")
    with pytest.raises(InputError, match="lift:red's: success"):
        plan_takes("train", 1, task="lift:red", mode="wrong_order")
    with pytest.raises(InputError, match="known arms: ur5e"):
        get_arm("robocop")


def test_every_kind_has_many_wordings_and_some_kept_aside() -> None:
    assert set(COMMANDS) == set(WISHES) == set(HELD_OUT) == set(KINDS)
    for kind in KINDS:
        known = COMMANDS[kind] + WISHES[kind]
        assert len(set(known)) == len(known) >= 8
        assert not set(known) & set(HELD_OUT[kind])
    for count in JOINS:
        assert len(JOINS[count]) >= 8
        assert not set(JOINS[count]) & set(HELD_OUT_JOINS[count])


def test_the_order_of_the_names_does_not_give_the_roles_away() -> None:
    for kind in ("on", "left", "right", "in", "zone"):
        known = COMMANDS[kind] + WISHES[kind]
        turned = sum(t.index("{t}") < t.index("{m}") for t in known) / len(known)
        assert 0.1 < turned < 0.6, kind
    assert any(t.index("{t}") < t.index("{m}") for t in HELD_OUT["on"])
    first = [join.index("{b}") < join.index("{a}") for join in JOINS[2]]
    assert 2 <= sum(first) < len(first)


def test_wordings_need_a_small_vocabulary_which_the_held_out_ones_share() -> None:
    tasks = {spec.task for spec in TRAIN} | {"lift:can", "in:red:bowl"}
    known = {word for task in tasks for text in [*phrases(task), plain(task)] for word in _words(text)}
    held_out = {word for task in tasks for text in phrases(task, held_out=True) for word in _words(text)}
    assert len(known) < 130
    assert held_out <= known | {word for spec in TRAIN for word in _words(spec.text)}


def _words(text: str) -> list[str]:
    return text.replace(",", " ").replace(";", " ").replace(":", " ").split()


def test_drawn_wordings_are_those_of_the_set_asked_for() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        assert draw_phrase(rng, "on:red:green") in [*phrases("on:red:green"), plain("on:red:green")]
        assert draw_phrase(rng, "on:red:green", held_out=True) in phrases("on:red:green", held_out=True)
    text = draw_phrase(rng, "in:red:plate>on:blue:green>zone:yellow:white_zone")
    assert text.index("red") < text.index("yellow") or "at the end" in text or text.startswith("before")
    assert "on the plate" in plain("in:red:plate")
    assert "in the bin" in plain("in:red:bin")


def test_scenes_hold_what_the_task_needs_within_reach() -> None:
    for spec in TRAIN[:150]:
        arm = ARMS.get(spec.arms, ARMS["ur5e"])
        task = parse(spec.task)
        rng = np.random.default_rng(spec.numbers(1))
        layout = draw_layout(rng, task, arm, two_arms=spec.arms == "two_ur5e", rare=spec.rare)
        assert task.things <= set(layout.objects) | set(layout.fixtures)
        assert not {"can", "bowl"} & (set(layout.objects) | set(layout.fixtures))
        places = [np.array(place[:2]) for place in layout.objects.values()]
        gaps = [np.linalg.norm(a - b) for i, a in enumerate(places) for b in places[:i]]
        assert all(gap > 0.08 for gap in gaps)


def test_looks_are_fixed_by_seed_and_ranges_are_apart() -> None:
    def azimuth(seed: int, kind: str) -> float:
        ray = draw_look(seed, kind).camera - draw_look(seed, kind).aim
        return float(np.degrees(np.arctan2(ray[1], ray[0])))

    np.testing.assert_array_equal(draw_look(4).camera, draw_look(4).camera)
    trained = [abs(azimuth(seed, "train")) for seed in range(200)]
    tested = [abs(azimuth(seed, "side")) for seed in range(200)]
    assert all(angle < 60 or 120 < angle < 155 for angle in trained)
    assert all(65 < angle < 110 for angle in tested)
    with pytest.raises(InputError, match="known looks"):
        draw_look(1, "night")


@pytest.mark.parametrize("angle", [0.0, 1e-7, 0.3, -2.0, 3.1, np.pi])
def test_rotations_by_hand_agree_with_their_angle(angle: float) -> None:
    vector = rotation_vector(about_vertical(angle))
    assert abs(abs(vector[2]) - abs(angle)) < 1e-6
    assert np.allclose(vector[:2], 0.0, atol=1e-6)


def test_the_docs_name_every_plan_mode_and_kind_of_goal(root: Path) -> None:
    text = (root / "docs" / "simulation.md").read_text(encoding="utf-8")
    for name in (*PLANS, *MODES):
        assert f"`{name}`" in text, name
    for kind in KINDS:
        assert f"`{kind}:" in text, kind
    for stages_of in (*STAGES, *HELD_OUT_STAGES):
        assert stages_of in text, stages_of
