"""The picks of the recorded grid are those of the live gate."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollout_monitor.episode.gate import KEEP_NS, FrameGate, Selected
from rollout_monitor.episode.perception import Perception
from rollout_monitor.episode.settings import GateSettings
from rollout_monitor.errors import InputError
from rollout_monitor.frames import RgbImage
from rollout_monitor.motion.settings import MotionSettings
from rollout_monitor.records import Boundary, EpisodeMarker
from rollout_monitor.store.messages import JointItem
from rollout_monitor.store.takes_grid import (
    JOINT_AGE_S,
    JUMP_S,
    KEEP_S,
    PAIR_SKEW_S,
    PAIR_WAIT_S,
    GridPicker,
    frame_sets,
)
from rollout_monitor.store.takes_types import CameraFrame

NS = 1_000_000_000
START_NS = 1_780_000_000 * NS


def picture() -> RgbImage:
    return np.zeros((4, 4, 3), dtype=np.uint8)


def bad() -> RgbImage:
    raise InputError("cut short")


@st.composite
def streams(draw: st.DrawFn) -> list[tuple[str, int]]:
    """Three cameras with their own rates and gaps, recorded up to 0.3 s after their stamps.

    Each begins with two frames near each other: the live gate holds a first stamp until the next bears it out.
    """
    cameras = ("front", "wrist", "side")
    first = [(camera, START_NS - 500_000_000 + k * 10_000_000) for k in range(2) for camera in cameras]
    arrivals: list[tuple[int, int, str, int]] = []
    for order, camera in enumerate(cameras):
        stamp = START_NS + draw(st.integers(0, 400)) * 1_000_000
        for _ in range(draw(st.integers(1, 25))):
            late = draw(st.integers(0, 300)) * 1_000_000
            arrivals.append((stamp + late, order, camera, stamp))
            stamp += draw(st.integers(1, 900)) * 1_000_000
    return first + [(camera, stamp) for _, _, camera, stamp in sorted(arrivals)]


@settings(max_examples=150, deadline=None)
@given(stream=streams(), rate_hz=st.sampled_from([1.0, 5.0, 7.0, 10.0, 29.97, 30.0]))
def test_same_picks_as_the_live_gate(stream: list[tuple[str, int]], rate_hz: float) -> None:
    cameras = ("front", "wrist", "side")
    gate = FrameGate(GateSettings(cameras=cameras, rate_hz=rate_hz))
    live = []
    for number, (camera, stamp) in enumerate(stream):
        live += gate.on_image(camera, stamp, picture, number)[0]
    live += gate.finish()
    picker = GridPicker(cameras, rate_hz)
    recorded = [chosen for camera, stamp in stream for chosen in picker.add(CameraFrame(camera, stamp, picture))]
    recorded += picker.finish()
    want = [{camera: frame.stamp_ns for camera, frame in selected.frames.items()} for selected in live]
    assert [{camera: frame.stamp_ns for camera, frame in chosen.items()} for chosen in recorded] == want


@st.composite
def robots(draw: st.DrawFn) -> list[tuple[str, int]]:
    """A camera and the joints of an arm and a gripper, each recorded up to 0.15 s after its stamps.

    Each begins with two messages near each other, as above; the publishers begin in whatever order.
    """
    kinds = draw(st.permutations(("front", "arm", "gripper")))
    first = [
        (kind, START_NS - 200_000_000 + k * 10_000_000 + place) for k in range(2) for place, kind in enumerate(kinds)
    ]
    arrivals: list[tuple[int, int, str, int]] = []
    for order, (kind, most_ms) in enumerate((("front", 150), ("arm", 60), ("gripper", 200))):
        stamp = START_NS + draw(st.integers(0, 50)) * 1_000_000
        late = draw(st.integers(0, 150)) * 1_000_000
        for _ in range(draw(st.integers(2, 40))):
            arrivals.append((stamp + late, order, kind, stamp))
            stamp += draw(st.integers(1, most_ms)) * 1_000_000
    return first + [(kind, stamp) for _, _, kind, stamp in sorted(arrivals)]


JOINTS = {"arm": ("pan", "lift"), "gripper": ("finger",)}


@settings(max_examples=200, deadline=None)
@given(stream=robots(), rate_hz=st.sampled_from([5.0, 10.0]))
def test_same_joints_as_the_live_engine(stream: list[tuple[str, int]], rate_hz: float) -> None:
    perception = Perception(GateSettings(rate_hz=rate_hz, joints=True), MotionSettings())
    live, frames, states = [], [], []
    start = EpisodeMarker(boundary=Boundary.START, stamp_ns=START_NS - NS, episode_id="take", task="lift")
    outputs = perception.on_marker(start)
    for number, (kind, stamp) in enumerate(stream):
        if kind == "front":
            outputs = perception.on_image(kind, stamp, picture, number)
            frames.append(CameraFrame(kind, stamp, picture))
        else:
            values = np.full(len(JOINTS[kind]), number, dtype=np.float64)
            outputs = perception.on_joints(stamp, JOINTS[kind], values.tolist())
            states.append(JointItem("joints", stamp, JOINTS[kind], values, np.empty(0), np.empty(0)))
        live += [one for one in outputs if isinstance(one, Selected)]
    perception.on_marker(start.model_copy(update={"boundary": Boundary.END, "stamp_ns": START_NS + 60 * NS}))
    live += [one for one in perception.finish_episode() if isinstance(one, Selected)]
    recorded = list(frame_sets(frames, ["front"], rate_hz, joints=states))
    assert [repr((one.stamp_ns, one.joints)) for one in recorded] == [repr((one.stamp_ns, one.joints)) for one in live]


def test_waits_and_skews_are_the_gates() -> None:
    gate = GateSettings()
    assert (gate.pair_wait_s, gate.pair_skew_s, gate.jump_s) == (PAIR_WAIT_S, PAIR_SKEW_S, JUMP_S)
    assert gate.joint_age_s == JOINT_AGE_S
    assert round(KEEP_S * NS) == KEEP_NS


def test_only_the_take_itself() -> None:
    """Frames before the take hold their places: the first frame of a period is chosen, or none of it."""
    stamps = [START_NS + index * 100_000_000 for index in range(10)]
    frames = [CameraFrame("front", stamp, picture) for stamp in stamps]
    sets = list(frame_sets(frames, ["front"], 5.0, within=(stamps[1], stamps[6])))
    assert [one.stamp_ns for one in sets] == [stamps[2], stamps[4], stamps[6]]


def test_frame_that_does_not_decode() -> None:
    frames = [CameraFrame("front", NS, picture), CameraFrame("wrist", NS, bad), CameraFrame("front", 2 * NS, bad)]
    with pytest.raises(InputError, match="camera wrist at 1000000000 ns: cut short"):
        list(frame_sets(frames, ["front", "wrist"], 5.0))
    told: list[str] = []
    sets = list(frame_sets(frames, ["front", "wrist"], 5.0, on_bad=lambda camera, _: told.append(camera)))
    assert [(one.stamp_ns, list(one.images), dict(one.stamps_ns)) for one in sets] == [(NS, ["front"], {"front": NS})]
    assert told == ["wrist", "front"]


def test_clock_that_goes_back() -> None:
    frames = [CameraFrame("front", stamp * NS, picture) for stamp in (10, 11, 3)]
    with pytest.raises(InputError, match=r"camera front: stamps go back by 8\.0 s"):
        list(frame_sets(frames, ["front"], 5.0))


@pytest.mark.parametrize("rate_hz", [0.0, -1.0, float("nan"), 1000.0])
def test_rate_that_cannot_be(rate_hz: float) -> None:
    with pytest.raises(InputError, match="frame rate"):
        GridPicker(["front"], rate_hz)
