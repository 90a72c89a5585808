"""Stream health of one episode: what the streams counted since it began, not since the nodes were started."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

from rollout_monitor.records import CameraHealth, JointHealth

H = TypeVar("H", CameraHealth, JointHealth)

_COUNTS = (
    "received",
    "used",
    "bad",
    "repeated",
    "non_finite",
    "not_advancing",
    "malformed",
    "unusable",
    "unstamped",
    "stray",
    "lost",
    "gaps",
    "clock_jumps",
    "clock_steps",
    "implausible",
)


_LATE_NS = 4_000_000_000
"""A START is heard at most this late: a report later than that is of a clock that was set back since."""

_KEPT = 64  # reports of a stream: six seconds of joints, half a minute of a camera


def _stamp(health: JointHealth | CameraHealth) -> int:
    """Up to which stamp a report counts."""
    return health.stamp_ns if isinstance(health, CameraHealth) else health.last_stamp_ns or 0


class _Stream(Generic[H]):
    """The newest reports of one stream, and the one that the running episode's counts begin at."""

    def __init__(self) -> None:
        self._newest: deque[H] = deque(maxlen=_KEPT)
        self._before: H | None = None
        self._any = False  # something came in this episode
        self._start_ns: int | None = None

    def add(self, health: H) -> None:
        if self._start_ns is not None and self._start_ns - _LATE_NS < _stamp(health) <= self._start_ns:
            self._before = health  # its START was heard early
            return
        if self._newest and _stamp(health) < _stamp(self._newest[-1]):
            self._newest.clear()  # the clock was set back
        self._newest.append(health)
        self._any = True

    def begin(self, start_ns: int) -> None:
        """Count from the newest report that is not of this episode; where all are, from the stream's beginning."""
        self._start_ns = start_ns
        until = [health for health in self._newest if _stamp(health) <= start_ns]
        later = [health for health in self._newest if _stamp(health) > start_ns]
        if until:
            self._before = until[-1]
        elif later and _stamp(later[0]) > start_ns + _LATE_NS:  # of a clock that was set back since
            self._before, later = later[-1], []
        self._newest = deque(later, maxlen=_KEPT)
        self._any = bool(later)

    def within(self, end_ns: int | None) -> H | None:
        """The counts of this episode up to its end; None where nothing came."""
        if not self._any:
            return None
        until = [health for health in self._newest if end_ns is None or _stamp(health) <= end_ns]
        return _since(until[-1] if until else self._newest[-1], self._before)


class HealthBook:
    """What each stream counted within the running episode, by the stamps of its health reports.

    A stream reports ten times a second (joints) or twice (a camera) of stream time, and an episode's counts run from
    the last report up to its START to the last one up to its END: at either end they may be off by one report's
    period, but they do not depend on when the markers were heard.
    """

    def __init__(self) -> None:
        self._joints: _Stream[JointHealth] = _Stream()
        self._cameras: dict[str, _Stream[CameraHealth]] = {}

    def begin_episode(self, start_ns: int) -> None:
        """Count from this stamp."""
        self._joints.begin(start_ns)
        for stream in self._cameras.values():
            stream.begin(start_ns)

    def add(self, health: JointHealth | CameraHealth) -> None:
        """Take the newest health of a stream."""
        if isinstance(health, JointHealth):
            self._joints.add(health)
        else:
            self._cameras.setdefault(health.camera, _Stream()).add(health)

    def joints(self, end_ns: int | None = None) -> JointHealth | None:
        """The joint stream in this episode, up to a stamp; None where nothing came."""
        return self._joints.within(end_ns)

    def cameras(self, end_ns: int | None = None) -> list[CameraHealth]:
        """Each camera in this episode, up to a stamp, by name."""
        found = (self._cameras[name].within(end_ns) for name in sorted(self._cameras))
        return [health for health in found if health is not None]


def _since(now: H, before: H | None) -> H:
    """The newer health with counts since the older one; a stream that was started again counts from its start."""
    if before is None or now.received < before.received:
        return now
    counts = {name: getattr(now, name) - getattr(before, name) for name in _COUNTS if hasattr(now, name)}
    return now.model_copy(update={name: max(0, count) for name, count in counts.items()})
