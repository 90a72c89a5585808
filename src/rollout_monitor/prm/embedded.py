"""The embedded progress model: frozen EfficientNet-Lite0 features, the task's words, a small recurrent head.

Runs on onnxruntime on the CPU; how it was made and how good it is stands in ``models/embedded/MODEL_CARD.md``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rollout_monitor.errors import InputError, ModelError
from rollout_monitor.frames import FrameSet, RgbImage
from rollout_monitor.prm.backbone import Backbone, open_session
from rollout_monitor.prm.files import hash_of_hashes, models_folder, read_description
from rollout_monitor.prm.protocol import ModelCard, Observation, ResetNotes, Style
from rollout_monitor.prm.text import Vocabulary
from rollout_monitor.records import Direction

FloatArray = npt.NDArray[np.float32]
DIRECTIONS = (Direction.FALLING, Direction.FLAT, Direction.RISING)
TAIL = 0.05
"""Probability left out at each end of the 90 % interval."""


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
            self._state_size = int(description["state_size"])
            self._grid_channels = int(description["grid_channels"])
            self._card = _card(description)
        except (KeyError, TypeError, ValueError) as error:
            raise ModelError(f"{self.folder / 'model.json'} lacks or garbles {error}; restore it") from error
        self._backbone = Backbone(self.folder / "backbone.onnx", threads)
        self._text_session = open_session(self.folder / "text.onnx", threads)
        self._head = open_session(self.folder / "head.onnx", threads)
        self._task: FloatArray | None = None
        self._state = self._empty_state()

    @property
    def card(self) -> ModelCard:
        """What the model is and needs."""
        return self._card

    def reset(self, task: str, goal: RgbImage | None = None) -> ResetNotes:
        """Begin a new attempt; a goal picture is not used.

        Raises:
            InputError: the task text has no word.
        """
        ids, unknown = self._vocabulary.encode(task)
        (self._task,) = self._text_session.run(["task"], {"words": ids[None]})
        self._state = self._empty_state()
        notes = []
        if unknown:
            listed = ", ".join(repr(word) for word in unknown)
            notes.append(f"the model never saw the words {listed}: take its progress for this task with care")
        if goal is not None:
            notes.append("the model does not use a goal picture")
        return ResetNotes(tuple(notes))

    def observe(self, frames: FrameSet) -> Observation:
        """Take the next frame set: the first picture is the primary view, one named after the wrist the second.

        Raises:
            InputError: there is no picture, or its shape or dtype is wrong.
            ModelError: called before `reset`, or the network failed.
        """
        if self._task is None:
            raise ModelError("the embedded model was not reset: it does not know the task")
        views = choose_views(frames.images)
        pooled, grid, present = self._features(views)
        inputs = {"pooled": pooled, "grid": grid, "present": present, "task": self._task, "state": self._state}
        outputs = ["progress", "success", "direction", "next_state"]
        try:
            bins, success, direction, self._state = self._head.run(outputs, inputs)
        except Exception as error:  # onnxruntime raises classes of its own
            raise ModelError(f"the embedded model failed: {error}") from error
        value, lower, upper = summarise(bins[0])
        return Observation(
            progress=value,
            lower=lower,
            upper=upper,
            success_probability=float(np.clip(success[0], 0.0, 1.0)),
            direction=DIRECTIONS[int(np.argmax(direction[0]))],
        )

    def _features(self, views: list[RgbImage | None]) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Features by view; a missing view is zeros and marked so. Shapes (1, 2, ...)."""
        pooled = np.zeros((1, 2, 1280), dtype=np.float32)
        grid = np.zeros((1, 2, self._grid_channels, 14, 14), dtype=np.float32)
        present = np.zeros((1, 2), dtype=np.float32)
        for place, picture in enumerate(views):
            if picture is not None:
                one_pooled, one_grid = self._backbone.features([picture])
                pooled[0, place], grid[0, place], present[0, place] = one_pooled[0], one_grid[0], 1.0
        return pooled, grid, present

    def _empty_state(self) -> FloatArray:
        return np.zeros((1, self._state_size), dtype=np.float32)


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


def _card(description: Mapping[str, Any]) -> ModelCard:
    return ModelCard(
        name=str(description["name"]),
        style=Style.DIRECT,
        rate_hz=float(description["rate_hz"]),
        cameras=2,
        device="cpu",
        memory_mb=float(description["memory_mb"]),
        sha256=hash_of_hashes(dict(description["files"])),
        decided_by_probability=bool(description["decided_by_probability"]),
    )
