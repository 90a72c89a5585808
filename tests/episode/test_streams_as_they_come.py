"""Streams as robots really send them, through the whole engine: clocks apart, joints that leave, stamps that lie."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from engine_help import NAMES, NS, T0, ScriptedModel, Streams, feed, picture, reports

from rollout_monitor.episode.merge import StampMerger
from rollout_monitor.episode.offsets import ClockOffset
from rollout_monitor.episode.rollout import RolloutMonitor
from rollout_monitor.episode.settings import GateSettings
from rollout_monitor.records import EpisodeReport, EpisodeState, Event, EventKind

Items = list[tuple[int, str, tuple[object, ...]]]


def engine() -> RolloutMonitor:
    return RolloutMonitor(
        ScriptedModel(lambda t: min(1.0, t / 10)), GateSettings(cameras=("front", "wrist"), rate_hz=5)
    )


def run(items: Items) -> EpisodeReport:
    (report,) = reports(feed(engine(), items))
    return report


def of_kind(report: EpisodeReport, kind: EventKind) -> list[Event]:
    return [event for event in report.events if event.kind is kind]


def shifted(items: Items, topic: str, seconds: float) -> Items:
    """The same arrivals, with the stamps of one topic on another clock."""
    return [(stamp + round(seconds * NS) if kind == topic else stamp, kind, what) for stamp, kind, what in items]


def joints_by(
    items: Items, change: Callable[[int, float, tuple[object, ...]], list[tuple[int, tuple[object, ...]]]]
) -> Items:
    """The same streams, with each joint state message replaced by what ``change`` makes of (stamp, t, payload)."""
    out: Items = []
    for stamp, kind, what in items:
        if kind == "joints":
            out += [(new, kind, payload) for new, payload in change(stamp, (stamp - T0) / NS, what)]
        else:
            out.append((stamp, kind, what))
    return out


# --- clocks apart ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("topic", "seconds"), [("joints", 4.0), ("image", 4.0), ("image", -4.0), ("image", 0.8)])
def test_clocks_that_differ_are_named_as_clocks(topic: str, seconds: float) -> None:
    report = run(shifted(Streams(duration_s=15.0).build(), topic, seconds))
    offset_s = -seconds if topic == "joints" else seconds
    assert {health.camera: health.clock_offset_s for health in report.cameras} == pytest.approx(
        {"front": offset_s, "wrist": offset_s}, abs=0.02
    )
    assert {health.offset_from for health in report.cameras} == {"joint_states"}
    said = [event for event in report.events if event.kind in (EventKind.CAMERA_LOST, EventKind.JOINTS_LOST)]
    for event in said:
        side = "ahead of" if offset_s > 0 else "behind"
        assert (
            f"{abs(offset_s):.1f} s {side} those of joint_states while both arrive: the clocks differ" in event.reason
        )
        assert offset_s == pytest.approx(next(v for name, v in event.values.items() if "offset" in name), abs=0.02)
    assert said or abs(seconds) < 1.0


def test_streams_on_one_clock_have_no_offset_to_speak_of() -> None:
    report = run([item for item in Streams().build() if not (item[1] == "joints" and item[0] > T0 + 6 * NS)])
    (lost,) = of_kind(report, EventKind.JOINTS_LOST)
    assert "clock" not in lost.reason, "a stream that is lost is lost"
    assert all(health.clock_offset_s is None for health in report.cameras), "the joints do not arrive"
    report = run(Streams().build())
    assert [health.clock_offset_s for health in report.cameras] == pytest.approx([0.0, 0.0], abs=0.02)


def test_without_joints_the_primary_camera_is_the_reference() -> None:
    items = [item for item in Streams(duration_s=8.0).build() if item[1] != "joints"]
    items = [(stamp - 3 * NS if what[0] == "wrist" else stamp, kind, what) for stamp, kind, what in items]
    front, wrist = run(items).cameras
    assert front.clock_offset_s is None
    assert (wrist.clock_offset_s, wrist.offset_from) == (pytest.approx(-3.0, abs=0.1), "front")


def test_an_offset_is_forgotten_when_either_side_stops_and_found_again() -> None:
    offset = ClockOffset()
    for k in range(20):
        offset.on_reference(k * NS // 10)
        offset.on_own(5 * NS + k * NS // 10)
    assert offset.seconds == 5.0
    for k in range(20, 27):
        offset.on_reference(k * NS // 10)
    assert offset.seconds is None
    offset.on_own(5 * NS + 27 * NS // 10)
    offset.on_reference(27 * NS // 10)
    offset.on_own(5 * NS + 28 * NS // 10)
    assert offset.seconds == pytest.approx(5.1)
    for k in range(29, 36):
        offset.on_own(5 * NS + k * NS // 10)
    assert offset.seconds is None


# --- stamps that lie -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lie_ns", [0, T0 + 3600 * NS, T0 - 50 * NS, 5])
def test_a_lone_stamp_from_another_time_ends_no_episode(lie_ns: int) -> None:
    """ros_comm#60 and ros_comm#1716: a header that nobody filled in."""
    plain = Streams(duration_s=8.0).build()
    lied = [
        (lie_ns if i % 97 == 50 and kind != "marker" else stamp, kind, what)
        for i, (stamp, kind, what) in enumerate(plain)
    ]
    lies = {
        kind: sum(a != b and a[1] == kind for a, b in zip(plain, lied, strict=True)) for kind in ("joints", "image")
    }
    report = run(lied)
    assert report.state is EpisodeState.ENDED and not of_kind(report, EventKind.CLOCK_JUMP)
    assert report.joints is not None and report.motion is not None
    assert report.joints.unstamped + report.joints.stray == lies["joints"] > 5
    assert sum(health.unstamped + health.stray for health in report.cameras) == lies["image"] > 0
    assert report.joints.unstamped == (lies["joints"] if lie_ns <= 0 else 0)
    truth = run(plain)
    assert truth.motion is not None and report.motion.samples == truth.motion.samples
    assert report.motion.u_a == pytest.approx(truth.motion.u_a, rel=0.05)


def test_joint_states_without_any_stamp_are_named() -> None:
    items = joints_by(Streams().build(), lambda stamp, t, what: [(0 if t > 4 else stamp, what)])
    items.insert(-1, (T0 + 12 * NS, "joints", ((*NAMES,), (0.1, 0.2))))
    report = run(items)
    assert report.joints is not None and report.joints.unstamped == pytest.approx(800, abs=2)
    assert of_kind(report, EventKind.JOINTS_LOST)


def test_a_second_publisher_on_another_clock_is_named_and_not_followed() -> None:
    """yahboom_rosmaster#4: two publishers on one topic, the other with zeros and stamps of its own."""

    def twice(stamp: int, t: float, what: tuple[object, ...]) -> list[tuple[int, tuple[object, ...]]]:
        return [(stamp, what), (stamp - 40 * NS, (what[0], (0.0, 0.0)))]

    truth, report = run(Streams().build()), run(joints_by(Streams().build(), twice))
    assert not of_kind(report, EventKind.CLOCK_JUMP)
    (invalid,) = of_kind(report, EventKind.JOINTS_INVALID)
    assert "a second publisher on another clock?" in invalid.reason
    assert report.motion == truth.motion, "the second publisher's zeros are in no figure"


def test_a_second_publisher_with_the_same_stamps_adds_nothing() -> None:
    """yahboom_rosmaster#4 where both have one clock: at each stamp the first that comes counts."""
    report = run(joints_by(Streams().build(), lambda stamp, t, what: [(stamp, what), (stamp, (what[0], (0.0, 0.0)))]))
    truth = run(Streams().build())
    assert report.motion == truth.motion
    assert report.joints is not None and report.joints.not_advancing == pytest.approx(
        report.joints.received / 2, abs=11
    )


def test_duplicate_stamps_divide_by_nothing() -> None:
    """robot_localization#336 and pronto#54: a message repeated, and two messages of one stamp."""
    truth = run(Streams().build())
    report = run(joints_by(Streams().build(), lambda stamp, t, what: [(stamp, what)] * 3))
    assert report.motion == truth.motion
    assert report.motion is not None and all(
        value is None or math.isfinite(value)
        for value in report.motion.model_dump().values()
        if isinstance(value, float)
    )


def test_a_looped_bag_with_its_old_stamps_ends_the_attempt_once_per_lap() -> None:
    """rosbag2#361 and rclpy#1490: --loop does not rewrite stamps, time is set back."""
    lap = Streams(duration_s=6.0).build()[1:-1]
    start = Streams(duration_s=6.0).build()[0]
    outputs = feed(engine(), [start, *lap, *lap, *lap])
    (report,) = reports(outputs)
    assert report.state is EpisodeState.INTERRUPTED
    (jump,) = of_kind(report, EventKind.CLOCK_JUMP)
    assert jump.values["back_s"] == pytest.approx(6.0, abs=0.6)
    assert report.estimates == 30 and report.motion is not None and report.motion.samples > 150


# --- joints ----------------------------------------------------------------------------------------------------------


def test_order_of_names_and_number_of_publishers_change_nothing() -> None:
    """ros2_controllers#159, ros2_controllers#1572, kuka_drivers#254 (order); moveit_ros#286, moveit_ros#230 (parts)."""
    rng = np.random.default_rng(4)

    def shuffled(stamp: int, t: float, what: tuple[object, ...]) -> list[tuple[int, tuple[object, ...]]]:
        order = rng.permutation(2)
        return [(stamp, (tuple(what[0][i] for i in order), tuple(what[1][i] for i in order)))]  # type: ignore[index]

    def split(stamp: int, t: float, what: tuple[object, ...]) -> list[tuple[int, tuple[object, ...]]]:
        parts = [(stamp, ((name,), (position,))) for name, position in zip(*what[:2], strict=True)]  # type: ignore[arg-type]
        return [parts[i] for i in rng.permutation(2)]

    truth = run(Streams().build())
    for change in (shuffled, split):
        report = run(joints_by(Streams().build(), change))
        assert (report.motion, report.joint_names) == (truth.motion, truth.joint_names)


def test_nan_is_counted_and_in_no_figure() -> None:
    """clearpath_robot#222, ros_odrive#20, UR driver#1228: an interface that is missing is published as NaN."""

    def broken(stamp: int, t: float, what: tuple[object, ...]) -> list[tuple[int, tuple[object, ...]]]:
        nan = round(t * 100) % 10 == 3
        return [(stamp, (what[0], (math.nan, math.nan) if nan else what[1]))]

    report, truth = run(joints_by(Streams().build(), broken)), run(Streams().build())
    assert report.joints is not None and report.motion is not None and truth.motion is not None
    assert report.joints.non_finite == pytest.approx(2 * 120, abs=2)
    assert report.joints.unusable == pytest.approx(120, abs=1)
    assert report.motion.u_v == pytest.approx(truth.motion.u_v, rel=0.01)


def test_arrays_that_are_empty_are_absent_and_nothing_else() -> None:
    """iiwa_stack#156: velocity and effort are []; a message without positions gives nothing and is no error."""

    def bare(stamp: int, t: float, what: tuple[object, ...]) -> list[tuple[int, tuple[object, ...]]]:
        return [(stamp, (*what, (), ())), (stamp + 1, (what[0], ()))]

    items, monitor, outputs = joints_by(Streams().build(), bare), engine(), []
    for stamp, kind, what in items:
        done = monitor.on_joints(stamp, *what) if kind == "joints" else feed_one(monitor, stamp, kind, what)  # type: ignore[arg-type]
        outputs += done
    (report,), truth = reports(outputs + monitor.finish()), run(Streams().build())
    assert report.motion == truth.motion and report.joints is not None
    assert (report.joints.malformed, report.joints.non_finite) == (0, 0)
    assert report.joints.unusable == pytest.approx(report.joints.received / 2, abs=1)
    assert not of_kind(report, EventKind.JOINTS_INVALID)


def test_a_joint_that_leaves_the_stream_is_named() -> None:
    gone = joints_by(
        Streams().build(),
        lambda stamp, t, what: [(stamp, what if not 4 < t < 8 else (what[0][:1], what[1][:1]))],  # type: ignore[index]
    )
    report = run(gone)
    (lost,) = of_kind(report, EventKind.JOINTS_LOST)
    assert lost.subject == "elbow_joint" and "elbow_joint is missing" in lost.reason
    assert (lost.onset_ns - T0) / NS == pytest.approx(4.0, abs=0.02)
    assert lost.cleared_ns is not None and (lost.cleared_ns - T0) / NS == pytest.approx(8.0, abs=0.2)
    assert report.motion is not None and report.motion.samples == pytest.approx(240, abs=16), "rows need every joint"


def test_a_jitter_of_stamps_does_not_ruin_jerk() -> None:
    """trajectory_smoothing#9: 0.2 ms of it, at 1 rad/s. Measured: 1.6 rad/s^3 more than without; differences of the
    messages themselves give 100,000.
    """
    rng = np.random.default_rng(5)

    def jittered(stamp: int, t: float, what: tuple[object, ...]) -> list[tuple[int, tuple[object, ...]]]:
        return [(stamp + round(rng.normal(0.0, 0.2e-3) * NS), what)]

    streams = Streams(duration_s=8.0, joints_hz=500.0).build()
    truth, report = run(streams), run(joints_by(streams, jittered))
    assert truth.motion is not None and report.motion is not None
    for name in ("u_v", "u_a", "mu_v"):
        assert getattr(report.motion, name) == pytest.approx(getattr(truth.motion, name), rel=0.02), name
    assert report.motion.rms_jerk is not None and truth.motion.rms_jerk is not None
    assert math.sqrt(report.motion.rms_jerk**2 - truth.motion.rms_jerk**2) < 3.0, "2 % of what counts as rough"
    assert not of_kind(report, EventKind.ROUGH_MOTION)


def test_a_change_of_rate_changes_no_figure() -> None:
    slow = joints_by(
        Streams(joints_hz=500.0).build(),
        lambda stamp, t, what: [(stamp, what)] if t < 6 or round(t * 500) % 4 == 0 else [],
    )
    truth, report = run(Streams(joints_hz=500.0).build()), run(slow)
    assert truth.motion is not None and report.motion is not None and report.joints is not None
    assert report.joints.rate_hz == pytest.approx(125.0) and report.joints.gaps == 0
    assert report.motion.samples == truth.motion.samples
    assert report.motion.u_a == pytest.approx(truth.motion.u_a, rel=0.01)


# --- counts ----------------------------------------------------------------------------------------------------------


def test_counts_do_not_depend_on_when_the_markers_were_heard() -> None:
    before = [(T0 - 3 * NS + i * NS // 100, "joints", ((*NAMES,), (0.1, 0.2))) for i in range(300)]
    start, *rest = Streams(duration_s=6.0).build()
    end = rest.pop()
    after = [(T0 + 6 * NS + i * NS // 100, "joints", ((*NAMES,), (0.1, 0.2))) for i in range(1, 100)]
    counted = []
    for late in (0, 40, 150):
        stream = [*before, *rest]
        items = [*stream[: 300 + late], start, *stream[300 + late :], *after[:40], end, *after[40:]]
        counted.append(run(items).joints)
    assert counted[0] == counted[1] == counted[2]
    assert counted[0] is not None and counted[0].received == pytest.approx(600, abs=20)


def test_a_frame_that_never_decodes_counts_as_bad_once() -> None:
    items = Streams(duration_s=5.0).build()
    monitor = engine()
    outputs = []
    for stamp, kind, what in items:
        if kind == "image" and what[0] == "wrist":
            from rollout_monitor.errors import InputError  # noqa: PLC0415

            def broken() -> object:
                raise InputError("cut short")

            outputs += monitor.on_image("wrist", stamp, broken, int(what[1]))  # type: ignore[arg-type,call-overload]
        else:
            outputs += feed_one(monitor, stamp, kind, what)
    (report,) = reports(outputs + monitor.finish())
    front, wrist = report.cameras
    assert (front.bad, front.used) == (0, front.received)
    assert 20 <= wrist.bad <= wrist.received and wrist.received == wrist.used + wrist.bad


def feed_one(monitor: RolloutMonitor, stamp: int, kind: str, what: tuple[object, ...]) -> list[object]:
    if kind == "marker":
        return list(monitor.on_marker(what[0]))  # type: ignore[arg-type]
    if kind == "joints":
        return list(monitor.on_joints(stamp, what[0], what[1]))  # type: ignore[arg-type]
    return list(monitor.on_image(str(what[0]), stamp, lambda: picture(int(what[1])), int(what[1])))  # type: ignore[call-overload]


def test_what_comes_after_its_time_was_judged_is_counted() -> None:
    merger: StampMerger[str] = StampMerger(NS)
    assert merger.add_second(0, "k0") == []
    assert merger.add_second(2 * NS, "k2") == ["k0", "k2"]  # the first stream is given up
    merger.add_first(NS, "e1")
    merger.add_first(3 * NS, "e3")
    assert merger.overtaken == 1
