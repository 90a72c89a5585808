"""From findings to events: debounce on the way up, hysteresis on the way down, one life cycle for every kind.

A detector looks at one sample and answers a `Finding`. An `Alarm` remembers the findings of one kind and subject and
decides when an event is raised, escalated and cleared. The `EventLog` numbers the events of an episode.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from rollout_monitor.events.settings import Debounce
from rollout_monitor.records import Event, EventKind, Severity

_RANK = {Severity.INFO: 0, Severity.WARN: 1, Severity.ERROR: 2}

IMMEDIATE = Debounce(raise_k=1, raise_n=1, clear_m=1)
"""For conditions that are certain at first sight, such as a stamp that went back."""


@dataclass(frozen=True)
class Finding:
    """What a detector sees at one sample.

    Attributes:
        stamp_ns: stamp of the sample.
        severity: how bad it is now; ``None`` where the condition is absent.
        over: whether the condition is surely gone (hysteresis: between raising and clearing both are false).
        onset_ns: when it began, where the detector knows better than "at the first sample that showed it".
        reason: one line for the operator; used where an event is raised, escalated or cleared by this finding.
        values: the figures behind it.
    """

    stamp_ns: int
    severity: Severity | None
    over: bool
    onset_ns: int | None = None
    reason: str = ""
    values: Mapping[str, float] = field(default_factory=dict)


class EventLog:
    """The events of one episode, numbered in the order they were raised."""

    def __init__(self, episode_id: str) -> None:
        self.episode_id = episode_id
        self._events: dict[int, Event] = {}
        self._active: dict[int, Event] = {}  # kept apart: the status asks for them ten times a second

    def add(self, event: Event) -> Event:
        """Keep a new event or the newer state of a known one."""
        self._events[event.event_id] = event
        if event.cleared_ns is None:
            self._active[event.event_id] = event
        else:
            self._active.pop(event.event_id, None)
        return event

    def next_id(self) -> int:
        """The number the next raised event gets."""
        return len(self._events)

    @property
    def events(self) -> list[Event]:
        """Every event in its latest state, oldest first."""
        return list(self._events.values())

    @property
    def active(self) -> list[Event]:
        """Events that last, worst first, then oldest first."""
        return sorted(self._active.values(), key=lambda event: (-_RANK[event.severity], event.event_id))

    def instant(self, kind: EventKind, severity: Severity, stamp_ns: int, reason: str, **values: float) -> Event:
        """Add an event that is a moment, not a stretch."""
        return self.add(
            Event(
                event_id=self.next_id(),
                episode_id=self.episode_id,
                kind=kind,
                severity=severity,
                onset_ns=stamp_ns,
                detected_ns=stamp_ns,
                cleared_ns=stamp_ns,
                values=values,
                reason=reason,
            )
        )


class Alarm:
    """The life cycle of one kind of event about one subject."""

    def __init__(self, kind: EventKind, debounce: Debounce, subject: str = "") -> None:
        self.kind = kind
        self.subject = subject
        self._debounce = debounce
        self._recent: deque[tuple[int, int]] = deque(maxlen=debounce.raise_n)  # stamp and rank, -1 where not shown
        self._good = 0
        self._active: Event | None = None

    @property
    def active(self) -> Event | None:
        """The event that lasts, if one does."""
        return self._active

    def update(self, finding: Finding, log: EventLog) -> list[Event]:
        """Take the next finding; return the event that it raised, escalated or cleared, if any."""
        shown = finding.severity is not None
        self._recent.append((finding.stamp_ns, -1 if finding.severity is None else _RANK[finding.severity]))
        if self._active is None:
            return self._maybe_raise(finding, log)
        if shown:
            self._good = 0
            return self._maybe_escalate(finding, log)
        self._good = self._good + 1 if finding.over else 0
        return self._clear(finding, log) if self._good >= self._debounce.clear_m else []

    def _maybe_raise(self, finding: Finding, log: EventLog) -> list[Event]:
        severity = self._confirmed()
        if finding.severity is None or severity is None:
            return []
        onset_ns = finding.onset_ns
        if onset_ns is None:
            onset_ns = next(stamp for stamp, rank in self._recent if rank >= 0)
        self._good = 0
        self._active = Event(
            event_id=log.next_id(),
            episode_id=log.episode_id,
            kind=self.kind,
            severity=severity,
            onset_ns=onset_ns,
            detected_ns=max(finding.stamp_ns, onset_ns),  # efforts are ahead of the grid's rows
            subject=self.subject,
            values=dict(finding.values),
            reason=finding.reason,
        )
        return [log.add(self._active)]

    def _confirmed(self) -> Severity | None:
        """The worst severity that enough of the last samples reached: an ERROR is debounced as a WARN is."""
        ranks = sorted((rank for _, rank in self._recent), reverse=True)
        rank = ranks[self._debounce.raise_k - 1] if len(ranks) >= self._debounce.raise_k else -1
        return next((severity for severity, value in _RANK.items() if value == rank), None)

    def _maybe_escalate(self, finding: Finding, log: EventLog) -> list[Event]:
        assert self._active is not None  # noqa: S101 - callers checked
        severity = self._confirmed()
        if severity is None or _RANK[severity] <= _RANK[self._active.severity]:
            return []
        self._active = self._active.model_copy(
            update={"severity": severity, "values": dict(finding.values), "reason": finding.reason}
        )
        return [log.add(self._active)]

    def _clear(self, finding: Finding, log: EventLog) -> list[Event]:
        assert self._active is not None  # noqa: S101 - callers checked
        cleared = self._active.model_copy(
            update={
                "cleared_ns": max(finding.stamp_ns, self._active.onset_ns),
                "values": {**self._active.values, **finding.values},
                "reason": "; ".join(filter(None, (self._active.reason, finding.reason))),
            }
        )
        self._active = None
        self._good = 0
        self._recent.clear()
        return [log.add(cleared)]
