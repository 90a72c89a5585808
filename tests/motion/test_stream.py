"""The joint stream: summaries, episodes whose ends are learned late, the sliding window, health."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollout_monitor.errors import InputError
from rollout_monitor.motion import JointStream, MotionSettings, figures
from rollout_monitor.motion.grid import GridResampler
from rollout_monitor.records import GridRow, KinematicSummary, MotionFigures

S = 1_000_000_000
NAMES = ["a", "b"]
SETTINGS = MotionSettings(joints=("a", "b"))
Message = tuple[int, list[str], list[float], list[float]]


def arm(rate: float, seconds: float, start_ns: int = 100 * S, seed: int = 0) -> list[Message]:
    rng = np.random.default_rng(seed)
    stamps = start_ns + np.round(np.arange(int(rate * seconds)) * (S / rate)).astype(np.int64)
    t = stamps / S
    q = np.stack([0.6 * np.sin(1.7 * t), 0.3 * np.cos(4.1 * t)], axis=1) + rng.normal(0.0, 1e-4, (len(t), 2))
    effort = 5.0 * q + rng.normal(0.0, 0.05, q.shape)
    return [(int(s), NAMES, x.tolist(), e.tolist()) for s, x, e in zip(stamps, q, effort, strict=True)]


def send(stream: JointStream, messages: list[Message]) -> list[KinematicSummary]:
    found = [stream.add(stamp, names, q, (), effort) for stamp, names, q, effort in messages]
    return [one for one in found if one is not None]


def rows_of(summaries: list[KinematicSummary]) -> list[GridRow]:
    return [row for one in summaries for row in one.rows]


def close(a: MotionFigures, b: MotionFigures) -> None:
    left, right = a.model_dump(), b.model_dump()
    for name in set(left) - {"ldlj", "sparc"}:
        if isinstance(left[name], float | list):
            assert left[name] == pytest.approx(right[name], rel=1e-9), name
        else:
            assert left[name] == right[name], name


def final(rows: list[GridRow]) -> MotionFigures:
    return figures(np.array([row.positions for row in rows]), 30.0, NAMES)


def test_summaries_come_ten_times_a_second_and_carry_every_row_once() -> None:
    messages = arm(500.0, 5.0)
    summaries = send(JointStream(SETTINGS), messages)
    assert len(summaries) == 49  # the first tenth only begins
    grid = GridResampler(SETTINGS)
    wanted = [row for stamp, names, q, _ in messages for row in grid.add(stamp, names, q) or []]
    found = rows_of(summaries)
    assert [row.stamp_ns for row in found] == [row.stamp_ns for row in wanted][: len(found)]
    assert len(wanted) - len(found) <= 3
    for a, b in zip(found, wanted, strict=False):
        assert a.positions == b.positions.tolist()
    for one in summaries:
        assert one.joint_names == NAMES
        assert one.grid_rate_hz == 30.0
        assert not one.rows or one.stamp_ns == one.rows[-1].stamp_ns


def test_live_figures_of_an_episode_equal_the_final_ones() -> None:
    stream = JointStream(SETTINGS)
    stream.begin_episode("one", 100 * S)
    summaries = send(stream, arm(500.0, 20.0))
    last = stream.end_episode(120 * S)
    rows = rows_of([*summaries, last])
    assert len(rows) > 580
    close(last.episode, final(rows))
    assert last.episode.ldlj is None  # these two need the whole profile
    assert last.episode.sparc is None
    assert final(rows).sparc is not None
    for one in summaries[5::37]:
        close(one.episode, final([row for row in rows if row.stamp_ns <= one.stamp_ns]))


def test_the_window_is_the_last_two_seconds() -> None:
    summaries = send(JointStream(SETTINGS), arm(500.0, 8.0))
    rows = rows_of(summaries)
    for one in summaries[30:]:
        within = [row for row in rows if one.stamp_ns - 2 * S < row.stamp_ns <= one.stamp_ns]
        assert len(within) == 60
        assert one.window == final(within)
        assert one.window.sparc is not None
        assert one.episode.samples == 0  # no episode runs
        assert one.episode_id == ""


@pytest.mark.parametrize("late_s", [0.0, 0.4, 1.5])
def test_boundaries_that_are_learned_late_change_nothing(late_s) -> None:
    """The same stretch of the same stream, whenever START and END are heard; times after both by up to 2 s."""
    messages = arm(500.0, 10.0)
    begin, end = 102 * S, 107 * S
    stream = JointStream(SETTINGS)
    summaries, last = [], None
    started = False
    for message in messages:
        summaries += send(stream, [message])
        if not started and message[0] >= begin + late_s * S:
            stream.begin_episode("late", begin)
            started = True
        if last is None and message[0] >= end + max(late_s, 0.2) * S:
            last = stream.end_episode(end)
    assert last is not None
    rows = [row for row in rows_of([*summaries, last]) if begin <= row.stamp_ns <= end]
    assert len(rows) == 5 * 30 + 1
    close(last.episode, final(rows))
    assert last.stamp_ns == rows[-1].stamp_ns
    assert last.end_of_episode
    assert last.episode_id == "late"
    assert len(rows_of([*summaries, last])) == len({row.stamp_ns for row in rows_of([*summaries, last])})
    assert summaries[-1].episode_id == ""


def test_a_stream_that_began_earlier_gives_the_same_episode() -> None:
    messages = arm(500.0, 8.0)
    found = []
    for skipped in (0, 400, 777):
        stream = JointStream(SETTINGS)
        stream.begin_episode("one", 102 * S)
        send(stream, messages[skipped:])
        found.append(stream.end_episode(107 * S).episode)
    assert found[0] == found[1] == found[2]


def test_episodes_follow_each_other_and_do_not_mix() -> None:
    stream = JointStream(SETTINGS)
    messages = arm(500.0, 10.0)
    stream.begin_episode("one", 100 * S)
    first = send(stream, messages[:2500])
    one = stream.end_episode(105 * S)
    stream.begin_episode("two", 105 * S)
    second = send(stream, messages[2500:])
    two = stream.end_episode(110 * S)
    rows = rows_of([*first, one, *second, two])
    close(one.episode, final([row for row in rows if row.stamp_ns <= one.stamp_ns]))
    close(two.episode, final([row for row in rows if row.stamp_ns >= 105 * S]))
    assert one.stamp_ns < 105 * S <= two.stamp_ns
    with pytest.raises(InputError, match="no episode"):
        stream.end_episode(111 * S)


def test_an_episode_without_rows_ends_with_nothing() -> None:
    stream = JointStream(SETTINGS)
    stream.begin_episode("empty", 0)
    last = stream.end_episode(S)
    assert (last.episode.samples, last.rows, last.window.samples) == (0, [], 0)
    assert (last.moving, last.end_of_episode, last.health.received) == (False, True, 0)


def test_a_hole_begins_a_segment_and_no_summary_mixes_two() -> None:
    messages = [m for m in arm(500.0, 6.0) if not 102.5 * S < m[0] < 103.1 * S]
    stream = JointStream(SETTINGS)
    stream.begin_episode("one", 100 * S)
    summaries = send(stream, messages)
    last = stream.end_episode(106 * S)
    grid = GridResampler(SETTINGS)
    segment = {row.stamp_ns: row.segment for stamp, n, q, _ in messages for row in grid.add(stamp, n, q) or []}
    for one in [*summaries, last]:
        assert {segment[row.stamp_ns] for row in one.rows} <= {one.segment}
    assert {one.segment for one in summaries} == {0, 1}
    parts = [[row for row in rows_of([*summaries, last]) if segment[row.stamp_ns] == s] for s in (0, 1)]
    close(last.episode, figures([np.array([row.positions for row in part]) for part in parts], 30.0, NAMES))
    assert last.health.gaps == 1


def test_a_clock_jump_is_told_at_once_where_nothing_is_left_to_tell() -> None:
    stream = JointStream(SETTINGS)
    before = send(stream, arm(500.0, 3.01))
    told = send(stream, arm(500.0, 0.1, start_ns=5 * S))[0]
    assert before[-1].health.clock_jumps == 0
    assert (told.segment, told.health.clock_jumps, told.stamp_ns, told.rows) == (1, 1, 5 * S, [])


def test_a_clock_jump_tells_the_rest_of_the_old_time_then_the_new() -> None:
    stream = JointStream(SETTINGS)
    before = send(stream, arm(500.0, 3.08))
    after = send(stream, arm(500.0, 3.0, start_ns=5 * S))
    rows = rows_of(before + after)
    old, new = [r for r in rows if r.stamp_ns > 50 * S], [r for r in rows if r.stamp_ns < 50 * S]
    assert [r.stamp_ns for r in old] == sorted(r.stamp_ns for r in old)
    assert old[-1].stamp_ns > 103 * S - S // 5
    closing, told = after[0], after[1]
    assert (closing.segment, closing.health.clock_jumps, closing.stamp_ns) == (0, 0, old[-1].stamp_ns)
    assert (told.segment, told.health.clock_jumps) == (1, 1)
    assert told.stamp_ns < 6 * S
    assert all(one.stamp_ns < 50 * S for one in after[1:])
    assert len(new) > 75


def test_moving_looks_at_the_last_half_second() -> None:
    stamps = np.round(np.arange(500 * 6) * (S / 500)).astype(np.int64)
    q = np.clip((stamps / S - 2.0) * 0.3, 0.0, 0.3)  # moves at 0.3 rad/s from 2 s to 3 s
    messages = [(int(s), NAMES, [float(x), 0.0], []) for s, x in zip(stamps, q, strict=True)]
    for one in send(JointStream(SETTINGS), messages):
        t = one.stamp_ns / S
        if 2.2 < t < 3.4:
            assert one.moving
        if t < 1.8 or t > 3.7:
            assert not one.moving
        if t > 5.2:
            assert one.window.idle_fraction == 1.0


def test_a_stream_of_nothing_usable_still_tells_of_itself() -> None:
    stream = JointStream(SETTINGS)
    good = send(stream, arm(500.0, 2.0))
    broken = [(stamp, names, [math.nan, math.nan], []) for stamp, names, _, _ in arm(500.0, 2.0, start_ns=102 * S)]
    bad = send(stream, broken)
    assert 18 <= len(bad) <= 21
    assert bad[-1].health.non_finite > 1.8 * len(broken)
    assert stream.health.non_finite == 2 * len(broken)
    assert {one.stamp_ns for one in bad[1:]} == {good[-1].stamp_ns if not bad[0].rows else bad[0].stamp_ns}
    assert not rows_of(bad[1:])
    after = send(stream, arm(500.0, 2.0, start_ns=104 * S))
    assert 18 <= len(after) <= 21
    assert rows_of(after)


def test_a_stray_stamp_on_a_useless_message_silences_nothing() -> None:
    stream = JointStream(SETTINGS)
    messages = arm(500.0, 4.0)
    summaries = send(stream, messages[:1000])
    stream.add(10**18, NAMES, [math.nan, math.nan])
    summaries += send(stream, messages[1000:])
    assert 38 <= len(summaries) <= 41


def test_a_stream_that_pauses_is_not_told_of_in_the_time_of_others() -> None:
    """Its last messages wait for the next summary; only messages without a stamp to go by are told of before."""
    stream = JointStream(SETTINGS)
    messages = arm(500.0, 1.05)
    send(stream, messages)
    then_ns = messages[-1][0]
    assert [stream.tell_unheard(then_ns + k * S // 10) for k in range(5, 40)] == [None] * 35
    stream.add(0, NAMES, [0.0, 0.0])
    told = stream.tell_unheard(then_ns + 4 * S)
    assert told is not None and (told.stamp_ns, told.health.unstamped) == (then_ns + 4 * S, 1)


def test_late_messages_do_not_change_what_is_told() -> None:
    messages = arm(500.0, 4.0)
    clean = send(JointStream(SETTINGS), messages)
    noisy = [m for at, one in enumerate(messages) for m in ([one, messages[max(0, at - 60)]] if at % 9 == 0 else [one])]
    found = send(JointStream(SETTINGS), noisy)
    drop = {"health"}
    assert [one.model_dump(exclude=drop) for one in found] == [one.model_dump(exclude=drop) for one in clean]
    assert found[-1].health.not_advancing > 200


def test_health_is_counted_since_the_stream_began() -> None:
    stream = JointStream(SETTINGS)
    send(stream, arm(125.0, 2.0))
    stream.add(102 * S, NAMES, [])
    assert stream.health.received == 251
    assert stream.health.used == 250
    assert stream.health.rate_hz == pytest.approx(125.0)
    assert stream.waiting_for == []


messages = st.lists(
    st.tuples(
        st.one_of(st.integers(1, 40), st.integers(-3_000, 3_000)),
        st.sampled_from([("a", "b"), ("a",), ("b",), ("b", "c"), ("a", "a"), ()]),
        st.lists(st.one_of(st.floats(-3, 3), st.sampled_from([math.nan, math.inf])), max_size=3),
        st.sampled_from(["", "", "", "begin", "end"]),
        st.integers(1, 60),
    ),
    max_size=30,
)


@settings(max_examples=100, deadline=None)
@given(messages, st.booleans(), st.integers(0, 100))
def test_any_sequence_gives_records_that_are_finite_and_counts_that_add_up(sequence, learned, seed) -> None:
    stream = JointStream(MotionSettings(joints=() if learned else ("a", "b"), effort_settle_s=0.0))
    rng = np.random.default_rng(seed)
    now, sent, running = 50 * S, 0, False
    told: list[KinematicSummary] = []
    for step_ms, names, start, act, repeats in sequence:
        for at in range(repeats):
            now += step_ms * 1_000_000
            q = [x + 0.01 * at for x in start]
            one = stream.add(now, names, q, (), rng.normal(0.0, 3.0, len(names)).tolist())
            sent += 1
            told += [one] if one else []
        if act == "begin":
            stream.begin_episode("e", now - S)
            running = True
        if act == "end" and running:
            told.append(stream.end_episode(now - S // 2))
            running = False
    for one in told:
        json.loads(one.model_dump_json(), parse_constant=lambda name: pytest.fail(f"{name} in JSON"))
        assert one.window.samples <= 60
        assert [row.stamp_ns for row in one.rows] == sorted({row.stamp_ns for row in one.rows})
    health = stream.health
    assert health.received + stream.held == sent
    dropped = health.not_advancing + health.malformed + health.unusable + health.unstamped + health.stray
    assert health.received == health.used + dropped + health.implausible


def lap(stream: JointStream, start_ns: int, episode_id: str, heard_late_s: float = 0.0) -> list[float]:
    """Stamps of an attempt's spikes, seconds since its start: effort as of a reach, a contact at 3.6 s and at 6 s."""
    rng = np.random.default_rng(3)
    noise = rng.normal(0.0, 0.1, 4500)
    spikes: list[float] = []
    begun = False
    for i in range(-500, 4000):
        stamp = start_ns + i * S // 500
        if not begun and i >= heard_late_s * 500:
            stream.begin_episode(episode_id, start_ns)
            begun = True
        t = i / 500
        effort = 5.0 * math.sin(0.9 * t) + 3.0 * t + noise[i + 500] + 4.0 * (3.6 <= t < 3.7 or 6.0 <= t < 6.1)
        summary = stream.add(stamp, ["a"], [math.sin(t)], [], [effort])
        if summary is not None and begun:
            spikes += [(spike.stamp_ns - start_ns) / S for spike in summary.spikes if spike.stamp_ns >= start_ns]
    stream.end_episode(stamp)
    return spikes


def test_every_lap_of_a_bag_gives_the_same_contacts() -> None:
    """Looped recordings: what came before an attempt, the seam between two laps included, changes nothing in it."""
    stream = JointStream(SETTINGS)
    first = lap(stream, 100 * S, "a")
    assert first == pytest.approx([3.6, 6.0], abs=0.01)
    assert lap(stream, 100 * S + 9 * S, "b") == first
    assert lap(stream, 100 * S + 19 * S, "c", heard_late_s=1.5) == first


def test_rows_are_as_wide_as_the_joints_they_are_named_by() -> None:
    """A joint that turns up between two attempts widens the grid; what was not told of yet is of the old one."""
    stream = JointStream(MotionSettings(summary_period_s=1.0))
    told: list[KinematicSummary | None] = []
    for i in range(1500):
        names = ["a", "b"] if i > 600 else ["a"]
        told.append(stream.add(100 * S + i * S // 500, names, [math.sin(i / 99)] * len(names)))
    summaries = [one for one in told if one is not None]
    assert [len(one.joint_names) for one in summaries] == sorted(len(one.joint_names) for one in summaries)
    assert {len(one.joint_names) for one in summaries} == {1, 2}
    assert all(len(row.positions) == len(one.joint_names) for one in summaries for row in one.rows)
