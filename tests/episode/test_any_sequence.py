"""Any sequence of messages: no exception, counts that add up, figures in their ranges, one report per attempt.

Two halves. Messages of any kind, order and content go into the whole engine, as a broken robot sends them. And the
records of a sound rollout go into the monitor in any order, with losses and repeats, as a broken network brings them.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from engine_help import NS, T0, ScriptedModel, Streams, picture
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rollout_monitor.episode.estimator import Estimator
from rollout_monitor.episode.gate import Selected
from rollout_monitor.episode.monitor import Closed, Monitor, Output
from rollout_monitor.episode.perception import EndJob, Perception, StartJob
from rollout_monitor.episode.rollout import RolloutMonitor
from rollout_monitor.episode.settings import GateSettings, MonitorSettings
from rollout_monitor.errors import InputError
from rollout_monitor.frames import RgbImage
from rollout_monitor.motion.settings import MotionSettings
from rollout_monitor.records import (
    Boundary,
    CameraHealth,
    EpisodeMarker,
    EpisodeReport,
    EpisodeState,
    Event,
    JointHealth,
    KinematicSummary,
    Label,
    MonitorStatus,
    ProgressEstimate,
)

CAMERAS = ("front", "wrist")
GATE = GateSettings(cameras=CAMERAS, rate_hz=5)
DARK = picture(0) * 0
SETTINGS = settings(
    max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)

# --- what may come ---------------------------------------------------------------------------------------------------

SECONDS = st.sampled_from([0.0, 0.0, 0.0, 0.0, 0.01, -0.01, -0.3, 0.7, -2.0, 1.5, 5.0, -5.0, 3600.0, -3600.0, 1e9])
STAMPS = st.one_of(SECONDS, st.sampled_from(["zero", "one", "negative"]))  # off the sender's clock, or of none
NUMBERS = st.one_of(
    st.floats(-3.2, 3.2), st.sampled_from([0.0, math.nan, math.inf, -math.inf, 1e300, -1e300, 1e6, 5e-324])
)
JOINT_NAMES = st.lists(st.sampled_from(["elbow", "wrist_1", "pan", "grip", "", "zażółć"]), max_size=4)
ARRAYS = st.lists(NUMBERS, max_size=5)
NAMES = st.sampled_from(["a", "b", "c"])

STRETCH = st.tuples(st.just("stretch"), st.sampled_from([0.05, 0.3, 1.0, 2.5]), st.sampled_from([20, 50, 100]))
JOINTS = st.tuples(st.just("joints"), STAMPS, JOINT_NAMES, ARRAYS, ARRAYS, ARRAYS)
FITTING = JOINT_NAMES.flatmap(
    lambda names: st.tuples(
        st.just("joints"), STAMPS, st.just(names), *[st.lists(NUMBERS, min_size=len(names), max_size=len(names))] * 3
    )
)
IMAGE = st.tuples(
    st.just("image"),
    STAMPS,
    st.sampled_from(CAMERAS),
    st.sampled_from(["new", "same", "broken", "dark"]),
    st.integers(1, 8),
)
START = st.tuples(st.just("start"), STAMPS, NAMES, st.sampled_from(["lift", ""]))
END = st.tuples(st.just("end"), STAMPS, NAMES, st.sampled_from([None, Label.SUCCESS, Label.FAILURE]))
WAIT = st.tuples(st.just("wait"), st.sampled_from([0.02, 0.2, 0.8, 4.0, 100.0]))
CLOCK = st.tuples(st.just("clock"), st.sampled_from([-0.4, -0.9, -3.0, -30.0, -3600.0, 2.0, 100.0]))
LOST = st.tuples(st.just("lost"), st.sampled_from([None, *CAMERAS]), st.integers(0, 5))
OPERATIONS = st.lists(
    st.one_of(STRETCH, STRETCH, STRETCH, JOINTS, FITTING, IMAGE, START, END, WAIT, CLOCK, LOST), max_size=40
)
ANSWERS = st.lists(
    st.one_of(st.floats(0.0, 1.0), st.sampled_from([0.0, 1.0, 1.0, None, -0.1, 1.1, math.nan, "defect"])),
    min_size=1,
    max_size=12,
)


class WildModel(ScriptedModel):
    """Gives what it was told to, in turn; what is no number is a failure of one sort or another."""

    def __init__(self, answers: list[Any]) -> None:
        super().__init__(lambda t: self._next(), chance=lambda t: 0.5)
        self._answers, self._at = answers, 0

    def _next(self) -> float | None:
        answer = self._answers[self._at % len(self._answers)]
        self._at += 1
        if answer == "defect":
            raise ZeroDivisionError("a defect of the model")
        return answer  # type: ignore[no-any-return]


# --- what must hold --------------------------------------------------------------------------------------------------


@dataclass
class Ledger:
    """Follows the outputs: which attempts are open, what events were told; complains at once."""

    running: tuple[str, int] | None = None
    opened: int = 0
    reports: list[EpisodeReport] = field(default_factory=list)
    events: dict[tuple[str, int, int], Event] = field(default_factory=dict)

    def on_start(self, marker: EpisodeMarker, outputs: Iterable[Output]) -> None:
        """A START opens an attempt, unless it is the one that opened the running one."""
        asked = (marker.episode_id, marker.stamp_ns)
        if asked != self.running:
            self.opened += 1
            outputs = list(outputs)
            closed = [output for output in outputs if isinstance(output, Closed)]
            cut = [one for one in closed if (one.report.episode_id, one.report.start_ns) == self.running]
            first = outputs.index(cut[0]) + 1 if self.running is not None else 0
            self.on_outputs(outputs[:first])
            assert self.running is None, "the attempt before is closed first"
            self.running = asked
            self.events.clear()
            outputs = outputs[first:]
        self.on_outputs(outputs)

    def on_outputs(self, outputs: Iterable[Output]) -> None:
        for output in outputs:
            if isinstance(output, Closed):
                assert (output.report.episode_id, output.report.start_ns) == self.running, "of an attempt that is open"
                self.running = None
                self.reports.append(output.report)
                check_report(output.report, output.pictures)
            elif isinstance(output, Event):
                self._on_event(output)
            else:
                check_status(output)

    def _on_event(self, event: Event) -> None:
        assert self.running is not None and event.episode_id == self.running[0]
        check_event(event)
        key = (*self.running, event.event_id)
        before = self.events.get(key)
        if before is not None:
            assert before.cleared_ns is None, "what is over is over"
            assert (before.kind, before.subject, before.onset_ns) == (event.kind, event.subject, event.onset_ns)
        self.events[key] = event

    def finish(self) -> None:
        assert self.running is None and len(self.reports) == self.opened, "exactly one report per attempt"


def finite(values: Iterable[Any]) -> bool:
    return all(math.isfinite(value) for value in values if isinstance(value, float))


def check_event(event: Event) -> None:
    assert event.reason and finite(event.values.values())
    assert event.detected_ns >= event.onset_ns
    assert event.cleared_ns is None or event.cleared_ns >= event.onset_ns


def check_status(status: MonitorStatus) -> None:
    assert status.elapsed_s >= 0.0 and (status.rms_jerk is None or 0.0 <= status.rms_jerk < math.inf)
    assert status.mp is None or status.drawdown is None or status.drawdown <= status.mp + 1e-9
    assert len({event.event_id for event in status.active_events}) == len(status.active_events)


def check_report(report: EpisodeReport, pictures: dict[str, bytes]) -> None:
    assert report.state in (EpisodeState.ENDED, EpisodeState.INTERRUPTED)
    assert EpisodeReport.model_validate_json(report.model_dump_json()) == report, "NaN would not survive this"
    assert report.end_ns >= report.start_ns or report.duration_s == 0.0
    assert len(report.curve) == report.estimates
    stamps = [point.stamp_ns for point in report.curve]
    assert stamps == sorted(set(stamps)) and all(report.start_ns <= stamp for stamp in stamps)
    for metrics in (report.metrics_live, report.metrics_final):
        if metrics is None:
            assert report.estimates == 0
            continue
        for name in ("mp", "ppl", "str_", "max_drawdown", "cra"):
            assert -1e-9 <= getattr(metrics, name) <= 1.0 + 1e-9, (name, getattr(metrics, name))
        assert 0.0 <= metrics.tv < math.inf
        for name in ("drr", "fns", "sqs"):
            value = getattr(metrics, name)
            assert value is None or -1e-9 <= value <= 1.0 + 1e-9, (name, value)
        assert (metrics.sqs is None) == (not metrics.success) and (metrics.fns is None) == metrics.success
    if report.motion is not None:
        figures = report.motion.model_dump()
        assert finite(figures.values()) and all(finite(v) for v in figures.values() if isinstance(v, list))
        for name in ("u_v", "u_a", "mu_v", "rms_jerk", "peak_speed"):
            assert figures[name] is None or figures[name] >= 0.0
        assert len(report.motion.s_v) in (0, len(report.joint_names))
    for frame in report.key_frames:
        assert frame.file in pictures
    for event in report.events:
        check_event(event)
    if report.joints is not None:
        check_joints(report.joints)


def check_joints(health: JointHealth) -> None:
    dropped = health.not_advancing + health.malformed + health.unusable + health.unstamped + health.stray
    assert health.received == health.used + dropped + health.implausible


def check_camera(health: CameraHealth) -> None:
    dropped = health.bad + health.not_advancing + health.unstamped + health.stray
    assert health.received == health.used + dropped
    assert health.used >= 0 and health.repeated <= health.used + health.bad


# --- a broken robot --------------------------------------------------------------------------------------------------


class Robot:
    """Carries the operations out on an engine, with a clock of its own."""

    def __init__(self, answers: list[Any]) -> None:
        self.engine = RolloutMonitor(WildModel(answers), GATE)
        self.ledger = Ledger()
        self.now_ns = T0
        self.joint_messages = 0
        self.frames = dict.fromkeys(CAMERAS, 0)
        self.prints = 0

    def run(self, operations: list[tuple[Any, ...]]) -> None:
        for name, *arguments in operations:
            getattr(self, name)(*arguments)
        self.ledger.on_outputs(self.engine.finish())
        self.ledger.finish()
        self.check_counts()

    def check_counts(self) -> None:
        health = self.engine.perception.joint_health
        assert health.received + self.engine.perception.joints.held == self.joint_messages
        check_joints(health)
        for camera in self.engine.perception.gate.health(self.now_ns):
            held = self.frames[camera.camera] - camera.received
            assert held == self.engine.perception.gate.held(camera.camera)
            check_camera(camera)

    def stamp(self, off: float | str) -> int:
        fixed = {"zero": 0, "one": 1, "negative": -5 * NS}
        return fixed[off] if isinstance(off, str) else self.now_ns + round(off * NS)

    def stretch(self, seconds: float, rate: int) -> None:
        """All is well for a while."""
        steps = max(1, round(seconds * rate))
        for k in range(steps):
            t = self.now_ns / NS % 1000.0
            self.joints(
                0.0, ["elbow", "pan"], [math.sin(t), math.cos(2 * t)], [math.cos(t), 0.1], [t % 3.0, 5 * (k % 37 == 36)]
            )
            if k % (rate // 10) == 0:
                for camera in CAMERAS:
                    self.image(0.0, camera, "new", 0)
            self.now_ns += NS // rate

    def joints(self, off: float | str, names: list[str], *arrays: list[float]) -> None:
        self.joint_messages += 1
        self.ledger.on_outputs(self.engine.on_joints(self.stamp(off), names, *arrays))

    def image(self, off: float | str, camera: str, kind: str, times: int) -> None:
        for k in range(max(1, times)):
            self.prints += kind != "same"
            self.frames[camera] += 1
            stamp_ns = self.stamp(off) + (k * NS // 5 if isinstance(off, float) else 0)
            self.ledger.on_outputs(self.engine.on_image(camera, stamp_ns, self._decoder(kind), self.prints))

    def _decoder(self, kind: str) -> Any:
        def decode() -> RgbImage:
            if kind == "broken":
                raise InputError("cut short")
            return DARK if kind == "dark" else picture(self.prints % 7)

        return decode

    def start(self, off: float | str, episode_id: str, task: str) -> None:
        marker = EpisodeMarker(
            boundary=Boundary.START, stamp_ns=max(0, self.stamp(off)), episode_id=episode_id, task=task
        )
        self.ledger.on_start(marker, self.engine.on_marker(marker))

    def end(self, off: float | str, episode_id: str, label: Label | None) -> None:
        marker = EpisodeMarker(
            boundary=Boundary.END, stamp_ns=max(0, self.stamp(off)), episode_id=episode_id, label=label
        )
        self.ledger.on_outputs(self.engine.on_marker(marker))

    def wait(self, seconds: float) -> None:
        self.now_ns += round(seconds * NS)

    def clock(self, seconds: float) -> None:
        """The clock is set."""
        self.now_ns += round(seconds * NS)

    def lost(self, camera: str | None, count: int) -> None:
        self.engine.perception.count_lost(camera, count)


@SETTINGS
@given(OPERATIONS, ANSWERS)
@example(  # markers nested, doubled, missing and swapped
    [
        ("start", 0.0, "a", "lift"),
        ("stretch", 2.5, 100),
        ("start", 0.0, "b", "lift"),
        ("start", 0.0, "b", "lift"),
        ("end", 0.0, "a", None),
        ("stretch", 2.5, 100),
        ("end", -5.0, "b", Label.SUCCESS),
        ("end", 0.0, "b", None),
        ("stretch", 1.0, 100),
        ("end", 0.0, "c", None),
        ("start", 3600.0, "c", ""),
        ("stretch", 1.0, 100),
    ],
    [0.2, 0.9, None],
)
@example(  # a bag that loops with old stamps, twice
    [("start", 0.0, "a", "lift"), *[("stretch", 2.5, 100), ("clock", -3.0)] * 3, ("end", 0.0, "a", None)], [0.5, 1.0]
)
@example(  # stamps from other times, in each input and in between
    [
        ("start", 0.0, "a", "lift"),
        *[
            operation
            for off in (3600.0, -3600.0, "zero", -0.01)
            for operation in (
                ("stretch", 1.0, 50),
                ("image", off, "front", "broken", 1),
                ("joints", off, ["elbow", "pan"], [0.0, 1.0], [], []),
            )
        ],
        ("stretch", 1.0, 50),
    ],
    [0.5],
)
def test_a_broken_robot(operations: list[tuple[Any, ...]], answers: list[Any]) -> None:
    Robot(answers).run(operations)


# --- a broken network ------------------------------------------------------------------------------------------------

Record = ProgressEstimate | KinematicSummary | CameraHealth | EpisodeMarker


def records_of(streams: Streams) -> list[Record]:
    """What prm_node publishes for a rollout, in order."""
    perception, estimator = Perception(GATE, MotionSettings()), Estimator(ScriptedModel(lambda t: min(1.0, t / 4)))
    out: list[Record] = []
    for stamp, topic, payload in streams.build():
        if topic == "marker":
            (marker,) = payload
            outputs: list[Any] = [marker, *perception.on_marker(marker)]  # type: ignore[arg-type]
        elif topic == "joints":
            outputs = list(perception.on_joints(stamp, *payload))  # type: ignore[arg-type]
        else:
            camera, index = payload
            outputs = list(perception.on_image(str(camera), stamp, lambda: picture(1), int(index)))  # type: ignore[call-overload]
        for output in (*outputs,):
            if isinstance(output, Selected):
                out.append(estimator.observe(output))
            elif isinstance(output, StartJob):
                estimator.start(output.marker)
            elif isinstance(output, EndJob):
                out.append(estimator.end(output.marker))
            else:
                out.append(output)
    for output in perception.finish_episode():
        out.append(estimator.end(output.marker) if isinstance(output, EndJob) else output)  # type: ignore[arg-type]
    return out


ROLLOUTS = [
    *records_of(Streams(duration_s=5.0, joints_hz=50.0, episode_id="a")),
    *records_of(Streams(duration_s=4.0, joints_hz=50.0, episode_id="b", start_ns=T0 + 6 * NS)),
    *records_of(Streams(duration_s=3.0, joints_hz=50.0, episode_id="a", start_ns=T0 + NS)),  # of a clock set back
]
INTERRUPTIONS = st.lists(
    st.tuples(
        st.integers(0, len(ROLLOUTS)),
        st.sampled_from(["quiet", "ending", "interrupt", "finish"]),
        st.sampled_from([-10.0, 0.0, 0.5, 3.0, 20.0, 3600.0]),
    ),
    max_size=8,
)


def garbled(seed: int, lost: float, twice: float, late: float, how_late: int) -> list[Record]:
    """The records with losses, repeats and delays; each topic is garbled by itself, as the network would."""
    rng = random.Random(seed)
    out: list[tuple[float, Record]] = []
    for index, record in enumerate(ROLLOUTS):
        if rng.random() < lost:
            continue
        for _ in range(1 + (rng.random() < twice)):
            out.append((index + (rng.random() * how_late if rng.random() < late else 0.0), record))
    return [record for _, record in sorted(out, key=lambda pair: pair[0])]


@SETTINGS
@given(
    st.integers(0, 2**32),
    st.sampled_from([0.0, 0.05, 0.5]),
    st.sampled_from([0.0, 0.1, 0.5]),
    st.sampled_from([0.0, 0.1, 1.0]),
    st.sampled_from([3, 30, 300]),
    INTERRUPTIONS,
)
def test_a_broken_network(
    seed: int, lost: float, twice: float, late: float, how_late: int, interruptions: list[tuple[int, str, float]]
) -> None:
    monitor, ledger, stream_ns = Monitor(MonitorSettings()), Ledger(), T0
    for index, record in enumerate(garbled(seed, lost, twice, late, how_late)):
        for at, what, off in interruptions:
            if at == index:
                ledger.on_outputs(interrupt(monitor, what, stream_ns + round(off * NS)))
        stream_ns = record.stamp_ns
        if isinstance(record, EpisodeMarker):
            outputs = monitor.on_marker(record)
            if record.boundary is Boundary.START:
                ledger.on_start(record, outputs)
                continue
        elif isinstance(record, ProgressEstimate):
            outputs = monitor.on_estimate(record)
        elif isinstance(record, KinematicSummary):
            outputs = monitor.on_kinematics(record)
        else:
            outputs = monitor.on_camera(record)
        ledger.on_outputs(outputs)
    ledger.on_outputs(monitor.finish())
    ledger.finish()


def interrupt(monitor: Monitor, what: str, stream_ns: int) -> list[Output]:
    if what == "quiet":
        return monitor.on_quiet(stream_ns)
    if what == "ending":
        return monitor.close_ending()
    return monitor.interrupt("a test") if what == "interrupt" else monitor.finish()
