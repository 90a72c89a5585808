"""Kinematic figures against analytic signals, a plain reference, and their live twin."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

from rollout_monitor.errors import InputError
from rollout_monitor.motion import figures
from rollout_monitor.motion.smoothness import PeakCounter, ldlj, sparc
from rollout_monitor.motion.streaming import MotionAccumulator, Welford
from rollout_monitor.records import MotionFigures

NAMES = ["shoulder", "elbow", "wrist"]


def live(segments: list[np.ndarray], rate: float, names: list[str], idle: float = 0.02) -> MotionFigures:
    accumulator = MotionAccumulator(len(names), rate, idle)
    for segment in segments:
        for at, row in enumerate(segment):
            accumulator.push(row, new_segment=at == 0)
    return accumulator.figures(names)


def assert_equal(a: MotionFigures, b: MotionFigures, tiny: float = 0.0) -> None:
    """Every figure that is offered live, to 1e-9 relative (``tiny``: what is rounding of the positions themselves)."""
    left, right = a.model_dump(), b.model_dump()
    for name in set(left) - {"ldlj", "sparc"}:
        if isinstance(left[name], float | list):
            assert left[name] == pytest.approx(right[name], rel=1e-9, abs=tiny), name
        else:
            assert left[name] == right[name], name


# --- analytic signals ------------------------------------------------------------------------------------------------


def test_a_constant_does_not_move() -> None:
    found = figures(np.full((90, 3), 0.7), 30.0, NAMES)
    assert (found.u_v, found.u_a, found.mu_v, found.rms_jerk, found.peak_speed) == (0.0, 0.0, 0.0, 0.0, 0.0)
    assert (found.idle_fraction, found.reversals, found.speed_peaks) == (1.0, 0, 0)
    assert found.ldlj is None  # nothing moved: there is no smoothness to speak of
    assert found.sparc is None
    assert (found.samples, found.duration_s) == (90, pytest.approx(89 / 30))


def test_a_ramp_has_speed_and_nothing_else() -> None:
    slopes = np.array([0.3, -1.2, 0.05])
    rows = np.arange(300)[:, None] / 50.0 * slopes
    found = figures(rows, 50.0, NAMES)
    assert found.mu_v_si == pytest.approx(np.abs(slopes).mean())
    assert found.mu_v == pytest.approx(np.abs(slopes).mean() / 50.0)
    assert found.peak_speed == pytest.approx(1.2)
    for name in ("u_v", "u_a", "u_v_si", "u_a_si", "rms_jerk", "peak_acceleration"):
        assert getattr(found, name) == pytest.approx(0.0, abs=1e-8), name
    assert (found.reversals, found.speed_peaks, found.idle_fraction) == (0, 0, 0.0)
    assert found.ldlj is None  # a constant speed has no jerk to take the logarithm of


@pytest.mark.parametrize("rate", [30.0, 125.0])
def test_a_sine_has_the_variances_of_its_differences(rate) -> None:
    """q_k = A sin(w k): v has amplitude 2 A sin(w/2), a A (2 sin(w/2))^2, jerk A (2 sin(w/2))^3; exact, not a limit."""
    amplitude, frequency, periods = np.array([0.2, 0.9, 0.5]), 0.5, 40
    w = 2.0 * np.pi * frequency / rate
    k = np.arange(int(periods * rate / frequency) + 1)
    found = figures(np.sin(w * k)[:, None] * amplitude, rate, NAMES)
    step = 2.0 * math.sin(w / 2.0)
    assert found.s_v == pytest.approx((amplitude * step) ** 2 / 2.0, rel=1e-9)  # whole periods
    assert found.u_v == max(found.s_v)
    assert found.s_a == pytest.approx((amplitude * step**2) ** 2 / 2.0, rel=2e-3)  # one sample short of them
    assert found.rms_jerk_per_joint == pytest.approx(amplitude * (step * rate) ** 3 / math.sqrt(2.0), rel=2e-3)
    assert found.mu_v == pytest.approx((amplitude * step).mean() * 2.0 / np.pi, rel=1e-3)
    assert found.u_v_si == pytest.approx((0.9 * 2 * np.pi * frequency) ** 2 / 2.0, rel=2e-3)
    assert found.u_a_si == pytest.approx((0.9 * (2 * np.pi * frequency) ** 2) ** 2 / 2.0, rel=5e-3)
    assert found.peak_speed == pytest.approx(0.9 * 2 * np.pi * frequency, rel=3e-3)
    assert found.peak_acceleration == pytest.approx(0.9 * (2 * np.pi * frequency) ** 2, rel=3e-3)
    assert found.worst_joint_v == found.worst_joint_a == found.worst_joint_jerk == "elbow"
    assert found.reversals == 3 * 2 * periods
    assert found.speed_peaks in (2 * periods - 1, 2 * periods)  # the first rises from its own start


def minimum_jerk(n: int) -> np.ndarray:
    s = np.linspace(0.0, 1.0, n)
    return 10 * s**3 - 15 * s**4 + 6 * s**5


def speed_of(s: np.ndarray | float) -> np.ndarray | float:
    return 30 * s**2 * (1 - s) ** 2


def test_ldlj_of_a_minimum_jerk_reach() -> None:
    """x(s) = D (10 s^3 - 15 s^4 + 6 s^5), s = t / T.

    Peak speed 15/8 D/T; jerk D/T^3 (60 - 360 s + 360 s^2), whose square integrates over t to 720 D^2/T^5. So
    T^3 / v_peak^2 * integral = 720 / (15/8)^2 = 204.8, and LDLJ = -ln 204.8 = -5.3220, free of D and T.
    """
    exact = -math.log(720.0 / (15.0 / 8.0) ** 2)
    assert exact == pytest.approx(-5.3220, abs=1e-4)
    for rate, duration, distance in ((1000.0, 1.0, 0.5), (1000.0, 3.0, 0.2), (2000.0, 2.0, 2.0)):
        speed = np.diff(distance * minimum_jerk(int(rate * duration) + 1)) * rate
        assert ldlj(speed, rate) == pytest.approx(exact, abs=0.02)
    coarse = figures(minimum_jerk(61)[:, None] * [0.5, -1.0, 0.3], 30.0, NAMES)  # 2 s on the grid: the ends are missing
    assert coarse.ldlj == pytest.approx(exact, abs=0.25)


def test_sparc_of_a_minimum_jerk_reach() -> None:
    """By quadrature of its own spectrum: -1.408; published values of the measure give -1.41."""

    def spectrum(f: float) -> float:
        parts = [quad(lambda s, g=g: speed_of(s) * g(2 * np.pi * f * s), 0, 1, limit=200)[0] for g in (np.cos, np.sin)]
        return float(np.hypot(*parts))

    f = np.linspace(0.0, 10.0, 1001)
    m = np.array([spectrum(x) for x in f]) / spectrum(0.0)
    last = int(np.flatnonzero(m >= 0.05)[-1])
    exact = -float(np.hypot(1.0 / last, np.diff(m[: last + 1])).sum())
    assert exact == pytest.approx(-1.408, abs=0.005)
    for rate, duration in ((30.0, 1.0), (30.0, 4.0), (500.0, 2.0)):
        s = (np.arange(int(rate * duration)) + 0.5) / int(rate * duration)
        assert sparc(speed_of(s), rate) == pytest.approx(exact, abs=0.02)
    reach = figures(minimum_jerk(61)[:, None] * [0.5, -1.0, 0.3], 30.0, NAMES)
    assert reach.sparc == pytest.approx(exact, abs=0.02)
    assert reach.speed_peaks == 1


def test_a_reach_is_smoother_than_a_hesitation_or_a_tremor() -> None:
    reach = np.concatenate([minimum_jerk(61), np.ones(60)])
    hesitating = np.concatenate([0.5 * minimum_jerk(31), np.full(20, 0.5), 0.5 + 0.5 * minimum_jerk(31), np.ones(39)])
    trembling = reach + 0.01 * np.sin(2 * np.pi * 6.0 * np.arange(121) / 30.0)
    smooth, *rough = [figures(q[:, None], 30.0, ["a"]) for q in (reach, hesitating, trembling)]
    for other in rough:
        assert smooth.sparc > other.sparc + 0.5
        assert smooth.ldlj > other.ldlj + 0.5
        assert smooth.rms_jerk < other.rms_jerk
    assert (smooth.speed_peaks, rough[0].speed_peaks) == (1, 2)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_smoothness_is_free_of_scale(scale) -> None:
    speed = np.abs(np.random.default_rng(0).normal(0.0, 1.0, 60))
    assert sparc(scale * speed, 30.0) == pytest.approx(sparc(speed, 30.0))
    assert ldlj(scale * speed, 30.0) == pytest.approx(ldlj(speed, 30.0))


def test_smoothness_of_nothing_is_none() -> None:
    for speed in ([], [1.0, 2.0], [0.0, 0.0, 0.0, 0.0]):
        assert ldlj(speed, 30.0) is None
        assert sparc(speed, 30.0) is None


def test_peaks_are_counted_by_prominence() -> None:
    def count(*speeds: float) -> int:
        counter = PeakCounter(0.1)
        for speed in speeds:
            counter.update(speed)
        return counter.count

    assert count(0.0, 1.0, 0.0) == 1
    assert count(0.0, 1.0, 0.95, 1.0, 0.0) == 1  # a dent of less than the prominence
    assert count(0.0, 1.0, 0.5, 1.0, 0.0) == 2
    assert count(1.0, 0.0) == 0
    assert count(0.0, 1.0) == 0
    assert count(0.0, 1.0, 1.0, 1.0, 0.0) == 1


# --- a plain reference -----------------------------------------------------------------------------------------------


def plain(segments: list[np.ndarray], rate: float, idle: float) -> dict[str, object]:
    """The figures in loops over single numbers."""
    joints = segments[0].shape[1]
    v: list[list[float]] = [[] for _ in range(joints)]
    a: list[list[float]] = [[] for _ in range(joints)]
    jerk: list[list[float]] = [[] for _ in range(joints)]
    idle_steps = steps = reversals = 0
    for q in segments:
        for j in range(joints):
            dv = [q[t][j] - q[t - 1][j] for t in range(1, len(q))]
            da = [dv[t] - dv[t - 1] for t in range(1, len(dv))]
            v[j] += dv
            a[j] += da
            jerk[j] += [da[t] - da[t - 1] for t in range(1, len(da))]
            heading = 0
            for x in dv:
                if abs(x * rate) >= idle:
                    now = 1 if x > 0 else -1
                    reversals += heading == -now
                    heading = now
        for t in range(1, len(q)):
            steps += 1
            idle_steps += all(abs((q[t][j] - q[t - 1][j]) * rate) < idle for j in range(joints))

    def variance(x: list[float]) -> float:
        mean = math.fsum(x) / len(x)
        return math.fsum((y - mean) ** 2 for y in x) / len(x)

    s_v, s_a = [variance(x) for x in v], [variance(x) for x in a]
    power = [math.fsum(y * y for y in x) / len(x) for x in jerk]
    return {
        "s_v": s_v,
        "s_a": s_a,
        "u_v": max(s_v),
        "u_a": max(s_a),
        "mu_v": math.fsum(abs(y) for x in v for y in x) / (steps * joints),
        "u_v_si": max(s_v) * rate**2,
        "u_a_si": max(s_a) * rate**4,
        "rms_jerk_per_joint": [math.sqrt(p) * rate**3 for p in power],
        "rms_jerk": math.sqrt(math.fsum(power) / joints) * rate**3,
        "idle_fraction": idle_steps / steps,
        "reversals": reversals,
        "peak_speed": max(abs(y) for x in v for y in x) * rate,
        "peak_acceleration": max(abs(y) for x in a for y in x) * rate**2,
        "samples": sum(map(len, segments)),
        "duration_s": steps / rate,
    }


walks = st.builds(
    lambda seed, lengths, size, rest: [
        np.cumsum(np.where(np.random.default_rng([seed, i]).random((n, 3)) < rest, 0.0, 1.0)
                  * np.random.default_rng([seed, i, 1]).normal(0.0, size, (n, 3)), axis=0)
        for i, n in enumerate(lengths)
    ],
    st.integers(0, 10**6),
    st.lists(st.integers(4, 40), min_size=1, max_size=4),
    st.sampled_from([1e-3, 0.05, 2.0]),
    st.sampled_from([0.0, 0.5, 0.95]),
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(walks, st.sampled_from([10.0, 30.0, 100.0]))
def test_batch_and_live_equal_the_plain_reference(segments, rate) -> None:
    found = figures(segments, rate, NAMES)
    values = found.model_dump()
    scale = max(float(np.abs(s).max()) for s in segments)
    for name, wanted in plain(segments, rate, 0.02).items():
        assert values[name] == pytest.approx(wanted, rel=1e-9, abs=1e-18 * rate**4 * (1 + scale) ** 2), name
    assert_equal(live(segments, rate, NAMES), found, tiny=1e-25 * rate**4 * (1 + scale) ** 2)


@settings(max_examples=60, deadline=None)
@given(walks)
def test_figures_are_finite_and_bounded(segments) -> None:
    found = figures(segments, 30.0, NAMES)
    json.loads(found.model_dump_json(), parse_constant=lambda name: pytest.fail(f"{name} in JSON"))
    assert found.u_v >= 0.0
    assert 0.0 <= found.idle_fraction <= 1.0
    assert found.peak_speed >= found.mu_v_si
    assert found.sparc is None or found.sparc < 0.0


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=5), st.booleans())
def test_short_stretches_have_none_live_and_final(lengths, one_joint) -> None:
    joints = 1 if one_joint else 3
    segments = [np.random.default_rng(i).random((n, joints)) for i, n in enumerate(lengths)]
    found = figures(segments, 30.0, NAMES[:joints])
    assert_equal(live(segments, 30.0, NAMES[:joints]), found)
    longest = max(lengths)
    assert (found.u_v is None) == (longest < 2)
    assert (found.u_a is None) == (longest < 3)
    assert (found.rms_jerk is None) == (longest < 4)
    assert found.samples == sum(lengths)


# --- segments, stability, input --------------------------------------------------------------------------------------


def test_differences_never_cross_a_segment() -> None:
    rng = np.random.default_rng(0)
    one, two = np.cumsum(rng.normal(0, 0.01, (50, 3)), axis=0), 100.0 + np.cumsum(rng.normal(0, 0.01, (70, 3)), axis=0)
    both = figures([one, two], 30.0, NAMES)
    assert both.peak_speed < 3.0
    pooled = np.concatenate([np.diff(one, axis=0), np.diff(two, axis=0)])
    assert both.s_v == pytest.approx(pooled.var(axis=0))
    assert both.duration_s == pytest.approx((49 + 69) / 30)
    alone = figures(two, 30.0, NAMES)
    assert (both.ldlj, both.sparc) == (alone.ldlj, alone.sparc)  # of the longest segment


def test_one_matrix_may_be_an_array_or_rows() -> None:
    rows = np.random.default_rng(0).random((20, 3))
    assert figures(rows, 30.0, NAMES) == figures(rows.tolist(), 30.0, NAMES) == figures([rows], 30.0, NAMES)
    assert figures(rows, 30.0, NAMES) == figures(np.asfortranarray(rows), 30.0, NAMES)  # to the last bit
    assert figures([], 30.0, NAMES).samples == 0


def test_long_streams_stay_stable() -> None:
    """Far from the origin and after 60,000 rows, Welford still agrees with the two-pass variance to 1e-9."""
    rng = np.random.default_rng(0)
    rows = 1e5 + np.cumsum(0.5 + rng.normal(0.0, 1e-3, (60_000, 3)), axis=0)
    assert_equal(live([rows], 30.0, NAMES), figures(rows, 30.0, NAMES))
    running = Welford(1)
    values = 1e9 + rng.normal(0.0, 1.0, 20_000)
    for x in values:
        running.update(np.array([x]))
    assert running.variance[0] == pytest.approx(values.var(), rel=1e-9)


def test_a_copy_goes_its_own_way() -> None:
    rows = np.random.default_rng(0).random((30, 3))
    original = MotionAccumulator(3, 30.0)
    for row in rows[:15]:
        original.push(row)
    before = original.figures(NAMES)
    twin = original.copy()
    for row in rows[15:]:
        twin.push(row)
    assert original.figures(NAMES) == before
    assert_equal(twin.figures(NAMES), figures(rows, 30.0, NAMES))


@pytest.mark.parametrize(
    ("rows", "names", "rate", "says"),
    [
        (np.zeros((5, 2)), NAMES, 30.0, "shape"),
        (np.zeros((5, 0)), [], 30.0, "no names"),
        ([[0.0, 0.0, 0.0], [0.0, math.nan, 0.0]], NAMES, 30.0, "row 1, joint elbow is nan"),
        ([np.zeros((4, 3)), np.full((4, 3), math.inf)], NAMES, 30.0, "segment 1, row 0, joint shoulder"),
        (np.zeros((5, 3)), NAMES, 0.0, "rate"),
        (np.zeros((5, 3)), NAMES, math.nan, "rate"),
    ],
)
def test_bad_input_is_an_error_that_names_the_place(rows, names, rate, says) -> None:
    with pytest.raises(InputError, match=says):
        figures(rows, rate, names)
