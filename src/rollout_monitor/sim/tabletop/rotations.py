"""Small rotations as plain arithmetic: asked for at every joint sample, where a library costs more than the physics."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


def about_vertical(angle: float) -> FloatArray:
    """Rotation matrix about z, shape (3, 3); ``angle`` in rad."""
    c, s = math.cos(angle), math.sin(angle)
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])


def rotation_vector(matrix: FloatArray) -> FloatArray:
    """Axis times angle of a rotation matrix, rad, shape (3,); angle in 0..pi.

    The axis comes from the skew part; within 1e-3 rad of a half turn, where that vanishes, from the symmetric one.
    """
    skew = np.array([matrix[2, 1] - matrix[1, 2], matrix[0, 2] - matrix[2, 0], matrix[1, 0] - matrix[0, 1]])
    sine, cosine = 0.5 * math.sqrt(float(skew @ skew)), 0.5 * (float(np.trace(matrix)) - 1.0)
    angle = math.atan2(sine, cosine)
    if angle < math.pi - 1e-3:
        return np.asarray(skew * (0.5 if sine < 1e-9 else 0.5 * angle / sine))
    outer = 0.5 * (matrix + np.eye(3))
    axis = outer[:, int(np.argmax(np.diag(outer)))]
    axis = axis / np.linalg.norm(axis)
    return np.asarray(angle * (axis if skew @ axis >= 0 else -axis))
