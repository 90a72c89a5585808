"""Which stamps of one stream are believed: a lone message from another time is no clock that jumped.

A driver forgets to fill a stamp in, a second publisher runs on another clock, one message is garbled: none of these
may end an episode, cost the messages around it, or be a clock for others. So the first stamp, and one far from the one
before it, is held until the next one bears it out; what was held and was right is not lost.
"""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")

NS = 1_000_000_000
AHEAD_NS = 2 * NS
"""A stamp further ahead than this waits for the next one."""

BEARS_OUT_NS = 10 * NS
"""A doubtful stamp is borne out by one that follows it within this; a stream that is slower cannot be watched."""

CANDIDATES = 3
"""So many first messages are held at once: two publishers on two clocks may take turns from the start."""

STEP_NS = NS // 50
"""Stamps that are behind by less are jitter."""

STEP_RUN = 3
"""So many stamps in a row that are behind the newest, but advance, show that the clock was set back a little."""

STEP_REST_NS = 2 * NS
"""No two such steps within this: that would be two publishers, not one clock."""


class StampGuard(Generic[T]):
    """Judges the stamps of one stream, and holds back what is in doubt.

    Every message that is taken is handed out, or counted in ``unstamped``, ``repeated`` or ``stray``, or still held.

    >>> guard = StampGuard(back_ns=NS)
    >>> [[s for _, s in guard.take(s * NS, s)] for s in (100, 101, 3600, 102, 0, 103, 5, 6)]
    [[], [100, 101], [], [102], [], [103], [], [5, 6]]
    >>> guard.stray, guard.unstamped, guard.held
    (1, 1, 0)
    """

    def __init__(self, back_ns: int) -> None:
        self._back_ns = back_ns
        self._newest_ns: int | None = None
        self._held: list[tuple[int, T]] = []
        self._behind = 0  # stamps in a row that were behind the newest one and advanced
        self._behind_ns = 0  # the last of them
        self._stepped_ns: int | None = None
        self.unstamped = self.repeated = self.stray = 0
        self.stepped = False
        """Whether the message just handed out showed that the clock had been set back by less than ``back_ns``."""

    @property
    def held(self) -> int:
        """How many messages are held back now."""
        return len(self._held)

    def take(self, stamp_ns: int, message: T) -> list[tuple[int, T]]:
        """Take the stream's next message; return those to go on with now, with their stamps, in order."""
        self.stepped = False
        newest = self._newest_ns
        if stamp_ns <= 0:
            self.unstamped += 1
            return []
        if newest is not None and -self._back_ns <= stamp_ns - newest <= AHEAD_NS:
            if self._held:
                self.stray += len(self._held)
                self._held = []
            if stamp_ns > newest:
                self._newest_ns, self._behind = stamp_ns, 0
            elif stamp_ns < newest:
                self._note_behind(stamp_ns, newest)
            return [(stamp_ns, message)]
        return self._doubt(stamp_ns, message)

    def _doubt(self, stamp_ns: int, message: T) -> list[tuple[int, T]]:
        if any(stamp_ns == held_ns for held_ns, _ in self._held):
            self.repeated += 1
            return []
        for held in self._held:
            if -self._back_ns <= stamp_ns - held[0] <= BEARS_OUT_NS:
                self.stray += len(self._held) - 1
                self._newest_ns, self._held, self._behind = max(stamp_ns, held[0]), [], 0
                return [held, (stamp_ns, message)]
        if len(self._held) == (CANDIDATES if self._newest_ns is None else 1):
            self.stray += 1
            self._held.pop(0)
        self._held.append((stamp_ns, message))
        return []

    def _note_behind(self, stamp_ns: int, newest_ns: int) -> None:
        """A run of stamps that are behind, but advance, is a clock that was set back and not messages overtaken."""
        self._behind = self._behind + 1 if self._behind and stamp_ns > self._behind_ns else 1
        self._behind_ns = stamp_ns
        rested = self._stepped_ns is None or abs(stamp_ns - self._stepped_ns) > STEP_REST_NS
        if self._behind >= STEP_RUN and newest_ns - stamp_ns >= STEP_NS and rested:
            self._newest_ns = self._stepped_ns = stamp_ns
            self._behind, self.stepped = 0, True
