"""Figures over rollouts with 95 % intervals: rollouts are drawn again, not frames, which depend on each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

RESAMPLES = 1000
T = TypeVar("T")


@dataclass(frozen=True)
class Figure:
    """A figure with its 95 % bootstrap interval over rollouts; ``n`` of them had anything to count."""

    value: float
    low: float
    high: float
    n: int

    def __str__(self) -> str:
        """As printed in tables."""
        if not np.isfinite(self.value):
            return "none"
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}] (n = {self.n})"


@dataclass(frozen=True)
class Measure(Generic[T]):
    """A figure over rollouts: something is taken from each rollout once, and the figure is made from the parts.

    Attributes:
        part: what one rollout adds; None where it has nothing to count.
        whole: the figure of a list of parts; NaN where nothing applies.
    """

    part: Callable[[T], Any]
    whole: Callable[[list[Any]], float]

    def __call__(self, answers: Sequence[T]) -> float:
        """The figure of some rollouts."""
        return self.whole([self.part(answer) for answer in answers])


def bootstrap(measure: Measure[T], answers: Sequence[T], seed: int = 0) -> Figure:
    """A figure over rollouts with its percentile bootstrap interval."""
    if not answers:
        return Figure(float("nan"), float("nan"), float("nan"), 0)
    parts = [measure.part(answer) for answer in answers]
    draws = np.random.default_rng(seed).integers(len(parts), size=(RESAMPLES, len(parts)))
    values = np.array([measure.whole([parts[int(i)] for i in draw]) for draw in draws])
    values = values[np.isfinite(values)]
    low, high = np.quantile(values, [0.025, 0.975]) if len(values) else (float("nan"), float("nan"))
    return Figure(measure.whole(parts), float(low), float(high), sum(counts_at_all(part) for part in parts))


def counts_at_all(part: Any) -> bool:
    """Whether a rollout's part adds anything: a number, (hits, cases) with cases, or a table of counts with any."""
    if part is None:
        return False
    return bool(part[1]) if isinstance(part, tuple) else not isinstance(part, np.ndarray) or bool(part.any())


def mean(parts: list[Any]) -> float:
    """Mean of the parts that are numbers."""
    given = [part for part in parts if part is not None]
    return float(np.mean(given)) if given else float("nan")


def ratio(parts: list[Any]) -> float:
    """Hits among cases, summed over rollouts; parts are (hits, cases)."""
    hits, cases = (sum(part[i] for part in parts) for i in (0, 1))
    return float(hits / cases) if cases else float("nan")
