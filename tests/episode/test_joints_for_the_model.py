"""Joint states reach a model that uses them: chosen by stamps, and never waited for without end."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from engine_help import NAMES, T0, ScriptedModel, Streams, feed, reports
from hypothesis import given, settings
from hypothesis import strategies as st

from rollout_monitor.episode.estimator import Estimator
from rollout_monitor.episode.gate import JOINTS_EXPECTED_NS, Frame, FrameGate, Joints, Selected
from rollout_monitor.episode.rollout import RolloutMonitor
from rollout_monitor.episode.settings import GateSettings
from rollout_monitor.frames import FrameSet, JointSample, RgbImage
from rollout_monitor.prm.protocol import ModelCard, Observation, ResetNotes
from rollout_monitor.records import Boundary, EpisodeMarker

MS = 1_000_000
ONE = GateSettings(rate_hz=10.0, joints=True)


def picture() -> RgbImage:
    return np.full((4, 4, 3), 120, dtype=np.uint8)


def on_front(gate: FrameGate, at_ms: int) -> list[Selected]:
    return gate.on_image("front", T0 + at_ms * MS, picture, at_ms)[0]


def on_joints(gate: FrameGate, at_ms: int) -> list[Selected]:
    message: Joints = (NAMES, (at_ms / 1000, 0.0), (), ())
    return gate.on_joints([(T0 + at_ms * MS, message)])


def told(selected: list[Selected]) -> list[tuple[int, float | None]]:
    """Stamp of each frame set and of its joints, ms."""
    return [
        ((one.stamp_ns - T0) // MS, None if one.joints is None else round(one.joints.positions[0] * 1000))
        for one in selected
    ]


def started(gate: FrameGate) -> FrameGate:
    """A gate that knows camera and joints for longer than it waits for further publishers."""
    for at_ms in range(-1000, 0, 10):
        on_joints(gate, at_ms)
        if at_ms % 100 == 0:
            on_front(gate, at_ms)
    return gate


def test_a_frame_waits_for_the_joints_of_its_stamp() -> None:
    gate = started(FrameGate(ONE))
    assert told(on_front(gate, 0)) == []
    assert told(on_joints(gate, -5)) == []
    assert told(on_joints(gate, 3)) == [(0, -5)]
    on_joints(gate, 100)
    assert told(on_front(gate, 100)) == [(100, 100)], "nothing to wait for"


def test_joints_that_lag_are_waited_for_as_long_as_a_camera() -> None:
    gate = started(FrameGate(ONE))
    on_joints(gate, -1)
    assert told(on_front(gate, 0)) == told(on_front(gate, 100)) == []
    assert told(on_front(gate, 200)) == [(0, -1)]
    assert told(on_front(gate, 300)) == [(100, None)], "older than a tenth of a second says nothing of now"


def test_joints_that_fell_silent_are_not_waited_for() -> None:
    gate = started(FrameGate(ONE))
    silent = [one for at_ms in range(0, 500, 100) for one in on_front(gate, at_ms)]
    assert told(silent) == [(0, -10), (100, None), (200, None)]
    assert told(on_front(gate, 500)) == [(300, None)]
    assert told(on_front(gate, 600)) == [(400, None), (500, None), (600, None)]
    assert told(on_front(gate, 700)) == [(700, None)]


def test_a_robot_without_joints_is_waited_for_only_at_first() -> None:
    gate = FrameGate(ONE)
    delays = {}
    for at_ms in range(0, 4000, 100):
        for one in on_front(gate, at_ms):
            delays[(one.stamp_ns - T0) // MS] = at_ms - (one.stamp_ns - T0) // MS
    limit_ms = JOINTS_EXPECTED_NS // MS
    assert {delays[at] for at in delays if at < limit_ms - 200} == {200}
    assert {delays[at] for at in delays if at > limit_ms} == {0}


def test_a_model_that_uses_no_joints_waits_for_none() -> None:
    gate = started(FrameGate(ONE.model_copy(update={"joints": False})))
    assert told(on_front(gate, 0)) == [(0, None)]
    assert told(on_joints(gate, 10)) == []


class FeelingModel(ScriptedModel):
    """Keeps the joints it was given."""

    def __init__(self, joints: bool = True) -> None:
        super().__init__(lambda _: 0.5)
        self.felt: list[tuple[int, JointSample | None]] = []
        self._joints = joints

    @property
    def card(self) -> ModelCard:
        return replace(super().card, joints=self._joints)

    def observe(self, frames: FrameSet) -> Observation:
        self.felt.append((frames.stamp_ns, frames.joints))
        return replace(super().observe(frames), subtask=2, reason="cannot feel" if len(self.felt) == 1 else "")


@settings(max_examples=25, deadline=None)
@given(lags=st.tuples(*[st.integers(0, 80)] * 3), shuffle=st.randoms(use_true_random=False))
def test_the_order_of_arrival_changes_nothing(lags: tuple[int, int, int], shuffle: object) -> None:
    """Each stream keeps its own order and comes late by up to 0.1 s: the same joints at the same frames."""
    items = Streams(duration_s=3.0, start_ns=T0).build()
    late = {"joints": lags[0], "front": lags[1], "wrist": lags[2]}
    streams: dict[str, list[tuple[int, str, tuple[object, ...]]]] = {}
    for item in items[1:-1]:
        streams.setdefault("joints" if item[1] == "joints" else str(item[2][0]), []).append(item)
    arrivals = []
    for name, stream in streams.items():
        at = 0
        for number, item in enumerate(stream):
            at = max(at + 1, item[0] + (late[name] + shuffle.randint(0, 20)) * MS)  # type: ignore[attr-defined]
            arrivals.append((at, name, number, item))
    arrived = [items[0], *(item for *_, item in sorted(arrivals, key=lambda one: one[:3])), items[-1]]
    felt = []
    for order in (items, arrived):
        model = FeelingModel()
        feed(RolloutMonitor(model, GateSettings(cameras=("front", "wrist"))), order)
        felt.append(repr(model.felt))
    assert felt[0] == felt[1]
    assert "JointSample" in felt[0]


def test_every_frame_set_of_an_attempt_has_the_newest_joints() -> None:
    model = FeelingModel()
    outputs = feed(RolloutMonitor(model, GateSettings(cameras=("front", "wrist"))), Streams(start_ns=T0).build())
    assert len(model.felt) == 60
    for stamp_ns, joints in model.felt:
        assert joints is not None and joints.names == NAMES
        assert 0 <= stamp_ns - joints.stamp_ns <= 10 * MS
    (report,) = reports(outputs)
    assert {point.subtask for point in report.curve} == {2}


def test_without_declaring_them_a_model_gets_no_joints() -> None:
    model = FeelingModel(joints=False)
    feed(RolloutMonitor(model, GateSettings(cameras=("front", "wrist"), joints=True)), Streams(start_ns=T0).build())
    assert {joints for _, joints in model.felt} == {None}


def test_what_the_model_says_of_its_joints_and_of_the_task_is_told_once() -> None:
    class Noting(FeelingModel):
        def reset(self, task: str, goal: RgbImage | None = None) -> ResetNotes:
            super().reset(task, goal)
            return ResetNotes(("a word it never saw",))

    estimator = Estimator(Noting())
    estimator.start(EpisodeMarker(boundary=Boundary.START, stamp_ns=T0, episode_id="take", task="lift"))
    frames = {"front": Frame(T0, picture)}
    first, second = (estimator.observe(Selected(T0 + k * 200 * MS, frames)) for k in range(2))
    assert first.reason == "cannot feel; a word it never saw"
    assert (second.reason, second.subtask) == ("", 2)


@pytest.mark.parametrize("subtask", [-1, 128])
def test_a_subtask_that_cannot_be_is_a_missing_estimate(subtask: int) -> None:
    class Odd(FeelingModel):
        def observe(self, frames: FrameSet) -> Observation:
            return replace(super().observe(frames), subtask=subtask)

    estimator = Estimator(Odd())
    estimator.start(EpisodeMarker(boundary=Boundary.START, stamp_ns=T0, episode_id="take", task="lift"))
    estimate = estimator.observe(Selected(T0, {"front": Frame(T0, picture)}))
    assert estimate.progress is None and estimate.subtask is None
    assert f"subtask = {subtask}" in estimate.reason
