"""Other looks and other names for the cubes and containers of a moment: only pictures and words change, nothing else.

The table has few kinds of things, and a network that knows only those looks for one of them whatever it is told. In
pictures a cube can be a purple egg. It is called so, or by a word that training has no place for: then what is meant is
the thing that none of the known words fits. The can and the bowl, which are kept for tests, are never drawn or named.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rollout_monitor.sim.tabletop.catalogue import CUBES, NOUNS
from rollout_monitor.sim.tabletop.scene import PALETTE

UNKNOWN = "gizmo"
"""Stands for any word that the vocabulary does not have; it must never be part of it."""

COLOURS: dict[str, tuple[float, float, float]] = {
    "orange": (0.95, 0.45, 0.05),
    "purple": (0.50, 0.15, 0.65),
    "cyan": (0.10, 0.75, 0.80),
    "pink": (0.95, 0.50, 0.65),
    "white": (0.92, 0.92, 0.92),
    "black": (0.08, 0.08, 0.08),
    "gray": (0.50, 0.50, 0.52),
    "brown": (0.42, 0.26, 0.14),
    **{name: PALETTE[name] for name in CUBES},
}
SHAPES: dict[str, tuple[str, tuple[float, float, float]]] = {
    "ball": ("sphere", (1.1, 1.1, 1.1)),
    "pillar": ("cylinder", (0.9, 1.25, 0.0)),
    "disc": ("cylinder", (1.25, 0.6, 0.0)),
    "pill": ("capsule", (0.7, 0.6, 0.0)),
    "egg": ("ellipsoid", (1.0, 1.0, 1.35)),
    "slab": ("box", (1.3, 0.9, 0.6)),
    "post": ("box", (0.75, 0.75, 1.35)),
}
"""By noun: MuJoCo's geometry and its size in half edges of the cube."""

CONTAINER_NOUNS = {"bin": ("tray", "crate"), "plate": ("dish", "mat")}
UNKNOWN_SHARE, HALF_KNOWN_SHARE = 0.5, 0.15
"""How often a name is a word that nobody knows, alone or behind the colour."""

HANDLED_SHARE, SECOND_SHARE, CONTAINER_SHARE = 0.7, 0.3, 0.4


@dataclass(frozen=True)
class Skin:
    """What a thing looks like and is called: size in half edges of the cube, colour 0..1. No shape: only recoloured."""

    noun: str
    shape: str
    size: tuple[float, float, float]
    colour: tuple[float, float, float]


def draw_skins(rng: np.random.Generator, present: frozenset[str], handled: set[str]) -> dict[str, Skin]:
    """Skins for one or two of the cubes that are there, ``handled`` ones first, and now and then for a container."""
    cubes = [str(name) for name in rng.permutation([name for name in CUBES if name in present])]
    if rng.random() < HANDLED_SHARE:
        cubes.sort(key=lambda name: name not in handled)
    skins: dict[str, Skin] = {}
    used: set[str] = set()
    for name in cubes[: 2 if rng.random() < SECOND_SHARE else 1]:
        noun = str(rng.choice(list(SHAPES)))
        shape, size = SHAPES[noun]
        # What is a box must not pass for one of the cubes.
        colour = str(rng.choice([c for c in COLOURS if c not in used and (shape != "box" or c not in CUBES)]))
        used.add(colour)
        stretched = rng.uniform(0.85, 1.15, 3)
        skins[name] = Skin(
            _name(rng, colour, noun, alone=not any(UNKNOWN in s.noun for s in skins.values())),
            shape,
            (float(size[0] * stretched[0]), float(size[1] * stretched[1]), float(size[2] * stretched[2])),
            _near(rng, COLOURS[colour]),
        )
    for name, nouns in CONTAINER_NOUNS.items():
        if name in present and rng.random() < CONTAINER_SHARE:
            colour = str(rng.choice([c for c in COLOURS if c not in used]))
            used.add(colour)
            named = _name(rng, colour, str(rng.choice(nouns)), alone=False)
            skins[name] = Skin(named, "", (0.0, 0.0, 0.0), _near(rng, COLOURS[colour]))
    return skins


def _name(rng: np.random.Generator, colour: str, noun: str, *, alone: bool) -> str:
    """One of two things may have a name that nobody knows; both would be the same to the reader."""
    chance = rng.random()
    if alone and chance < UNKNOWN_SHARE:
        return UNKNOWN
    return f"{colour} {UNKNOWN if chance > 1.0 - HALF_KNOWN_SHARE else noun}"


def _near(rng: np.random.Generator, colour: tuple[float, float, float]) -> tuple[float, float, float]:
    red, green, blue = np.clip(np.array(colour) * rng.uniform(0.8, 1.1) + rng.normal(0, 0.04, 3), 0.0, 1.0)
    return float(red), float(green), float(blue)


def renamed(text: str, skins: Mapping[str, Skin]) -> str:
    """An instruction with the names of the skins."""
    for name, skin in skins.items():
        text = re.sub(rf"\b{re.escape(NOUNS[name])}\b", skin.noun, text)
    return text


def names() -> list[str]:
    """Every name that a skin can have, as far as it is known."""
    shapes = [f"{colour} {noun}" for colour in COLOURS for noun in SHAPES]
    return shapes + [f"{colour} {noun}" for colour in COLOURS for nouns in CONTAINER_NOUNS.values() for noun in nouns]
