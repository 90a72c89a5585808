"""How the table looks in a take: camera poses, light, surfaces and colours, all drawn from one seed.

Three ranges: ``train`` (front camera up to 55 degrees to either side, now and then over the shoulder, ordinary light),
``side`` (70 to 105 degrees round, where training never looks from; low, tinted light with shadows: the test
``unseen_camera``) and ``plain`` (the camera in one place).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.spatial.transform import Rotation

from rollout_monitor.errors import InputError
from rollout_monitor.sim.tabletop.scene import PALETTE, TEXTURES

Vector = npt.NDArray[np.float64]

RANGES = ("train", "side", "plain")
PLAIN_SURFACE_SHARE = 0.25


@dataclass(frozen=True)
class Look:
    """One appearance. Positions in metres relative to the middle of the table top; angles in degrees; colours 0..1.

    Attributes:
        camera: position of the front camera.
        aim: point it looks at.
        fovy: its vertical field of view.
        wrist_shift: shift of the wrist camera, metres.
        wrist_turn: small turn of the wrist camera, rotation vector, rad.
        wrist_fovy: its vertical field of view.
        light: direction the lamp shines to.
        diffuse: colour of the lamp.
        ambient: colour of the ambient light.
        shadows: shadows are drawn.
        surfaces: material by place (``table``, ``floor``, ``walls``).
        tints: colour by surface and by name of `PALETTE`.
    """

    camera: Vector
    aim: Vector
    fovy: float
    wrist_shift: Vector
    wrist_turn: Vector
    wrist_fovy: float
    light: Vector
    diffuse: Vector
    ambient: Vector
    shadows: bool
    surfaces: dict[str, str]
    tints: dict[str, Vector]


def draw_look(seed: int, kind: str = "train") -> Look:
    """Draw an appearance; the same seed and range give the same look.

    Raises:
        InputError: no such range.
    """
    if kind not in RANGES:
        raise InputError(f"unknown look {kind!r}; known looks: {', '.join(RANGES)}")
    rng = np.random.default_rng([seed, 11, RANGES.index(kind)])
    side = kind == "side"
    azimuth = rng.uniform(70, 105) * rng.choice((-1, 1)) if side else rng.uniform(-55, 55)
    over_shoulder = not side and rng.random() < 0.08
    if over_shoulder:
        azimuth = rng.uniform(125, 150) * rng.choice((-1, 1))
    elevation = rng.uniform(25, 40) if side else rng.uniform(50, 65) if over_shoulder else rng.uniform(30, 58)
    away = rng.uniform(0.85, 1.08) * (1.15 if over_shoulder else 1.0)
    if kind == "plain":
        azimuth, elevation, away = 15.0, 42.0, 0.95
    aim = np.array([-0.05, 0.0, 0.05]) + rng.normal(0, 0.025, 3) * (kind != "plain")
    light, diffuse, ambient = _light(rng, side)
    return Look(
        camera=aim + away * _ray(azimuth, elevation),
        aim=aim,
        fovy=float(rng.uniform(38, 46)),
        wrist_shift=rng.normal(0, 0.005, 3),
        wrist_turn=rng.normal(0, 0.05, 3),
        wrist_fovy=float(rng.uniform(68, 82)),
        light=light,
        diffuse=diffuse,
        ambient=ambient,
        shadows=side,
        surfaces={place: _surface(rng, place) for place in TEXTURES},
        tints=_tints(rng),
    )


def _light(rng: np.random.Generator, side: bool) -> tuple[Vector, Vector, Vector]:
    warm = rng.normal(0, 0.12 if side else 0.04)
    tint = np.array([1 + warm, 1.0, 1 - warm])
    direction = -_ray(rng.uniform(-180, 180), rng.uniform(20, 40) if side else rng.uniform(45, 85))
    power = rng.uniform(0.45, 0.75) if side else rng.uniform(0.3, 0.65)
    ambient = rng.uniform(0.15, 0.25) if side else rng.uniform(0.25, 0.5)
    return direction, np.clip(power * tint, 0, 1), np.clip(ambient * tint, 0, 1)


def _surface(rng: np.random.Generator, place: str) -> str:
    if rng.random() < PLAIN_SURFACE_SHARE:
        return f"{place}-plain"
    return f"{place}-{TEXTURES[place][int(rng.integers(len(TEXTURES[place])))]}"


def _tints(rng: np.random.Generator) -> dict[str, Vector]:
    tints = {place: np.clip(rng.uniform(0.45, 1.0) * (1 + rng.normal(0, 0.12, 3)), 0.15, 1.0) for place in TEXTURES}
    for name, plain in PALETTE.items():
        # Brightness varies a lot, hue a little: a red cube stays red.
        wide = 0.02 if name in ("white_zone", "black_zone") else 0.05
        tints[name] = np.clip(np.array(plain) * rng.uniform(0.75, 1.1) + rng.normal(0, wide, 3), 0.0, 1.0)
    return tints


def _ray(azimuth: float, elevation: float) -> Vector:
    turn, rise = np.deg2rad(azimuth), np.deg2rad(elevation)
    return np.array([np.cos(rise) * np.cos(turn), np.cos(rise) * np.sin(turn), np.sin(rise)])


def look_at(eye: Vector, aim: Vector) -> Vector:
    """Quaternion (w, x, y, z) of a MuJoCo camera at ``eye`` looking at ``aim``, upright (it looks along its -z)."""
    back = (eye - aim) / np.linalg.norm(eye - aim)
    right = np.cross([0.0, 0.0, 1.0], back)
    right /= np.linalg.norm(right)
    matrix = np.column_stack([right, np.cross(back, right), back])
    x, y, z, w = Rotation.from_matrix(matrix).as_quat(canonical=True)
    return np.array([w, x, y, z])
