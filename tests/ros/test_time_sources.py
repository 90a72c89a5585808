"""Clocks over real DDS: /clock that nobody publishes, that stands, or that comes twice; cameras on another clock."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from graph import Graph, Heard
from rclpy.node import Node
from rollout_monitor_nodes.common.conversions import time_to_msg
from rollout_monitor_nodes.common.qos import PROFILES
from rollout_monitor_nodes.common.streamtime import PassingTime, StreamClock
from rosgraph_msgs.msg import Clock
from stack import NAMESPACE, Stack

from rollout_monitor.images import encode_jpeg

NS = 1_000_000_000
T0 = 1_700_000_000 * NS


@pytest.fixture
def curve(tmp_path: Path) -> Path:
    path = tmp_path / "curve.csv"
    path.write_text("stamp_ns,progress\n" + f"{T0},0.5\n")
    return path


def clock_part(graph: Graph, said: Heard, words: str) -> dict[str, str]:
    """The values of prm_node's clock, once its diagnostic says the words."""

    def found() -> Any:
        parts = [part for array in said.messages for part in array.status if part.name == "ur5e/prm_node: clock"]
        return parts[-1] if parts and words in parts[-1].message else None

    return {entry.key: entry.value for entry in graph.until(f"{words!r}", found).values}


@contextmanager
def ticking(graph: Graph, name: str, start_ns: int) -> Iterator[threading.Event]:
    """A node that publishes /clock a hundred times a second; while the event is set, the same time again and again."""
    node = Node(name, context=graph.context)
    publisher = node.create_publisher(Clock, "/clock", PROFILES["CLOCK"])
    end, hold = threading.Event(), threading.Event()

    def tick() -> None:
        now_ns = start_ns
        while not end.wait(0.01):
            now_ns += 0 if hold.is_set() else NS // 100
            publisher.publish(Clock(clock=time_to_msg(now_ns)))

    thread = threading.Thread(target=tick)
    thread.start()
    yield hold
    end.set()
    thread.join()
    node.destroy_node()


def test_a_clock_that_is_starved_stands_or_comes_twice_is_said(graph: Graph, curve: Path) -> None:
    """rclpy#792 (starved), rclpy#1490 (set back): use_sim_time with every sort of /clock."""
    stack = Stack(graph)
    stack.start_prm(curve, use_sim_time=True)
    said = graph.listen("/diagnostics", "diagnostic_msgs/msg/DiagnosticArray", "DIAGNOSTICS")
    clock_part(graph, said, "nobody publishes /clock")
    with ticking(graph, "simulator", T0) as hold:
        clock_part(graph, said, "as it should be")
        hold.set()
        clock_part(graph, said, "/clock of /simulator stands still")
        hold.clear()
        with ticking(graph, "bag_player", T0 - 1000 * NS):
            clock_part(graph, said, "/clock has 2 publishers, time flips between them: /bag_player, /simulator")
            graph.until("jumps", lambda: int(clock_part(graph, said, "2 publishers")["jumps_back"]) > 3)
    clock_part(graph, said, "nobody publishes /clock")


def test_passing_time_takes_no_leap_for_time() -> None:
    """/clock doubled: a stream is not silent for a thousand seconds because the clock flipped."""
    simulated, steady = [0], [0]
    passed = PassingTime(lambda: simulated[0], lambda: steady[0])
    stream = StreamClock(passed)
    stream.saw(T0)
    for k in range(1, 21):
        steady[0] = k * NS // 10
        simulated[0] = k * NS // 10 + (1000 * NS if k % 2 else 0)
        assert stream.quiet_s < 2.0
    simulated[0], steady[0] = 3 * NS, 30 * NS // 10
    before = passed()
    for _ in range(30):  # a simulation three times as fast
        simulated[0] += 3 * NS // 10
        steady[0] += NS // 10
        passed()
    assert passed() - before == 9 * NS


@pytest.mark.parametrize("ahead_s", [3.0, -3.0])
def test_a_camera_on_another_clock_is_named_while_it_streams(graph: Graph, curve: Path, ahead_s: float) -> None:
    stack = Stack(graph)
    health = stack.listen("rollout/cameras", "CameraHealth", "RECORDS")
    stack.start_prm(curve, cameras=["front"], camera_topics=["camera_front"])
    said = graph.listen("/diagnostics", "diagnostic_msgs/msg/DiagnosticArray", "DIAGNOSTICS")
    joints = graph.publisher(f"{NAMESPACE}/joint_states", "sensor_msgs/msg/JointState", "REPLAY")
    camera = graph.publisher(f"{NAMESPACE}/camera_front/compressed", "sensor_msgs/msg/CompressedImage", "REPLAY")
    graph.until("both are heard", lambda: joints.get_subscription_count() and camera.get_subscription_count())
    ticks = count()
    jpegs = [encode_jpeg(np.full((48, 64, 3), grey, np.uint8)) for grey in (90, 120)]
    words = f"stamps of camera front are 3.0 s {'ahead of' if ahead_s > 0 else 'behind'} those of joint_states"

    def told() -> bool:
        k = next(ticks)
        publish(joints, "sensor_msgs/msg/JointState", T0 + k * NS // 50, name=["a"], position=[0.01 * k])
        if k % 5 == 0:
            shifted_ns = T0 + k * NS // 50 + round(ahead_s * NS)
            publish(camera, "sensor_msgs/msg/CompressedImage", shifted_ns, format="jpeg", data=jpegs[k % 2])
        parts = [part for array in said.messages for part in array.status if part.name.endswith("camera front")]
        named = bool(parts) and words in parts[-1].message
        return named and bool(health.messages) and not math.isnan(health.messages[-1].clock_offset)

    graph.until("the clock is named in the diagnostics, and the health carries it", told)
    assert health.messages[-1].clock_offset == pytest.approx(ahead_s, abs=0.15)
    assert health.messages[-1].offset_from == "joint_states"


def publish(publisher: Any, type_name: str, stamp_ns: int, **fields: Any) -> None:
    from rollout_monitor_nodes.common.types import import_type  # noqa: PLC0415

    message = import_type(type_name)(**fields)
    message.header.stamp = time_to_msg(stamp_ns)
    publisher.publish(message)
