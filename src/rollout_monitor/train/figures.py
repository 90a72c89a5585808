"""The figures of a trained model on rollouts it never saw: what stands in the model card.

Direction follows the RoboPulse++ protocol: true Rising and Falling intervals, predicted progress differenced, a
5-sample causal mean, its sign; the first and last two samples of an interval are left out. Intervals come with 95 %
bootstrap intervals over rollouts, not over frames.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from rollout_monitor.prm.embedded import summarise
from rollout_monitor.sim.progress import Trend, intervals, trends

FloatArray = npt.NDArray[np.float64]
SUCCESS_PROGRESS = 0.9
SUCCESS_PROBABILITY = 0.5
END_SAMPLES = 5
"""The last second at 5 Hz decides the outcome, by its median."""

CAUSAL_MEAN = 5
EDGE = 2
HALF_BIN = 0.01
RESAMPLES = 1000


@dataclass(frozen=True)
class Answers:
    """What the model said and what was true on one rollout, n frames.

    Attributes:
        rollout: its id.
        value, lower, upper: predicted progress and 90 % interval, shape (n,).
        success: predicted probability, shape (n,).
        direction: predicted class -1, 0, 1, shape (n,).
        truth: true progress, shape (n,).
        succeeded: whether the attempt really ended well.
        drops: frame intervals in which a cube fell.
    """

    rollout: str
    value: FloatArray
    lower: FloatArray
    upper: FloatArray
    success: FloatArray
    direction: npt.NDArray[np.int64]
    truth: FloatArray
    succeeded: bool
    drops: list[tuple[int, int]]


@dataclass(frozen=True)
class Figure:
    """A figure with its 95 % bootstrap interval over rollouts; ``n`` of them had anything to count."""

    value: float
    low: float
    high: float
    n: int

    def __str__(self) -> str:
        """As printed in the card."""
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}] (n = {self.n})"


def answers_from(
    rollout: str,
    outputs: dict[str, npt.NDArray[np.float32]],
    truth: FloatArray,
    succeeded: bool,
    drops: list[tuple[int, int]],
) -> Answers:
    """Turn the head's raw outputs over a rollout into answers, as the run-time model does."""
    rows = np.array([summarise(bins) for bins in outputs["bins"]])
    return Answers(
        rollout=rollout,
        value=rows[:, 0],
        lower=rows[:, 1],
        upper=rows[:, 2],
        success=outputs["success"].astype(np.float64),
        direction=outputs["direction"].argmax(1).astype(np.int64) - 1,
        truth=truth,
        succeeded=succeeded,
        drops=drops,
    )


@dataclass(frozen=True)
class Measure:
    """A figure over rollouts: something is taken from each rollout once, and the figure is made from the parts.

    Attributes:
        part: what one rollout adds.
        whole: the figure of a list of parts; NaN where nothing applies.
    """

    part: Callable[[Answers], Any]
    whole: Callable[[list[Any]], float]

    def __call__(self, answers: Sequence[Answers]) -> float:
        """The figure of some rollouts."""
        return self.whole([self.part(answer) for answer in answers])


def bootstrap(measure: Measure, answers: Sequence[Answers], seed: int = 0) -> Figure:
    """A figure over rollouts with its percentile bootstrap interval."""
    if not answers:
        return Figure(float("nan"), float("nan"), float("nan"), 0)
    parts = [measure.part(answer) for answer in answers]
    draws = np.random.default_rng(seed).integers(len(parts), size=(RESAMPLES, len(parts)))
    values = np.array([measure.whole([parts[int(i)] for i in draw]) for draw in draws])
    values = values[np.isfinite(values)]
    low, high = np.quantile(values, [0.025, 0.975]) if len(values) else (float("nan"), float("nan"))
    return Figure(measure.whole(parts), float(low), float(high), sum(_counts_at_all(part) for part in parts))


def _counts_at_all(part: Any) -> bool:
    """Whether a rollout's part adds anything: a number, (hits, cases) with cases, or a table of counts with any."""
    if part is None:
        return False
    return bool(part[1]) if isinstance(part, tuple) else not isinstance(part, np.ndarray) or bool(part.any())


def _mean(parts: list[Any]) -> float:
    """Mean of the parts that apply (those that are numbers)."""
    given = [part for part in parts if part is not None]
    return float(np.mean(given)) if given else float("nan")


def _ratio(parts: list[Any]) -> float:
    """Hits among cases, summed over rollouts; parts are (hits, cases)."""
    hits, cases = (sum(part[i] for part in parts) for i in (0, 1))
    return float(hits / cases) if cases else float("nan")


# --- progress ------------------------------------------------------------------------------------------------------

MAE = Measure(lambda a: np.abs(a.value - a.truth).mean(), _mean)
"""Mean absolute error of progress, over rollouts of equal weight."""

INTERVAL_WIDTH = Measure(lambda a: (a.upper - a.lower).mean(), _mean)
"""Mean width of the 90 % interval."""


def _rank_correlation(a: Answers) -> float | None:
    if np.ptp(a.truth) <= 0.02 or np.ptp(a.value) == 0:
        return None
    # Spearman's coefficient is Pearson's of the ranks.
    return float(np.corrcoef(rankdata(a.value), rankdata(a.truth))[0, 1])


SPEARMAN = Measure(_rank_correlation, _mean)
"""Mean rank correlation of predicted with true progress, over rollouts in which truth changes."""


def _covered(a: Answers) -> tuple[int, int]:
    inside = (a.lower - HALF_BIN <= a.truth) & (a.truth <= a.upper + HALF_BIN)
    return int(inside.sum()), len(inside)


COVERAGE = Measure(_covered, _ratio)
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


DROPS_SEEN = Measure(_drops, _ratio)
"""Share of true drops that cost 0.2 or more in which predicted progress falls by 0.1 within a second."""


# --- direction -----------------------------------------------------------------------------------------------------


def robopulse(answer: Answers, signal: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Predicted and true directions (-1 or 1; predicted may be 0) of the frames that the protocol counts.

    Args:
        answer: one rollout.
        signal: ``progress`` (differenced, averaged, signed) or ``direction`` (the direction head's class).
    """
    if signal == "direction":
        said = answer.direction
    else:
        change = np.diff(answer.value, prepend=answer.value[:1])
        padded = np.concatenate([np.zeros(CAUSAL_MEAN - 1), change])
        said = np.sign(np.convolve(padded, np.ones(CAUSAL_MEAN) / CAUSAL_MEAN, mode="valid")).astype(np.int64)
    labels = trends(answer.truth)
    kept, true = [], []
    for trend in (Trend.RISING, Trend.FALLING):
        for start, stop in intervals(labels, trend):
            if stop - start > 2 * EDGE:
                kept.append(said[start + EDGE : stop - EDGE])
                true.append(np.full(stop - start - 2 * EDGE, int(trend)))
    empty = np.zeros(0, dtype=np.int64)
    return np.concatenate(kept or [empty]), np.concatenate(true or [empty])


def _counts(said: npt.NDArray[np.int64], true: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """For the classes -1, 0, 1: hits, times said, times true; shape (3, 3)."""
    rows = [((said == k) & (true == k), said == k, true == k) for k in (-1, 0, 1)]
    return np.array([[int(mask.sum()) for mask in row] for row in rows], dtype=np.int64)


def _f1(parts: list[Any], classes: Sequence[int]) -> float:
    """Mean F1 of some classes from summed counts; NaN where one is neither said nor true."""
    hits, said, true = np.sum(parts, axis=0).T
    scores = [2.0 * hits[k + 1] / (said[k + 1] + true[k + 1]) if said[k + 1] + true[k + 1] else np.nan for k in classes]
    return float(np.mean(scores))


def robopulse_f1(signal: str, *, only: int | None = None) -> Measure:
    """Macro-F1 over Rising and Falling by the RoboPulse++ protocol, or one class's F1; ``signal`` as in `robopulse`."""
    classes = (-1, 1) if only is None else (only,)
    return Measure(lambda a: _counts(*robopulse(a, signal)), lambda parts: _f1(parts, classes))


THREE_CLASS_F1 = Measure(lambda a: _counts(a.direction, trends(a.truth)), lambda parts: _f1(parts, (-1, 0, 1)))
"""Macro-F1 of the direction head against the true trend of every frame."""


def robopulse_counts(answers: Sequence[Answers]) -> tuple[int, int]:
    """Rising and Falling frames that the protocol counts."""
    true = np.concatenate([robopulse(a, "direction")[1] for a in answers])
    return int((true == 1).sum()), int((true == -1).sum())


# --- outcome -------------------------------------------------------------------------------------------------------


def says_success(answer: Answers, by: str) -> bool:
    """The outcome from the last second: by ``probability`` or by ``progress``."""
    values, limit = (answer.success, SUCCESS_PROBABILITY) if by == "probability" else (answer.value, SUCCESS_PROGRESS)
    return bool(np.median(values[-END_SAMPLES:]) >= limit)


def accuracy(by: str) -> Measure:
    """Share of right outcomes."""
    return Measure(lambda a: says_success(a, by) == a.succeeded, _mean)


def false_success(by: str) -> Measure:
    """Share of attempts called a success, among those that are none."""
    return Measure(lambda a: None if a.succeeded else says_success(a, by), _mean)


def confusion(answers: Sequence[Answers], by: str) -> dict[str, int]:
    """Counts of outcomes, said against true."""
    table = {"true success": 0, "missed success": 0, "true failure": 0, "false success": 0}
    for a in answers:
        said = says_success(a, by)
        key = (
            ("true success" if said else "missed success")
            if a.succeeded
            else ("false success" if said else "true failure")
        )
        table[key] += 1
    return table
