"""Joint states as inputs of a progress model: positions and velocities of up to sixteen joints in a fixed order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

SLOTS = 16
FEATURES = 2 * SLOTS
POSITION_UNIT = 3.141592653589793
VELOCITY_UNIT = 2.0


def posture(
    positions: Sequence[float] | npt.NDArray[np.float64], velocities: Sequence[float] | npt.NDArray[np.float64]
) -> npt.NDArray[np.float32]:
    """Features of one moment.

    Args:
        positions: rad or m, at most 16, in the order the model was trained with.
        velocities: rad/s or m/s, as many as positions, or none: then they count as zero.

    Returns:
        Shape (32,), float32: positions over pi, then velocities over 2, each clipped to -2..2; unused slots are 0.
        A value that is not finite counts as 0.
    """
    out = np.zeros(FEATURES, dtype=np.float32)
    count = min(len(positions), SLOTS)
    out[:count] = np.asarray(positions[:count], dtype=np.float64) / POSITION_UNIT
    if len(velocities):
        out[SLOTS : SLOTS + count] = np.asarray(velocities[:count], dtype=np.float64) / VELOCITY_UNIT
    return np.clip(np.nan_to_num(out, nan=0.0, posinf=0.0, neginf=0.0), -2.0, 2.0)
