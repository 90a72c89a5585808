"""The small parts of the nodes, without a graph."""

from __future__ import annotations

import threading
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rclpy.qos import DurabilityPolicy, ReliabilityPolicy
from rollout_monitor_nodes import fallback
from rollout_monitor_nodes.common import spin
from rollout_monitor_nodes.common.clock_watch import ClockWatch
from rollout_monitor_nodes.common.folders import Recording, attempt_data, recording_of
from rollout_monitor_nodes.common.markers import Heard, OnceEach, unfinished
from rollout_monitor_nodes.common.qos import PROFILES, Offer, adapt, satisfied_by
from rollout_monitor_nodes.common.streamtime import StreamClock
from rollout_monitor_nodes.player import LOOP_GAP_NS, Pacer, laps, markers_first, with_clock
from rollout_monitor_nodes.recorder import Message, Preroll
from rollout_monitor_nodes.settings import PrmNodeSettings
from rollout_monitor_nodes.waiting import SubscriberWait, parse_wanted

from rollout_monitor.errors import InputError, StoreError
from rollout_monitor.motion.settings import MotionSettings
from rollout_monitor.records import Boundary, EpisodeMarker, JointHealth, KinematicSummary, MotionFigures
from rollout_monitor.store.bags import BagMessage
from rollout_monitor.store.recording import ENDED_EARLY, EpisodeRecording

OFFERS = st.lists(st.builds(Offer, st.just("/n"), st.booleans(), st.booleans()), max_size=4)


@given(OFFERS)
def test_an_adapted_profile_is_satisfied_by_every_publisher_and_as_strict_as_can_be(offers: list[Offer]) -> None:
    """image_pipeline issues 770 and 828: a mismatch is silent, so there must be none."""
    profile = adapt(10, offers)
    assert all(satisfied_by(profile, offer) for offer in offers)
    assert (profile.reliability == ReliabilityPolicy.RELIABLE) == (bool(offers) and all(o.reliable for o in offers))
    assert (profile.durability == DurabilityPolicy.TRANSIENT_LOCAL) == (
        bool(offers) and all(o.transient_local for o in offers)
    )


def test_sensor_profiles_match_every_publisher() -> None:
    for name in ("SENSOR", "JOINTS"):
        for reliable in (True, False):
            assert satisfied_by(PROFILES[name], Offer("/n", reliable, False))


# --- markers -----------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 3), max_size=12), st.lists(st.booleans(), min_size=12, max_size=12))
def test_two_listeners_let_each_marker_through_as_often_as_it_was_published(keys: list[int], late: list[bool]) -> None:
    """Whatever the interleaving: the second listener hears the same sequence, each message sooner or later."""
    once, passed = OnceEach(2), []
    behind: list[int] = []
    for key, wait in zip(keys, late, strict=False):
        passed += [key] if once.is_new(0, key) else []
        behind.append(key)
        if not wait:
            passed += [k for k in behind if once.is_new(1, k)]
            behind = []
    passed += [k for k in behind if once.is_new(1, k)]
    assert passed == keys


def heard(boundary: Boundary, name: str) -> Heard:
    return Heard(EpisodeMarker(boundary=boundary, stamp_ns=1, episode_id=name, task="t"), b"")


def test_of_a_history_only_the_attempt_that_still_runs_counts() -> None:
    start, end = Boundary.START, Boundary.END
    history = [heard(start, "a"), heard(end, "a"), heard(start, "b"), heard(start, "c"), heard(end, "other")]
    assert [(h.marker.boundary, h.marker.episode_id) for h in unfinished(history)] == [(start, "c"), (end, "other")]


# --- time --------------------------------------------------------------------------------------------------------


def test_stream_time_goes_on_between_messages_and_follows_a_clock_set_back() -> None:
    now = [0]
    clock = StreamClock(lambda: now[0])
    assert clock.now_ns() is None and clock.quiet_s == 0.0
    clock.saw(1_000_000_000_000)
    now[0] = 500_000_000
    assert clock.now_ns() == 1_000_500_000_000 and clock.quiet_s == 0.5
    clock.saw(1_000_000_000_000 - 1_000)  # late, not set back: nothing new
    assert clock.quiet_s == 0.5
    clock.saw(7_000_000_000)
    assert clock.now_ns() == 7_000_000_000 and clock.quiet_s == 0.0


class Clocks:
    """A node with a system clock, and a steady one beside it; `pause_s` passes whenever the system clock is read."""

    def __init__(self) -> None:
        self.system_s, self.steady_s, self.pause_s = 1_700_000_000.0, 50.0, 0.0
        self.said: list[str] = []
        clock = SimpleNamespace(now=self._now, create_jump_callback=lambda *_, **__: None)
        node: Any = SimpleNamespace(
            get_clock=lambda: clock,
            get_logger=lambda: SimpleNamespace(warning=self.said.append),
            get_parameter=lambda _: SimpleNamespace(value=False),
        )
        self.watch = ClockWatch(node, lambda: self.steady_s)

    def _now(self) -> Any:
        now = SimpleNamespace(nanoseconds=round(self.system_s * 1e9))
        self._pass(self.pause_s)
        return now

    def _pass(self, seconds: float) -> None:
        self.steady_s += seconds
        self.system_s += seconds

    def after(self, seconds: float, *, set_by: float = 0.0) -> str:
        """Let time pass, set the system clock, and look."""
        self._pass(seconds)
        self.system_s += set_by
        return self.watch.look()[0]


def test_a_system_clock_that_is_set_is_said_for_a_while() -> None:
    """As NTP or an operator does it; what it slews by every second is not told."""
    clocks = Clocks()
    assert [clocks.after(1.0), clocks.after(1.0, set_by=0.1), clocks.after(1.0, set_by=-0.1)] == ["", "", ""]
    assert clocks.after(1.0, set_by=3600.0) == "system clock was set ahead by 3600.0 s"
    assert clocks.after(9.0) == "system clock was set ahead by 3600.0 s"
    assert clocks.after(2.0) == ""
    assert clocks.after(1.0, set_by=-0.5) == "system clock was set back by 0.5 s"
    figures = clocks.watch.look()[1]
    assert (figures["source"], figures["jumps_ahead"], figures["jumps_back"]) == ("system", 1, 1)
    assert clocks.said == ["the clock was set by +3600.0 s, 1 times by now"]


def test_a_machine_that_pauses_has_not_set_its_clock() -> None:
    clocks = Clocks()
    for pause_s in (0.0, 2.0, 0.0, 0.0):
        clocks.pause_s = pause_s
        assert clocks.after(1.0) == ""
    assert clocks.after(1.0, set_by=2.5) == "system clock was set ahead by 2.5 s"


# --- kinematics of several sources -------------------------------------------------------------------------------


def summary(segment: int, received: int) -> KinematicSummary:
    figures = MotionFigures(samples=0, duration_s=0.0)
    return KinematicSummary(
        stamp_ns=0,
        grid_rate_hz=30.0,
        segment=segment,
        window=figures,
        episode=figures,
        moving=False,
        health=JointHealth(received=received),
    )


def test_segments_of_two_sources_and_of_a_restart_never_meet() -> None:
    numbers = fallback.SegmentNumbers()
    seen = [
        numbers.renumber(source, summary(segment, received)).segment
        for source, segment, received in [
            ("prm_node", 0, 10),
            ("prm_node", 1, 20),
            ("monitor_node", 0, 5),
            ("monitor_node", 0, 9),
            ("prm_node", 0, 3),
            ("prm_node", 0, 1),
            ("prm_node", 0, 8),
        ]
    ]
    assert seen == [0, 1, 2, 2, 3, 4, 4]


def fed(joints: fallback.FallbackJoints, first: int, count: int) -> list[KinematicSummary]:
    """What comes out for a stretch of a 100 Hz stream."""
    out = []
    for index in range(first, first + count):
        out += joints.add(index * 10_000_000, ["a", "b"], [0.01 * index, 0.0], [], [])
    return out


def test_the_fallback_holds_back_until_joint_states_have_flowed_for_a_while() -> None:
    """When the whole machine stalls, kinematics are as late as the joint states: then prm_node's are to count."""
    now_s = [0.0]
    marker = EpisodeMarker(boundary=Boundary.START, stamp_ns=0, episode_id="e", task="t")
    joints = fallback.FallbackJoints(MotionSettings(), marker, lambda: now_s[0])
    assert fed(joints, 0, 40) == [] and not joints.was_given_time()
    now_s[0] = fallback.TRUST_S
    held = fed(joints, 40, 40)
    assert len(held) >= 6 and held[0].stamp_ns <= 100_000_000
    joints.end_at(900_000_000)
    last = fed(joints, 80, 70)
    assert [summary.end_of_episode for summary in last].count(True) == 1 and last[-1].stamp_ns <= 900_000_000
    assert joints.finish() == []


# --- the recorder's memory ---------------------------------------------------------------------------------------


def message(log_ns: int, size: int = 10) -> Message:
    return Message("/t", "a/msg/B", log_ns, bytes(size), "")


def test_the_preroll_keeps_the_last_seconds_within_its_memory() -> None:
    preroll = Preroll(2.0, most_bytes=45)
    for second in range(6):
        preroll.add(message(second * 1_000_000_000))
    assert [m.log_ns // 1_000_000_000 for m in preroll.before(5_000_000_000)] == [3, 4, 5]
    preroll.add(message(5_000_000_001, size=40))
    assert [len(m.raw) for m in preroll.before(5_000_000_001)] == [40]
    preroll.add(message(5_000_000_002, size=50))  # larger than the memory itself
    assert list(preroll.before(5_000_000_002)) == []


def test_a_latched_message_of_long_ago_is_not_before_a_start() -> None:
    preroll = Preroll(2.0)
    preroll.add(message(1_000_000_000))
    assert list(preroll.before(60_000_000_000)) == []


def test_a_recording_is_named_while_it_is_being_made(tmp_path: Path) -> None:
    assert recording_of(tmp_path / "none", "take", 1) is None
    for name in ("take", "take-2", "take_3"):
        (tmp_path / name).mkdir()
    assert recording_of(tmp_path, "take", 1) is None
    (tmp_path / "take_3" / "take_3_0.mcap.active").touch()
    assert recording_of(tmp_path, "take", 1) is None
    (tmp_path / "take-2" / "take-2_0.mcap.active").touch()
    assert recording_of(tmp_path, "take", 1) == Recording(tmp_path / "take-2")


def test_a_recording_that_a_full_disk_ended_is_that_of_its_attempt(tmp_path: Path) -> None:
    for start_ns, more in ((1, {ENDED_EARLY: "no room"}), (2, {})):
        EpisodeRecording(tmp_path / "take", custom_data={**attempt_data("take", start_ns), **more}).close()
    assert recording_of(tmp_path, "take", 1) == Recording(tmp_path / "take", "no room")
    assert recording_of(tmp_path, "take", 2) is None
    (tmp_path / "take" / "metadata.yaml").write_text(f"{ENDED_EARLY}: [")
    assert recording_of(tmp_path, "take", 1) is None


# --- exit codes --------------------------------------------------------------------------------------------------


class Work:
    """What `run` needs of a node, failing where it is told to."""

    def __init__(self, *, in_begin: bool) -> None:
        self.in_begin = in_begin
        self.exit: Any = None
        self.closed = False

    def begin(self) -> None:
        if self.in_begin:
            raise StoreError("no room")

    def stop(self, reason: str) -> None:
        raise AssertionError(reason)

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize(("in_begin", "code"), [(True, 2), (False, 1)])
def test_only_what_hinders_the_beginning_says_that_starting_again_is_useless(
    in_begin: bool, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise StoreError("no room")

    monkeypatch.setattr(spin, "spin_until", fail)
    work = Work(in_begin=in_begin)
    assert spin._work("node", work, cast(Any, None)) == code
    assert work.closed
    assert capsys.readouterr().err == "node: error: no room\n"


# --- the player --------------------------------------------------------------------------------------------------


def bag_message(log_ns: int, kind: str = "a/msg/B") -> BagMessage:
    return BagMessage("/t", kind, log_ns, b"")


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["marker", "other"])), max_size=20))
def test_markers_go_first_among_equal_times_and_nothing_is_lost(pairs: list[tuple[int, str]]) -> None:
    messages = [bag_message(time, kind) for time, kind in sorted(pairs, key=lambda pair: pair[0])]
    played = list(markers_first(messages, "marker"))
    assert sorted(map(id, played)) == sorted(map(id, messages))
    for earlier, later in pairwise(played):
        assert earlier.log_ns <= later.log_ns
        assert not (earlier.log_ns == later.log_ns and earlier.type == "other" and later.type == "marker")


def test_laps_go_on_in_one_growing_time() -> None:
    messages = [bag_message(10), bag_message(30)]
    assert MotionSettings().gap_limit_s * 1e9 < LOOP_GAP_NS  # the jump back to the first pose is not a motion
    assert PrmNodeSettings().end_wait_s * 1e9 < LOOP_GAP_NS  # the last estimates come before the next pass
    span = 20 + LOOP_GAP_NS
    due = laps(lambda: messages, span, loop=True)
    times = [next(due).time_ns for _ in range(6)]
    assert times == [10, 30, 10 + span, 30 + span, 10 + 2 * span, 30 + 2 * span]
    assert list(laps(lambda: [], 1, loop=True)) == []


def test_the_clock_ticks_evenly_from_the_first_to_the_last_message() -> None:
    due = list(with_clock(laps(lambda: [bag_message(5), bag_message(30)], 0, loop=False), 10))
    assert [(one.time_ns, one.message is None) for one in due] == [
        (5, True),
        (5, False),
        (15, True),
        (25, True),
        (30, False),
    ]


def test_the_pacer_does_not_drift() -> None:
    """A clock that oversleeps by a millisecond each time: the errors do not add up."""
    now = [0]

    class Sleepy(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            now[0] += round((timeout or 0) * 1e9) + 1_000_000
            return False

    pacer = Pacer(2.0, lambda: now[0], Sleepy())
    for step in range(1000):
        assert pacer.wait(step * 10_000_000)
        assert 0 <= now[0] - step * 5_000_000 <= 1_000_000
    assert pacer.latest_ns <= 1_000_000


def test_the_pacer_stops_when_told() -> None:
    stop = threading.Event()
    stop.set()
    pacer = Pacer(1.0, lambda: 0, stop)
    assert not pacer.wait(0)
    assert not pacer.wait(10**12)


# --- waiting for subscribers -------------------------------------------------------------------------------------


def test_what_is_waited_for_can_be_named_as_in_the_bag_or_as_played() -> None:
    names = {"/a": "/ur5e/a", "/b": "/ur5e/b"}
    assert parse_wanted([], names) == {"/a": 1, "/b": 1}
    assert parse_wanted(["/a=3", "/ur5e/b"], names) == {"/a": 3, "/b": 1}
    for entry in ("/c", "/a=", "/a=many"):
        with pytest.raises(InputError, match="wait_for"):
            parse_wanted([entry], names)


class Ticking(threading.Event):
    """An event whose waiting moves a clock."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def wait(self, timeout: float | None = None) -> bool:
        self.now_s += timeout or 0.0
        return self.is_set()


def test_it_waits_until_the_number_has_settled() -> None:
    stop = Ticking()
    wait = SubscriberWait(
        {"/a": 1}, lambda _: int(stop.now_s > 1.0) + int(stop.now_s > 2.0), settle_s=1.5, timeout_s=9.0,
        clock_s=lambda: stop.now_s,
    )  # fmt: skip
    assert wait.run(stop) == {}
    assert 3.5 <= stop.now_s < 4.0


def test_it_names_what_is_missing_after_the_time_out() -> None:
    stop = Ticking()
    wait = SubscriberWait({"/a": 2}, lambda _: 1, settle_s=0.0, timeout_s=3.0, clock_s=lambda: stop.now_s)
    assert wait.run(stop) == {"/a": (1, 2)}
    assert 3.0 <= stop.now_s < 3.2
