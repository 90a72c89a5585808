"""Joint states at the rates that robots send them, over real DDS: none is lost, whatever comes between them."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import Any

import pytest
from graph import Graph, Heard, Process
from rollout_monitor_nodes.common.conversions import time_to_msg
from rollout_monitor_nodes.common.spin import make_executor
from stack import Stack

TALKER = """
import math, os, sys, time
import rclpy
from rclpy.duration import Duration
from rclpy.node import Node
from sensor_msgs.msg import JointState
from rollout_monitor_nodes.common.conversions import time_to_msg
from rollout_monitor_nodes.common.qos import PROFILES

rate, count, start_ns, kind = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
names = sys.argv[5].split(",")
rclpy.init()
node = Node("talker_" + kind)
publisher = node.create_publisher(JointState, "/ur5e/joint_states", PROFILES["REPLAY"])
while publisher.get_subscription_count() < 1:
    time.sleep(0.01)
for k in range(count):
    stamp_ns = start_ns + k * 1_000_000_000 // rate
    t = k / rate
    msg = JointState(name=names, position=[math.sin(t + i) for i in range(len(names))])
    if kind == "nan" and k % 10 == 3:
        msg.position = [math.nan] * len(names)
    if kind == "unstamped" and k % 50 == 0:  # the first one, too
        stamp_ns = 0
    if kind == "ahead" and k % 100 == 7:
        stamp_ns += 3600 * 1_000_000_000
    if kind == "repeated" and k % 2:
        stamp_ns -= 1_000_000_000 // rate
    msg.header.stamp = time_to_msg(stamp_ns)
    publisher.publish(msg)
    if k == 0:  # the other side can match later: what it has acknowledged it has heard
        assert publisher.wait_for_all_acked(Duration(seconds=30))
        print("heard", flush=True)
        while not os.path.exists("go"):  # all go on together
            time.sleep(0.001)
        began = time.monotonic()
    while time.monotonic() < began + (k + 1) / rate:
        time.sleep(0.0002)
print("sent", count, flush=True)
while True:
    time.sleep(0.1)
"""
START_NS = 1_700_000_000 * 1_000_000_000
LEFT, RIGHT = "left_pan,left_lift,left_elbow", "right_elbow,right_pan,right_lift"


@pytest.fixture
def curve(tmp_path: Path) -> Path:
    path = tmp_path / "curve.csv"
    path.write_text("stamp_ns,progress\n" + f"{START_NS},0.5\n")
    return path


def start_talker(graph: Graph, rate: int, count: int, kind: str = "plain", names: str = LEFT) -> Process:
    arguments = [str(rate), str(count), str(START_NS), kind, names]
    return graph.start_command(f"talker_{kind}", [sys.executable, "-c", TALKER, *arguments])


def let_talk(graph: Graph, *talkers: Process) -> None:
    """Each has been heard once; from now on they send at their rates, until all is sent."""
    for talker in talkers:
        talker.said("heard")
    (graph.folder / "go").touch()
    for talker in talkers:
        talker.said("sent", 90.0)


def health(stack: Stack, received: int) -> Any:
    """The joint stream's health once so many messages came, or as it stands when no more do."""

    def newest() -> Any:
        found = [msg.health for msg in stack.kinematics.messages]
        return found[-1] if found and found[-1].received >= received else None

    return stack.graph.until(f"{received} messages in the health", newest, 60.0)


def test_no_fast_topic_is_ever_given_to_a_multithreaded_executor() -> None:
    """rclpy#1223 and rclpy#1452: it loses most of a 500 Hz topic and starves timers. rclpy#1398: nothing waits in a
    callback for a future that only its own executor could complete.
    """
    import rollout_monitor_nodes  # noqa: PLC0415

    assert type(make_executor()).__name__ == "EventsExecutor"
    for path in Path(rollout_monitor_nodes.__path__[0]).rglob("*.py"):
        code = path.read_text(encoding="utf-8")
        assert "MultiThreadedExecutor(" not in code and "import MultiThreadedExecutor" not in code, path
        if path.name != "spin.py":
            for waits in ("spin_until_future_complete", "rclpy.spin(", "client.call(", "_client.call("):
                assert waits not in code, (path, waits)


def test_not_one_is_lost_at_1000_hz_and_timers_fire(graph: Graph, curve: Path) -> None:
    """Three seconds and a summary's worth; rclpy#1223 is of a timer that hangs beside a 500 Hz topic."""
    stack = Stack(graph)
    stack.start_prm(curve)
    said = graph.listen("/diagnostics", "diagnostic_msgs/msg/DiagnosticArray", "DIAGNOSTICS")
    let_talk(graph, start_talker(graph, 1000, 3101))
    told = health(stack, 3000)
    assert (told.received - told.used, told.lost, told.malformed) == (0, 0, 0)
    assert told.rate == pytest.approx(1000.0, rel=0.01) and told.gaps == 0
    rows = [row for msg in stack.kinematics.messages for row in msg.rows]
    stamps = [row.stamp.sec * 10**9 + row.stamp.nanosec for row in rows]
    assert len(stamps) == len(set(stamps)) >= 80
    assert {later - earlier for earlier, later in itertools.pairwise(stamps)} <= {33333333, 33333334}
    assert joints_part(said, graph) is not None


def joints_part(said: Heard, graph: Graph, words: str = "") -> Any:
    """The diagnostic of the joint stream, once it says something."""

    def found() -> Any:
        parts = [part for array in said.messages for part in array.status if part.name == "ur5e/prm_node: joints"]
        return parts[-1] if parts and words in parts[-1].message else None

    return graph.until(f"the joints' diagnostic says {words!r}", found)


def test_two_arms_at_500_hz_from_two_publishers(graph: Graph, curve: Path) -> None:
    """moveit_ros#286, moveit_ros#230: each publishes its own arm; ros2_controllers#159: each in an order of its own."""
    stack = Stack(graph)
    stack.start_prm(curve)
    said = graph.listen("/diagnostics", "diagnostic_msgs/msg/DiagnosticArray", "DIAGNOSTICS")
    arms = (("plain", LEFT), ("nan", RIGHT))
    let_talk(graph, *(start_talker(graph, 500, 1600, kind, names) for kind, names in arms))
    told = {name: int(value) for name, value in final_values(said, graph, 3200).items() if value.isdigit()}
    assert (told["received"], told["lost"], told["non_finite"], told["unusable"]) == (3200, 0, 3 * 160, 160)
    assert told["used"] == 3200 - 160
    names = stack.kinematics.messages[-1].joint_names
    assert sorted(names) == sorted((*LEFT.split(","), *RIGHT.split(",")))
    assert stack.kinematics.messages[-1].window.samples > 30


def final_values(said: Heard, graph: Graph, received: int) -> dict[str, str]:
    """The values of the joints' diagnostic once all messages are in it."""

    def found() -> dict[str, str]:
        values = {entry.key: entry.value for entry in joints_part(said, graph).values}
        return values if int(values["received"]) >= received else {}

    return graph.until(f"{received} messages in the diagnostic", found)


@pytest.mark.parametrize(
    ("kind", "field", "share", "words"),
    [
        ("unstamped", "unstamped", 0.02, "header stamps are zero: the driver does not fill them in"),
        ("ahead", "stray", 0.01, "stamps are far apart"),
        ("repeated", "not_advancing", 0.5, "stamps repeat ("),
        ("nan", "unusable", 0.1, "streaming"),
    ],
)
def test_what_is_wrong_with_a_stream_is_published(
    graph: Graph, curve: Path, kind: str, field: str, share: float, words: str
) -> None:
    """ros_comm#60, ros_comm#1716 (zero stamps); robot_localization#336 (repeated); clearpath_robot#222,
    ros_odrive#20 and Universal_Robots_ROS2_Driver#1228 (NaN).
    """
    stack = Stack(graph)
    stack.start_prm(curve)
    said = graph.listen("/diagnostics", "diagnostic_msgs/msg/DiagnosticArray", "DIAGNOSTICS")
    let_talk(graph, start_talker(graph, 250, 800, kind))
    told = health(stack, 750)
    assert getattr(told, field) == pytest.approx(share * told.received, abs=2)
    assert (told.clock_jumps, told.lost) == (0, 0)
    joints_part(said, graph, words)
    values = final_values(said, graph, 800)
    assert {"received", "used", "lost", "not_advancing", "rate_hz", "age_s"} <= set(values)
    assert float(values["age_s"]) >= 0.0 and int(values[field]) == pytest.approx(share * 800, abs=1)


def test_services_asked_for_inside_callbacks_are_answered(graph: Graph) -> None:
    """rclpy#1398: each call is made inside the callback of the one before; neither side waits, and none hangs."""
    stack = Stack(graph)
    stack.start_monitor()
    answers: list[Any] = []
    wanted = [
        ("start_episode", "StartEpisode", {"task": "lift", "episode_id": "nested", "stamp": time_to_msg(START_NS)}),
        ("query_progress", "QueryProgress", {}),
        ("end_episode", "EndEpisode", {}),
    ]

    def ask(at: int) -> None:
        service, kind, fields = wanted[at]
        client = graph.client(f"/ur5e/rollout/{service}", f"rollout_monitor_msgs/srv/{kind}")
        client.call_async(client.srv_type.Request(**fields)).add_done_callback(lambda future: on_answer(at, future))

    def on_answer(at: int, future: Any) -> None:
        answers.append(future.result())
        if at + 1 < len(wanted):
            ask(at + 1)

    client = graph.client("/ur5e/rollout/start_episode", "rollout_monitor_msgs/srv/StartEpisode")
    graph.until("the services", client.service_is_ready)
    ask(0)
    graph.until("every answer", lambda: len(answers) == len(wanted))
    assert answers[0].success and answers[2].success
