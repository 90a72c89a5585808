"""Smoothness of a speed profile: log dimensionless jerk, spectral arc length, speed peaks.

Source: Balasubramanian, Melendez-Calderon, Roby-Brami, Burdet, "On the analysis of movement smoothness", Journal of
NeuroEngineering and Rehabilitation 12:112 (2015). Both measures are dimensionless and negative for a movement from
rest to rest, nearer 0 the smoother it is; LDLJ passes 0 on a stretch of nearly constant speed.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

MIN_SPEEDS = 3  # the second difference of the speed needs three
# SPARC's parameters as published
SPARC_MAX_HZ = 10.0  # human and arm motion lies below
SPARC_THRESHOLD = 0.05  # the spectrum counts up to the last frequency that reaches this share of its peak
SPARC_PAD_LEVEL = 4  # zero-padding to 2^4 times the next power of two
# A dimensionless jerk below this is rounding, not motion: a speed of 1 resolved to 2e-16 in n samples gives about
# (n^4 * 1e-16)^2 / n, and a real movement has at least tens.
MIN_JERK = 1e-6


def ldlj(speed: npt.ArrayLike, rate_hz: float) -> float | None:
    """Log dimensionless jerk of a speed profile.

    -ln( D^3 / v_peak^2 * integral of (d^2 v / dt^2)^2 dt ), with D the profile's duration. A minimum-jerk reach has
    -ln(204.8) = -5.32 whatever its distance and duration.

    Args:
        speed: shape (T,), any unit of speed, uniformly sampled.
        rate_hz: sample rate.

    Returns:
        None where there are fewer than three samples, no motion, or no jerk beyond rounding.
    """
    v = np.asarray(speed, dtype=np.float64)
    peak = float(v.max()) if len(v) >= MIN_SPEEDS else 0.0
    if peak <= 0.0:
        return None
    duration = len(v) / rate_hz
    jerk = np.diff(v / peak, 2) * rate_hz**2
    dimensionless = duration**3 * float(jerk @ jerk) / rate_hz
    return -math.log(dimensionless) if dimensionless > MIN_JERK else None


def sparc(speed: npt.ArrayLike, rate_hz: float) -> float | None:
    """Spectral arc length of a speed profile.

    The length of the curve of the normalised amplitude spectrum over the frequencies up to the last one that reaches
    5 % of the peak, at most 10 Hz, with that range scaled to 1. A minimum-jerk reach has -1.41.

    Args:
        speed: shape (T,), any unit of speed, uniformly sampled.
        rate_hz: sample rate.

    Returns:
        None where there are fewer than three samples or no motion.
    """
    v = np.asarray(speed, dtype=np.float64)
    if len(v) < MIN_SPEEDS:
        return None
    size = 2 ** (math.ceil(math.log2(len(v))) + SPARC_PAD_LEVEL)
    amplitude = np.abs(np.fft.rfft(v, size))
    peak = float(amplitude.max())
    if peak <= 0.0:
        return None
    frequency = np.arange(len(amplitude)) * (rate_hz / size)
    below = frequency <= SPARC_MAX_HZ
    amplitude, frequency = amplitude[below] / peak, frequency[below]
    strong = np.flatnonzero(amplitude >= SPARC_THRESHOLD)
    first, last = int(strong[0]), int(strong[-1])
    if last == first:
        return None  # the grid is too coarse for a single spectral line to have a length
    used = amplitude[first : last + 1]
    step = 1.0 / (last - first)
    return -float(np.sum(np.hypot(step, np.diff(used))))


class PeakCounter:
    """Counts peaks of a speed by prominence: a rise and then a fall of at least ``prominence``. O(1) per sample.

    Noise smaller than the prominence adds none, whatever the sample rate.
    """

    __slots__ = ("_extreme", "_prominence", "_rising", "count")

    def __init__(self, prominence: float) -> None:
        self._prominence = prominence
        self._rising = False
        self._extreme: float | None = None  # lowest since the last peak, or highest since the last valley
        self.count = 0

    def update(self, speed: float) -> None:
        """Take the next speed."""
        if self._extreme is None:
            self._extreme = speed
        elif self._rising:
            if speed > self._extreme:
                self._extreme = speed
            elif self._extreme - speed >= self._prominence:
                self.count += 1
                self._rising, self._extreme = False, speed
        elif speed < self._extreme:
            self._extreme = speed
        elif speed - self._extreme >= self._prominence:
            self._rising, self._extreme = True, speed

    def restart(self) -> None:
        """Begin a new stretch: what follows is not connected to what came before; the count goes on."""
        self._rising, self._extreme = False, None

    def copy(self) -> PeakCounter:
        """An independent counter in the same state."""
        twin = PeakCounter(self._prominence)
        twin._rising, twin._extreme, twin.count = self._rising, self._extreme, self.count
        return twin
