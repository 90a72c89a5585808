"""What a progress model is worth on rollouts whose truth is known: progress, interval, direction, outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from rollout_monitor.judges import robopulse
from rollout_monitor.judges.bootstrap import Measure, mean, ratio
from rollout_monitor.trends import trends

FloatArray = npt.NDArray[np.float64]
SUCCESS_PROGRESS = 0.9
SUCCESS_PROBABILITY = 0.5
END_SAMPLES = 5
"""The last second at 5 Hz decides the outcome, by its median."""

HALF_BIN = 0.01


@dataclass(frozen=True)
class Answers:
    """What a model said and what was true on one rollout, n frames.

    Attributes:
        rollout: its id.
        value, lower, upper: predicted progress and 90 % interval, shape (n,).
        success: predicted probability, shape (n,).
        direction: predicted class -1, 0, 1, shape (n,).
        truth: true progress for the instruction that was asked about, shape (n,).
        succeeded: whether the rollout really ended well for that instruction.
        drops: frame intervals (first, last) in which an object fell.
        group: what success rates are compared within, for example the task.
        threshold: end progress that counts as success.
        context: moments that local motion cannot decide, bool, shape (n,); None where that was not looked into.
    """

    rollout: str
    value: FloatArray
    lower: FloatArray
    upper: FloatArray
    success: FloatArray
    direction: npt.NDArray[np.int64]
    truth: FloatArray
    succeeded: bool
    drops: list[tuple[int, int]] = field(default_factory=list)
    group: str = ""
    threshold: float = SUCCESS_PROGRESS
    context: npt.NDArray[np.bool_] | None = None


# --- progress ------------------------------------------------------------------------------------------------------

MAE: Measure[Answers] = Measure(lambda a: np.abs(a.value - a.truth).mean(), mean)
"""Mean absolute error of progress, over rollouts of equal weight."""


def _rank_correlation(a: Answers) -> float | None:
    if np.ptp(a.truth) <= 0.02 or np.ptp(a.value) == 0:
        return None
    # Spearman's coefficient is Pearson's of the ranks.
    return float(np.corrcoef(rankdata(a.value), rankdata(a.truth))[0, 1])


SPEARMAN: Measure[Answers] = Measure(_rank_correlation, mean)
"""Mean rank correlation of predicted with true progress, over rollouts in which truth changes."""


def _covered(a: Answers) -> tuple[int, int]:
    inside = (a.lower - HALF_BIN <= a.truth) & (a.truth <= a.upper + HALF_BIN)
    return int(inside.sum()), len(inside)


COVERAGE: Measure[Answers] = Measure(_covered, ratio)
"""Share of frames whose true progress lies in the 90 % interval, with half a bin of slack."""


def _drops(a: Answers) -> tuple[int, int]:
    hits = cases = 0
    for first, last in a.drops:
        before = max(0, first - 1)
        after = slice(first, min(len(a.truth), last + 6))
        if a.truth[before] - a.truth[after].min() >= 0.2:
            cases += 1
            hits += int(a.value[before] - a.value[after].min() >= 0.1)
    return hits, cases


DROPS_SEEN: Measure[Answers] = Measure(_drops, ratio)
"""Share of true drops that cost 0.2 or more in which predicted progress falls by 0.1 within a second."""


# --- direction -----------------------------------------------------------------------------------------------------


def counted(answer: Answers, signal: str) -> robopulse.Counted:
    """The samples of one rollout that the RoboPulse++ protocol counts.

    Args:
        answer: one rollout.
        signal: ``progress`` (differenced, averaged, signed) or ``direction`` (the model's own class).
    """
    said = answer.direction if signal == "direction" else robopulse.from_progress(answer.value)
    return robopulse.count(said, trends(answer.truth))


def direction_f1(signal: str, *, only: int | None = None) -> Measure[Answers]:
    """Macro-F1 over Rising and Falling, or one class's F1; ``signal`` as in `counted`."""
    classes = (-1, 1) if only is None else (only,)
    return Measure(lambda a: counted(a, signal).table(), lambda parts: robopulse.f1(parts, classes))


def context_accuracy(signal: str) -> Measure[Answers]:
    """Accuracy on the context-dependent moments alone; rollouts without such a mask do not count."""

    def part(a: Answers) -> npt.NDArray[np.int64]:
        nowhere = np.zeros(len(a.truth), dtype=bool)
        return counted(a, signal).at(nowhere if a.context is None else a.context).table()

    return Measure(part, robopulse.accuracy)


def direction_counts(answers: Sequence[Answers]) -> tuple[int, int]:
    """Rising and Falling frames that the protocol counts."""
    tables = [counted(a, "direction").table() for a in answers]
    true = np.sum(tables, axis=0)[:, 2]
    return int(true[2]), int(true[0])


# --- outcome -------------------------------------------------------------------------------------------------------


def says_success(answer: Answers, by: str) -> bool:
    """The outcome from the last second: by ``probability`` or by ``progress``."""
    values, limit = (answer.success, SUCCESS_PROBABILITY) if by == "probability" else (answer.value, answer.threshold)
    return bool(np.median(values[-END_SAMPLES:]) >= limit)


def accuracy(by: str) -> Measure[Answers]:
    """Share of right outcomes."""
    return Measure(lambda a: says_success(a, by) == a.succeeded, mean)


def false_success(by: str) -> Measure[Answers]:
    """Share of attempts called a success, among those that are none."""
    return Measure(lambda a: None if a.succeeded else says_success(a, by), mean)


def success_rate_error(by: str) -> Measure[Answers]:
    """How far success rates are off: mean over groups of the absolute difference, in percentage points."""

    def whole(parts: list[tuple[str, bool, bool]]) -> float:
        groups: dict[str, list[int]] = {}
        for group, said, true in parts:
            groups.setdefault(group, []).append(int(said) - int(true))
        return 100.0 * float(np.mean([abs(np.mean(own)) for own in groups.values()])) if groups else float("nan")

    return Measure(lambda a: (a.group, says_success(a, by), a.succeeded), whole)


def confusion(answers: Sequence[Answers], by: str) -> dict[str, int]:
    """Counts of outcomes, said against true."""
    table = {"true success": 0, "missed success": 0, "true failure": 0, "false success": 0}
    for a in answers:
        said = says_success(a, by)
        right, wrong = ("true success", "missed success") if a.succeeded else ("false success", "true failure")
        table[right if said else wrong] += 1
    return table
