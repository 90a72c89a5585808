"""sim_robot_node publishes what a simulated take yields, as a robot would; takes are tested in their own room."""

from __future__ import annotations

import importlib.util
import itertools
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import rclpy
from graph import Graph
from rclpy.signals import SignalHandlerOptions
from rollout_monitor_nodes.common.cdr import header_stamp_ns
from rollout_monitor_nodes.common.conversions import marker_from_msg
from rollout_monitor_nodes.common.spin import make_executor, spin_until
from rollout_monitor_nodes.sim_robot_node import SimRobotNode

from rollout_monitor.images import decode_compressed
from rollout_monitor.records import Boundary, Label
from rollout_monitor.sim.tabletop.plans import plan_takes
from rollout_monitor.sim.tabletop.takes import CameraFrame, JointSample, TakeSpec

SIMULATOR = importlib.util.find_spec("robosuite") is not None
NAMES = ["shoulder_pan_joint", "finger_joint"]
UR5E = [f"{part}_joint" for part in ("shoulder_pan", "shoulder_lift", "elbow", "wrist_1", "wrist_2", "wrist_3")]
SAMPLES = 200


class NoPhysics:
    """In the place of a take: as many samples, no physics. Notes the thread that made it."""

    made_in: list[threading.Thread] = []  # noqa: RUF012

    def __init__(self, spec: TakeSpec, *, frame_rate_hz: float) -> None:
        self.spec, self.joint_names, self.views, self.outcome = spec, NAMES, ("front", "wrist"), "failure"
        self.period = round(100 / frame_rate_hz)
        self.made_in.append(threading.current_thread())

    def stream(self) -> Iterator[JointSample | CameraFrame]:
        assert threading.current_thread() is self.made_in[-1]  # a renderer belongs to the thread that made it
        for index in range(SAMPLES):
            stamp_ns = index * 10_000_000
            if index % self.period == 0:
                for view in self.views:
                    yield CameraFrame(stamp_ns, view, np.full((24, 32, 3), index, np.uint8))
            yield JointSample(stamp_ns, np.stack([np.full(2, index / 10), np.zeros(2), np.ones(2)]))


def test_a_take_is_published_as_a_robot(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rollout_monitor.sim.tabletop.takes.LiveTake", NoPhysics)
    heard = {
        "joints": graph.listen("joint_states", "sensor_msgs/msg/JointState", "REPLAY"),
        "front": graph.listen("camera_front/color/image_raw/compressed", "sensor_msgs/msg/CompressedImage", "REPLAY"),
        "wrist": graph.listen(
            "camera_wrist/color/image_raw/compressed", "sensor_msgs/msg/CompressedImage", "REPLAY", raw=True
        ),
        "markers": graph.listen("rollout/episode", "rollout_monitor_msgs/msg/Episode", "MARKERS"),
    }
    arguments = ["--ros-args"]
    for name, value in {
        "task": "on:red:green",
        "mode": "drop",
        "seed": 7,
        "rate": 2.0,
        "attempts": 2,
        "pause_s": 0.1,
        "label": True,
        "wait_for_subscribers_s": 60.0,
    }.items():
        arguments += ["-p", f"{name}:={str(value).lower()}"]
    before_ns = graph.node.get_clock().now().nanoseconds
    rclpy.init(args=arguments, domain_id=graph.domain, signal_handler_options=SignalHandlerOptions.NO)
    try:
        node, executor = SimRobotNode(), make_executor()
        executor.add_node(node)
        spinning = threading.Thread(target=spin_until, args=(executor, node.exit))
        node.begin()
        spinning.start()
        graph.until("the end of the attempts", node.exit.done, 60.0)
        spinning.join(10)
        assert node.exit.result() == 0
        node.close()
        graph.until("all joint states", lambda: len(heard["joints"].messages) >= 2 * SAMPLES)
        graph.until("all markers", lambda: len(heard["markers"].messages) >= 4)
        executor.remove_node(node)
        executor.shutdown()
        node.destroy_node()
    finally:
        rclpy.try_shutdown()

    markers = [marker_from_msg(msg) for msg in heard["markers"].messages]
    assert [(m.boundary, m.episode_id, m.label) for m in markers] == [
        (Boundary.START, "on_red_green_drop_7", None),
        (Boundary.END, "on_red_green_drop_7", Label.FAILURE),
        (Boundary.START, "on_red_green_drop_8", None),
        (Boundary.END, "on_red_green_drop_8", Label.FAILURE),
    ]
    assert before_ns < markers[0].stamp_ns
    assert markers[1].stamp_ns - markers[0].stamp_ns == (SAMPLES - 1) * 10_000_000
    wanted = plan_takes("test", 2, 7, task="on:red:green", mode="drop", arm="ur5e")
    assert [marker.task for marker in markers[::2]] == [spec.text for spec in wanted]
    state = heard["joints"].messages[3]
    assert (list(state.name), list(state.position), list(state.effort)) == (NAMES, [0.3, 0.3], [1.0, 1.0])
    frame = heard["front"].messages[1]
    assert abs(int(decode_compressed(frame.format, frame.data).mean()) - 10) <= 1
    stamps = [header_stamp_ns(bytes(raw)) for raw in heard["wrist"].messages[:4]]
    assert {later - earlier for earlier, later in itertools.pairwise(stamps)} == {100_000_000}


def stamp_ns(msg: Any) -> int:
    return int(msg.header.stamp.sec) * 1_000_000_000 + int(msg.header.stamp.nanosec)


@pytest.mark.skipif(not SIMULATOR, reason="the extra [sim] is not installed (scripts/install_sim.sh)")
def test_a_ur5e_at_the_table_is_published_live(graph: Graph) -> None:
    joints = graph.listen("joint_states", "sensor_msgs/msg/JointState", "REPLAY")
    cameras = {
        view: graph.listen(f"camera_{view}/color/image_raw/compressed", "sensor_msgs/msg/CompressedImage", "REPLAY")
        for view in ("front", "wrist")
    }
    markers = graph.listen("rollout/episode", "rollout_monitor_msgs/msg/Episode", "MARKERS")
    robot = graph.start("sim_robot_node", seed=3, rate=4.0, label=True, wait_for_subscribers_s=60.0)
    graph.until("the end of the attempt", lambda: len(markers.messages) >= 2, 120.0)
    assert robot.wait() == 0
    (spec,) = plan_takes("test", 1, 3, task="lift:red", mode="success", arm="ur5e")
    start, end = (marker_from_msg(msg) for msg in markers.messages)
    assert (start.task, end.label) == (spec.text, Label.SUCCESS)
    last = [joints, *cameras.values()]
    graph.until("the last samples", lambda: max(stamp_ns(heard.messages[-1]) for heard in last) == end.stamp_ns)
    assert list(joints.messages[0].name) == [*UR5E, "finger_joint"]
    stamps = [stamp_ns(msg) for msg in joints.messages]
    assert {later - earlier for earlier, later in itertools.pairwise(stamps)} == {10_000_000}
    for heard in cameras.values():
        frames = [stamp_ns(msg) for msg in heard.messages]
        assert frames[0] == start.stamp_ns == stamps[0]
        assert {later - earlier for earlier, later in itertools.pairwise(frames)} == {100_000_000}
        assert decode_compressed(heard.messages[-1].format, heard.messages[-1].data).std() > 10


@pytest.mark.skipif(SIMULATOR, reason="the extra [sim] is installed here")
def test_a_missing_simulator_is_one_line(graph: Graph) -> None:
    robot = graph.start("sim_robot_node")
    assert robot.wait() == 2
    lines = [line for line in robot.text.splitlines() if "error:" in line]
    assert len(lines) == 1 and "needs the extra [sim]" in lines[0]
    assert "Traceback" not in robot.text
