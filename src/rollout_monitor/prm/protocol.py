"""What every progress model looks like from outside: reset with a task, observe frame sets, answer with estimates."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol, runtime_checkable

from rollout_monitor.frames import FrameSet, RgbImage
from rollout_monitor.records import Direction


class Style(str, Enum):
    """How a model gets from pictures to progress."""

    PAIR = "pair"  # compares two moments, answers a change
    SEQUENCE = "sequence"  # reads the history, answers an absolute value
    DIRECT = "direct"  # a value per step, from state it carries itself


@dataclass(frozen=True)
class ModelCard:
    """What a model declares about itself.

    Attributes:
        name: registry name and version, for example ``embedded-1``.
        style: see `Style`.
        rate_hz: the rate of frame sets it was trained for; perception feeds it at this rate by stamps.
        cameras: most cameras it can use; 1 means the primary camera only.
        device: ``cpu``, ``cuda``, ...
        memory_mb: resident memory to expect, MB.
        sha256: hash over the model's files, hex; empty where it has none.
        decided_by_probability: whether `Observation.success_probability` may decide the outcome.
        joints: whether it uses `FrameSet.joints`.
    """

    name: str
    style: Style
    rate_hz: float
    cameras: int = 1
    device: str = "cpu"
    memory_mb: float = 0.0
    sha256: str = ""
    decided_by_probability: bool = False
    joints: bool = False


@dataclass(frozen=True)
class Observation:
    """A model's answer to one frame set. ``progress is None`` means it has none; ``reason`` says why (or warns).

    ``subtask`` counts the task's goals that are done so far; None where the model does not say.
    """

    progress: float | None
    lower: float | None = None
    upper: float | None = None
    success_probability: float | None = None
    direction: Direction = Direction.UNKNOWN
    subtask: int | None = None
    reason: str = ""


@dataclass(frozen=True)
class ResetNotes:
    """What the model wants the operator to know about this task, for example words it never saw."""

    notes: tuple[str, ...] = field(default=())


@runtime_checkable
class ProgressModel(Protocol):
    """A streaming progress model. Not thread safe: one caller at a time."""

    @property
    def card(self) -> ModelCard:
        """What the model is and needs."""
        ...

    def reset(self, task: str, goal: RgbImage | None = None) -> ResetNotes:
        """Begin a new attempt at ``task``; forget everything of the one before.

        Raises:
            InputError: the task text cannot be used.
        """
        ...

    def observe(self, frames: FrameSet) -> Observation:
        """Take the next frame set (stamps advance) and answer.

        Raises:
            ModelError: the model failed; the caller counts the estimate as missing and goes on.
        """
        ...
