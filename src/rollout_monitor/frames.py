"""What a progress model looks at: one decoded picture per camera and the joints, tied together by one stamp."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

RgbImage = npt.NDArray[np.uint8]
"""Picture of shape (height, width, 3), dtype uint8, channel order RGB, tight rows."""


@dataclass(frozen=True)
class JointSample:
    """Where the robot's joints are, as its drivers say.

    Attributes:
        names: of n joints, each once, as published.
        positions: n values in the order of ``names``, rad or m, finite.
        velocities: n values, rad/s or m/s; NaN where the driver does not say.
        stamp_ns: header stamp of the newest message in it, nanoseconds.
    """

    names: tuple[str, ...]
    positions: tuple[float, ...]
    velocities: tuple[float, ...]
    stamp_ns: int


@dataclass(frozen=True)
class FrameSet:
    """The pictures, and the joints if known, that belong to one step of a progress model.

    Attributes:
        stamp_ns: header stamp of the primary camera's picture, nanoseconds.
        images: picture by camera name; the primary camera is always there, others may be missing.
        stamps_ns: each picture's own header stamp, nanoseconds, by camera name.
        joints: where the joints were at ``stamp_ns``; None where nobody said so in time, or the model uses none.
    """

    stamp_ns: int
    images: Mapping[str, RgbImage]
    stamps_ns: Mapping[str, int]
    joints: JointSample | None = None
