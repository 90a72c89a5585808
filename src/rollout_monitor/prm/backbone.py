"""Pictures to features: one resize and one frozen network, the same code in training and at run time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from rollout_monitor.errors import ModelError
from rollout_monitor.frames import RgbImage

SIDE = 224
"""Side of the square the network looks at, pixels."""

CELLS = 14
"""Cells of the grid along each side."""

COLOURS = 12
CHANNELS = 64 + COLOURS
"""Channels of each cell: components of the network's middle, then the picture's own colours."""

FloatArray = npt.NDArray[np.float32]


def prepare(picture: RgbImage) -> RgbImage:
    """Shrink the whole picture to (224, 224, 3); its aspect ratio is given up, nothing is cropped."""
    if picture.shape[:2] == (SIDE, SIDE):
        return picture
    return np.asarray(cv2.resize(picture, (SIDE, SIDE), interpolation=cv2.INTER_AREA), dtype=np.uint8)


def open_session(path: Path, threads: int) -> Any:
    """Load an ONNX file on the CPU.

    Args:
        path: the file.
        threads: threads within an operator; more than the idle cores makes everything slower.

    Raises:
        ModelError: the file is missing or no ONNX model.
    """
    import onnxruntime  # noqa: PLC0415 - a second of import that `--help` need not pay

    if not path.is_file():
        raise ModelError(f"model file {path} is missing; restore the models folder or set ROLLOUT_MONITOR_MODELS")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime raises classes of its own, with no common base
        raise ModelError(f"model file {path} cannot be loaded ({error}); restore it from the repository") from error


class Backbone:
    """The frozen network. Outputs per picture: ``pooled`` (1280,) and ``grid`` (channels, 14, 14)."""

    def __init__(self, path: Path, threads: int = 1) -> None:
        self._session = open_session(path, threads)

    def features(self, pictures: Sequence[RgbImage]) -> tuple[FloatArray, FloatArray]:
        """Features of pictures of any size.

        Returns:
            pooled (n, 1280) and grid (n, channels, 14, 14), float32.
        """
        batch = np.stack([prepare(picture) for picture in pictures])
        pooled, grid = self._session.run(["pooled", "grid"], {"pictures": batch})
        return pooled, grid

    def grid(self, pictures: Sequence[RgbImage]) -> FloatArray:
        """Features of pictures of any size: (n, `CHANNELS`, `CELLS`, `CELLS`), float32.

        One call each: on a CPU a batch costs more per picture (5 % for two, 14 % for eight), it leaves the caches.
        """
        grids = [self._session.run(["grid"], {"pictures": prepare(picture)[None]})[0] for picture in pictures]
        joined: FloatArray = np.concatenate(grids)
        return joined
