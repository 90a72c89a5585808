"""A user's takes as training sources: pictures, joints and one mark, success or failure.

Nobody knows their true progress. What the network itself sees is taken and bent to the mark (`corrected`); where it
does not know the task, a success is taken to have gone evenly. Both outcomes are played back with rewinds like
simulated takes. Under another instruction it was not done, and what the network sees is bent to that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from rollout_monitor.prm.text import Vocabulary
from rollout_monitor.train.batches import Mix
from rollout_monitor.train.examples import STEP
from rollout_monitor.train.labels import NO_TASK, TaskLabels

FloatArray = npt.NDArray[np.float32]
OWN = "own"
"""The instruction that the user gave; the others are counted."""

DONE_FROM = 0.96
"""Share of a success's time from which it counts as done."""

NOT_REACHED = 0.7
KNOWN_FROM = 0.5
"""Rank correlation of a success's curve with time from which the network is taken to know the task."""

END_FRAMES = 5
FAILURE_MOST = 0.4
"""Where a failure is taken to end: half-way is known to be too much, see docs/adaptation.md."""


@dataclass(frozen=True)
class TimeLabels:
    """Labels of t frames of a user's take; see `rollout_monitor.train.batches.Labels`."""

    progress: npt.NDArray[np.float64]
    done: npt.NDArray[np.bool_]
    subtask: npt.NDArray[np.int64]


@dataclass(frozen=True)
class CellTake:
    """One take of a user's cell.

    Attributes:
        id: its name.
        steps: features in steps of `STEP`, int8 (frames, 2, channels, 14, 14); a missing view is zeros.
        joints: joint features, float32 (frames, 32).
        has_joints: whether the model knows this arm's joints.
        has_wrist: whether there is a second view.
        success: the user's mark.
        text: the instruction.
        other_texts: instructions of other tasks.
        curve: progress of every frame as far as it is known, float64 (frames,), NaN where not.
        other_curves: the same under each of ``other_texts``; empty: not known.
    """

    id: str
    steps: npt.NDArray[np.int8]
    joints: FloatArray
    has_joints: bool
    has_wrist: bool
    success: bool
    text: str
    other_texts: Sequence[str]
    curve: npt.NDArray[np.float64]
    other_curves: Sequence[npt.NDArray[np.float64]] = ()

    @property
    def frames(self) -> int:
        """How many frames."""
        return len(self.steps)

    def draw(self, rng: np.random.Generator, mix: Mix, vocabulary: Vocabulary) -> CellView:
        """Its own instruction, or with the mix's share one of another task."""
        if not self.other_texts or rng.random() >= mix.other_task:
            return CellView(self, OWN, vocabulary.encode(self.text)[0])
        number = int(rng.integers(len(self.other_texts)))
        return CellView(self, str(number), vocabulary.encode(self.other_texts[number])[0])

    def judge(self, task: str, path: npt.NDArray[np.int64]) -> TimeLabels:
        """Progress along a path of frames, by time."""
        unknown = np.full(len(path), -1, dtype=np.int64)
        if task != OWN:
            seen = self.other_curves[int(task)][path] if self.other_curves else np.full(len(path), np.nan)
            return TimeLabels(seen, np.zeros(len(path), dtype=np.bool_), unknown)
        progress = self.curve[path]
        done = np.asarray((progress >= DONE_FROM) & self.success, dtype=np.bool_)
        return TimeLabels(progress, done, unknown)

    def details(self, task: str, path: npt.NDArray[np.int64]) -> None:  # noqa: ARG002
        """Nobody knows them."""
        return


@dataclass(frozen=True)
class CellView:
    """A user's take under one instruction; see `rollout_monitor.train.batches.Drawn`."""

    take: CellTake
    task: str
    words: npt.NDArray[np.int64]

    def views(self, path: npt.NDArray[np.int64]) -> FloatArray:
        """Features, float32, (t, 2, channels, 14, 14)."""
        return self.take.steps[path].astype(np.float32) * np.float32(STEP)

    @property
    def goals(self) -> TaskLabels:
        """Nobody has taken the task apart."""
        return NO_TASK

    def shown(self, path: npt.NDArray[np.int64]) -> None:  # noqa: ARG002
        """Nobody knows where things are."""
        return


def corrected(values: npt.NDArray[np.float64], success: bool) -> npt.NDArray[np.float64]:
    """A network's own progress, bent as little as the mark asks: a success ends at 1, a failure below `NOT_REACHED`.

    What is missing at the end is added, or what is too much taken away, growing with time. Where a success's curve has
    nothing to do with the course of time the network does not know the task, and time itself is taken.

    Args:
        values: progress of every frame as the network sees it, shape (frames,).
        success: the user's mark.
    """
    share = np.linspace(0.0, 1.0, len(values), dtype=np.float64)
    end = float(np.median(values[-END_FRAMES:]))
    if success and (np.ptp(values) == 0 or np.corrcoef(rankdata(values), rankdata(share))[0, 1] < KNOWN_FROM):
        return curve_by_time(len(values), success)
    missing = 1.0 - end if success else min(0.0, NOT_REACHED - end)
    bent: npt.NDArray[np.float64] = np.clip(values + missing * share**2, 0.0, 1.0)
    return bent


def curve_by_time(frames: int, success: bool) -> npt.NDArray[np.float64]:
    """Progress by time: evenly up to 1, or up to `FAILURE_MOST` where it failed."""
    return np.linspace(0.0, 1.0 if success else FAILURE_MOST, frames, dtype=np.float64)
