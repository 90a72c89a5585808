"""The files of an embedded model on onnxruntime: one step at a time, for one rollout or for several at once.

``backbone.onnx`` makes features of pictures, ``text.onnx`` a vector of the task's words, and ``head.onnx`` takes one
step of each rollout: features, joints, task and state in; answers and the next state out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from rollout_monitor.errors import ModelError
from rollout_monitor.frames import RgbImage
from rollout_monitor.prm.backbone import CELLS, CHANNELS, Backbone, open_session
from rollout_monitor.prm.joint_names import JointOrders
from rollout_monitor.prm.posture import FEATURES

FORMAT = 2
"""``format`` in ``model.json`` of the files of a `GridNetwork`."""

VIEWS = 2
"""The primary camera and the wrist."""

FloatArray = npt.NDArray[np.float32]
Features = tuple[FloatArray, ...]
"""Features of n pictures: arrays of shape (n, ...)."""


class Step(NamedTuple):
    """What n rollouts show now."""

    views: Features
    """Arrays of shape (n, 2, ...); zeros where a view is not there."""
    present: FloatArray
    """(n, 3): whether the primary view, the wrist view and the joints are there, 1 or 0."""
    joints: FloatArray
    """(n, 32), see `posture`; zeros where they are not there."""

    def show(self, row: int, view: int, features: Features, picture: int = 0) -> None:
        """Put the features of a picture in the place of a rollout's view."""
        for whole, part in zip(self.views, features, strict=True):
            whole[row, view] = part[picture]
        self.present[row, view] = 1.0

    def feel(self, row: int, joints: FloatArray) -> None:
        """Put joint features, shape (32,), in the place of a rollout's joints."""
        self.joints[row] = joints
        self.present[row, VIEWS] = 1.0


class Said(NamedTuple):
    """What the network says of n rollouts."""

    progress: FloatArray
    """Probabilities of equal bins of 0..1, shape (n, bins)."""
    success: FloatArray
    """Probability that the task is done, shape (n,)."""
    direction: FloatArray
    """Probabilities of falling, flat, rising, shape (n, 3)."""
    subtask: FloatArray | None
    """Probabilities of how many goals are done, shape (n, subtasks); None where the network does not say."""
    state: FloatArray
    """The state to give with the next step, shape (n, state)."""


class Network(Protocol):
    """What `EmbeddedModel` needs. Safe to be called from several threads: it holds no state."""

    state_size: int
    view_shapes: tuple[tuple[int, ...], ...]
    """Shape of each array of features of one picture."""
    joints: JointOrders

    def task(self, words: npt.NDArray[np.int64]) -> FloatArray:
        """Word ids, shape (words,), to the task's vector, shape (1, task)."""
        ...

    def see(self, pictures: Sequence[RgbImage]) -> Features:
        """Features of pictures of any size."""
        ...

    def step(self, step: Step, task: FloatArray, state: FloatArray) -> Said:
        """One step of n rollouts with a task (n, task) and a state (n, state) each.

        Raises:
            ModelError: the network failed.
        """
        ...


def empty_step(network: Network, rollouts: int) -> Step:
    """A step of n rollouts that shows nothing yet."""
    return Step(
        tuple(np.zeros((rollouts, VIEWS, *shape), dtype=np.float32) for shape in network.view_shapes),
        np.zeros((rollouts, VIEWS + 1), dtype=np.float32),
        np.zeros((rollouts, FEATURES), dtype=np.float32),
    )


def run(session: Any, outputs: list[str], inputs: dict[str, Any]) -> list[FloatArray]:
    """Run a session.

    Raises:
        ModelError: it failed.
    """
    try:
        return list(session.run(outputs, inputs))
    except Exception as error:  # onnxruntime raises classes of its own
        raise ModelError(f"the embedded model failed: {error}") from error


class GridNetwork:
    """Models of format `FORMAT`, which see each view as a grid of cells.

    Args:
        folder: with the files.
        description: of ``model.json``.
        threads: onnxruntime threads within an operator.

    Raises:
        ModelError: a file is missing or cannot be loaded, or a joint order cannot be used.
        KeyError, TypeError, ValueError: the description lacks something.
    """

    view_shapes: tuple[tuple[int, ...], ...] = ((CHANNELS, CELLS, CELLS),)

    def __init__(self, folder: Path, description: Mapping[str, Any], threads: int) -> None:
        self.state_size = int(description["state_size"])
        self.joints = JointOrders(description["joint_orders"])
        self._backbone = Backbone(folder / "backbone.onnx", threads)
        self._text = open_session(folder / "text.onnx", threads)
        self._head = open_session(folder / "head.onnx", threads)

    def task(self, words: npt.NDArray[np.int64]) -> FloatArray:
        """See `Network`."""
        return run(self._text, ["task"], {"words": words[None]})[0]

    def see(self, pictures: Sequence[RgbImage]) -> Features:
        """See `Network`."""
        return (self._backbone.grid(pictures),)

    def step(self, step: Step, task: FloatArray, state: FloatArray) -> Said:
        """See `Network`."""
        inputs = {"grid": step.views[0], "present": step.present, "joints": step.joints, "task": task, "state": state}
        return Said(*run(self._head, ["progress", "success", "direction", "subtask", "next_state"], inputs))
