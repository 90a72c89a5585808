"""Moments made anew: what the states say is what the pictures show; needs the extra [sim]."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

os.environ.setdefault("MUJOCO_GL", "egl")
os.environ.setdefault("PYOPENGL_PLATFORM", "egl")
pytest.importorskip("robosuite", reason="the extra [sim] is not installed (scripts/install_sim.sh)")

from rollout_monitor.prm.text import Vocabulary
from rollout_monitor.sim.tabletop.catalogue import CUBES, OBJECT_INDEX, OBJECTS
from rollout_monitor.sim.tabletop.files import read_truth
from rollout_monitor.sim.tabletop.goals import details
from rollout_monitor.sim.tabletop.moments import draw_moments, picture_moments
from rollout_monitor.sim.tabletop.phrases import HELD_OUT_THINGS, training_texts
from rollout_monitor.sim.tabletop.skins import UNKNOWN, Skin, draw_skins, renamed
from rollout_monitor.sim.tabletop.takes import PICTURE
from rollout_monitor.sim.tabletop.world import shared_world

TRUTH = read_truth(Path(__file__).parent / "sample" / "test-000006")
COUNT = 60
MOMENTS = draw_moments(TRUTH, COUNT, seed=1)


def test_the_same_seed_gives_the_same_moments_and_another_one_others() -> None:
    again, other = draw_moments(TRUTH, COUNT, seed=1), draw_moments(TRUTH, COUNT, seed=2)
    np.testing.assert_array_equal(again.qpos, MOMENTS.qpos)
    np.testing.assert_array_equal(again.states.objects, MOMENTS.states.objects)
    assert not np.array_equal(other.qpos, MOMENTS.qpos)


def test_states_are_where_things_are_in_the_simulator() -> None:
    world = shared_world(TRUTH.row.arms, PICTURE)
    world.lay_out(TRUTH.layout)
    moved = 0
    for number in range(COUNT):
        world.show(MOMENTS.qpos[number])
        for name in TRUTH.facts.present & set(OBJECTS):
            there = MOMENTS.states.objects[number, OBJECT_INDEX[name]]
            np.testing.assert_allclose(world.place(name), there, atol=1e-3)  # stored a physics step later
            before = TRUTH.states.objects[MOMENTS.rows[number], OBJECT_INDEX[name]]
            moved += not np.allclose(there, before, atol=1e-6)
    assert moved > COUNT  # several things lie about, most of them elsewhere


def test_a_take_itself_is_not_changed() -> None:
    fresh = read_truth(Path(__file__).parent / "sample" / "test-000006")
    np.testing.assert_array_equal(fresh.states.objects, TRUTH.states.objects)
    np.testing.assert_array_equal(fresh.facts.fixtures, TRUTH.facts.fixtures)


def test_what_was_moved_is_not_held_and_overlaps_nothing() -> None:
    cubes = [OBJECT_INDEX[name] for name in CUBES if name in TRUTH.facts.present]
    let_go = 0
    for number in range(COUNT):
        at, before = MOMENTS.states.objects[number], TRUTH.states.objects[MOMENTS.rows[number]]
        for me in cubes:
            if np.allclose(at[me], before[me], atol=1e-6):
                continue
            assert MOMENTS.states.held[number, me] == 0
            let_go += int(TRUTH.states.held[MOMENTS.rows[number], me] > 0)
            assert at[me, 2] >= TRUTH.facts.table_z + TRUTH.facts.half[me, 2]
            for other in cubes:
                if other == me:
                    continue
                apart = np.abs(at[me] - at[other])
                stacked = MOMENTS.states.touching[number, me, other]
                room = TRUTH.facts.half[me, 0] + TRUTH.facts.half[other, 0]
                assert stacked or apart[2] > room or np.linalg.norm(apart[:2]) > room
    assert let_go > 0


def test_truth_is_read_off_the_new_arrangement() -> None:
    """A cube put onto another one counts as stacked, and as blocking it."""
    red, others = OBJECT_INDEX["red"], [c for c in CUBES if c in TRUTH.facts.present and c != "red"]
    assert "red" in TRUTH.facts.present and others
    stacked = 0
    for name in others:
        told = details(f"on:{name}:red", MOMENTS.states, MOMENTS.facts)[:, 0]
        touching = MOMENTS.states.touching[:, OBJECT_INDEX[name], red]
        above = MOMENTS.states.objects[:, OBJECT_INDEX[name], 2] > MOMENTS.states.objects[:, red, 2] + 0.02
        on_it = touching & above
        stacked += int(on_it.sum())
        assert (told[on_it, 3] == 1).all()
    assert stacked > 0


def test_points_lie_where_their_colour_is_and_every_picture_looks_different() -> None:
    few = draw_moments(TRUTH, 12, seed=3)
    points = few.states.objects[:, [OBJECT_INDEX["green"]]]
    pictures, shown = picture_moments(TRUTH, replace(few, skins=[{}] * 3), points)
    assert len({picture.tobytes() for picture in pictures["front"]}) == 12
    seen = 0
    for number, picture in enumerate(pictures["front"]):
        x, y, inside = shown[number, 0, 0]
        if not inside:
            continue
        row, column = (int((v + 1) / 2 * PICTURE[0]) for v in (y, x))
        patch = picture[max(0, row - 4) : row + 5, max(0, column - 4) : column + 5].reshape(-1, 3).astype(int)
        seen += bool((patch[:, 1] > patch[:, [0, 2]].max(axis=1) + 25).any())
    assert seen >= 7  # the arm hides it now and then


def test_a_skin_is_seen_where_its_thing_is_and_is_gone_afterwards() -> None:
    world = shared_world(TRUTH.row.arms, PICTURE)
    world.lay_out(TRUTH.layout)
    before = world.model.geom_type.copy(), world.model.geom_size.copy()
    few = draw_moments(TRUTH, 9, seed=3)
    purple = Skin("purple egg", "ellipsoid", (1.0, 1.0, 1.3), (0.6, 0.0, 0.8))
    plain, skinned = (replace(few, skins=[{}, skins, skins]) for skins in ({}, {"green": purple}))
    points = few.states.objects[:, [OBJECT_INDEX["green"]]]
    first, shown = picture_moments(TRUTH, plain, points)
    second, _ = picture_moments(TRUTH, skinned, points)
    np.testing.assert_array_equal(first["front"][:3], second["front"][:3])  # the first group has no skins
    seen = 0
    for number in range(3, 9):
        x, y, inside = shown[number, 0, 0]
        row, column = (int((v + 1) / 2 * PICTURE[0]) for v in (y, x))
        patches = [p["front"][number][row - 1 : row + 2, column - 1 : column + 2].astype(int) for p in (first, second)]
        green, purple_now = (bool((p[..., 1] - p[..., [0, 2]].max(axis=-1) > 15).any()) for p in patches)
        seen += bool(inside and green and not purple_now and (patches[1][..., 2] - patches[1][..., 1] > 15).any())
    assert seen >= 3  # the arm hides it now and then
    np.testing.assert_array_equal(world.model.geom_type, before[0])
    np.testing.assert_array_equal(world.model.geom_size, before[1])


def test_names_of_skins() -> None:
    rng = np.random.default_rng(0)
    drawn = [draw_skins(rng, frozenset({"red", "green", "bin"}), {"red"}) for _ in range(300)]
    assert all(set(skins) <= {"red", "green", "bin"} and skins for skins in drawn)
    assert sum("red" in skins for skins in drawn) > 230  # what is handled comes first
    nouns = {skin.noun for skins in drawn for skin in skins.values()}
    assert UNKNOWN in nouns and any(noun.endswith(f" {UNKNOWN}") for noun in nouns)
    assert all(sum(skin.noun == UNKNOWN for skin in skins.values()) <= 1 for skins in drawn)
    for skins in drawn:  # a box of a cube's colour would be a cube
        assert not any(s.shape == "box" and s.noun.split()[0] in CUBES for s in skins.values())
    words = Vocabulary.from_texts(training_texts()).words
    assert UNKNOWN not in words and not set(HELD_OUT_THINGS) & set(words) and {"purple", "egg"} <= set(words)
    skins = {"red": Skin("pink egg", "ellipsoid", (1.0, 1.0, 1.0), (1.0, 0.5, 0.6))}
    said = renamed("put the red cube in the bin, not the green cube", skins)
    assert said == "put the pink egg in the bin, not the green cube"
