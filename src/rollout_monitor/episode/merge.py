"""Two streams of records in one order of stamps, whichever arrives first.

Estimates come late (the model takes its time), kinematics early. Detectors that look at both must see them in the
same order live and offline, so a record waits until the other stream has reached its stamp. A stream that falls too
far behind is given up, and waited for again once it is back; what it brings of times that have passed by then is
counted, for it was not judged in its place.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")

BACK_NS = 1_000_000_000
"""A stamp this far behind the one before in its stream belongs to a clock that was set back."""

AHEAD_NS = 2_000_000_000
"""After a step ahead by more, where the steps before were small, the other stream is given its time anew."""


@dataclass
class _Stream(Generic[T]):
    waiting: deque[tuple[int, T]] = field(default_factory=deque)
    newest_ns: int | None = None
    step_ns: int = 0
    leapt_ns: int = 0
    given_up: bool = False

    def reached(self, stamp_ns: int) -> bool:
        """Whether nothing older than the stamp can still come (stamps of a stream advance), or nobody waits."""
        return self.given_up or (self.newest_ns is not None and self.newest_ns >= stamp_ns)


class StampMerger(Generic[T]):
    """Merges a first and a second stream; at equal stamps the first goes first."""

    def __init__(self, wait_ns: int) -> None:
        self._wait_ns = wait_ns
        self._first: _Stream[T] = _Stream()
        self._second: _Stream[T] = _Stream()
        self._passed_ns: int | None = None  # stamp of the newest record given out
        self.overtaken = 0
        """Records that came after a later one of the other stream had been given out."""

    def add_first(self, stamp_ns: int, record: T) -> list[T]:
        """Take a record of the first stream; return what is in order now."""
        return self._add(self._first, stamp_ns, record)

    def add_second(self, stamp_ns: int, record: T) -> list[T]:
        """Take a record of the second stream; return what is in order now."""
        return self._add(self._second, stamp_ns, record)

    def flush(self) -> list[T]:
        """Everything that still waits, in order."""
        return self._ordered(everything=True)

    def clear(self) -> None:
        """Forget everything that waits, and how far the streams have come."""
        self._first, self._second = _Stream(), _Stream()
        self._passed_ns, self.overtaken = None, 0

    def _add(self, stream: _Stream[T], stamp_ns: int, record: T) -> list[T]:
        if stream.newest_ns is not None and stamp_ns < stream.newest_ns - BACK_NS:
            # What waits is of the old clock and will never be reached by the new one: nothing is in order any more.
            out = [*self._ordered(everything=True), record]
            self.clear()
            return out
        advances = stream.newest_ns is None or stamp_ns > stream.newest_ns
        if advances and self._passed_ns is not None and stamp_ns < self._passed_ns:
            self.overtaken += 1
        step_ns = 0 if stream.newest_ns is None else stamp_ns - stream.newest_ns
        if step_ns > AHEAD_NS and stream.step_ns <= AHEAD_NS // 2:
            stream.leapt_ns = stamp_ns
        stream.step_ns = step_ns
        stream.newest_ns = stamp_ns
        stream.given_up = False
        stream.waiting.append((stamp_ns, record))
        other = self._second if stream is self._first else self._first
        if stamp_ns - max(stream.waiting[0][0], stream.leapt_ns) >= self._wait_ns:
            other.given_up = True
        return self._ordered()

    def _ordered(self, everything: bool = False) -> list[T]:
        out: list[T] = []
        while True:
            first, second = self._first.waiting, self._second.waiting
            if first and (not second or first[0][0] <= second[0][0]):
                head, other = first, self._second
            elif second:
                head, other = second, self._first
            else:
                return out
            if not (everything or other.waiting or other.reached(head[0][0])):
                return out
            stamp_ns, record = head.popleft()
            self._passed_ns = stamp_ns if self._passed_ns is None else max(stamp_ns, self._passed_ns)
            out.append(record)
