"""Drivers that do not stamp, two publishers of the same joints, clocks that are set: over DDS, through both nodes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from graph import DEADLINE_S, Graph
from rclpy.node import Node
from rollout_monitor_nodes.common.conversions import time_to_msg
from rollout_monitor_nodes.common.qos import PROFILES
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import CompressedImage, JointState
from stack import NAMESPACE, Stack

from rollout_monitor.images import encode_jpeg
from rollout_monitor.records import EpisodeReport, EpisodeState, EventKind

NS = 1_000_000_000
T0 = 1_700_000_000 * NS
RATE = 50
PAUSE_S = 30.0
"""Less is missing where the machine pauses, more where an input is blamed for the clock of another."""

ZERO = "header stamps are zero: the driver does not fill them in"
Stamps = Callable[[int, int], int | None]
"""From the number of a tick and its time to the stamp; None: nothing is published."""

EVENTS_OF = {kind.value: kind for kind in EventKind}


def honest(k: int, now_ns: int) -> int | None:
    return now_ns


def never(k: int, now_ns: int) -> int | None:
    return 0


class Robot:
    """Publishes joints and a camera fifty times a second of a clock of its own, and /clock where that is simulated."""

    def __init__(self, graph: Graph, tmp_path: Path, *, simulated: bool = False, **monitor: object) -> None:
        curve = tmp_path / "curve.csv"
        curve.write_text(f"stamp_ns,progress\n{T0},0.5\n")
        self.graph, self.stack = graph, Stack(graph)
        clock = {"use_sim_time": True} if simulated else {}
        self.stack.start_prm(curve, cameras=["front"], camera_topics=["camera_front"], **clock)
        self.stack.start_monitor(**clock, **monitor)
        self.said = graph.listen("/diagnostics", "diagnostic_msgs/msg/DiagnosticArray", "DIAGNOSTICS")
        self.clock = graph.publisher("/clock", "rosgraph_msgs/msg/Clock", "CLOCK") if simulated else None
        self.arm = graph.publisher(f"{NAMESPACE}/joint_states", "sensor_msgs/msg/JointState", "REPLAY")
        self.camera = graph.publisher(
            f"{NAMESPACE}/camera_front/compressed", "sensor_msgs/msg/CompressedImage", "REPLAY"
        )
        self.joints: Stamps = honest
        self.frames: Stamps = honest
        self.offset_ns = 0
        self.also: Callable[[int, int], None] = lambda k, now_ns: None
        self._ticks = count()
        self._jpegs = [
            encode_jpeg(np.full((48, 64, 3), grey, np.uint8) + np.eye(48, 64, dtype=np.uint8)[..., None] * 60)
            for grey in (90, 100, 110)
        ]
        graph.until("subscriptions", lambda: self.arm.get_subscription_count() and self.camera.get_subscription_count())
        self.stack.wait_until_connected()
        self._began_s = time.monotonic()

    def tick(self) -> None:
        """The next fiftieth of a second, when it is due."""
        k = next(self._ticks)
        while time.monotonic() < self._began_s + k / RATE:
            self.graph.executor.spin_once(timeout_sec=0.002)
        now_ns = T0 + k * NS // RATE + self.offset_ns
        if self.clock is not None:
            self.clock.publish(Clock(clock=time_to_msg(now_ns)))
        stamp_ns = self.joints(k, now_ns)
        if stamp_ns is not None:
            self.arm.publish(joint_state(stamp_ns, ["a", "b"], place(k)))
        stamp_ns = self.frames(k, now_ns) if k % 5 == 0 else None
        if stamp_ns is not None:
            frame = CompressedImage(format="jpeg", data=self._jpegs[k // 5 % 3])
            frame.header.stamp = time_to_msg(stamp_ns)
            self.camera.publish(frame)
        self.also(k, now_ns)

    def until(self, what: str, found: Callable[[], Any], seconds: float = DEADLINE_S) -> Any:
        """Publish until something is so."""
        for _ in range(round(seconds * RATE)):
            self.tick()
            if value := found():
                return value
        raise AssertionError(
            f"never: {what}\n{self.said_of('joints')}\n{self.said_of('camera front')}\n{self.stack.logs()}"
        )

    def start(self) -> None:
        """Begin an attempt at the time of the streams."""
        client = self.graph.client(f"{NAMESPACE}/rollout/start_episode", "rollout_monitor_msgs/srv/StartEpisode")
        # A start that nobody stamped is at the time of the streams as far as they were heard: they are heard first.
        for _ in range(RATE):
            self.tick()
        if self.joints is honest:
            self.until("the streams' time", lambda: self.stack.kinematics.messages)
        self.until("answers", self.graph.answers_of(f"{NAMESPACE}/rollout/start_episode"))
        asked = client.call_async(client.srv_type.Request(task="lift", episode_id="take"))
        self.until("the start", asked.done)
        assert asked.result().success, asked.result()

    def event(self, kind: EventKind, words: str = "") -> Any:
        """Wait for an event of the attempt."""
        number = next(n for n, value in _kinds().items() if value is kind)
        return self.until(
            f"{kind.value} {words}",
            lambda: next((m for m in self.stack.events.messages if m.kind == number and words in m.reason), None),
        )

    def said_of(self, part: str) -> str:
        """The newest diagnostic of prm_node's part."""
        name = f"{NAMESPACE[1:]}/prm_node: {part}"
        found = [status for array in self.said.messages for status in array.status if status.name == name]
        return found[-1].message if found else ""

    def end(self) -> EpisodeReport:
        """End the attempt and return its report."""
        client = self.graph.client(f"{NAMESPACE}/rollout/end_episode", "rollout_monitor_msgs/srv/EndEpisode")
        self.until("answers", self.graph.answers_of(f"{NAMESPACE}/rollout/end_episode"))
        asked = client.call_async(client.srv_type.Request())
        self.until("the end", asked.done)
        self.until("the report", lambda: self.stack.reports.messages)
        return self.stack.report("take")


def _kinds() -> dict[int, EventKind]:
    from rollout_monitor_nodes.common.conversions import EVENT_KINDS  # noqa: PLC0415

    return {number: kind for kind, number in EVENT_KINDS.items()}


def place(k: int) -> list[float]:
    return [math.sin(k / RATE), 0.5 + 0.3 * math.cos(k / RATE)]


def joint_state(stamp_ns: int, names: list[str], positions: list[float]) -> JointState:
    message = JointState(name=names, position=positions)
    message.header.stamp = time_to_msg(stamp_ns)
    return message


def of_kind(report: EpisodeReport, *kinds: EventKind) -> list[str]:
    return [f"{event.kind.value}: {event.reason}" for event in report.events if event.kind in kinds]


def test_a_camera_that_is_never_stamped_is_lost_and_says_why(graph: Graph, tmp_path: Path) -> None:
    """ros_comm#60, ros_comm#1716."""
    robot = Robot(graph, tmp_path)
    robot.frames = never
    robot.until("the diagnostic", lambda: ZERO in robot.said_of("camera front"))
    robot.start()
    robot.event(EventKind.CAMERA_LOST, ZERO)
    report = robot.end()
    assert any(ZERO in reason for reason in of_kind(report, EventKind.CAMERA_LOST))
    assert report.cameras[0].used == 0 < report.cameras[0].unstamped and report.cameras[0].clock_offset_s is None


def test_joints_that_are_never_stamped_are_lost_and_say_why(graph: Graph, tmp_path: Path) -> None:
    """ros_comm#60, ros_comm#1716; the camera, which is sound, is not blamed for a clock."""
    robot = Robot(graph, tmp_path, events__inputs__camera_lost_s=PAUSE_S)
    robot.joints = never
    robot.until("the diagnostic", lambda: ZERO in robot.said_of("joints"))
    robot.start()
    robot.event(EventKind.JOINTS_LOST, ZERO)
    report = robot.end()
    assert not of_kind(report, EventKind.CAMERA_LOST) and report.cameras[0].clock_offset_s is None
    assert report.joints is not None and report.joints.used == 0 < report.joints.unstamped
    assert robot.said_of("camera front") == "streaming"


def test_two_publishers_of_the_same_joints_on_one_clock_are_named(graph: Graph, tmp_path: Path) -> None:
    """yahboom_rosmaster#4: zeros between; they are in no row."""
    robot = Robot(graph, tmp_path)
    other = Node("joint_state_publisher", context=graph.context)
    zeros = other.create_publisher(JointState, f"{NAMESPACE}/joint_states", PROFILES["REPLAY"])
    graph.until("the other is heard", zeros.get_subscription_count)
    robot.also = lambda k, now_ns: zeros.publish(joint_state(now_ns + 7_000_000, ["b", "a"], [0.0, 0.0]))
    robot.start()
    robot.event(EventKind.JOINTS_INVALID, "jumps away and back")
    assert "two publishers" in robot.said_of("joints") and "jumps away and back" in robot.said_of("joints")
    robot.until("rows", lambda: sum(len(message.rows) for message in robot.stack.kinematics.messages) > 30)
    report = robot.end()
    rows = [row.positions for message in robot.stack.kinematics.messages for row in message.rows]
    assert len(rows) > 30 and all(abs(b - 0.5) <= 0.31 for _, b in rows), "b is never near zero"
    assert report.joints is not None and report.joints.implausible >= 10
    other.destroy_node()


def test_two_publishers_in_orders_of_their_own_agree_on_every_joint(graph: Graph, tmp_path: Path) -> None:
    """ros2_controllers#159: the same joints from two publishers, by name, whatever the order."""
    robot = Robot(graph, tmp_path)
    other = Node("other_broadcaster", context=graph.context)
    twin = other.create_publisher(JointState, f"{NAMESPACE}/joint_states", PROFILES["REPLAY"])
    graph.until("the other is heard", twin.get_subscription_count)
    robot.also = lambda k, now_ns: twin.publish(joint_state(now_ns + 7_000_000, ["b", "a"], place(k)[::-1]))
    told = robot.until("rows", lambda: [r for m in robot.stack.kinematics.messages for r in m.rows][60:])
    for row in told:
        t = (row.stamp.sec * NS + row.stamp.nanosec - T0) / NS
        assert row.positions == pytest.approx([math.sin(t), 0.5 + 0.3 * math.cos(t)], abs=0.02)
    assert robot.stack.kinematics.messages[-1].health.implausible == 0
    other.destroy_node()


def test_a_camera_that_stops_is_lost(graph: Graph, tmp_path: Path) -> None:
    """realsense-ros#3012: a camera's node that publishes for a moment and then stops."""
    robot = Robot(graph, tmp_path)
    robot.start()
    robot.until("estimates", lambda: robot.stack.status.estimates >= 3)
    robot.frames = lambda k, now_ns: None
    lost = robot.event(EventKind.CAMERA_LOST, "no frame for")
    assert lost.subject == "front" and "clock" not in lost.reason
    assert robot.end().state is EpisodeState.ENDED


def test_a_simulated_clock_set_ahead_blames_no_device(graph: Graph, tmp_path: Path) -> None:
    limits = dict.fromkeys(["camera_lost_s", "joints_lost_s", "model_late_s"], PAUSE_S) | {"model_lost_s": 2 * PAUSE_S}
    monitor = {f"events__inputs__{name}": limit_s for name, limit_s in limits.items()}
    robot = Robot(graph, tmp_path, simulated=True, **monitor)
    robot.start()
    robot.until("estimates", lambda: robot.stack.status.estimates >= 5)
    robot.offset_ns = 100 * NS
    robot.event(EventKind.CLOCK_JUMP, "leapt ahead by 100.")  # and what a machine needs to go on
    robot.until("the diagnostic", lambda: "/clock was set ahead by 100.0 s" in robot.said_of("clock"))
    before = robot.stack.status.estimates
    robot.until("it goes on", lambda: robot.stack.status.estimates >= before + 10)
    report = robot.end()
    assert report.state is EpisodeState.ENDED
    assert not of_kind(report, EventKind.CAMERA_LOST, EventKind.JOINTS_LOST, EventKind.MODEL_LOST, EventKind.MODEL_LATE)


def test_a_simulated_clock_set_back_ends_the_attempt(graph: Graph, tmp_path: Path) -> None:
    """rclpy#1490: one /clock that is set back in mid-episode, as a simulator that is reset does."""
    robot = Robot(graph, tmp_path, simulated=True)
    robot.start()
    robot.until("estimates", lambda: robot.stack.status.estimates >= 5)
    robot.offset_ns = -100 * NS
    robot.until("the report", lambda: robot.stack.reports.messages)
    report = robot.stack.report("take")
    assert report.state is EpisodeState.INTERRUPTED and of_kind(report, EventKind.CLOCK_JUMP)
    robot.until("the diagnostic", lambda: "/clock was set back by" in robot.said_of("clock"))
