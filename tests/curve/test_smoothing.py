"""Live and final smoothing: exact small cases, invariances, errors."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.ndimage import gaussian_filter1d

from rollout_monitor.curve import CausalSmoother, OpdSettings, compute, smooth_final
from rollout_monitor.curve.smoothing import pick_sigma_s
from rollout_monitor.errors import InputError

S = 1_000_000_000
curves = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=30)
TOOLKIT = OpdSettings.for_convention("toolkit")


def stamps(samples: int, step_ns: int = S // 5, start: int = 0) -> np.ndarray:
    return start + step_ns * np.arange(samples, dtype=np.int64)


def test_causal_smoothing_follows_the_exponential_whatever_the_rate() -> None:
    for step in (S, S // 10, S // 1000):
        smooth = CausalSmoother(2.0)
        assert smooth.update(5, 0.0) == 0.0
        value = [smooth.update(5 + k * step, 1.0) for k in range(1, 3 * S // step + 1)][-1]
        assert value == pytest.approx(1.0 - math.exp(-1.5), rel=1e-9)


@settings(deadline=None)
@given(curves, st.floats(0.01, 10.0), st.integers(-(10**18), 10**18))
def test_causal_smoothing_stays_between_the_samples_and_ignores_a_shift_of_time(curve, tau, shift) -> None:
    here, there = CausalSmoother(tau), CausalSmoother(tau)
    for k, p in enumerate(curve):
        value = here.update(k * S, p)
        assert min(curve[: k + 1]) <= value <= max(curve[: k + 1])  # to the last bit, or [0, 1] would be left
        assert there.update(k * S + shift, p) == value


def test_no_time_constant_passes_samples_through() -> None:
    smooth = CausalSmoother(0.0)
    assert [smooth.update(k, p) for k, p in enumerate((0.3, 0.9, 0.1))] == pytest.approx([0.3, 0.9, 0.1])


@pytest.mark.parametrize(("stamp", "p"), [(10, 0.5), (9, 0.5), (11, math.nan)])
def test_causal_smoothing_refuses_what_it_cannot_use_and_stays_as_it_was(stamp, p) -> None:
    smooth, twin = CausalSmoother(1.0), CausalSmoother(1.0)
    for one in (smooth, twin):
        one.update(10, 0.2)
    with pytest.raises(InputError):
        smooth.update(stamp, p)
    assert smooth.update(20, 0.4) == twin.update(20, 0.4)


@pytest.mark.parametrize("tau", [-1.0, math.nan, math.inf])
def test_a_wrong_time_constant_is_refused(tau) -> None:
    with pytest.raises(InputError, match="tau_s"):
        CausalSmoother(tau)


def test_paper_smoothing_is_the_gaussian_of_sigma_seconds() -> None:
    curve = np.random.default_rng(0).random(50)
    settings = OpdSettings(final_sigma_s=0.6)
    wanted = gaussian_filter1d(curve, 3.0, mode="nearest")  # 0.6 s at 5 Hz
    assert smooth_final(curve, stamps(50), settings) == pytest.approx(wanted, abs=1e-12)
    late = stamps(50)
    late[20:] += S  # one long pause does not change the median step
    assert smooth_final(curve, late, settings) == pytest.approx(wanted, abs=1e-12)


def by_hand(p: list[float]) -> list[float]:
    """The toolkit's smoothing in plain loops."""
    cleaned = list(p)
    if len(p) >= 5:
        for i in range(2, len(p) - 2):
            around = sorted((p[i - 2], p[i - 1], p[i + 1], p[i + 2]))
            median = (around[1] + around[2]) / 2
            if abs(p[i] - median) > 0.35:
                cleaned[i] = median
    out = []
    for i in range(len(p)):
        total = weight = 0.0
        for offset, w in zip((-2, -1, 0, 1, 2), (0.1, 0.2, 0.4, 0.2, 0.1), strict=True):
            if 0 <= i + offset < len(p):
                total += w * cleaned[i + offset]
                weight += w
        out.append(min(1.0, max(0.0, total / weight)))
    return out


@settings(deadline=None)
@given(curves)
def test_toolkit_smoothing_equals_the_plain_loops(curve) -> None:
    assert smooth_final(curve, None, TOOLKIT) == pytest.approx(by_hand(curve), abs=1e-12)


def test_toolkit_smoothing_of_one_spike() -> None:
    spiked = [0.2, 0.2, 0.9, 0.2, 0.2]
    assert smooth_final(spiked, None, TOOLKIT) == pytest.approx([0.2] * 5)
    assert smooth_final(spiked[:4], None, TOOLKIT)[2] == pytest.approx(
        (0.1 * 0.2 + 0.2 * 0.2 + 0.4 * 0.9 + 0.2 * 0.2) / 0.9
    )


@settings(deadline=None)
@given(curves, st.sampled_from(["paper", "toolkit", "toolkit-1.0"]), st.integers(0, 10**18))
def test_final_smoothing_stays_within_the_curve_and_ignores_a_shift_of_time(curve, convention, shift) -> None:
    settings = OpdSettings.for_convention(convention)
    smoothed = smooth_final(curve, stamps(len(curve)), settings)
    assert smoothed.shape == (len(curve),)
    assert smoothed.min() >= min(curve) - 1e-12
    assert smoothed.max() <= max(curve) + 1e-12
    assert np.array_equal(smoothed, smooth_final(curve, stamps(len(curve), start=shift), settings))
    compute(smoothed, settings)  # always a curve again


def test_toolkit_1_0_does_not_smooth_and_the_input_is_never_handed_back() -> None:
    curve = np.array([0.1, 0.9, 0.1])
    smoothed = smooth_final(curve, None, OpdSettings.for_convention("toolkit-1.0"))
    assert np.array_equal(smoothed, curve)
    assert smoothed is not curve


@pytest.mark.parametrize(
    ("given_stamps", "says"), [(None, "stamps"), ([0, 1], "3 samples need 3 stamps"), ([0, 5, 5], "sample 2")]
)
def test_paper_smoothing_needs_usable_stamps(given_stamps, says) -> None:
    with pytest.raises(InputError, match=says):
        smooth_final([0.1, 0.2, 0.3], given_stamps, OpdSettings())


def test_sigma_is_chosen_by_the_smallest_error_against_the_truth() -> None:
    rng = np.random.default_rng(0)
    truth = np.clip(np.linspace(-0.1, 1.1, 200), 0.0, 1.0)
    noisy = np.clip(truth + rng.normal(0.0, 0.05, 200), 0.0, 1.0)
    chosen = pick_sigma_s([(noisy, truth, stamps(200))], [0.0, 1.0, 20.0])
    assert chosen == 1.0
    assert pick_sigma_s([(truth, truth, stamps(200))], [0.0, 1.0]) == 0.0
    with pytest.raises(InputError):
        pick_sigma_s([], [1.0])
    with pytest.raises(InputError, match="shape"):
        pick_sigma_s([(noisy, truth[:5], stamps(200))], [1.0])
