"""Plays recorded messages with their original timing: no drift, no re-serialisation, no ROS in here.

Times are nanoseconds. Recording time is the bag's log time; with ``loop`` it goes on growing from pass to pass.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from rollout_monitor.store.bags import BagMessage

_NS = 1_000_000_000
LOOP_GAP_NS = 3 * _NS // 2
"""Pause between two passes. Longer than ``motion.gap_limit_s``: the arm jumps from the last pose to the first, and
nobody may take that for a motion by filling a short gap. Longer, too, than prm_node's ``end_wait_s``: the last
estimates of a pass come before the next begins."""


@dataclass(frozen=True)
class Due:
    """A message (None: a tick of the clock) and the recording time at which it is due."""

    time_ns: int
    message: BagMessage | None
    lap: int


def markers_first(messages: Iterable[BagMessage], marker_type: str) -> Iterator[BagMessage]:
    """The same messages; of those with equal times, episode markers go first."""
    same: list[BagMessage] = []
    for message in messages:
        if same and message.log_ns != same[0].log_ns:
            yield from _sorted(same, marker_type)
            same = []
        same.append(message)
    yield from _sorted(same, marker_type)


def _sorted(same: list[BagMessage], marker_type: str) -> list[BagMessage]:
    return sorted(same, key=lambda message: message.type != marker_type) if len(same) > 1 else same


def laps(play: Callable[[], Iterable[BagMessage]], span_ns: int, loop: bool) -> Iterator[Due]:
    """The messages of one pass, or of passes without end, on one growing time."""
    lap = 0
    while True:
        empty = True
        for message in play():
            empty = False
            yield Due(message.log_ns + lap * span_ns, message, lap)
        if not loop or empty:
            return
        lap += 1


def with_clock(due: Iterable[Due], period_ns: int) -> Iterator[Due]:
    """Put in a tick at every multiple of the period between the first and the last message."""
    tick_ns: int | None = None
    for one in due:
        if tick_ns is None:
            tick_ns = one.time_ns
        while tick_ns <= one.time_ns:
            yield Due(tick_ns, None, one.lap)
            tick_ns += period_ns
        yield one


class Pacer:
    """Waits until a recording time is due, on a steady clock from the first one on: errors do not add up."""

    def __init__(self, rate: float, clock_ns: Callable[[], int], stop: threading.Event) -> None:
        """Make a pacer.

        Args:
            rate: recording seconds per second.
            clock_ns: a steady clock.
            stop: set from another thread to end waiting.
        """
        self._rate = rate
        self._clock_ns = clock_ns
        self._stop = stop
        self._first_ns: int | None = None
        self._began_ns = 0
        self.latest_ns = 0
        """By how much the worst message came late, ns."""

    def wait(self, time_ns: int) -> bool:
        """Wait for a recording time; False where it was stopped."""
        if self._first_ns is None:
            self._first_ns, self._began_ns = time_ns, self._clock_ns()
        due_ns = self._began_ns + round((time_ns - self._first_ns) / self._rate)
        while (left_ns := due_ns - self._clock_ns()) > 0:
            if self._stop.wait(left_ns / _NS):
                return False
        self.latest_ns = max(self.latest_ns, -left_ns)
        return not self._stop.is_set()
