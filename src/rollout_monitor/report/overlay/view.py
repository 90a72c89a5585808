"""What is shown at one moment (`ViewState`), and what keeps it from what the monitor says (`LiveView`)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from rollout_monitor.records import (
    Direction,
    EpisodeState,
    Event,
    EventKind,
    MonitorStatus,
    Outcome,
    ProgressEstimate,
    Severity,
)

MOST_POINTS = 600
"""Of the live curve: more than a picture has columns for it."""

ERROR_SHOWN_S = 5.0
"""Stream time for which an ERROR that is over at once (FAILURE, CLOCK_JUMP) goes on being shown as one."""

_NS = 1_000_000_000
_RANK = {severity: rank for rank, severity in enumerate(Severity)}
_OUTCOMES = {EventKind.SUCCESS: Outcome.SUCCESS, EventKind.FAILURE: Outcome.FAILURE}


@dataclass(frozen=True)
class Age:
    """How long nothing new has come from one source."""

    what: str
    """In plain words: ``camera picture``, ``estimate``."""
    seconds: float


@dataclass(frozen=True)
class ViewState:
    """Everything that is shown. Shares are 0..1; None where a value is not known (yet).

    Attributes:
        state: of the attempt; None before the monitor was heard.
        stamp_ns: stream time of what is shown; None before the monitor was heard.
        curve: (seconds since the start, live progress), oldest first.
        mp: best progress so far.
        drawdown: best so far minus now.
        smoothness: SPARC over the sliding window, nearer 0 is smoother.
        outcome: of the attempt that ended last, until the next begins.
        alarms: active events, the most severe first.
        error: an ERROR is active, or was over at once and is fresh.
        ages: of what is shown; only sources that should be there.
        stale_s: an age above this is too old to be taken for live.
    """

    state: EpisodeState | None = None
    stamp_ns: int | None = None
    episode_id: str = ""
    task: str = ""
    elapsed_s: float = 0.0
    progress: float | None = None
    mp: float | None = None
    drawdown: float | None = None
    direction: Direction = Direction.UNKNOWN
    curve: tuple[tuple[float, float], ...] = ()
    smoothness: float | None = None
    moving: bool | None = None
    outcome: Outcome | None = None
    alarms: tuple[Event, ...] = ()
    error: bool = False
    ages: tuple[Age, ...] = ()
    stale_s: float = 2.0

    @property
    def old(self) -> tuple[Age, ...]:
        """The sources of which nothing new has come for too long."""
        return tuple(age for age in self.ages if age.seconds > self.stale_s)

    @property
    def oldest_s(self) -> float | None:
        """Age of the oldest thing that is shown, s; None where nothing with an age is."""
        return max((age.seconds for age in self.ages), default=None)


class Trace:
    """A curve that grows without end in bounded memory; when it is thinned its peaks and valleys stay."""

    def __init__(self, most: int = MOST_POINTS) -> None:
        self._most = most
        self._points: list[tuple[float, float]] = []

    def add(self, at_s: float, value: float) -> None:
        """Append a sample; one that is not later than the last is left out."""
        if self._points and at_s <= self._points[-1][0]:
            return
        self._points.append((at_s, value))
        if len(self._points) > self._most:
            self._points = [point for group in _fours(self._points) for point in _extremes(group)]

    def clear(self) -> None:
        """Forget all."""
        self._points.clear()

    @property
    def points(self) -> tuple[tuple[float, float], ...]:
        """What is left, oldest first."""
        return tuple(self._points)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _fours(points: list[tuple[float, float]]) -> Iterable[list[tuple[float, float]]]:
    return (points[index : index + 4] for index in range(0, len(points), 4))


def _extremes(group: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Lowest and highest of a group, in the order of time."""
    low, high = min(group, key=lambda point: point[1]), max(group, key=lambda point: point[1])
    return sorted({low, high})


@dataclass
class LiveView:
    """Keeps what the monitor and the perception say, and gives what to show of it."""

    _status: MonitorStatus | None = None
    _direction: Direction = Direction.UNKNOWN
    _outcome: tuple[str, Outcome] | None = None
    _last_error_ns: int | None = None
    _trace: Trace = field(default_factory=Trace)

    def on_status(self, status: MonitorStatus) -> None:
        """The newest status; a new attempt begins a new curve."""
        before = self._status
        if before is None or before.episode_id != status.episode_id or status.elapsed_s < before.elapsed_s:
            self._trace.clear()
            self._direction = Direction.UNKNOWN
        self._status = status
        if status.progress is not None:
            self._trace.add(status.elapsed_s, status.progress)

    def on_estimate(self, estimate: ProgressEstimate) -> None:
        """The newest estimate says where progress is heading."""
        self._direction = estimate.direction

    def on_event(self, event: Event) -> None:
        """An event that was raised, grew or is over."""
        if event.kind in _OUTCOMES:
            self._outcome = (event.episode_id, _OUTCOMES[event.kind])
        if event.severity is Severity.ERROR:
            self._last_error_ns = event.detected_ns if event.cleared_ns is None else event.cleared_ns

    def view(self, ages: Iterable[Age] = (), stale_s: float = 2.0, now_ns: int | None = None) -> ViewState:
        """What to show now.

        Args:
            ages: how old what is shown is, by source.
            stale_s: an age above this is said aloud, s.
            now_ns: stream time; None takes the newest status's.
        """
        status = self._status
        ages = tuple(ages)
        if status is None:
            return ViewState(ages=ages, stale_s=stale_s)
        alarms = sorted(status.active_events, key=lambda event: -_RANK[event.severity])
        ended = status.state is not EpisodeState.RUNNING
        known = self._outcome is not None and self._outcome[0] == status.episode_id
        return ViewState(
            state=status.state,
            stamp_ns=status.stamp_ns,
            episode_id=status.episode_id,
            task=status.task,
            elapsed_s=status.elapsed_s,
            progress=status.progress,
            mp=status.mp,
            drawdown=status.drawdown,
            direction=Direction.UNKNOWN if ended else self._direction,
            curve=self._trace.points,
            smoothness=_finite(status.smoothness),
            moving=status.moving,
            outcome=self._outcome[1] if self._outcome is not None and ended and known else None,
            alarms=tuple(alarms),
            error=self._is_error(alarms, status.stamp_ns if now_ns is None else now_ns),
            ages=ages,
            stale_s=stale_s,
        )

    def _is_error(self, alarms: list[Event], now_ns: int) -> bool:
        fresh = self._last_error_ns is not None and abs(now_ns - self._last_error_ns) <= ERROR_SHOWN_S * _NS
        return fresh or any(event.severity is Severity.ERROR for event in alarms)
