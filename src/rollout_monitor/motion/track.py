"""The recent samples of one joint: appended one by one, read around a tick of the grid."""

from __future__ import annotations

from collections import deque
from math import isfinite

import numpy as np
import numpy.typing as npt

from rollout_monitor.motion import antialias

Floats = npt.NDArray[np.float64]

NEVER = -(2**63)  # before any stamp
CAPACITY = 2048  # samples kept: 2 s at 1 kHz, far more than a kernel needs; older ones make room
FASTER = 1.5  # the input counts as faster than the grid from this ratio of rates on
# Published velocities bend the interpolation between two samples only if their mean is within this share of the
# chord's slope: some drivers publish zeros that were never measured.
VELOCITY_TOLERANCE = 0.5


class Track:
    """Samples of one joint, with the holes between them. Stamps are nanoseconds and advance."""

    __slots__ = (
        "_cut",
        "_gap_ns",
        "_holes",
        "_size",
        "_stamps",
        "_values",
        "_velocities",
        "first_ns",
        "last",
        "last_ns",
        "name",
    )

    def __init__(self, name: str, gap_ns: int) -> None:
        self.name = name
        self._gap_ns = gap_ns
        self._stamps = np.zeros(2 * CAPACITY, dtype=np.int64)
        self._values = np.zeros(2 * CAPACITY)
        self._velocities = np.zeros(2 * CAPACITY)
        self.clear()

    def clear(self) -> None:
        """Forget all samples."""
        self._size = 0
        self._holes: deque[tuple[int, int]] = deque()
        self._cut = False
        self.last = 0.0  # the newest value, once there is one
        self.first_ns = self.last_ns = NEVER

    def __len__(self) -> int:
        return self._size

    def cut(self) -> None:
        """What comes next does not go on from what came before, however soon it follows."""
        self._cut = True

    def append(self, stamp_ns: int, value: float, velocity: float) -> bool:
        """Take a sample after the last one; a velocity of NaN is none. Returns whether it ends a hole."""
        last_ns, at = self.last_ns, self._size
        if at == 2 * CAPACITY:
            at = self._make_room()
        self._stamps[at] = stamp_ns
        self._values[at] = value
        self._velocities[at] = velocity
        self._size = at + 1
        self.last, self.last_ns = value, stamp_ns
        if last_ns == NEVER:
            self.first_ns, self._cut = stamp_ns, False
            return False
        if self._cut:
            self._cut = False
            self._holes.append((last_ns, stamp_ns))
            return False
        if stamp_ns - last_ns <= self._gap_ns:
            return False
        self._holes.append((last_ns, stamp_ns))
        return True

    def _make_room(self) -> int:
        for array in (self._stamps, self._values, self._velocities):
            array[:CAPACITY] = array[CAPACITY:]
        self._size = CAPACITY
        self.first_ns = int(self._stamps[0])
        return CAPACITY

    def blocked_until(self, first_ns: int, last_ns: int) -> int | None:
        """Whether the samples cover this stretch without a hole.

        Returns:
            None if they do; otherwise the stamp before which no stretch that reaches further can begin.
        """
        holes = self._holes
        while holes and holes[0][1] <= first_ns:
            holes.popleft()
        blocked = self.first_ns if self.first_ns > first_ns else None
        for begin, end in holes:
            if begin < last_ns:
                blocked = end
        return blocked

    def value_at(self, tick_ns: int, period_ns: float) -> float:
        """The grid value at a tick whose kernel the samples cover.

        Low-passed where the samples around the tick come faster than the grid, else interpolated between the two
        samples around it.
        """
        half_ns = int(antialias.HALF_WIDTH * period_ns)
        stamps = self._stamps[: self._size]
        first = int(np.searchsorted(stamps, tick_ns - half_ns, side="right")) - 1
        last = int(np.searchsorted(stamps, tick_ns + half_ns, side="left"))
        span_ns = int(stamps[last] - stamps[first])
        if (last - first) * period_ns <= FASTER * span_ns:
            return self._interpolate(tick_ns)
        offsets, weights = antialias.kernel()
        times = (stamps[first : last + 1] - tick_ns) / period_ns
        return float(np.interp(offsets, times, self._values[first : last + 1]) @ weights)

    def _interpolate(self, tick_ns: int) -> float:
        """Linear between the neighbours of the tick, or cubic where both have a believable velocity."""
        right = int(np.searchsorted(self._stamps[: self._size], tick_ns, side="left"))
        x1 = float(self._values[right])
        if self._stamps[right] == tick_ns:
            return x1
        x0 = float(self._values[right - 1])
        step_s = float(self._stamps[right] - self._stamps[right - 1]) * 1e-9
        s = float(tick_ns - self._stamps[right - 1]) * 1e-9 / step_s
        straight = x0 + s * (x1 - x0)
        v0, v1 = float(self._velocities[right - 1]), float(self._velocities[right])
        slope = (x1 - x0) / step_s
        if not (isfinite(v0) and isfinite(v1)):
            return straight
        if abs((v0 + v1) / 2.0 - slope) > VELOCITY_TOLERANCE * max(abs(v0), abs(v1), abs(slope)):
            return straight
        # Hermite's cubic as the straight line plus the two velocities' departures from its slope
        return straight + step_s * s * (1.0 - s) * ((1.0 - s) * (v0 - slope) - s * (v1 - slope))
