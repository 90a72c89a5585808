"""What a progress model looks at: one decoded picture per camera, tied together by one stamp."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

RgbImage = npt.NDArray[np.uint8]
"""Picture of shape (height, width, 3), dtype uint8, channel order RGB, tight rows."""


@dataclass(frozen=True)
class FrameSet:
    """The pictures that belong to one step of a progress model.

    Attributes:
        stamp_ns: header stamp of the primary camera's picture, nanoseconds.
        images: picture by camera name; the primary camera is always there, others may be missing.
        stamps_ns: each picture's own header stamp, nanoseconds, by camera name.
    """

    stamp_ns: int
    images: Mapping[str, RgbImage]
    stamps_ns: Mapping[str, int]
