"""Frames are chosen by stamps alone; cameras are watched."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollout_monitor.episode.gate import KEEP_NS, FrameGate, Selected
from rollout_monitor.episode.settings import GateSettings
from rollout_monitor.errors import InputError
from rollout_monitor.frames import RgbImage
from rollout_monitor.records import CameraHealth

MS = 1_000_000
NS = 1_000_000_000


def picture(value: int = 120) -> RgbImage:
    image = np.full((8, 8, 3), value, dtype=np.uint8)
    image[::2] = min(255, value + 60)
    return image


def feed(gate: FrameGate, frames: list[tuple[str, int]]) -> list[Selected]:
    out: list[Selected] = []
    for camera, stamp in frames:
        out += gate.on_image(camera, stamp, picture, stamp)[0]
    return out


def chosen(selected: list[Selected]) -> list[tuple[int, dict[str, int]]]:
    return [(one.stamp_ns, {camera: frame.stamp_ns for camera, frame in one.frames.items()}) for one in selected]


def test_first_frame_of_every_period_is_chosen_whenever_the_gate_was_started() -> None:
    stamps = [i * 33 * MS for i in range(1, 200)]
    whole = [s.stamp_ns for s in feed(FrameGate(GateSettings(rate_hz=5.0)), [("front", s) for s in stamps])]
    late = [s.stamp_ns for s in feed(FrameGate(GateSettings(rate_hz=5.0)), [("front", s) for s in stamps[50:]])]
    assert len({s // (200 * MS) for s in whole}) == len(whole)
    assert set(late[1:]) <= set(whole)


TWO = GateSettings(cameras=("front", "wrist"), rate_hz=5.0, pair_wait_s=0.2, pair_skew_s=0.5)


def test_a_second_camera_adds_its_newest_frame_that_is_not_newer() -> None:
    frames = [("wrist", 190 * MS), ("front", 200 * MS), ("wrist", 210 * MS), ("wrist", 390 * MS), ("front", 400 * MS)]
    gate = FrameGate(TWO)
    out = feed(gate, frames)
    assert chosen(out) == [(200 * MS, {"front": 200 * MS, "wrist": 190 * MS})]
    assert chosen(gate.finish()) == [(400 * MS, {"front": 400 * MS, "wrist": 390 * MS})]


def test_equal_stamps_do_not_wait() -> None:
    gate = FrameGate(TWO)
    assert chosen(feed(gate, [(camera, k * 100 * MS) for k in (1, 2) for camera in TWO.cameras])) == [
        (stamp, {"front": stamp, "wrist": stamp}) for stamp in (100 * MS, 200 * MS)
    ]


def test_a_silent_second_camera_is_not_waited_for() -> None:
    gate = FrameGate(TWO)
    out = feed(gate, [("wrist", 10 * MS), ("wrist", 20 * MS)] + [("front", i * 100 * MS) for i in range(1, 20)])
    assert [list(one.frames) for one in out][-1] == ["front"]
    assert out[-1].stamp_ns == 1800 * MS


@settings(max_examples=60)
@given(st.randoms(use_true_random=False), st.integers(0, 40))
def test_arrival_order_between_cameras_changes_nothing(random: object, jitter: int) -> None:
    """Any interleaving within the pairing wait gives the same frame sets."""
    front = [(i * 100 * MS, "front") for i in range(1, 40)]
    wrist = [(i * 100 * MS + (7 * i % 13) * MS, "wrist") for i in range(1, 40)]
    in_order = sorted(front + wrist)
    shuffled = sorted(in_order, key=lambda frame: frame[0] + random.randint(0, jitter) * MS)  # type: ignore[attr-defined]
    # Each camera's own order is kept, as DDS keeps it.
    queues = {
        "front": iter([f for f in in_order if f[1] == "front"]),
        "wrist": iter([f for f in in_order if f[1] == "wrist"]),
    }
    arrival = [next(queues[camera]) for _, camera in shuffled]
    results = []
    for order in (in_order, arrival):
        gate = FrameGate(TWO)
        results.append(chosen(feed(gate, [(camera, stamp) for stamp, camera in order]) + gate.finish()))
    assert results[0] == results[1]


def test_frames_of_another_camera_are_not_held_without_end_for_a_dead_primary() -> None:
    alive: list[weakref.ref[RgbImage]] = []

    def on_wrist(gate: FrameGate, at_ms: int) -> None:
        image = picture()
        alive.append(weakref.ref(image))
        gate.on_image("wrist", at_ms * MS, lambda: image, at_ms)

    gate = FrameGate(TWO)
    feed(gate, [("front", 1000 * MS), ("front", 1200 * MS)])
    on_wrist(gate, 1150)
    for at_ms in range(1250, 61_000, 50):
        on_wrist(gate, at_ms)
    gc.collect()
    assert sum(one() is not None for one in alive) <= KEEP_NS // (50 * MS) + 3
    assert chosen(feed(gate, [("front", 61_000 * MS), ("front", 61_100 * MS), ("front", 61_200 * MS)]))[-1] == (
        61_000 * MS,
        {"front": 61_000 * MS, "wrist": 60_950 * MS},
    )


def test_repeated_and_backward_stamps_are_dropped_and_counted() -> None:
    gate = FrameGate(GateSettings())
    feed(gate, [("front", NS), ("front", NS), ("front", NS - MS), ("front", NS + MS)])
    (health,) = gate.health(NS)
    assert (health.received, health.not_advancing, gate.clock_jumps) == (4, 2, 0)


def test_a_clock_that_jumps_back_starts_again() -> None:
    gate = FrameGate(GateSettings(jump_s=1.0))
    feed(gate, [("front", 9 * NS), ("front", 10 * NS)])
    assert feed(gate, [("front", 2 * NS)]) == [], "one stamp is no clock"
    assert [one.stamp_ns for one in feed(gate, [("front", 3 * NS)])] == [2 * NS, 3 * NS]
    (health,) = gate.health(3 * NS)
    assert (gate.clock_jumps, health.used, health.stray) == (1, 4, 0)


def test_a_lone_stamp_from_another_time_is_dropped_and_counted() -> None:
    """ros_comm#60 and ros_comm#1716: a header that nobody filled in; also one far ahead."""
    gate = FrameGate(GateSettings(jump_s=1.0))
    stamps = [100.0, 100.1, 0.0, 100.2, 3700.0, 100.3, 20.0, 100.4, 0.0, 0.0, 100.5]
    assert [one.stamp_ns / NS for one in feed(gate, [("front", round(s * NS)) for s in stamps])] == [
        100.0,
        100.2,
        100.4,
    ]
    (health,) = gate.health(101 * NS)
    assert (gate.clock_jumps, health.received, health.used, health.unstamped, health.stray) == (0, 11, 6, 3, 2)


def watch(images: list[RgbImage], prints: list[int]) -> list[CameraHealth]:
    gate = FrameGate(GateSettings(health_period_s=0.5))
    out: list[CameraHealth] = []
    for i, (image, print_) in enumerate(zip(images, prints, strict=True)):
        out += gate.on_image("front", i * 100 * MS, lambda image=image: image, print_)[1]  # type: ignore[misc]
    return out


def test_identical_frames_are_frozen_since_the_first_of_them() -> None:
    health = watch([picture()] * 20, [0, 1, 2, *([3] * 17)])
    assert health[-1].frozen_since_ns == 300 * MS and health[-1].repeated >= 12
    thawed = watch([picture()] * 10, [0, 1, 1, 1, 1, 1, 1, 1, 8, 9])
    assert thawed[-1].frozen_since_ns is None


def test_dark_needs_low_light_and_low_contrast() -> None:
    dark = np.full((8, 8, 3), 3, dtype=np.uint8)
    assert watch([picture()] * 5 + [dark] * 15, list(range(20)))[-1].dark_since_ns is not None
    night = dark.copy()
    night[0] = 255  # a lamp in a dark room is a picture
    assert watch([night] * 20, list(range(20)))[-1].dark_since_ns is None


def test_an_undecodable_frame_is_counted_as_bad() -> None:
    def broken() -> RgbImage:
        raise InputError("cut short")

    gate = FrameGate(GateSettings())
    for k in (1, 2):
        gate.on_image("front", k * NS, broken if k == 1 else picture, k)
    assert gate.health(NS)[0].bad == 1


def test_health_is_reported_for_a_camera_that_stopped() -> None:
    gate = FrameGate(TWO)
    feed(gate, [("front", i * 100 * MS) for i in range(10)] + [("wrist", i * 100 * MS) for i in range(3)])
    reports = [report for report in gate.on_time(3 * NS) if report.camera == "wrist"]
    assert reports[0].last_frame_ns == 200 * MS and reports[0].stamp_ns == 3 * NS


def test_an_unknown_camera_is_refused() -> None:
    with pytest.raises(InputError, match="side"):
        FrameGate(TWO).on_image("side", 0, picture, 0)
