"""Which stamps of one stream are believed: a lone message from another time is no clock that jumped.

A driver forgets to fill a stamp in, a second publisher runs on another clock, one message is garbled: none of these
may end an episode. So a stamp far from the one before it is believed once the next one bears it out.
"""

from __future__ import annotations

from enum import Enum

NS = 1_000_000_000
AHEAD_NS = 2 * NS
"""A stamp further ahead than this waits for the next one; a stream that paused for as long loses nothing by it."""


class Verdict(Enum):
    """What to do with a message."""

    GOOD = "good"
    UNSTAMPED = "unstamped"
    """The stamp is zero, among others that are not: drop it."""
    DOUBTFUL = "doubtful"
    """The stamp is far from the one before: hold or drop it; the next message shows what it was."""
    CONFIRMED = "confirmed"
    """The doubtful one before was right, and so is this: the clock jumped, or the stream paused."""


class StampGuard:
    """Judges the stamps of one stream, one after the other.

    >>> guard = StampGuard(back_ns=NS)
    >>> [guard.judge(s * NS).value for s in (100, 101, 3600, 102, 0, 103, 5, 6)]
    ['good', 'good', 'doubtful', 'good', 'unstamped', 'good', 'doubtful', 'confirmed']
    """

    def __init__(self, back_ns: int) -> None:
        self._back_ns = back_ns
        self._newest_ns: int | None = None
        self._doubtful_ns: int | None = None

    def judge(self, stamp_ns: int) -> Verdict:
        """Judge the stream's next stamp, nanoseconds."""
        newest, doubtful = self._newest_ns, self._doubtful_ns
        if newest is None:
            self._newest_ns = stamp_ns
            return Verdict.GOOD
        if -self._back_ns <= stamp_ns - newest <= AHEAD_NS:
            self._newest_ns, self._doubtful_ns = max(newest, stamp_ns), None
            return Verdict.GOOD
        if stamp_ns <= 0:
            return Verdict.UNSTAMPED
        same_side = doubtful is not None and (doubtful > newest) == (stamp_ns > newest)
        if doubtful is None or not same_side or stamp_ns < doubtful - self._back_ns:
            self._doubtful_ns = stamp_ns
            return Verdict.DOUBTFUL
        self._newest_ns, self._doubtful_ns = stamp_ns, None
        return Verdict.CONFIRMED
