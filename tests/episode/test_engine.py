"""The whole engine on synthetic streams: what must happen, when, and that arrival order changes nothing."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from engine_help import NAMES, NS, T0, ScriptedModel, Streams, events, feed, reports

from rollout_monitor.episode.monitor import Closed, Monitor
from rollout_monitor.episode.rollout import RolloutMonitor
from rollout_monitor.episode.settings import GateSettings, MonitorSettings
from rollout_monitor.errors import InputError
from rollout_monitor.events.calibration import Calibration, save
from rollout_monitor.frames import RgbImage
from rollout_monitor.records import (
    Boundary,
    EpisodeMarker,
    EpisodeReport,
    EpisodeState,
    EventKind,
    JointHealth,
    KinematicSummary,
    Label,
    MonitorStatus,
    MotionFigures,
    Outcome,
)

GATE = GateSettings(cameras=("front", "wrist"), rate_hz=5.0)


def engine(curve: Callable[[float], float | None], chance: Callable[[float], float] | None = None) -> RolloutMonitor:
    return RolloutMonitor(ScriptedModel(curve, chance), GATE, monitor=MonitorSettings(robot="ur5e"))


def run(curve: Callable[[float], float | None], streams: Streams | None = None) -> EpisodeReport:
    (report,) = reports(feed(engine(curve), (streams or Streams()).build()))
    return report


def kinds(report: EpisodeReport) -> list[EventKind]:
    return [event.kind for event in report.events]


def test_a_success_is_reported_with_all_its_parts() -> None:
    report = run(lambda t: min(1.0, t / 8.0))
    assert report.state is EpisodeState.ENDED and report.outcome.outcome is Outcome.SUCCESS
    assert report.outcome.decided_by == "progress" and report.duration_s == 12.0
    assert kinds(report) == [EventKind.PLATEAU_DONE, EventKind.SUCCESS]
    assert report.metrics_final is not None and report.metrics_final.success_from == "outcome"
    assert report.metrics_final.sqs is not None and report.metrics_final.fns is None
    assert report.estimates == 60 and len(report.curve) == 60 and report.missing_estimates == 0
    assert report.motion is not None and report.motion.samples >= 350 and report.joint_names
    assert report.i_phys and report.speed and report.largest_live_final_gap is not None
    assert report.key_frames[0].why.startswith("start") and report.model_hash == "ab" * 32
    assert any("documented defaults" in note for note in report.notes)


@pytest.mark.parametrize(("arm_moves", "words"), [(True, "MOVING"), (False, "STILL")])
def test_a_stall_is_seen_live_and_fails(arm_moves: bool, words: str) -> None:
    streams = Streams(moving=lambda t: t < 3.0 or arm_moves)
    outputs = feed(engine(lambda t: min(0.4, t / 7.5)), streams.build())
    (report,) = reports(outputs)
    stall = next(event for event in events(outputs) if event.kind is EventKind.STALL)
    assert words in stall.reason
    assert 3.0 <= (stall.onset_ns - T0) / NS <= 4.5
    assert (stall.detected_ns - stall.onset_ns) / NS < 4.5
    closed = next(i for i, output in enumerate(outputs) if isinstance(output, Closed))
    assert outputs.index(stall) < closed, "an operator hears of it before the end"
    assert report.outcome.outcome is Outcome.FAILURE and report.metrics_final is not None
    assert report.metrics_final.fns is not None and report.metrics_final.sqs is None


def test_a_drop_that_recovers_clears_its_event() -> None:
    def curve(t: float) -> float:
        return t / 5.0 if t < 3 else 0.2 if t < 5 else min(1.0, 0.2 + (t - 5) / 4.0)

    report = run(curve)
    drawdown = next(event for event in report.events if event.kind is EventKind.DRAWDOWN)
    assert drawdown.cleared_ns is not None and drawdown.values["recovered"] > 0.8
    assert report.outcome.outcome is Outcome.SUCCESS and report.metrics_final is not None
    assert report.metrics_final.drr == 1.0


def test_a_given_label_wins() -> None:
    report = run(lambda t: 0.2, Streams(label=Label.SUCCESS))
    assert report.outcome.outcome is Outcome.SUCCESS and report.outcome.decided_by == "label"
    assert report.metrics_final is not None and report.metrics_final.success_from == "label"


def test_missing_estimates_are_missing_not_zero() -> None:
    report = run(lambda t: None if 4.0 < t < 6.0 else min(1.0, t / 8.0))
    assert report.missing_estimates >= 8 and report.estimates == 60 - report.missing_estimates
    assert EventKind.DRAWDOWN not in kinds(report)
    assert any("missing" in note for note in report.notes)


def test_a_model_that_never_answers_costs_progress_but_not_the_arm() -> None:
    report = run(lambda t: None)
    assert report.outcome.outcome is Outcome.UNDECIDED and report.metrics_final is None
    assert report.motion is not None and report.motion.samples > 300


@pytest.mark.parametrize("value", [1.02, -0.1, float("nan"), float("inf")])
def test_an_answer_outside_the_scale_is_missing_not_clipped(value: float) -> None:
    report = run(lambda t: value if t > 6.0 else t / 12.0)
    assert report.missing_estimates == 29 and report.estimates == 31


def test_no_joints_is_no_event() -> None:
    items = [item for item in Streams().build() if item[1] != "joints"]
    (report,) = reports(feed(engine(lambda t: min(1.0, t / 8.0)), items))
    assert report.motion is None and kinds(report) == [EventKind.PLATEAU_DONE, EventKind.SUCCESS]


def test_joints_and_camera_that_stop_are_noticed() -> None:
    items = [i for i in Streams().build() if not (i[1] == "joints" and i[0] > T0 + 4 * NS)]
    (report,) = reports(feed(engine(lambda t: t / 20), items))
    lost = next(event for event in report.events if event.kind is EventKind.JOINTS_LOST)
    assert (lost.onset_ns - T0) / NS == pytest.approx(4.0, abs=0.2)
    items = [i for i in Streams().build() if not (i[1] == "image" and i[0] > T0 + 4 * NS)]
    (report,) = reports(feed(engine(lambda t: t / 20), items))
    found = {event.kind: event for event in report.events}
    assert found[EventKind.CAMERA_LOST].subject in {"front", "wrist"}
    assert EventKind.MODEL_LATE in found and EventKind.MODEL_LOST in found


def test_a_clock_that_goes_back_interrupts_and_keeps_everything() -> None:
    first = Streams(duration_s=8.0).build()[:-1]
    again = Streams(duration_s=4.0).build()
    found = reports(feed(engine(lambda t: min(1.0, t / 8.0)), first + again[1:]))
    assert found[0].state is EpisodeState.INTERRUPTED and found[0].estimates >= 39
    assert kinds(found[0])[-1] is EventKind.CLOCK_JUMP
    assert found[0].outcome.outcome is Outcome.UNDECIDED


def test_a_second_start_interrupts_the_first() -> None:
    first = Streams(duration_s=5.0, episode_id="a").build()[:-1]
    second = Streams(duration_s=5.0, episode_id="b", start_ns=T0 + 6 * NS).build()
    found = reports(feed(engine(lambda t: t / 10), first + second))
    assert [(r.episode_id, r.state) for r in found] == [("a", EpisodeState.INTERRUPTED), ("b", EpisodeState.ENDED)]
    assert found[1].estimates == 25
    assert kinds(found[1]) == [EventKind.FAILURE], "silence between two episodes is no lost camera"


def test_a_start_right_after_an_end_does_not_interrupt_what_was_ended() -> None:
    first = Streams(duration_s=5.0, episode_id="a").build()
    second = Streams(duration_s=5.0, episode_id="b", start_ns=T0 + 5 * NS + NS // 10).build()
    found = reports(feed(engine(lambda t: t / 10), first + second))
    assert [(r.episode_id, r.state) for r in found] == [("a", EpisodeState.ENDED), ("b", EpisodeState.ENDED)]
    assert found[0].estimates == 25 and found[1].estimates == 26


def test_health_counts_the_episode_not_the_life_of_the_stream() -> None:
    first = Streams(duration_s=5.0, episode_id="a").build()
    second = Streams(duration_s=5.0, episode_id="b", start_ns=T0 + 6 * NS).build()
    found = reports(feed(engine(lambda t: t / 10), first + second))
    for report in found:
        assert report.joints is not None
        assert report.joints.received == pytest.approx(501, abs=11)
        assert [health.received for health in report.cameras] == pytest.approx([50, 50], abs=6)


def test_input_that_ends_in_mid_episode_is_interrupted_not_lost() -> None:
    (report,) = reports(feed(engine(lambda t: t / 10), Streams(duration_s=5.0).build()[:-1]))
    assert report.state is EpisodeState.INTERRUPTED and report.estimates == 25
    assert "interrupted" in report.notes[0]


def test_markers_heard_twice_change_nothing() -> None:
    items = Streams(duration_s=5.0).build()
    once = reports(feed(engine(lambda t: t / 10), items))
    twice = reports(feed(engine(lambda t: t / 10), [items[0], *items, items[-1]]))
    assert once == twice


def test_a_start_learned_late_still_gets_its_first_seconds() -> None:
    items = Streams().build()
    late = [*items[1:200], items[0], *items[200:]]
    assert late[199][1] == "marker"
    one = reports(feed(engine(lambda t: min(1.0, t / 8.0)), items))
    other = reports(feed(engine(lambda t: min(1.0, t / 8.0)), late))
    assert [p.stamp_ns for p in one[0].curve] == [p.stamp_ns for p in other[0].curve]
    assert one[0].motion == other[0].motion


def test_status_is_monotone_in_stamps_and_ends_with_the_state() -> None:
    outputs = feed(engine(lambda t: min(1.0, t / 8.0)), Streams().build())
    status = [output for output in outputs if isinstance(output, MonitorStatus)]
    stamps = [one.stamp_ns for one in status]
    assert stamps == sorted(stamps) and len(status) > 90
    assert status[-1].state is EpisodeState.ENDED and status[-1].mp == pytest.approx(1.0, abs=0.05)


def test_an_episode_without_any_data_still_gives_a_report() -> None:
    start = EpisodeMarker(boundary=Boundary.START, stamp_ns=T0, episode_id="empty", task="wait")
    items = [(T0, "marker", (start,)), (T0 + NS, "marker", (start.model_copy(update={"boundary": Boundary.END}),))]
    (report,) = reports(feed(engine(lambda t: 0.5), items))  # type: ignore[arg-type]
    assert report.metrics_final is None and report.motion is None and report.curve == []


@pytest.mark.parametrize("seed", range(6))
def test_arrival_order_between_topics_changes_nothing(seed: int) -> None:
    """Each topic keeps its own order, as DDS keeps it; between topics anything goes within 60 ms."""

    def curve(t: float) -> float:
        return t / 6.0 if t < 3 else 0.15 if t < 5 else min(1.0, 0.15 + (t - 5) / 5.0)

    items = Streams().build()
    rng = random.Random(seed)
    delays = {topic: rng.uniform(0, 60e6) for topic in ("front", "wrist", "joints")}
    keyed = []
    for order, item in enumerate(items[1:-1]):
        topic = item[2][0] if item[1] == "image" else "joints"
        keyed.append((item[0] + delays[str(topic)], order, item))
    jittered = [items[0], *(item for _, _, item in sorted(keyed, key=lambda k: k[:2])), items[-1]]
    (one,), (other,) = (reports(feed(engine(curve), order)) for order in (items, jittered))
    assert one.model_dump(exclude={"cameras"}) == other.model_dump(exclude={"cameras"})


def test_two_grid_rows_are_an_episode_too() -> None:
    for milliseconds in range(10, 260, 10):
        items = Streams(duration_s=milliseconds / 1000, joints_hz=500.0).build()
        rest = [(stamp + round(milliseconds * 1e6), topic, payload) for stamp, topic, payload in items[1:-1]]
        (report,) = reports(feed(engine(lambda t: 0.1), items + rest))
        assert report.state is EpisodeState.ENDED


def test_a_model_that_dies_early_decides_nothing() -> None:
    report = run(lambda t: 0.95 if t < 3.0 else None)
    assert report.outcome.outcome is Outcome.UNDECIDED and "older than the end" in report.outcome.reason
    assert {EventKind.MODEL_LATE, EventKind.MODEL_LOST} <= set(kinds(report))


def test_a_clock_set_back_between_two_attempts_hurts_neither() -> None:
    first = Streams(duration_s=5.0, episode_id="a", start_ns=T0 + 100 * NS).build()
    between = [(T0 + 105 * NS + i * NS // 100, "joints", ((*NAMES,), (0.1, 0.2))) for i in range(100)]
    second = Streams(duration_s=6.0, episode_id="b", start_ns=T0 + NS).build()
    found = reports(feed(engine(lambda t: t / 10), first + between + second))  # type: ignore[operator]
    assert [(r.episode_id, r.state) for r in found] == [("a", EpisodeState.ENDED), ("b", EpisodeState.ENDED)]
    assert kinds(found[1]) == [EventKind.FAILURE] and found[1].duration_s == 6.0
    assert found[1].motion is not None and found[1].motion.samples <= 181


@pytest.mark.parametrize("back_s", [1.5, 3.0, 7.0, 3600.0])
@pytest.mark.parametrize("at_s", [6.0, 6.05, 6.13])
def test_a_clock_set_back_in_mid_episode_is_one_jump(back_s: float, at_s: float) -> None:
    at = T0 + 4000 * NS
    streams = Streams(duration_s=12.0, start_ns=at).build()
    cut = at + round(at_s * NS)
    items = [(s, t, p) if s < cut else (s - round(back_s * NS), t, p) for s, t, p in streams[:-1]]
    outputs = feed(engine(lambda t: min(1.0, t / 12)), items)
    (report,) = reports(outputs)
    assert report.state is EpisodeState.INTERRUPTED and kinds(report).count(EventKind.CLOCK_JUMP) == 1
    after = items[next(i for i, item in enumerate(items) if item[0] < cut - NS and i > 500) :]
    assert len(after) > 100 and outputs.index(next(o for o in outputs if isinstance(o, Closed))) < len(outputs)


def test_key_frames_are_of_this_attempt_although_stamps_repeat() -> None:
    first = Streams(duration_s=6.0, episode_id="a").build()
    second = Streams(duration_s=5.0, episode_id="b").build()
    second = [(s, t, (p[0], int(p[1]) + 1000) if t == "image" else p) for s, t, p in second]  # type: ignore[call-overload]
    outputs = feed(engine(lambda t: t / 10), first + second)
    closed = [output for output in outputs if isinstance(output, Closed)]
    assert len(closed) == 2 and not set(closed[0].pictures.values()) & set(closed[1].pictures.values())


def test_a_camera_that_never_comes_and_a_frame_that_does_not_decode() -> None:
    items = [item for item in Streams().build() if not (item[1] == "image" and item[2][0] == "wrist")]
    (report,) = reports(feed(engine(lambda t: t / 20), items))
    lost = [event for event in report.events if event.kind is EventKind.CAMERA_LOST]
    assert [event.subject for event in lost] == ["wrist"] and lost[0].onset_ns == T0

    def broken() -> RgbImage:
        raise InputError("cut short")

    monitor = engine(lambda t: t / 20)
    monitor.on_image("front", T0, broken, b"x")  # neither raises nor costs more than this frame


def test_a_defect_of_the_model_is_a_missing_estimate() -> None:
    def curve(t: float) -> float:
        if t > 6.0:
            raise ZeroDivisionError("a defect")
        return t / 12

    report = run(curve)
    assert report.missing_estimates == 29 and any("ZeroDivisionError" in note for note in report.notes)


def test_a_calibration_is_applied_and_named(tmp_path: Path) -> None:
    path = tmp_path / "lift.json"
    learned = Calibration(
        task="lift the cube",
        model="scripted-1",
        model_hash="ab" * 32,
        alpha=0.1,
        n=20,
        thresholds={"outcome.progress_threshold": 0.3},
    )
    save(learned, path)

    def judged(task: str) -> EpisodeReport:
        save(learned.model_copy(update={"task": task}), path)
        monitor = MonitorSettings(calibration=str(path))
        watcher = RolloutMonitor(ScriptedModel(lambda t: min(0.4, t)), GATE, monitor=monitor)
        (report,) = reports(feed(watcher, Streams().build()))
        return report

    report = judged("lift the cube")
    assert report.outcome.outcome is Outcome.SUCCESS and report.outcome.calibrated
    assert report.settings["events.outcome.progress_threshold"] == 0.3 and report.calibration == str(path)
    other = judged("another task")
    assert not other.outcome.calibrated and any("another task" in note for note in other.notes)
    with pytest.raises(InputError, match="calibration"):
        RolloutMonitor(ScriptedModel(lambda t: 0.1), GATE, monitor=MonitorSettings(calibration=str(tmp_path / "no")))


def test_joints_that_are_never_finite_are_noticed() -> None:
    nan = float("nan")
    items = [(s, t, (NAMES, (nan, nan))) if t == "joints" else (s, t, p) for s, t, p in Streams().build()]
    (report,) = reports(feed(engine(lambda t: t / 20), items))
    assert EventKind.JOINTS_INVALID in kinds(report)
    assert report.joints is not None and report.joints.non_finite > 2000 and report.motion is None


def test_a_straggler_of_the_attempt_before_is_no_clock_jump() -> None:
    monitor = Monitor(MonitorSettings())
    start = EpisodeMarker(boundary=Boundary.START, stamp_ns=T0 + 100 * NS, episode_id="b", task="lift")
    monitor.on_marker(start)
    figures = MotionFigures(samples=0, duration_s=0.0)

    def tell(stamp_ns: int, jumps: int) -> list[object]:
        health = JointHealth(received=10, used=10, clock_jumps=jumps)
        return list(
            monitor.on_kinematics(
                KinematicSummary(
                    stamp_ns=stamp_ns, grid_rate_hz=30.0, window=figures, episode=figures, moving=False, health=health
                )
            )
        )

    tell(T0 + 101 * NS, 0)
    tell(T0 + 70 * NS, 0)
    tell(T0 + 102 * NS, 3)  # another stream of the same joints, which had counted jumps before
    monitor.on_quiet(T0 + 102 * NS)
    assert monitor.status.state is EpisodeState.RUNNING
