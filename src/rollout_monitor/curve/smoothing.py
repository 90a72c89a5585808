"""Smoothing of a progress curve: causal while it grows, centred once it is complete.

A centred window looks ahead, so it cannot be the live one. Live values come from `CausalSmoother`, final values from
`smooth_final`; a report shows both and the largest difference between them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
from scipy.ndimage import gaussian_filter1d

from rollout_monitor.curve.checks import Floats, as_curve
from rollout_monitor.curve.settings import OpdSettings
from rollout_monitor.errors import InputError

# Behaviour of the published 1.5 toolkit; constants because changing one would no longer reproduce its numbers.
SPIKE_LIMIT = 0.35  # an interior sample further than this from the median of its four neighbours is replaced by it
WINDOW = np.array([0.1, 0.2, 0.4, 0.2, 0.1])  # centred, renormalised at the edges
SPIKE_MIN_SAMPLES = 5


class CausalSmoother:
    """First-order low-pass over unevenly spaced samples: O(1) per sample, no look-ahead.

    After a step of dt seconds the new sample weighs 1 - exp(-dt / tau), which makes the result independent of the
    sample rate. The first sample passes through.

    >>> smooth = CausalSmoother(tau_s=1.0)
    >>> smooth.update(0, 0.0), round(smooth.update(1_000_000_000, 1.0), 4)
    (0.0, 0.6321)
    """

    __slots__ = ("_stamp_ns", "_tau_ns", "_value")

    def __init__(self, tau_s: float) -> None:
        """``tau_s``: time constant in seconds; 0 passes every sample through.

        Raises:
            InputError: negative or not finite.
        """
        if not (math.isfinite(tau_s) and tau_s >= 0.0):
            raise InputError(f"tau_s is {tau_s}; the smoothing time constant must be a number of seconds from 0 up")
        self._tau_ns = tau_s * 1e9
        self._stamp_ns: int | None = None
        self._value = 0.0

    def update(self, stamp_ns: int, p: float) -> float:
        """Take a sample (stamp in nanoseconds, any finite value) and return the smoothed value at its stamp.

        Raises:
            InputError: the stamp does not advance, or the value is not finite; the state is as before the call.
        """
        if not math.isfinite(p):
            raise InputError(f"the sample at stamp {stamp_ns} is {p}; a missing value must be left out")
        if self._stamp_ns is None:
            self._value = float(p)
        else:
            step_ns = stamp_ns - self._stamp_ns
            if step_ns <= 0:
                raise InputError(f"stamp {stamp_ns} does not come after {self._stamp_ns}; stamps must advance")
            weight = -math.expm1(-step_ns / self._tau_ns) if self._tau_ns > 0.0 else 1.0
            moved = self._value + weight * (p - self._value)
            low, high = min(self._value, p), max(self._value, p)
            self._value = min(high, max(low, moved))  # rounding must not leave the interval, or [0, 1] with it
        self._stamp_ns = stamp_ns
        return self._value


def smooth_final(progress: npt.ArrayLike, stamps_ns: npt.ArrayLike | None, settings: OpdSettings) -> Floats:
    """Smooth a complete curve as the settings' convention does.

    ``paper``: Gaussian, ``mode="nearest"``, ``final_sigma_s`` turned into samples by the median step of the stamps.
    ``toolkit``: spikes replaced by the median of their neighbours, then the centred 5-tap window, then clipped.
    ``toolkit-1.0``: none.

    Args:
        progress: T+1 values in [0, 1].
        stamps_ns: T+1 advancing stamps, nanoseconds; only ``paper`` needs them, None will do for the others.
        settings: convention and sigma.

    Returns:
        float64 array of shape (T+1,), within [0, 1]; never the input array itself.

    Raises:
        InputError: a bad curve (`as_curve`), or stamps that are missing, do not advance or do not fit the curve.
    """
    curve = as_curve(progress)
    if settings.convention == "toolkit":
        return _toolkit(curve)
    if settings.convention == "toolkit-1.0" or settings.final_sigma_s == 0.0 or len(curve) == 1:
        return curve.copy()
    return _gaussian(curve, settings.final_sigma_s / _median_step_s(stamps_ns, len(curve)))


def _gaussian(curve: Floats, sigma_samples: float) -> Floats:
    smoothed: Floats = gaussian_filter1d(curve, sigma_samples, mode="nearest")
    return np.clip(smoothed, 0.0, 1.0)  # the weights add up to 1 only to rounding


def _median_step_s(stamps_ns: npt.ArrayLike | None, samples: int) -> float:
    if stamps_ns is None:
        raise InputError("smoothing in seconds needs the samples' stamps; give them, or the sample rate")
    stamps = np.asarray(stamps_ns, dtype=np.int64)
    if stamps.shape != (samples,):
        raise InputError(f"{samples} samples need {samples} stamps, but the stamps have shape {stamps.shape}")
    steps = np.diff(stamps)
    if (steps <= 0).any():
        index = int(np.argmax(steps <= 0)) + 1
        raise InputError(f"the stamp of sample {index} does not come after the one before; stamps must advance")
    return float(np.median(steps)) * 1e-9


def _toolkit(curve: Floats) -> Floats:
    cleaned = curve.copy()
    if len(curve) >= SPIKE_MIN_SAMPLES:
        neighbours = np.stack([curve[:-4], curve[1:-3], curve[3:-1], curve[4:]])
        median = np.median(neighbours, axis=0)
        spike = np.abs(curve[2:-2] - median) > SPIKE_LIMIT
        cleaned[2:-2][spike] = median[spike]
    weights = _same(np.ones_like(cleaned))
    return np.clip(_same(cleaned) / weights, 0.0, 1.0)


def _same(values: Floats) -> Floats:
    """Window sums centred on every sample, zeros outside; also right for curves shorter than the window."""
    radius = len(WINDOW) // 2
    return np.convolve(np.pad(values, radius), WINDOW, mode="valid")


def pick_sigma_s(
    curves: Sequence[tuple[npt.ArrayLike, npt.ArrayLike, npt.ArrayLike]], candidates: Iterable[float]
) -> float:
    """Choose the final sigma of the ``paper`` convention on a training split.

    Args:
        curves: per rollout (predicted progress, true progress, stamps in nanoseconds), each of shape (T+1,).
        candidates: sigmas to try, seconds.

    Returns:
        The candidate with the smallest mean absolute error against the truth over all samples of all rollouts; the
        smallest such sigma where several are equal.

    Raises:
        InputError: no curve, no candidate, or a truth that does not fit its curve.
    """
    tried = sorted(set(candidates))
    if not tried or not curves:
        raise InputError("choosing sigma needs at least one rollout and one candidate")
    for predicted, truth, _ in curves:
        if np.shape(truth) != np.shape(predicted):
            raise InputError(f"a predicted curve has shape {np.shape(predicted)}, its truth {np.shape(truth)}")

    def error(sigma_s: float) -> float:
        settings = OpdSettings(final_sigma_s=sigma_s)
        misses = [np.abs(smooth_final(p, stamps, settings) - as_curve(truth)) for p, truth, stamps in curves]
        return float(np.concatenate(misses).mean())

    return min(tried, key=error)
