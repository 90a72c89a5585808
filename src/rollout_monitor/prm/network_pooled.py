"""Embedded models of format 1: pooled features beside the grid, no joints, no subtask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rollout_monitor.frames import RgbImage
from rollout_monitor.prm.backbone import CELLS, Backbone, open_session
from rollout_monitor.prm.joint_names import JointOrders
from rollout_monitor.prm.network import VIEWS, Features, FloatArray, Said, Step, run

POOLED = 1280


class PooledNetwork:
    """See `rollout_monitor.prm.network.GridNetwork` for arguments and errors."""

    def __init__(self, folder: Path, description: Mapping[str, Any], threads: int) -> None:
        self.state_size = int(description["state_size"])
        self.view_shapes: tuple[tuple[int, ...], ...] = ((POOLED,), (int(description["grid_channels"]), CELLS, CELLS))
        self.joints = JointOrders({})
        self._backbone = Backbone(folder / "backbone.onnx", threads)
        self._text = open_session(folder / "text.onnx", threads)
        self._head = open_session(folder / "head.onnx", threads)

    def task(self, words: npt.NDArray[np.int64]) -> FloatArray:
        """See `Network`."""
        return run(self._text, ["task"], {"words": words[None]})[0]

    def see(self, pictures: Sequence[RgbImage]) -> Features:
        """See `Network`."""
        return self._backbone.features(pictures)

    def step(self, step: Step, task: FloatArray, state: FloatArray) -> Said:
        """See `Network`."""
        pooled, grid = step.views
        inputs = {"pooled": pooled, "grid": grid, "present": step.present[:, :VIEWS], "task": task, "state": state}
        progress, success, direction, following = run(
            self._head, ["progress", "success", "direction", "next_state"], inputs
        )
        return Said(progress, success, direction, None, following)
