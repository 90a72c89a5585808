"""The live twin of `figures`: O(1) time and memory per grid row, over an episode of any length.

Welford's recurrence keeps the variances stable on long streams. LDLJ and SPARC need the whole profile: they are None
here and come with the sliding window and the final figures.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from rollout_monitor.motion.figures import Totals
from rollout_monitor.motion.settings import DEFAULT_IDLE_SPEED
from rollout_monitor.motion.smoothness import PeakCounter
from rollout_monitor.records import MotionFigures

Floats = npt.NDArray[np.float64]


class Welford:
    """Running mean and population variance of vectors (Welford 1962)."""

    __slots__ = ("_m2", "_mean", "count")

    def __init__(self, size: int) -> None:
        self.count = 0
        self._mean: Floats = np.zeros(size)
        self._m2: Floats = np.zeros(size)

    def update(self, x: Floats) -> None:
        """Take a vector of shape (size,)."""
        self.count += 1
        before = x - self._mean
        self._mean = self._mean + before / self.count
        self._m2 = self._m2 + before * (x - self._mean)

    @property
    def variance(self) -> Floats | None:
        """Shape (size,), ddof 0; None before the first vector."""
        return self._m2 / self.count if self.count else None

    def copy(self) -> Welford:
        """An independent twin; cheap, as `update` never changes its arrays in place."""
        twin = Welford(0)
        twin.count, twin._mean, twin._m2 = self.count, self._mean, self._m2
        return twin


class MotionAccumulator:
    """Figures of a growing stretch of motion, row by row.

    >>> live = MotionAccumulator(joints=1, rate_hz=30.0)
    >>> for q in (0.0, 0.1, 0.3):
    ...     live.push(np.array([q]))
    >>> round(live.figures(["elbow"]).mu_v, 3)
    0.15
    """

    __slots__ = (
        "_abs_v",
        "_accelerations",
        "_idle_speed",
        "_idle_steps",
        "_jerk_count",
        "_jerk_power",
        "_last_a",
        "_last_q",
        "_last_v",
        "_peak_a",
        "_peak_speed",
        "_peaks",
        "_rate_hz",
        "_reversals",
        "_samples",
        "_signs",
        "_velocities",
    )

    def __init__(self, joints: int, rate_hz: float, idle_speed: float = DEFAULT_IDLE_SPEED) -> None:
        self._rate_hz = rate_hz
        self._idle_speed = idle_speed
        self._samples = 0
        self._velocities = Welford(joints)
        self._accelerations = Welford(joints)
        self._abs_v = 0.0
        self._jerk_power: Floats = np.zeros(joints)
        self._jerk_count = 0
        self._idle_steps = 0
        self._reversals = 0
        self._signs: Floats = np.zeros(joints)
        self._peaks = PeakCounter(idle_speed)
        self._peak_speed = 0.0
        self._peak_a = 0.0
        self._last_q: Floats | None = None
        self._last_v: Floats | None = None
        self._last_a: Floats | None = None

    def push(self, row: Floats, new_segment: bool = False) -> None:
        """Take the next grid row, shape (J,), finite; ``new_segment`` if it does not follow on the one before."""
        if new_segment:
            self._last_q = self._last_v = self._last_a = None
            self._signs = np.zeros_like(self._signs)
            self._peaks.restart()
        self._samples += 1
        last_q, self._last_q = self._last_q, row
        if last_q is None:
            return
        v = row - last_q
        self._velocities.update(v)
        self._take_speed(v)
        last_v, self._last_v = self._last_v, v
        if last_v is None:
            return
        a = v - last_v
        self._accelerations.update(a)
        self._peak_a = max(self._peak_a, float(np.abs(a).max()))
        last_a, self._last_a = self._last_a, a
        if last_a is None:
            return
        self._jerk_power = self._jerk_power + (a - last_a) ** 2
        self._jerk_count += 1

    def _take_speed(self, v: Floats) -> None:
        speed = v * self._rate_hz
        size = np.abs(speed)
        top = float(size.max())
        self._abs_v += float(np.abs(v).sum())
        self._peak_speed = max(self._peak_speed, top)
        self._peaks.update(float(np.linalg.norm(speed)))
        if top < self._idle_speed:
            self._idle_steps += 1
            return
        signs = np.where(size >= self._idle_speed, np.sign(speed), self._signs)
        self._reversals += int(np.count_nonzero(signs * self._signs < 0.0))
        self._signs = signs

    def figures(self, joint_names: Sequence[str]) -> MotionFigures:
        """The figures so far; ``ldlj`` and ``sparc`` are None, everything else is as `figures.figures` has it."""
        steps = self._velocities.count
        values = steps * len(self._signs)
        return Totals(
            samples=self._samples,
            steps=steps,
            s_v=self._velocities.variance,
            s_a=self._accelerations.variance,
            mu_v=self._abs_v / values if values else None,
            jerk_power=self._jerk_power / self._jerk_count if self._jerk_count else None,
            idle_steps=self._idle_steps,
            reversals=self._reversals,
            speed_peaks=self._peaks.count,
            peak_speed=self._peak_speed if steps else None,
            peak_step_acceleration=self._peak_a if self._accelerations.count else None,
        ).record(self._rate_hz, joint_names)

    def copy(self) -> MotionAccumulator:
        """An independent twin in the same state; cheap, as arrays are replaced and never changed in place."""
        twin = MotionAccumulator.__new__(MotionAccumulator)
        for name in self.__slots__:
            setattr(twin, name, getattr(self, name))
        twin._velocities, twin._accelerations = self._velocities.copy(), self._accelerations.copy()
        twin._peaks = self._peaks.copy()
        return twin
