"""Range of a signal over a sliding stretch of stamps, in amortised O(1) per sample."""

from __future__ import annotations

from collections import deque


class RangeWindow:
    """Minimum and maximum over the last ``length_ns`` of stamps (two monotonic queues).

    Memory is bounded by the samples within the window, whatever the episode's length.
    """

    def __init__(self, length_ns: int) -> None:
        self.length_ns = length_ns
        self._low: deque[tuple[int, float]] = deque()
        self._high: deque[tuple[int, float]] = deque()
        self._first_ns: int | None = None
        self._last_ns = 0

    def update(self, stamp_ns: int, value: float) -> None:
        """Add a sample; stamps advance."""
        if self._first_ns is None or stamp_ns - self._last_ns > self.length_ns:
            self._first_ns = stamp_ns  # after a hole as long as the window nothing is known of what went before
        self._last_ns = stamp_ns
        while self._low and self._low[-1][1] >= value:
            self._low.pop()
        while self._high and self._high[-1][1] <= value:
            self._high.pop()
        self._low.append((stamp_ns, value))
        self._high.append((stamp_ns, value))
        for queue in (self._low, self._high):
            while queue[0][0] < stamp_ns - self.length_ns:
                queue.popleft()

    @property
    def full(self) -> bool:
        """Whether samples span the whole window."""
        return self._first_ns is not None and self._last_ns - self._first_ns >= self.length_ns

    @property
    def spread(self) -> float:
        """Maximum minus minimum over the window; 0 where there is no sample."""
        return self._high[0][1] - self._low[0][1] if self._low else 0.0
