"""How far apart the clocks of the inputs are: two streams that both arrive, with stamps seconds apart.

Without this a clock that is off looks like a cable that is out, for all else goes by stamps. The joint states are the
reference, or the primary camera where there are none. Decided by stamps and the order of arrival, never by a wall
clock.
"""

from __future__ import annotations

from collections import deque
from statistics import median

_NS = 1_000_000_000
JOINT_STATES = "joint_states"
SILENT_NS = _NS // 2
"""A side that stays away while the other goes on for this long says nothing about the clocks."""

_SAMPLES = 9  # messages queue and overtake each other: the median of so many


class ClockOffset:
    """The offset of one input's stamps from the reference's, while both arrive."""

    def __init__(self) -> None:
        self._samples: deque[int] = deque(maxlen=_SAMPLES)
        self._own_ns: int | None = None  # newest stamps
        self._reference_ns: int | None = None
        self._own_met_ns = 0  # the newest stamps as they were when the other side was last heard
        self._reference_met_ns = 0
        self._fresh = False  # the reference was heard since the input's newest message

    def on_own(self, stamp_ns: int) -> None:
        """The input's next stamp."""
        if not self._is_known() or (self._own_ns is not None and stamp_ns < self._own_ns - SILENT_NS):
            self._samples.clear()
        if self._reference_ns is not None:
            self._reference_met_ns = self._reference_ns
            if self._fresh:
                self._own_met_ns = stamp_ns
                self._samples.append(stamp_ns - self._reference_ns)
        self._own_ns, self._fresh = stamp_ns, False

    def on_reference(self, stamp_ns: int) -> None:
        """The reference's next stamp."""
        if self._reference_ns is not None and stamp_ns < self._reference_ns - SILENT_NS:
            self._samples.clear()
        self._reference_ns, self._fresh = stamp_ns, True

    @property
    def seconds(self) -> float | None:
        """Own stamps minus the reference's, s; None where one of them does not arrive."""
        return median(self._samples) / _NS if self._is_known() else None

    def _is_known(self) -> bool:
        if not self._samples or self._own_ns is None or self._reference_ns is None:
            return False
        own_alone_ns, reference_alone_ns = self._own_ns - self._own_met_ns, self._reference_ns - self._reference_met_ns
        return own_alone_ns <= SILENT_NS and reference_alone_ns <= SILENT_NS
