"""The figures of a trained model on rollouts it never saw: what stands in the model card.

Direction follows the RoboPulse++ protocol: true Rising and Falling intervals, predicted progress differenced, a
5-sample causal mean, its sign; the first and last two samples of an interval are left out. Intervals come with 95 %
bootstrap intervals over rollouts, not over frames.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

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
    """A figure with its 95 % bootstrap interval over ``n`` rollouts; NaN where nothing applies."""

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


def bootstrap(measure: Callable[[Sequence[Answers]], float], answers: Sequence[Answers], seed: int = 0) -> Figure:
    """A figure over rollouts with its percentile bootstrap interval."""
    if not answers:
        return Figure(float("nan"), float("nan"), float("nan"), 0)
    rng = np.random.default_rng(seed)
    draws = rng.integers(len(answers), size=(RESAMPLES, len(answers)))
    values = np.array([measure([answers[int(i)] for i in draw]) for draw in draws])
    values = values[np.isfinite(values)]
    low, high = np.quantile(values, [0.025, 0.975]) if len(values) else (float("nan"), float("nan"))
    return Figure(measure(answers), float(low), float(high), len(answers))


# --- single figures ------------------------------------------------------------------------------------------------


def mae(answers: Sequence[Answers]) -> float:
    """Mean absolute error of progress, over rollouts of equal weight."""
    return float(np.mean([np.abs(a.value - a.truth).mean() for a in answers]))


def spearman(answers: Sequence[Answers]) -> float:
    """Mean rank correlation of predicted with true progress, over rollouts in which truth changes."""
    moving = [a for a in answers if np.ptp(a.truth) > 0.02 and np.ptp(a.value) > 0]
    # Spearman's coefficient is Pearson's of the ranks.
    ranks = [(rankdata(a.value), rankdata(a.truth)) for a in moving]
    return float(np.mean([np.corrcoef(one, other)[0, 1] for one, other in ranks])) if moving else float("nan")


def coverage(answers: Sequence[Answers]) -> float:
    """Share of frames whose true progress lies in the 90 % interval (with half a bin of slack at 0 and 1)."""
    inside = [(a.lower - 0.01 <= a.truth) & (a.truth <= a.upper + 0.01) for a in answers]
    return float(np.concatenate(inside).mean())


def interval_width(answers: Sequence[Answers]) -> float:
    """Mean width of the 90 % interval."""
    return float(np.mean([(a.upper - a.lower).mean() for a in answers]))


def three_class_f1(answers: Sequence[Answers]) -> float:
    """Macro-F1 of the direction head against the true trend of every frame."""
    predicted = np.concatenate([a.direction for a in answers])
    true = np.concatenate([trends(a.truth) for a in answers])
    return float(np.mean([f1(predicted, true, trend) for trend in (-1, 0, 1)]))


def f1(predicted: npt.NDArray[np.int64], true: npt.NDArray[np.int64], wanted: int) -> float:
    """F1 of one class; NaN where it is neither true nor predicted."""
    hits = int(((predicted == wanted) & (true == wanted)).sum())
    total = int((predicted == wanted).sum() + (true == wanted).sum())
    return 2.0 * hits / total if total else float("nan")


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


def robopulse_f1(answers: Sequence[Answers], signal: str, *, only: int | None = None) -> float:
    """Macro-F1 over Rising and Falling, or one class's F1."""
    parts = [robopulse(a, signal) for a in answers]
    said, true = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    wanted = (-1, 1) if only is None else (only,)
    return float(np.mean([f1(said, true, trend) for trend in wanted]))


def robopulse_counts(answers: Sequence[Answers]) -> tuple[int, int]:
    """Rising and Falling frames that the protocol counts."""
    true = np.concatenate([robopulse(a, "direction")[1] for a in answers])
    return int((true == 1).sum()), int((true == -1).sum())


def drops_seen(answers: Sequence[Answers]) -> float:
    """Share of true drops that cost 0.2 or more in which predicted progress falls by 0.1 within a second."""
    seen = []
    for a in answers:
        for first, last in a.drops:
            before = max(0, first - 1)
            after = slice(first, min(len(a.truth), last + 6))
            if a.truth[before] - a.truth[after].min() >= 0.2:
                seen.append(a.value[before] - a.value[after].min() >= 0.1)
    return float(np.mean(seen)) if seen else float("nan")


def says_success(answer: Answers, by: str) -> bool:
    """The outcome from the last second: by ``probability`` or by ``progress``."""
    values, limit = (answer.success, SUCCESS_PROBABILITY) if by == "probability" else (answer.value, SUCCESS_PROGRESS)
    return bool(np.median(values[-END_SAMPLES:]) >= limit)


def accuracy(answers: Sequence[Answers], by: str) -> float:
    """Share of right outcomes."""
    return float(np.mean([says_success(a, by) == a.succeeded for a in answers]))


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


def false_success(answers: Sequence[Answers], by: str) -> float:
    """Share of attempts called a success, among those that are none."""
    failed = [a for a in answers if not a.succeeded]
    return float(np.mean([says_success(a, by) for a in failed])) if failed else float("nan")
