"""sim_robot_node publishes what the cell makes, as a robot would; the cell itself is tested in its own room."""

from __future__ import annotations

import importlib.util
import itertools
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
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

NAMES = ("shoulder_pan_joint", "finger_joint")
SAMPLES = 200


@dataclass(frozen=True)
class JointSample:
    stamp_ns: int
    positions: Any
    velocities: Any
    efforts: Any


@dataclass(frozen=True)
class CameraFrame:
    stamp_ns: int
    camera: str
    rgb: Any


class SimCell:
    """In the place of the simulator: as many samples, no physics. Notes the thread that made it."""

    made_in: list[threading.Thread] = []  # noqa: RUF012

    def __init__(self, task: str, mode: str, seed: int) -> None:
        self.mode, self.seed, self.task_text = mode, seed, "lift the red cube"
        self.joint_names, self.camera_names, self.outcome = NAMES, ("front", "wrist"), "failure"
        self.made_in.append(threading.current_thread())

    def run(self) -> Iterator[JointSample | CameraFrame]:
        assert threading.current_thread() is self.made_in[-1]  # a renderer belongs to the thread that made it
        for index in range(SAMPLES):
            stamp_ns = index * 2_000_000
            if index % 50 == 0:
                for camera in self.camera_names:
                    yield CameraFrame(stamp_ns, camera, np.full((24, 32, 3), index, np.uint8))
            yield JointSample(stamp_ns, np.full(2, index / 10), np.zeros(2), np.ones(2))


@pytest.fixture
def fake_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("rollout_monitor.sim.cell")
    module.SimCell, module.JointSample = SimCell, JointSample  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "rollout_monitor.sim.cell", module)


def test_a_cell_is_published_as_a_robot(graph: Graph, fake_cell: None) -> None:
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
        "seed": 7,
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
        node.close()
        assert node.exit.result() == 0
        graph.until("all joint states", lambda: len(heard["joints"].messages) >= 2 * SAMPLES)
        graph.until("all markers", lambda: len(heard["markers"].messages) >= 4)
        executor.remove_node(node)
        executor.shutdown()
        node.destroy_node()
    finally:
        rclpy.try_shutdown()

    markers = [marker_from_msg(msg) for msg in heard["markers"].messages]
    assert [(m.boundary, m.episode_id, m.label) for m in markers] == [
        (Boundary.START, "lift_success_7", None),
        (Boundary.END, "lift_success_7", Label.FAILURE),
        (Boundary.START, "lift_success_8", None),
        (Boundary.END, "lift_success_8", Label.FAILURE),
    ]
    assert before_ns < markers[0].stamp_ns
    assert markers[1].stamp_ns - markers[0].stamp_ns == (SAMPLES - 1) * 2_000_000
    state = heard["joints"].messages[3]
    assert (list(state.name), list(state.position), list(state.effort)) == (list(NAMES), [0.3, 0.3], [1.0, 1.0])
    frame = heard["front"].messages[1]
    assert abs(int(decode_compressed(frame.format, frame.data).mean()) - 50) <= 1
    stamps = [header_stamp_ns(bytes(raw)) for raw in heard["wrist"].messages[:4]]
    assert {later - earlier for earlier, later in itertools.pairwise(stamps)} == {100_000_000}


@pytest.mark.skipif(importlib.util.find_spec("robosuite") is not None, reason="the extra [sim] is installed here")
def test_a_missing_simulator_is_one_line(graph: Graph) -> None:
    robot = graph.start("sim_robot_node")
    assert robot.wait() == 2
    lines = [line for line in robot.text.splitlines() if "error:" in line]
    assert len(lines) == 1 and "needs the extra [sim]" in lines[0]
    assert "Traceback" not in robot.text
