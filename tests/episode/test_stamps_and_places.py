"""Stamps and positions that cannot be, through the whole engine: what is dropped, what is said, who is not blamed."""

from __future__ import annotations

import math
from typing import Any

import pytest
from engine_help import NS, T0, Streams
from test_streams_as_they_come import Items, joints_by, of_kind, run

from rollout_monitor.records import EpisodeReport, EpisodeState, EventKind

ZERO = "header stamps are zero: the driver does not fill them in"
DEVICES = (EventKind.CAMERA_LOST, EventKind.JOINTS_LOST, EventKind.MODEL_LATE, EventKind.MODEL_LOST, EventKind.STALL)


def stamped(topic: str, stamp_ns: int | None = None, whole_seconds: bool = False) -> Items:
    """A rollout with the stamps of one topic all the same, or cut to whole seconds."""
    fixed = [(stamp // NS * NS if whole_seconds else stamp_ns, kind, what) for stamp, kind, what in Streams().build()]
    return [new if new[1] == topic else old for new, old in zip(fixed, Streams().build(), strict=True)]  # type: ignore[misc]


def set_from(at_s: float, by_s: float) -> Items:
    """A rollout in which every clock is set at a moment."""
    items = [(s + (round(by_s * NS) if s > T0 + at_s * NS else 0), k, w) for s, k, w in Streams().build()]
    end: Any = items[-1][2][0]
    return [*items[:-1], (items[-1][0], "marker", (end.model_copy(update={"stamp_ns": items[-1][0]}),))]


def blamed(report: EpisodeReport) -> list[str]:
    return [f"{event.kind.value}: {event.reason}" for event in report.events if event.kind in DEVICES]


# --- no stamp to go by ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("stamp_ns", "words"), [(0, ZERO), (T0 + 10**15, "stamps repeat ("), (-NS, ZERO)])
@pytest.mark.parametrize("topic", ["image", "joints"])
def test_an_input_that_never_gives_a_usable_stamp_is_lost_and_says_why(topic: str, stamp_ns: int, words: str) -> None:
    """ros_comm#60 and ros_comm#1716: a driver that never fills the header in."""
    report = run(stamped(topic, stamp_ns))
    kind = EventKind.CAMERA_LOST if topic == "image" else EventKind.JOINTS_LOST
    events = of_kind(report, kind)
    assert len(events) == (2 if topic == "image" else 1)
    assert all(words in event.reason and event.cleared_ns is None for event in events)
    assert all(health.clock_offset_s is None or abs(health.clock_offset_s) < 0.1 for health in report.cameras)
    counts: Any = report.cameras[0] if topic == "image" else report.joints
    assert counts.used == 0 and counts.unstamped + counts.not_advancing >= counts.received > 100
    assert report.state is EpisodeState.ENDED and not of_kind(report, EventKind.CLOCK_JUMP)


def test_stamps_of_whole_seconds_are_said_to_repeat() -> None:
    lost = of_kind(run(stamped("joints", whole_seconds=True)), EventKind.JOINTS_LOST)
    assert lost and all("stamps repeat (" in event.reason for event in lost)


@pytest.mark.parametrize("wrong_ns", [0, -3600 * NS, 3600 * NS, 5 * NS])
@pytest.mark.parametrize("topic", ["image", "joints"])
def test_a_wrong_first_stamp_costs_one_message(topic: str, wrong_ns: int) -> None:
    items = Streams().build()
    first = next(i for i, item in enumerate(items) if item[1] == topic)
    wrong = items[first][0] + wrong_ns if wrong_ns else 0
    report, truth = run([*items[:first], (wrong, *items[first][1:]), *items[first + 1 :]]), run(items)
    assert report.state is EpisodeState.ENDED and not blamed(report)
    assert report.motion is not None and truth.motion is not None
    assert report.motion.samples >= truth.motion.samples - 1 and report.estimates >= truth.estimates - 1


# --- clocks that are set --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by_s", [3600.0, 100.0, 5.0])
def test_a_clock_set_ahead_is_named_and_no_device_is_blamed(by_s: float) -> None:
    report, truth = run(set_from(6.0, by_s)), run(Streams().build())
    assert report.state is EpisodeState.ENDED and not blamed(report)
    (jump,) = of_kind(report, EventKind.CLOCK_JUMP)
    assert jump.severity.value == "WARN" and jump.values["ahead_s"] == pytest.approx(by_s, abs=0.2)
    assert f"leapt ahead by {by_s:.1f} s" in report.notes[0]
    assert report.motion is not None and truth.motion is not None and report.joints is not None
    assert report.motion.rms_jerk == pytest.approx(truth.motion.rms_jerk, rel=0.05)
    assert (report.joints.used, report.joints.stray) == (report.joints.received, 0), "a leap costs no message"


def test_a_device_that_does_not_come_back_after_a_leap_is_lost() -> None:
    items = [item for item in set_from(6.0, 100.0) if not (item[1] == "image" and item[0] > T0 + 6 * NS)]
    (front, wrist) = of_kind(run(items), EventKind.CAMERA_LOST)
    assert 1.0 <= front.values["age_s"] < 2.0 and 1.0 <= wrist.values["age_s"] < 2.0, "since the leap, not before"


def test_a_clock_set_back_a_little_is_a_step_and_no_roughness() -> None:
    report, truth = run(set_from(6.0, -0.4)), run(Streams().build())
    assert report.state is EpisodeState.ENDED and not blamed(report)
    assert not of_kind(report, EventKind.ROUGH_MOTION) and not of_kind(report, EventKind.CLOCK_JUMP)
    assert report.joints is not None and report.motion is not None and truth.motion is not None
    assert report.joints.clock_steps == 1 and report.joints.not_advancing <= 3
    assert report.motion.rms_jerk == pytest.approx(truth.motion.rms_jerk, rel=0.05)
    assert [health.clock_steps for health in report.cameras] == [1, 1]


def test_a_pause_costs_no_message_and_is_no_stray() -> None:
    report = run([item for item in Streams().build() if not (item[1] == "joints" and 4 < (item[0] - T0) / NS < 7)])
    assert report.joints is not None
    assert (report.joints.used, report.joints.stray) == (report.joints.received, 0)


# --- positions that cannot be ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("every", [1, 10])
def test_a_second_publisher_on_the_same_clock_is_in_no_figure(order: int, every: int) -> None:
    """yahboom_rosmaster#4: zeros between real joint states, stamped in between; ros2_controllers#159: in any order."""

    def both(stamp: int, t: float, what: tuple[Any, ...]) -> list[tuple[int, tuple[Any, ...]]]:
        zeros = [(stamp + 5_000_000, (what[0][::order], (0.0, 0.0)))] if round(t * 100) % every == 0 else []
        return [(stamp, what), *zeros]

    report, truth = run(joints_by(Streams().build(), both)), run(Streams().build())
    (invalid,) = of_kind(report, EventKind.JOINTS_INVALID)
    assert "jumps away and back" in invalid.reason and "two publishers of the same joints" in invalid.reason
    assert any(name in invalid.reason for name in report.joint_names)
    assert report.motion == truth.motion and not of_kind(report, EventKind.ROUGH_MOTION)
    assert report.joints is not None and report.joints.implausible == pytest.approx(1200 / every, abs=2)


def test_one_impossible_position_is_dropped_and_no_event() -> None:
    spike = joints_by(
        Streams().build(),
        lambda s, t, what: [(s, (what[0], (what[1][0], 1e3)) if abs(t - 5) < 0.004 else what)],  # type: ignore[index]
    )
    report, truth = run(spike), run(Streams().build())
    assert report.motion is not None and truth.motion is not None and report.joints is not None
    assert report.motion.rms_jerk == pytest.approx(truth.motion.rms_jerk, rel=0.01)
    assert (report.joints.implausible, report.joints.implausible_joint) == (1, "elbow_joint")
    assert not of_kind(report, EventKind.JOINTS_INVALID)


def test_a_new_position_that_stays_is_believed_and_apart_from_the_old() -> None:
    """Homing sets an encoder anew: every message counts, and the jump is in no figure."""
    homed = joints_by(
        Streams().build(),
        lambda s, t, what: [(s, (what[0], tuple(x + 2.0 * (t > 6) for x in what[1])))],  # type: ignore[union-attr]
    )
    report, truth = run(homed), run(Streams().build())
    assert report.joints is not None and report.motion is not None and truth.motion is not None
    assert (report.joints.implausible, report.joints.used) == (0, report.joints.received)
    assert report.motion.rms_jerk == pytest.approx(truth.motion.rms_jerk, rel=0.05)
    assert report.motion.samples == pytest.approx(truth.motion.samples - 8, abs=2)
    assert report.motion.peak_speed is not None and report.motion.peak_speed < 2.0


def test_a_joint_that_is_faster_than_the_bound_is_used_as_it_is() -> None:
    """Positions in another unit: no message may be lost to a bound that does not hold for them."""
    fast = joints_by(
        Streams().build(),
        lambda s, t, what: [(s, (what[0], (400.0 * math.sin(9 * t), what[1][1])))],  # type: ignore[index]
    )
    report = run(fast)
    assert report.joints is not None and report.motion is not None
    assert report.joints.used > 0.95 * report.joints.received and report.motion.samples > 300
