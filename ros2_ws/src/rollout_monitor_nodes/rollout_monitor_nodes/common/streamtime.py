"""Where the streams' time stands between two messages.

Header stamps may be years old (a recording) or run on a simulated clock, so the wall clock says nothing about them.
Stream time is the newest stamp seen plus the time that has passed since, measured by a clock that only moves forward.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

_NS = 1_000_000_000
JUMP_NS = _NS
"""A stamp this far behind the newest means that the clock was set back, not that messages overtook each other."""


FASTEST = 50
"""Seconds of a simulated clock in one of ours, beyond which it was set and did not run."""


class StreamClock:
    """Stream time, from stamps and the time passed since the newest one."""

    def __init__(self, passed_ns: Callable[[], int]) -> None:
        """Make a clock.

        Args:
            passed_ns: nanoseconds on a clock that measures passing time: steady, or simulated where one is used.
        """
        self._passed_ns = passed_ns
        self._newest_ns: int | None = None
        self._seen_at = 0

    def saw(self, stamp_ns: int) -> None:
        """Note the header stamp of a message that has just come."""
        if self._newest_ns is None or stamp_ns > self._newest_ns or stamp_ns < self._newest_ns - JUMP_NS:
            self._newest_ns = stamp_ns
            self._seen_at = self._passed_ns()

    def restart(self, stamp_ns: int) -> None:
        """Begin to count silence from this stamp and moment."""
        self._newest_ns, self._seen_at = stamp_ns, self._passed_ns()

    @property
    def quiet_s(self) -> float:
        """How long no stamp has advanced, s; 0 before the first."""
        if self._newest_ns is None:
            return 0.0
        return max(0, self._passed_ns() - self._seen_at) / _NS

    def now_ns(self) -> int | None:
        """Stream time now; None before the first stamp."""
        if self._newest_ns is None:
            return None
        return self._newest_ns + max(0, self._passed_ns() - self._seen_at)


class PassingTime:
    """Passing time by a simulated clock, which may stand still, be set, or be published twice over.

    Only what time can have done counts: a step back is none, and neither is a leap that no simulation runs fast enough
    for. So a clock that flips between two publishers does not make a stream look silent for minutes.
    """

    def __init__(self, clock_ns: Callable[[], int], steady_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._clock_ns = clock_ns
        self._steady_ns = steady_ns
        self._clock_then, self._steady_then = clock_ns(), steady_ns()
        self._passed = 0

    def __call__(self) -> int:
        """Nanoseconds that have passed since this was made."""
        clock, steady = self._clock_ns(), self._steady_ns()
        step = clock - self._clock_then
        if 0 < step <= max(_NS, FASTEST * (steady - self._steady_then)):
            self._passed += step
        self._clock_then, self._steady_then = clock, steady
        return self._passed


def passing_time(node: Any) -> Callable[[], int]:
    """The clock that measures passing time for a node, nanoseconds: simulated where it uses that, else steady."""
    if node.get_parameter("use_sim_time").value:
        return PassingTime(lambda: int(node.get_clock().now().nanoseconds))
    return time.monotonic_ns
