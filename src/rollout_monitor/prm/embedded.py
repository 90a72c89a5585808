"""The embedded progress model: frozen features of pictures, the task's words, joints, a small recurrent head.

Runs on onnxruntime on the CPU; how it was made and how good it is stands in ``models/embedded/MODEL_CARD.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rollout_monitor.errors import InputError, ModelError
from rollout_monitor.frames import FrameSet, JointSample, RgbImage
from rollout_monitor.prm.files import hash_of_hashes, models_folder, read_description
from rollout_monitor.prm.network import FORMAT, GridNetwork, Network, Said, Step, empty_step
from rollout_monitor.prm.network_pooled import PooledNetwork
from rollout_monitor.prm.protocol import ModelCard, Observation, ResetNotes, Style
from rollout_monitor.prm.text import Vocabulary
from rollout_monitor.records import Direction

FloatArray = npt.NDArray[np.float32]
DIRECTIONS = (Direction.FALLING, Direction.FLAT, Direction.RISING)
TAIL = 0.05
"""Probability left out at each end of the 90 % interval."""

NAMES_SHOWN = 4
"""So many joint names are spelled out in a reason."""

NETWORKS: dict[int, Callable[[Path, Mapping[str, Any], int], Network]] = {1: PooledNetwork, FORMAT: GridNetwork}
"""By the ``format`` in ``model.json``; the first had no such field."""


class EmbeddedModel:
    """Streams frame sets through the network; the recurrent state is all it remembers.

    Args:
        folder: folder with ``model.json``; None: ``embedded`` in the models folder.
        threads: onnxruntime threads within an operator.

    Raises:
        ModelError: a file is missing, damaged or cannot be loaded.
    """

    def __init__(self, folder: Path | str | None = None, threads: int = 1) -> None:
        self.folder = Path(folder) if folder is not None else models_folder() / "embedded"
        description = read_description(self.folder)
        self.files: dict[str, str] = dict(description["files"])
        try:
            self._vocabulary = Vocabulary(tuple(description["vocabulary"]))
            kind = NETWORKS[description.get("format", 1)]
            self.network: Network = kind(self.folder, description, threads)
            self._card = _card(description, joints=bool(self.network.joints))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ModelError(f"{self.folder / 'model.json'} lacks or garbles {error}; restore it") from error
        self._task: FloatArray | None = None
        self._state = self._empty_state()
        self._told_of_joints = False

    @property
    def card(self) -> ModelCard:
        """What the model is and needs."""
        return self._card

    def reset(self, task: str, goal: RgbImage | None = None) -> ResetNotes:
        """Begin a new attempt; a goal picture is not used.

        Raises:
            InputError: the task text has no word.
        """
        self._task, notes = self.read(task)
        self._state = self._empty_state()
        self._told_of_joints = False
        return ResetNotes((*notes, "the model does not use a goal picture") if goal is not None else notes)

    def read(self, task: str) -> tuple[FloatArray, tuple[str, ...]]:
        """The vector of an instruction, shape (1, task), and what an operator should know about it.

        Raises:
            InputError: the task text has no word.
        """
        ids, unknown = self._vocabulary.encode(task)
        listed = ", ".join(repr(word) for word in unknown)
        note = f"the model never saw the words {listed}: take its progress for this task with care"
        return self.network.task(ids), (note,) if unknown else ()

    def observe(self, frames: FrameSet) -> Observation:
        """Take the next frame set: the first picture is the primary view, one named after the wrist the second.

        Joints whose names fit no arm that the model knows are not used, and the first answer says so.

        Raises:
            InputError: there is no picture, or its shape or dtype is wrong.
            ModelError: called before `reset`, or the network failed.
        """
        if self._task is None:
            raise ModelError("the embedded model was not reset: it does not know the task")
        step = empty_step(self.network, 1)
        for view, picture in enumerate(choose_views(frames.images)):
            if picture is not None:
                step.show(0, view, self.network.see([picture]))
        reason = self._feel(step, frames.joints)
        said = self.network.step(step, self._task, self._state)
        answer = observation(said, 0, reason)
        self._state = said.state
        return answer

    def _feel(self, step: Step, joints: JointSample | None) -> str:
        """Put the joints into a step; return why they cannot be used, once in an attempt."""
        if joints is None or not self.network.joints:
            return ""
        features = self.network.joints.features(joints)
        if features is not None:
            step.feel(0, features)
            return ""
        if self._told_of_joints:
            return ""
        self._told_of_joints = True
        return f"joint states not used: {_listed(joints.names)} fit no arm that the model knows"

    def _empty_state(self) -> FloatArray:
        return np.zeros((1, self.network.state_size), dtype=np.float32)


def observation(said: Said, row: int, reason: str = "") -> Observation:
    """What the network says of one of its rollouts.

    Raises:
        ModelError: it is no number.
    """
    value, lower, upper = summarise(said.progress[row])
    return Observation(
        progress=value,
        lower=lower,
        upper=upper,
        success_probability=float(np.clip(said.success[row], 0.0, 1.0)),
        direction=DIRECTIONS[int(np.argmax(said.direction[row]))],
        subtask=None if said.subtask is None else int(np.argmax(said.subtask[row])),
        reason=reason,
    )


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:NAMES_SHOWN])
    return f"{shown} and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else shown


def choose_views(images: Mapping[str, RgbImage]) -> list[RgbImage | None]:
    """The primary picture and the wrist picture (None where no camera's name says wrist or hand).

    Raises:
        InputError: no picture at all, or one that is not (height, width, 3) uint8.
    """
    if not images:
        raise InputError("the frame set holds no picture; the model needs at least the primary camera")
    for camera, picture in images.items():
        if picture.ndim != 3 or picture.shape[2] != 3 or picture.dtype != np.uint8 or picture.size == 0:
            raise InputError(
                f"picture of camera {camera} has shape {picture.shape} and dtype {picture.dtype}; "
                "expected (height, width, 3) uint8 RGB"
            )
    primary, *others = images
    wrist = next((name for name in others if "wrist" in name.lower() or "hand" in name.lower()), None)
    return [images[primary], images[wrist] if wrist is not None else None]


def summarise(bins: FloatArray) -> tuple[float, float, float]:
    """Median and 90 % interval of a distribution over equal bins of 0..1.

    Args:
        bins: probabilities, shape (n,), adding up to 1.

    Returns:
        (median, 5 % quantile, 95 % quantile), each in 0..1.

    Raises:
        ModelError: the distribution holds a NaN.
    """
    cumulative = np.concatenate([[0.0], np.cumsum(bins, dtype=np.float64)])
    if not np.isfinite(cumulative).all() or cumulative[-1] <= 0.0:
        raise ModelError("the embedded model answered with a NaN; is the picture or the model file damaged?")
    edges = np.linspace(0.0, 1.0, len(cumulative))
    lower, median, upper = np.interp([TAIL, 0.5, 1.0 - TAIL], cumulative / cumulative[-1], edges)
    return float(median), float(lower), float(upper)


def _card(description: Mapping[str, Any], *, joints: bool) -> ModelCard:
    return ModelCard(
        name=str(description["name"]),
        style=Style.DIRECT,
        rate_hz=float(description["rate_hz"]),
        cameras=2,
        device="cpu",
        memory_mb=float(description["memory_mb"]),
        sha256=hash_of_hashes(dict(description["files"])),
        decided_by_probability=bool(description["decided_by_probability"]),
        joints=joints,
    )
