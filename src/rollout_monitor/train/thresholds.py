"""Thresholds of the monitor for one cell, by split conformal prediction on takes that the judging network has not seen.

Spec `events.md`: with n takes and a score per take the threshold at level alpha is the ceil((n+1)(1-alpha))-th smallest
score; a further take passes it with probability at most alpha.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rollout_monitor.curve.settings import DEFAULT
from rollout_monitor.curve.smoothing import CausalSmoother
from rollout_monitor.curve.streaming import StreamingOpd
from rollout_monitor.events.calibration import conformal_quantile
from rollout_monitor.events.settings import EventSettings
from rollout_monitor.judges.measures import END_SAMPLES, Answers

LEVEL = 0.1
SLACK = 0.01
"""Added to a threshold that an event is raised above, so that the take that set it raises none."""

LEAST, MOST = 0.5, 0.97
"""Range of the end progress that may count as success."""


@dataclass(frozen=True)
class Thresholds:
    """Calibrated thresholds by dotted setting, with what they promise.

    Attributes:
        values: for example ``outcome.progress_threshold``.
        alpha: level at which a further success raises a drawdown or a stall.
        n: successes used.
        notes: what the reader must know, a line each.
    """

    values: dict[str, float]
    alpha: float
    n: int
    notes: tuple[str, ...]


def calibrate(answers: Sequence[Answers], rate_hz: float, events: EventSettings | None = None) -> Thresholds:
    """Thresholds from held-out answers on a cell's takes.

    Args:
        answers: one per take, both outcomes among them.
        rate_hz: estimates per second.
        events: the defaults that are left where nothing is calibrated.
    """
    events = events or EventSettings()
    good = [one for one in answers if one.succeeded]
    bad = [one for one in answers if not one.succeeded]
    alpha = level_for(len(good))
    curves = [live_curve(one.value, rate_hz) for one in good]
    warn = conformal_quantile([largest_drawdown(curve) for curve in curves], alpha) + SLACK
    stall = conformal_quantile([longest_stall(curve, rate_hz, events) for curve in curves], alpha) + 1.0 / rate_hz
    threshold, note = success_threshold(good, bad)
    values = {
        "outcome.progress_threshold": threshold,
        "drawdown.warn": min(1.0, max(warn, events.drawdown.warn / 2)),
        "drawdown.error": min(1.0, max(events.drawdown.error, warn)),
        "stall.window_s": max(stall, 1.0),
    }
    notes = [note]
    if alpha > LEVEL:
        notes.append(f"{len(good)} successes allow no level below {alpha:.2f}; {round(1 / LEVEL) - 1} allow {LEVEL:g}")
    return Thresholds({name: round(value, 4) for name, value in values.items()}, alpha, len(good), tuple(notes))


def level_for(count: int) -> float:
    """The level that so many takes allow: `LEVEL`, or more where they are too few."""
    return max(LEVEL, 1.0 / (count + 1))


def success_threshold(good: Sequence[Answers], bad: Sequence[Answers]) -> tuple[float, str]:
    """The end progress that counts as success, and what it promises.

    Where the conformal bounds leave room between the outcomes, the middle of it: a further success stays above and a
    further failure below, each but for its level. Where they overlap, what told the takes apart best.
    """
    ends = [np.array([end_progress(one) for one in group]) for group in (good, bad)]
    levels = [level_for(len(group)) for group in ends]
    low = -conformal_quantile([-float(end) for end in ends[0]], levels[0])
    high = conformal_quantile([float(end) for end in ends[1]], levels[1])
    if high < low:
        middle = float(np.clip(0.5 * (low + high), LEAST, MOST))
        if high < middle <= low:
            return middle, (
                f"a further success ends above {middle:.2f} but for {levels[0]:.0%}, "
                f"a further failure below it but for {levels[1]:.0%}"
            )
    return _best_split(*ends), "successes and failures overlap at their ends: the threshold tells them apart best"


def _best_split(good: npt.NDArray[np.float64], bad: npt.NDArray[np.float64]) -> float:
    """The middle of the range in which the balanced accuracy is best."""
    edges = np.unique(np.concatenate([[0.0], good, bad, [1.0]]))
    middles = 0.5 * (edges[1:] + edges[:-1])
    balanced = np.array([0.5 * ((good >= m).mean() + (bad < m).mean()) for m in middles])
    best = np.flatnonzero(balanced >= balanced.max() - 1e-9)
    return float(np.clip(0.5 * (middles[best[0]] + middles[best[-1]]), LEAST, MOST))


def end_progress(answers: Answers) -> float:
    """Median progress of the last second, as the outcome is decided by."""
    return float(np.median(answers.value[-END_SAMPLES:]))


def live_curve(values: npt.NDArray[np.float64], rate_hz: float) -> npt.NDArray[np.float64]:
    """Progress as the monitor smooths it live."""
    smoother = CausalSmoother(DEFAULT.live_tau_s)
    step_ns = round(1e9 / rate_hz)
    return np.array([smoother.update(k * step_ns, float(value)) for k, value in enumerate(values)])


def largest_drawdown(curve: npt.NDArray[np.float64]) -> float:
    """Deepest fall below the best so far."""
    live = StreamingOpd()
    for value in curve:
        live.update(float(value))
    return live.max_drawdown


def longest_stall(curve: npt.NDArray[np.float64], rate_hz: float, events: EventSettings) -> float:
    """Longest stretch in which progress stands while the task is not finished, s."""
    longest = first = 0
    for last in range(len(curve)):
        if curve[last] >= events.stall.finished_at:
            first = last + 1
            continue
        while np.ptp(curve[first : last + 1]) > events.stall.eps:
            first += 1
        longest = max(longest, last - first)
    return longest / rate_hz
