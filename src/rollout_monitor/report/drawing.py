"""Geometry of the page's charts: numbers in, SVG path data and percentages out. No markup, no words.

A chart is 1000 units wide and 100 high and is stretched by the browser; texts and dots lie above it as HTML, so that
they keep their size on a phone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rollout_monitor.records import CurvePoint, EpisodeReport, Event, MotionTraces, Stall

WIDTH, HEIGHT = 1000.0, 100.0
COLUMNS = 1000
"""Pixel columns drawn. More samples than two per column are thinned to first, lowest, highest and last of each."""
HOVER_SAMPLES = 1200
GAP_FACTOR = 4.0
"""A step this many times the median step is a hole and is not bridged by a line."""
MOST_LANES = 8
LABEL_WIDTH = 0.2
"""Share of the chart's width that an event's label may need beside its span."""
_STEPS_S = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400)
_MOST_TICKS = 9
_DRAWDOWN_SHOWN = 0.02

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class TimeAxis:
    """Maps stamps to the chart's width."""

    start_ns: int
    """Stamp of the left edge."""
    zero_ns: int
    """Start of the episode: time 0 of all labels."""
    span_ns: int

    def fraction(self, stamps_ns: npt.NDArray[np.int64]) -> Floats:
        """Position of stamps, 0 at the left edge, 1 at the right."""
        return (stamps_ns - self.start_ns).astype(np.float64) / self.span_ns

    def percent(self, stamp_ns: int) -> float:
        """Position of one stamp in percent, kept within the chart."""
        return round(min(max((stamp_ns - self.start_ns) / self.span_ns, 0.0), 1.0) * 100, 3)

    def ticks(self) -> list[tuple[float, float]]:
        """(percent, seconds since the start) of round times."""
        first = (self.start_ns - self.zero_ns) / 1e9
        span = self.span_ns / 1e9
        step = next((s for s in _STEPS_S if span / s <= _MOST_TICKS), 86400.0)
        count = int(np.floor((first + span) / step + 1e-9))
        times = [k * step for k in range(int(np.ceil(first / step - 1e-9)), count + 1)]
        return [(round((t - first) / span * 100, 3), t) for t in times]


@dataclass(frozen=True)
class Marker:
    """A drawdown on the chart: where it is and how deep."""

    left: float
    top: float
    bottom: float
    depth: float
    stamp_ns: int


@dataclass(frozen=True)
class Curve:
    """Path data of the progress chart."""

    raw: str
    live: str
    final: str
    band: str
    samples: int
    thinned: bool
    maximum: Marker | None
    current: Marker | None


@dataclass(frozen=True)
class Span:
    """An event on the time axis."""

    number: int
    left: float
    width: float
    detected: float
    lane: int
    open_ended: bool
    labelled: bool
    to_the_left: bool
    """The label has room on the left of the span only."""


@dataclass(frozen=True)
class Strip:
    """Path data of the joint-speed strip."""

    line: str
    area: str
    top: float
    """Value of the upper edge, rad/s."""
    samples: int
    thinned: bool


@dataclass(frozen=True)
class Trace:
    """Path data of a series around a zero line in the middle; empty where there is none."""

    path: str
    top: float
    """Value of the upper edge; the lower edge is its negative. A gripper would flatten the arm on a scale for all."""


@dataclass(frozen=True)
class JointPlots:
    """One joint's velocity, rad/s, and jerk, rad/s^3, over the episode."""

    velocity: Trace
    jerk: Trace


@dataclass(frozen=True)
class StallPart:
    """A piece of a stall's bar, percent of the bar."""

    left: float
    width: float
    moving: bool


def time_axis(report: EpisodeReport) -> TimeAxis:
    """The one time axis of all charts: from start to end, widened where data lie outside."""
    stamps = [report.start_ns, report.end_ns]
    if report.curve:
        stamps += [report.curve[0].stamp_ns, report.curve[-1].stamp_ns]
    if report.speed:
        stamps += [report.speed[0][0], report.speed[-1][0]]
    left = min(stamps)
    return TimeAxis(left, report.start_ns, max(max(stamps) - left, 1))


def draw_curve(points: Sequence[CurvePoint], axis: TimeAxis) -> Curve | None:
    """Paths of raw, live and final progress and of the interval; None without a point."""
    if not points:
        return None
    x = axis.fraction(np.array([point.stamp_ns for point in points], dtype=np.int64))
    breaks = _breaks(x)
    series = {name: np.array([getattr(point, name) for point in points]) for name in ("raw", "live", "final")}
    lower = np.array([np.nan if point.lower is None else point.lower for point in points], dtype=np.float64)
    upper = np.array([np.nan if point.upper is None else point.upper for point in points], dtype=np.float64)
    return Curve(
        raw=_line(x, series["raw"], breaks),
        live=_line(x, series["live"], breaks),
        final=_line(x, series["final"], breaks),
        band=_band(x, lower, upper, breaks),
        samples=len(points),
        thinned=len(points) > 2 * COLUMNS,
        maximum=_deepest(points, series["final"], axis),
        current=_at_end(points, series["final"], axis),
    )


def draw_speed(speed: Sequence[tuple[int, float]], axis: TimeAxis) -> Strip | None:
    """Path of the joint-speed norm; None without a finite sample."""
    finite = [(stamp, value) for stamp, value in speed if np.isfinite(value)]
    if not finite:
        return None
    x = axis.fraction(np.array([stamp for stamp, _ in finite], dtype=np.int64))
    values = np.array([value for _, value in finite], dtype=np.float64)
    top = _round_up(float(values.max()))
    breaks = _breaks(x)
    scaled = values / top
    area = _band(x, np.zeros_like(scaled), scaled, breaks)
    return Strip(_line(x, scaled, breaks), area, top, len(finite), len(finite) > 2 * COLUMNS)


def draw_traces(traces: MotionTraces | None, axis: TimeAxis) -> dict[str, JointPlots]:
    """Plots by joint."""
    if traces is None or not traces.stamps_ns:
        return {}
    x = axis.fraction(np.array(traces.stamps_ns, dtype=np.int64))
    breaks = _breaks(x)
    return {
        one.joint: JointPlots(_trace(x, one.velocity, breaks), _trace(x, one.jerk, breaks)) for one in traces.joints
    }


def stall_bar(stall: Stall) -> list[StallPart]:
    """Where in a stall the arm moved and where it stood; what nobody saw is left out."""
    span = max(stall.end_ns - stall.onset_ns, 1)
    return [
        StallPart(
            left=round(100 * (one.start_ns - stall.onset_ns) / span, 2),
            width=round(100 * (one.end_ns - one.start_ns) / span, 2),
            moving=one.moving,
        )
        for one in stall.stretches
    ]


def lay_out_events(events: Sequence[Event], axis: TimeAxis, end_ns: int) -> list[Span]:
    """Place events in lanes so that neither spans nor labels overlap; beyond ``MOST_LANES`` they share the last."""
    free = [-1.0] * MOST_LANES
    spans = []
    for number, event in enumerate(events, start=1):
        left = axis.percent(event.onset_ns)
        right = axis.percent(end_ns if event.cleared_ns is None else event.cleared_ns)
        to_the_left = right + LABEL_WIDTH * 100 > 100 and left > LABEL_WIDTH * 100
        taken = (left - LABEL_WIDTH * 100, right) if to_the_left else (left, right + LABEL_WIDTH * 100)
        lane = next((index for index, until in enumerate(free) if until <= taken[0]), None)
        labelled = lane is not None
        lane = MOST_LANES - 1 if lane is None else lane
        free[lane] = max(free[lane], taken[1])
        spans.append(
            Span(
                number=number,
                left=left,
                width=round(max(right - left, 0.0), 3),
                detected=axis.percent(event.detected_ns),
                lane=lane,
                open_ended=event.cleared_ns is None,
                labelled=labelled,
                to_the_left=to_the_left,
            )
        )
    return spans


def hover_samples(report: EpisodeReport, axis: TimeAxis) -> dict[str, list[float | None]]:
    """What the playhead reads out, at no more than ``HOVER_SAMPLES`` of the curve's own samples.

    Columns: ``x`` percent of the width, ``t`` seconds since the start, the curve's values, ``speed`` rad/s at that
    time where there is one. Without a curve the speed's samples are used.
    """
    speed_stamps = np.array([stamp for stamp, _ in report.speed], dtype=np.int64)
    speed_values = np.array([value for _, value in report.speed], dtype=np.float64)
    stamps = np.array([p.stamp_ns for p in report.curve], dtype=np.int64) if report.curve else speed_stamps
    if stamps.size == 0:
        return {}
    chosen = np.unique(np.linspace(0, stamps.size - 1, min(stamps.size, HOVER_SAMPLES)).round().astype(np.int64))
    picked = stamps[chosen]
    table: dict[str, list[float | None]] = {
        "x": _rounded(axis.fraction(picked) * 100, 3),
        "t": _rounded((picked - axis.zero_ns) / 1e9, 2),
    }
    for name in ("raw", "live", "final", "lower", "upper", "success_probability") if report.curve else ():
        values = [getattr(report.curve[index], name) for index in chosen]
        if any(value is not None for value in values):
            table[name] = [None if value is None else round(value, 3) for value in values]
    if speed_stamps.size:
        table["speed"] = _nearest(picked, speed_stamps, speed_values)
    return table


def joint_samples(traces: MotionTraces | None, axis: TimeAxis) -> dict[str, Any]:
    """What the playhead reads out per joint: in each column the velocity and the jerk that is furthest from zero."""
    if traces is None or not traces.stamps_ns:
        return {}
    stamps = np.array(traces.stamps_ns, dtype=np.int64)
    return {
        "t": _rounded((stamps - axis.zero_ns) / 1e9, 2),
        "velocity": [[_furthest(pair) for pair in trace.velocity] for trace in traces.joints],
        "jerk": [[_furthest(pair) for pair in trace.jerk] for trace in traces.joints],
    }


def _furthest(pair: tuple[float, float] | None) -> float | None:
    return None if pair is None else float(f"{max(pair, key=abs):.3g}")


def _trace(x: Floats, column: Sequence[tuple[float, float] | None], breaks: npt.NDArray[np.intp]) -> Trace:
    values = np.array([(np.nan, np.nan) if pair is None else pair for pair in column], dtype=np.float64)
    finite = np.abs(values[np.isfinite(values)])
    top = _round_up(float(finite.max(initial=0.0)))
    return Trace(_envelope(x, values / top, breaks), top)


def _envelope(x: Floats, values: Floats, breaks: npt.NDArray[np.intp]) -> str:
    """Outline between lowest and highest, each in [-1, 1]: a filled line that is never thinner than its stroke."""
    pieces = []
    for piece in np.split(np.arange(x.size), breaks):
        inside = piece[np.isfinite(values[piece]).all(axis=1)]
        if inside.size == 0:
            continue
        across = [f"{value:.0f}" for value in x[inside] * WIDTH]
        there, back = ([f"{50 - 50 * value:.1f}" for value in values[inside, side]] for side in (1, 0))
        outline = [*zip(across, there, strict=True), *zip(across[::-1], back[::-1], strict=True)]
        pieces.append("M" + "L".join(f"{a} {b}" for a, b in outline) + "Z")
    return "".join(pieces)


def _nearest(at: npt.NDArray[np.int64], stamps: npt.NDArray[np.int64], values: Floats) -> list[float | None]:
    """Value of the nearest sample, None where that is more than half a second away."""
    right = np.clip(np.searchsorted(stamps, at), 0, stamps.size - 1)
    left = np.maximum(right - 1, 0)
    index = np.where(np.abs(stamps[left] - at) <= np.abs(stamps[right] - at), left, right)
    close = (np.abs(stamps[index] - at) <= 500_000_000) & np.isfinite(values[index])
    return [round(float(values[i]), 3) if ok else None for i, ok in zip(index, close, strict=True)]


def _deepest(points: Sequence[CurvePoint], final: Floats, axis: TimeAxis) -> Marker | None:
    drawdown = np.maximum.accumulate(final) - final
    return _marker(points, final, int(np.argmax(drawdown)), axis)


def _at_end(points: Sequence[CurvePoint], final: Floats, axis: TimeAxis) -> Marker | None:
    """The drawdown at the end, unless it is the deepest one."""
    deepest = int(np.argmax(np.maximum.accumulate(final) - final))
    return None if deepest == len(final) - 1 else _marker(points, final, len(final) - 1, axis)


def _marker(points: Sequence[CurvePoint], final: Floats, index: int, axis: TimeAxis) -> Marker | None:
    best, value = float(final[: index + 1].max()), float(final[index])
    if best - value < _DRAWDOWN_SHOWN:
        return None
    stamp = points[index].stamp_ns
    return Marker(
        left=axis.percent(stamp),
        top=round(100 * (1 - best), 2),
        bottom=round(100 * (1 - value), 2),
        depth=best - value,
        stamp_ns=stamp,
    )


def _breaks(x: Floats) -> npt.NDArray[np.intp]:
    """Indices at which a new piece of line begins: after a hole, or where time goes back."""
    if x.size < 3:
        return np.array([], dtype=np.intp)
    steps = np.diff(x)
    breaks: npt.NDArray[np.intp] = np.flatnonzero((steps > GAP_FACTOR * np.median(steps)) | (steps < 0)) + 1
    return breaks


def _line(x: Floats, y: Floats, breaks: npt.NDArray[np.intp]) -> str:
    pieces = []
    for piece in np.split(np.arange(x.size), breaks):
        kept = piece[_thinned(x[piece], y[piece])]
        coordinates = [f"{a} {b}" for a, b in _coordinates(x[kept], y[kept])]
        if len(coordinates) == 1:  # a lone sample shows as a dot of the stroke's width
            coordinates *= 2
        pieces.append("M" + "L".join(coordinates))
    return "".join(pieces)


def _band(x: Floats, lower: Floats, upper: Floats, breaks: npt.NDArray[np.intp]) -> str:
    """Closed outline between two series: the lowest lower and the highest upper of each pixel column."""
    pieces = []
    for piece in np.split(np.arange(x.size), breaks):
        inside = piece[np.isfinite(lower[piece]) & np.isfinite(upper[piece])]
        if inside.size < 2:
            continue
        starts = _column_starts(x[inside])
        top = np.maximum.reduceat(upper[inside], starts)
        bottom = np.minimum.reduceat(lower[inside], starts)
        across = x[inside][starts]
        if across.size == 1:
            continue
        there = [f"{a} {b}" for a, b in _coordinates(across, top)]
        back = [f"{a} {b}" for a, b in _coordinates(across, bottom)][::-1]
        pieces.append("M" + "L".join(there + back) + "Z")
    return "".join(pieces)


def _thinned(x: Floats, y: Floats) -> npt.NDArray[np.intp]:
    """Indices of first, lowest, highest and last sample of each pixel column, or all where there are few."""
    if x.size <= 2 * COLUMNS:
        return np.arange(x.size)
    starts = _column_starts(x)
    ends = np.append(starts[1:], x.size)
    lowest = [a + int(np.argmin(y[a:b])) for a, b in zip(starts, ends, strict=True)]
    highest = [a + int(np.argmax(y[a:b])) for a, b in zip(starts, ends, strict=True)]
    kept: npt.NDArray[np.intp] = np.unique(np.concatenate([starts, lowest, highest, ends - 1]))
    return kept


def _column_starts(x: Floats) -> npt.NDArray[np.intp]:
    if x.size <= 2 * COLUMNS:
        return np.arange(x.size)
    columns = np.floor(x * COLUMNS)
    starts: npt.NDArray[np.intp] = np.flatnonzero(np.diff(columns, prepend=columns[0] - 1))
    return starts


def _coordinates(x: Floats, y: Floats) -> list[tuple[str, str]]:
    across = [f"{value:.1f}" for value in x * WIDTH]
    down = [f"{value:.2f}" for value in (1 - np.clip(y, 0.0, 1.0)) * HEIGHT]
    return list(zip(across, down, strict=True))


def _rounded(values: Floats, digits: int) -> list[float | None]:
    return [round(float(value), digits) for value in values]


def _round_up(value: float) -> float:
    """The next of 1, 2, 5 times a power of ten; 1 for nothing at all."""
    if value <= 0:
        return 1.0
    power = 10.0 ** np.floor(np.log10(value))
    return float(next(step * power for step in (1, 2, 5, 10) if step * power >= value * 0.999))
