"""How the cell looks: camera poses, light and colours, drawn anew for every attempt."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.spatial.transform import Rotation

Vector = npt.NDArray[np.float64]

FRONT_AIM = np.array([-0.10, 0.0, 0.88])
"""Point of the cell the front camera looks at: a little above the middle of the work space, metres."""


@dataclass(frozen=True)
class Look:
    """One appearance of the cell. Colours multiply the materials' own, 0..1.

    Attributes:
        camera: front camera position, world frame, metres, shape (3,).
        aim: point it looks at, shape (3,).
        fovy: its vertical field of view, degrees.
        wrist_shift: wrist camera shift against the flange, metres, shape (3,).
        light: position of the lamp, metres, shape (3,).
        diffuse: its colour, shape (3,).
        ambient: brightness of the ambient light.
        tints: colour by material (``table``, ``floor``, ``walls``, ``red``, ``green``), each of shape (3,).
    """

    camera: Vector
    aim: Vector
    fovy: float
    wrist_shift: Vector
    light: Vector
    diffuse: Vector
    ambient: float
    tints: dict[str, Vector]


def draw_look(rng: np.random.Generator) -> Look:
    """Draw an appearance: the front camera within 25 degrees to each side, 0.75-1.0 m away, 30-50 degrees up."""
    side, height = np.deg2rad(rng.uniform(-25, 25)), np.deg2rad(rng.uniform(30, 50))
    away = rng.uniform(0.75, 1.0)
    aim = FRONT_AIM + rng.normal(0, 0.02, 3)
    ray = np.array([np.cos(height) * np.cos(side), np.cos(height) * np.sin(side), np.sin(height)])
    grey = rng.uniform(0.45, 1.0)
    return Look(
        camera=aim + away * ray,
        aim=aim,
        fovy=float(rng.uniform(42, 50)),
        wrist_shift=rng.normal(0, 0.004, 3),
        light=np.array([rng.uniform(-1, 1.5), rng.uniform(-1.5, 1.5), rng.uniform(2.2, 3.5)]),
        diffuse=np.clip(rng.uniform(0.35, 0.85) + rng.normal(0, 0.04, 3), 0.1, 1.0),
        ambient=float(rng.uniform(0.25, 0.5)),
        tints={
            "table": np.clip(grey + rng.normal(0, 0.07, 3), 0.2, 1.0),
            "floor": np.clip(rng.uniform(0.5, 1.0) + rng.normal(0, 0.08, 3), 0.1, 1.0),
            "walls": np.clip(rng.uniform(0.5, 1.0) + rng.normal(0, 0.08, 3), 0.1, 1.0),
            "red": np.clip(rng.uniform(0.75, 1.0) + rng.normal(0, 0.04, 3), 0.3, 1.0),
            "green": np.clip(rng.uniform(0.75, 1.0) + rng.normal(0, 0.04, 3), 0.3, 1.0),
        },
    )


def look_at(eye: Vector, aim: Vector) -> Vector:
    """Quaternion (w, x, y, z) of a MuJoCo camera at ``eye`` looking at ``aim``, upright (it looks along its -z)."""
    back = (eye - aim) / np.linalg.norm(eye - aim)
    right = np.cross([0.0, 0.0, 1.0], back)
    right /= np.linalg.norm(right)
    up = np.cross(back, right)
    return quaternion(np.column_stack([right, up, back]))


def quaternion(rotation: Vector) -> Vector:
    """Rotation matrix (3, 3) to a unit quaternion (w, x, y, z), w >= 0."""
    x, y, z, w = Rotation.from_matrix(rotation).as_quat(canonical=True)
    return np.array([w, x, y, z])
