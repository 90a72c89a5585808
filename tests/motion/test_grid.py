"""From joint messages to the uniform grid: exact where it must be, and never wrong where messages are."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollout_monitor.motion import MotionSettings, antialias
from rollout_monitor.motion.grid import MAX_JOINTS, GridResampler, Row, Ticks

S = 1_000_000_000
NAMES = ["a", "b"]
HALF_NS = int(antialias.HALF_WIDTH * S / 30.0)


def made(**changes: object) -> GridResampler:
    return GridResampler(MotionSettings(**{"joints": ("a", "b"), **changes}))


def feed(
    grid: GridResampler, stamps: Iterable[int], values: Iterable[Sequence[float]], names: Sequence[str] = NAMES
) -> list[Row]:
    rows: list[Row] = []
    for stamp, value in zip(stamps, values, strict=True):
        rows += grid.add(int(stamp), names, list(value)) or []
    return rows


def sine(stamps: np.ndarray, frequency: float = 0.5, amplitude: float = 0.5) -> np.ndarray:
    phase = 2.0 * np.pi * frequency * (stamps / S)
    return np.stack([amplitude * np.sin(phase), amplitude * np.cos(phase)], axis=1)


def uniform(rate: float, seconds: float, start_ns: int = 0) -> np.ndarray:
    return start_ns + np.round(np.arange(int(rate * seconds)) * (S / rate)).astype(np.int64)


def stamps_of(rows: Sequence[Row]) -> list[int]:
    return [row.stamp_ns for row in rows]


def values_of(rows: Sequence[Row]) -> np.ndarray:
    return np.stack([row.positions for row in rows])


# --- ticks -----------------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.sampled_from([1.0, 24.0, 29.97, 30.0, 50.0, 333.3, 500.0]), st.integers(0, 4 * 10**18))
def test_ticks_are_absolute_and_found_again(rate, stamp) -> None:
    ticks = Ticks(rate)
    k = ticks.first_from(stamp)
    assert ticks.stamp(k) >= stamp
    assert k == 0 or ticks.stamp(k - 1) < stamp
    assert ticks.first_from(ticks.stamp(k)) == k
    exact = k * S * 100 / round(rate * 100)  # k periods, one rounding
    assert abs(ticks.stamp(k) - exact) <= max(1.0, exact * 1e-15)


def test_ticks_do_not_drift() -> None:
    ticks = Ticks(30.0)
    hours = 30 * 3600 * 24 * 365 * 50
    assert ticks.stamp(hours) == 3600 * 24 * 365 * 50 * S


# --- the anti-alias kernel -------------------------------------------------------------------------------------------


def test_the_response_is_what_the_documentation_says() -> None:
    offsets, weights = antialias.kernel()
    assert weights.sum() == pytest.approx(1.0, abs=1e-15)
    assert np.array_equal(weights, weights[::-1])
    assert np.array_equal(offsets, -offsets[::-1])
    passing = antialias.response(np.linspace(0.0, 5.0, 101), 30.0)
    assert np.abs(passing - 1.0).max() < 0.005
    assert antialias.response(6.0, 30.0)[0] == pytest.approx(0.984, abs=0.001)
    assert 20.0 * math.log10(antialias.response(10.0, 30.0)[0]) == pytest.approx(-4.7, abs=0.05)
    stopped = antialias.response(np.linspace(15.0, 450.0, 4001), 30.0)
    assert 20.0 * math.log10(np.abs(stopped).max()) < -35.0


@pytest.mark.parametrize("frequency", [0.3, 2.0, 5.0, 8.0])
def test_a_sine_below_nyquist_comes_through_as_the_response_says(frequency) -> None:
    stamps = uniform(500.0, 4.0)
    rows = feed(made(), stamps, sine(stamps, frequency))
    attenuation = antialias.response(frequency, 30.0)[0] * np.sinc(frequency / 500.0) ** 2  # of the interpolant
    assert values_of(rows) == pytest.approx(attenuation * sine(np.array(stamps_of(rows)), frequency), abs=1e-5)


@pytest.mark.parametrize("frequency", [17.0, 22.0, 31.0, 59.0, 120.0])
def test_what_is_above_nyquist_does_not_come_back_as_motion(frequency) -> None:
    stamps = uniform(500.0, 4.0)
    aliased = feed(made(max_speed=1e4), stamps, sine(stamps, frequency, amplitude=1.0))
    assert np.abs(values_of(aliased)).max() < 10 ** (-35.0 / 20.0)


def test_stamp_jitter_does_not_swamp_the_acceleration() -> None:
    """0.2 ms at 500 Hz: differencing the raw samples makes it 20 times the truth, the grid keeps it under 3 %."""
    rng = np.random.default_rng(0)
    true_stamps = uniform(500.0, 20.0)
    amplitude, frequency = 0.5, 0.5
    values = sine(true_stamps, frequency, amplitude)
    jittered = np.sort(true_stamps + rng.normal(0.0, 2e5, len(true_stamps)).astype(np.int64))
    rows = feed(made(), jittered, values)
    found = np.diff(values_of(rows), 2, axis=0) * 30.0**2
    true = np.diff(sine(np.array(stamps_of(rows)), frequency, amplitude), 2, axis=0) * 30.0**2
    error, size = np.sqrt(np.mean((found - true) ** 2)), np.sqrt(np.mean(true**2))
    assert error / size < 0.03
    step_s = np.diff(jittered)[:, None] * 1e-9
    raw = np.diff(np.diff(values, axis=0) / step_s, axis=0) / step_s[1:]
    assert np.sqrt(np.mean(raw**2)) > 20.0 * size


# --- exactness -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [10.0, 30.0, 47.0, 125.0, 500.0, 1000.0])
def test_constants_and_ramps_pass_unchanged_at_every_input_rate(rate) -> None:
    rng = np.random.default_rng(int(rate))
    stamps = uniform(rate, 3.0) + rng.integers(0, int(0.2 * S / rate), int(rate * 3.0))
    rows = feed(made(), stamps, [(1.25, 0.5 * s / S) for s in stamps])
    assert len(rows) > 60
    wanted = np.stack([np.full(len(rows), 1.25), 0.5 * np.array(stamps_of(rows)) / S], axis=1)
    assert values_of(rows) == pytest.approx(wanted, abs=1e-9)


def test_rows_are_consecutive_multiples_of_the_period() -> None:
    stamps = uniform(500.0, 2.0, start_ns=1_700_000_000 * S + 12345)
    rows = feed(made(), stamps, sine(stamps))
    ticks = Ticks(30.0)
    first = ticks.first_from(rows[0].stamp_ns)
    assert stamps_of(rows) == [ticks.stamp(first + i) for i in range(len(rows))]
    assert rows[0].stamp_ns - HALF_NS >= stamps[0] > rows[0].stamp_ns - HALF_NS - S // 30 - 1
    assert {row.segment for row in rows} == {0}


@pytest.mark.parametrize("rate", [20.0, 125.0, 500.0])
def test_the_same_recording_gives_the_same_rows_wherever_it_is_started(rate) -> None:
    stamps = uniform(rate, 4.0, start_ns=77 * S) + np.random.default_rng(0).integers(0, 10**6, int(4 * rate))
    values = np.random.default_rng(1).normal(0.0, 0.02, (len(stamps), 2))
    whole = {row.stamp_ns: row.positions for row in feed(made(), stamps, values)}
    for begin in (1, len(stamps) // 3, len(stamps) // 2):
        part = feed(made(), stamps[begin:], values[begin:])
        assert part
        for row in part:
            assert np.array_equal(row.positions, whole[row.stamp_ns])


@settings(deadline=None)
@given(st.integers(1, 10**9))
def test_a_shift_by_whole_seconds_shifts_the_rows_and_nothing_else(seconds) -> None:
    stamps = uniform(125.0, 1.0) + np.random.default_rng(0).integers(0, 10**6, 125)
    here, there = feed(made(), stamps, sine(stamps)), feed(made(), stamps + seconds * S, sine(stamps))
    assert [row.stamp_ns + seconds * S for row in here] == stamps_of(there)
    assert np.array_equal(values_of(here), values_of(there))


def test_a_row_comes_with_the_first_sample_past_its_half_width_and_depends_on_nothing_later() -> None:
    stamps = uniform(500.0, 2.0)
    values = np.random.default_rng(2).normal(0.0, 0.02, (len(stamps), 2))
    grid = made()
    for at, (stamp, value) in enumerate(zip(stamps.tolist(), values.tolist(), strict=True)):
        for row in grid.add(stamp, NAMES, value) or []:
            assert stamp >= row.stamp_ns + HALF_NS > stamps[at - 1]
            near = (stamps >= row.stamp_ns - HALF_NS - 2 * 10**6) & (stamps <= row.stamp_ns + HALF_NS + 2 * 10**6)
            alone = feed(made(), stamps[near], values[near])
            assert [r.positions.tolist() for r in alone if r.stamp_ns == row.stamp_ns] == [row.positions.tolist()]


def test_slow_input_is_interpolated_and_believable_velocities_bend_it() -> None:
    stamps = uniform(10.0, 6.0)
    value, velocity = sine(stamps), np.stack([sine(stamps)[:, 1], -sine(stamps)[:, 0]], axis=1) * np.pi
    grids = {name: made() for name in ("straight", "bent", "zeros", "nan")}
    rows: dict[str, list[Row]] = {name: [] for name in grids}
    for stamp, q, v in zip(stamps.tolist(), value.tolist(), velocity.tolist(), strict=True):
        given_v = {"straight": (), "bent": v, "zeros": [0.0, 0.0], "nan": [math.nan, math.inf]}
        for name, grid in grids.items():
            rows[name] += grid.add(stamp, NAMES, q, given_v[name]) or []
    truth = sine(np.array(stamps_of(rows["straight"])))
    error = {name: np.abs(values_of(found) - truth).max() for name, found in rows.items()}
    assert error["straight"] == pytest.approx(0.5 * (np.pi * 0.1) ** 2 / 9.0, rel=0.05)  # at a third
    assert error["bent"] < error["straight"] / 50.0
    assert np.array_equal(values_of(rows["nan"]), values_of(rows["straight"]))
    near_still = error["zeros"]  # zeros are believed only where the arm turns round, where they nearly hold
    assert near_still <= 2.0 * error["straight"]


# --- partial, broken and late messages -------------------------------------------------------------------------------


def test_partial_messages_are_merged_by_name_in_any_order() -> None:
    stamps = uniform(500.0, 2.0)
    values = sine(stamps)
    whole = feed(made(), stamps, values)
    grid = made()
    rows: list[Row] = []
    for at, (stamp, (a, b)) in enumerate(zip(stamps.tolist(), values.tolist(), strict=True)):
        if at % 3 == 0:
            rows += grid.add(stamp, ["b", "a"], [b, a]) or []
        else:
            rows += grid.add(stamp, ["b"], [b]) or []
            rows += grid.add(stamp, ["a"], [a]) or []  # the same stamp is no repetition: it is another joint
    assert stamps_of(rows) == stamps_of(whole)
    assert np.array_equal(values_of(rows), values_of(whole))
    assert grid.not_advancing == 0


def test_two_arms_at_their_own_rates_meet_on_the_grid() -> None:
    fast, slow = uniform(500.0, 3.0), uniform(20.0, 3.0) + 7_000_000
    messages = [(s, ["a"], [0.1 * s / S]) for s in fast] + [(s, ["b"], [0.3 * s / S]) for s in slow]
    grid = made()
    rows: list[Row] = []
    for stamp, names, q in sorted(messages, key=lambda m: m[0]):
        rows += grid.add(int(stamp), names, q) or []
    assert len(rows) > 60
    t = np.array(stamps_of(rows)) / S
    assert values_of(rows) == pytest.approx(np.stack([0.1 * t, 0.3 * t], axis=1), abs=1e-9)


def test_two_clocks_are_never_mixed() -> None:
    stamps = uniform(500.0, 3.0)
    grid = made()
    rows: list[Row] = []
    for stamp in stamps.tolist():
        rows += grid.add(stamp, ["a"], [1.0]) or []
        rows += grid.add(stamp + 5000 * S, ["b"], [2.0]) or []
    assert rows == []
    assert grid.clock_jumps == 0
    assert grid.waiting_for == ["a"]


def test_values_that_are_no_positions_are_dropped_and_counted() -> None:
    stamps = uniform(500.0, 2.0)
    grid = made()
    rows: list[Row] = []
    for at, stamp in enumerate(stamps.tolist()):
        q = [0.1 * stamp / S, 0.2]
        if at % 7 == 0:
            q[at % 2] = [math.nan, math.inf, -math.inf, 1e300][at % 4]
        rows += grid.add(stamp, NAMES, q) or []
    assert grid.non_finite == len(range(0, len(stamps), 7))
    assert grid.used == grid.received == len(stamps)
    wanted = np.stack([0.1 * np.array(stamps_of(rows)) / S, np.full(len(rows), 0.2)], axis=1)
    assert values_of(rows) == pytest.approx(wanted, abs=1e-9)


def test_late_and_repeated_messages_are_dropped_and_counted() -> None:
    stamps = uniform(500.0, 2.0)
    clean = feed(made(), stamps, sine(stamps))
    grid = made()
    rows: list[Row] = []
    for at, (stamp, q) in enumerate(zip(stamps.tolist(), sine(stamps).tolist(), strict=True)):
        rows += grid.add(stamp, NAMES, q) or []
        if at % 5 == 0:
            assert grid.add(stamp, NAMES, [9.0, 9.0]) is None
        if at % 50 == 49:
            assert grid.add(stamp - 300_000_000, NAMES, [9.0, 9.0]) is None
    assert stamps_of(rows) == stamps_of(clean)
    assert np.array_equal(values_of(rows), values_of(clean))
    assert grid.not_advancing == 200 + 20
    assert grid.clock_jumps == 0


@pytest.mark.parametrize(
    ("names", "positions", "velocities"),
    [
        (["a", "b"], [0.0], []),
        (["a"], [0.0, 1.0], []),
        (["a", "a"], [0.0, 1.0], []),
        ([], [], []),
        (["a", "b"], [0.0, 0.0], [1.0]),
    ],
)
def test_messages_whose_arrays_do_not_fit_are_malformed(names, positions, velocities) -> None:
    grid = made()
    assert grid.add(5, names, positions, velocities) is None
    assert (grid.malformed, grid.used, grid.received) == (1, 0, 1)


def test_messages_without_a_wanted_position_are_unusable() -> None:
    grid = made()
    assert grid.add(5, NAMES, []) is None
    assert grid.add(6, ["torso"], [0.1]) is None
    assert grid.add(7, NAMES, [math.nan, math.nan]) is None
    assert (grid.unusable, grid.received, grid.non_finite) == (3, 3, 2)


# --- gaps and clocks -------------------------------------------------------------------------------------------------


def test_a_long_hole_is_left_open_and_begins_a_new_segment() -> None:
    stamps = uniform(500.0, 4.0)
    kept = stamps[(stamps < 2.0 * S) | (stamps > 2.3 * S)]
    grid = made()
    rows = feed(grid, kept, sine(kept))
    last, first = kept[kept < 2.15 * S].max(), kept[kept > 2.15 * S].min()
    before, after = [r for r in rows if r.segment == 0], [r for r in rows if r.segment == 1]
    assert before + after == rows
    assert before[-1].stamp_ns + HALF_NS <= last
    assert after[0].stamp_ns - HALF_NS >= first
    assert grid.gaps == 1
    assert values_of(rows) == pytest.approx(sine(np.array(stamps_of(rows))), abs=1e-3)


def test_a_short_hole_is_bridged() -> None:
    stamps = uniform(500.0, 4.0)
    kept = stamps[(stamps < 2.0 * S) | (stamps > 2.19 * S)]
    grid = made()
    rows = feed(grid, kept, sine(kept))
    assert len({row.segment for row in rows}) == 1
    assert len(rows) == len(feed(made(), stamps, sine(stamps)))
    assert grid.gaps == 0


def test_a_hole_in_one_joint_alone_leaves_the_row_out() -> None:
    stamps = uniform(500.0, 3.0)
    grid = made()
    rows: list[Row] = []
    for stamp in stamps.tolist():
        held = 1.0 * S < stamp < 1.5 * S
        rows += (grid.add(stamp, ["a"], [1.0]) if held else grid.add(stamp, NAMES, [1.0, 2.0])) or []
    assert not [r for r in rows if 1.0 * S - HALF_NS < r.stamp_ns < 1.5 * S + HALF_NS]
    assert [r for r in rows if r.stamp_ns > 1.5 * S + HALF_NS]
    assert grid.gaps == 1


def test_a_clock_that_goes_back_begins_anew() -> None:
    stamps = uniform(500.0, 2.0, start_ns=100 * S)
    grid = made()
    once = feed(grid, stamps, sine(stamps))
    again = feed(grid, stamps, sine(stamps))  # a bag that loops
    assert stamps_of(again) == stamps_of(once)
    assert np.array_equal(values_of(again), values_of(once))
    assert {row.segment for row in once} == {0}
    assert {row.segment for row in again} == {1}
    assert (grid.clock_jumps, grid.used, grid.not_advancing) == (1, 2 * len(stamps), 0)


@pytest.mark.parametrize("ahead_ns", [3600 * S, 50 * 365 * 24 * 3600 * S])
def test_a_leap_forward_makes_no_rows_in_between(ahead_ns) -> None:
    stamps = uniform(500.0, 2.0)
    grid = made()
    rows = feed(grid, stamps, sine(stamps)) + feed(grid, stamps + ahead_ns, sine(stamps))
    assert len(rows) < 2 * 30 * 2
    assert {row.segment for row in rows} == {0, 1}
    assert (grid.gaps, grid.clock_jumps) == (1, 0)


def test_one_stray_stamp_costs_a_segment_not_the_stream() -> None:
    stamps = uniform(500.0, 2.0)
    grid = made()
    rows = feed(grid, stamps, sine(stamps))
    grid.add(9000 * S, NAMES, [0.0, 0.0])
    rows += feed(grid, stamps + 2 * S, sine(stamps))
    assert len(rows) > 90
    assert grid.clock_jumps == 1


def test_zero_stamps_are_repetitions() -> None:
    grid = made()
    for _ in range(100):
        grid.add(0, NAMES, [0.0, 0.0])
    assert (grid.used, grid.not_advancing) == (1, 99)


# --- the set of joints -----------------------------------------------------------------------------------------------


def test_joints_are_learned_sorted_and_grippers_kept_out() -> None:
    grid = made(joints=(), gripper_joints=("finger",))
    stamps = uniform(500.0, 2.0)
    rows = feed(grid, stamps, [(0.5, 2.0, 1.0)] * len(stamps), names=["finger", "b", "a"])
    assert grid.joint_names == ["a", "b"]
    assert values_of(rows) == pytest.approx(np.tile([1.0, 2.0], (len(rows), 1)))
    assert rows[0].stamp_ns < HALF_NS + S // 30  # nothing is lost while the names are learned


def test_expected_joints_keep_their_order_and_others_are_ignored() -> None:
    grid = made(joints=("b", "a"))
    stamps = uniform(500.0, 1.0)
    rows = feed(grid, stamps, [(9.0, 1.0, 2.0)] * len(stamps), names=["torso", "a", "b"])
    assert grid.joint_names == ["b", "a"]
    assert values_of(rows) == pytest.approx(np.tile([2.0, 1.0], (len(rows), 1)))


def test_a_joint_that_turns_up_later_joins_with_a_new_segment_unless_locked() -> None:
    grid = made(joints=())
    stamps = uniform(500.0, 6.0)
    early, middle, late = stamps[:1000], stamps[1000:2000], stamps[2000:]
    feed(grid, early, [(1.0,)] * len(early), names=["b"])
    grid.locked = True
    held = feed(grid, middle, [(1.0, 2.0)] * len(middle), names=["b", "a"])
    assert grid.joint_names == ["b"]
    assert {row.positions.shape for row in held} == {(1,)}
    grid.locked = False
    joined = feed(grid, late, [(1.0, 2.0)] * len(late), names=["b", "a"])
    assert grid.joint_names == ["a", "b"]
    assert {row.segment for row in joined} == {1}
    assert values_of(joined) == pytest.approx(np.tile([2.0, 1.0], (len(joined), 1)))


def test_a_misprinted_name_does_not_stop_the_grid() -> None:
    grid = made(joints=())
    stamps = uniform(500.0, 3.0)
    rows: list[Row] = []
    for at, stamp in enumerate(stamps.tolist()):
        rows += grid.add(stamp, ["a", "b" if at % 400 else "\x00b"], [1.0, 2.0]) or []
    assert grid.joint_names == ["a", "b"]
    assert len(rows) > 70


def test_endless_names_are_refused_and_the_arm_goes_on() -> None:
    grid = made(joints=())
    stamps = uniform(500.0, 3.0)
    rows: list[Row] = []
    for at, stamp in enumerate(stamps.tolist()):
        rows += grid.add(stamp, NAMES, [1.0, 2.0]) or []
        grid.add(stamp, [f"joint{at}"], [0.0])
    assert grid.joint_names == NAMES
    assert len(rows) > 70
    assert grid.malformed == len(stamps) - (MAX_JOINTS - 2)


def test_a_joint_that_falls_silent_is_named() -> None:
    grid = made()
    stamps = uniform(500.0, 2.0)
    feed(grid, stamps, sine(stamps))
    assert grid.waiting_for == []
    assert feed(grid, stamps + 2 * S, [(0.0,)] * len(stamps), names=["a"]) == []
    assert grid.waiting_for == ["b"]


def test_the_rate_is_the_median_of_the_last_second() -> None:
    grid = made()
    assert grid.health().rate_hz is None
    stamps = np.concatenate([uniform(100.0, 3.0), uniform(500.0, 3.0, start_ns=3 * S)])
    feed(grid, stamps, sine(stamps))
    assert grid.health().rate_hz == pytest.approx(500.0)
    assert grid.health().last_stamp_ns == stamps[-1]


# --- anything at all -------------------------------------------------------------------------------------------------

finite_or_not = st.one_of(st.floats(-10.0, 10.0), st.sampled_from([math.nan, math.inf, -math.inf, 1e300, -1e-300]))
messages = st.lists(
    st.tuples(
        st.one_of(st.integers(-50, 50), st.integers(-3_000, 3_000), st.just(10**9)),  # step of the stamp, ms
        st.sampled_from([("a", "b"), ("b", "a"), ("a",), ("b",), ("a", "a"), (), ("c", "a"), ("b", "c")]),
        st.lists(finite_or_not, min_size=0, max_size=3),
        st.sampled_from([0, 0, 1, 2]),
        st.integers(1, 30),  # how often it is repeated with the arm moving on
    ),
    max_size=40,
)


@settings(max_examples=150, deadline=None)
@given(messages, st.booleans())
def test_any_sequence_of_messages_is_counted_once_and_gives_finite_rows(sequence, learned) -> None:
    grid = made(joints=() if learned else ("a", "b"))
    now, sent, last = 0, 0, {}
    for step_ms, names, positions, velocities, repeats in sequence:
        for _ in range(repeats):
            now += step_ms * 1_000_000
            rows = grid.add(now, names, positions, [0.5] * velocities)
            sent += 1
            for row in rows or []:
                assert np.isfinite(row.positions).all()
                assert row.positions.shape == (len(grid.joint_names),)
                assert row.stamp_ns > last.get(row.segment, -math.inf)
                last[row.segment] = row.stamp_ns
    health = grid.health()
    assert health.received == sent
    assert health.received == health.used + health.not_advancing + health.malformed + grid.unusable
    assert sorted(last) == list(last)
    assert len(last) <= 1 + grid.segment
