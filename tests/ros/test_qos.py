"""Over real DDS: what cannot be delivered is named with both sides, and whatever is offered is received in the end."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from graph import Graph
from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rollout_monitor_nodes.common.diagnostics import Diagnostics
from rollout_monitor_nodes.common.qos import PROFILES, Offer, adapt
from rollout_monitor_nodes.common.qos_watch import QosWatch
from rollout_monitor_nodes.common.subscribe import AdaptiveSubscription, GraphWatch, Source
from rollout_monitor_nodes.common.types import import_type
from rollout_monitor_nodes.interfaces import MONITOR_NODE, REPORTS, STATUS
from std_msgs.msg import Int32

INT, TEXT = "std_msgs/msg/Int32", "std_msgs/msg/String"
LARGE_THEN_SMALL = """
import time
import rclpy
from std_msgs.msg import String
from rollout_monitor_nodes.common.qos import PROFILES

rclpy.init()
node = rclpy.create_node("talker")
publisher = node.create_publisher(String, "/words", PROFILES["SENSOR"])
while True:
    for text in ("large" * 1_200_000, "small"):
        publisher.publish(String(data=text))
        time.sleep(0.05)
"""


def profile(reliable: bool, latched: bool) -> QoSProfile:
    return adapt(10, [Offer("", reliable, latched)])


@pytest.fixture
def other(graph: Graph) -> Iterator[Node]:
    """A second node, so that there are two sides to name."""
    node = Node("driver", namespace="/arm", context=graph.context)
    yield node
    node.destroy_node()


def mismatches(graph: Graph, watch: QosWatch, count: int) -> list[str]:
    def looked() -> bool:
        watch.look()
        return len(watch.mismatches) == count

    graph.until(f"{count} mismatches", looked)
    return watch.mismatches


def test_a_publisher_that_offers_less_is_named_with_both_sides(graph: Graph, other: Node) -> None:
    """image_pipeline#828 and image_pipeline#770: a reliable subscriber of a best-effort camera hears nothing."""
    watch = QosWatch(graph.node)
    graph.node.create_subscription(import_type(INT), "numbers", lambda _: None, profile(True, False))
    assert mismatches(graph, watch, 0) == []
    publisher = other.create_publisher(import_type(INT), "/numbers", profile(False, False))
    (line,) = mismatches(graph, watch, 1)
    assert line.startswith(
        "/numbers: /arm/driver offers best effort, volatile, /test_probe asks for reliable, volatile: nothing is "
    )
    assert "reliable" in line.split("delivered")[1], "the policy that does not fit"
    other.destroy_publisher(publisher)
    assert mismatches(graph, watch, 0) == []


def test_a_subscriber_that_asks_for_more_is_named_with_both_sides(graph: Graph, other: Node) -> None:
    """A durability mismatch, seen from the publisher: a viewer that wants latched events would wait for ever."""
    watch = QosWatch(graph.node)
    graph.publisher("events", INT, profile(True, False))
    other.create_subscription(import_type(INT), "/events", lambda _: None, profile(True, True))
    (line,) = mismatches(graph, watch, 1)
    assert line.startswith(
        "/events: /test_probe offers reliable, volatile, /arm/driver asks for reliable, transient local: nothing"
    )


def test_a_deadline_that_nobody_keeps_is_a_mismatch_too(graph: Graph, other: Node) -> None:
    watch = QosWatch(graph.node)
    graph.publisher("events", INT, profile(True, False))
    asked = QoSProfile(depth=1, deadline=Duration(seconds=1))
    other.create_subscription(import_type(INT), "/events", lambda _: None, asked)
    (line,) = mismatches(graph, watch, 1)
    assert "eadline" in line


def test_a_node_that_listens_in_two_ways_misses_nothing(graph: Graph, other: Node) -> None:
    watch = QosWatch(graph.node)
    for latched in (True, False):
        graph.node.create_subscription(import_type(INT), "markers", lambda _: None, profile(True, latched))
        other.create_subscription(import_type(INT), "/said", lambda _: None, profile(True, latched))
    other.create_publisher(import_type(INT), "/markers", profile(True, False))
    graph.publisher("said", INT, profile(True, False))
    graph.until("all are known", lambda: graph.publishers("markers") and graph.subscribers("said"))
    assert mismatches(graph, watch, 0) == []


def test_the_published_diagnostics_and_the_log_name_both_sides(graph: Graph, other: Node) -> None:
    heard = graph.listen("/diagnostics", "diagnostic_msgs/msg/DiagnosticArray", "DIAGNOSTICS")
    graph.publisher("events", INT, profile(True, False))
    other.create_subscription(import_type(INT), "/events", lambda _: None, profile(True, True))
    log = graph.listen("/rosout", "rcl_interfaces/msg/Log", QoSProfile(depth=100))
    state = Diagnostics(graph.node, list)

    def said() -> str:
        statuses = [status for array in heard.messages for status in array.status]
        return next((one.message for one in statuses if one.name == "test_probe: qos" and one.level == b"\2"), "")

    line = graph.until("the diagnostic", said)
    assert "/test_probe offers reliable, volatile, /arm/driver asks for reliable, transient local" in line
    graph.until("the log", lambda: any(line == entry.msg for entry in log.messages))
    state.destroy()


def test_publishers_of_all_sorts_on_one_topic_are_all_heard(graph: Graph) -> None:
    """rosbag2#967: discovery is a race; each comes at another time, the weakest in the middle."""
    received: set[int] = set()
    watch = GraphWatch(graph.node)
    subscription = AdaptiveSubscription(
        watch, [Source("numbers", INT)], lambda _, message: received.add(message.data), depth=10
    )
    offered = [profile(True, True), profile(True, False), profile(False, False), profile(False, True)]
    publishers = []
    for number, offer in enumerate(offered):
        publishers.append(graph.publisher("numbers", INT, offer))

        def heard_by_all(newest: int = number) -> bool:
            for value, publisher in enumerate(publishers):
                publisher.publish(Int32(data=value))
                graph.pump()  # or the queue of ten overflows
            return received >= set(range(newest + 1))

        graph.until(f"{number + 1} publishers", heard_by_all)
        received.clear()
    graph.until("the next look at the graph", lambda: subscription.publishers == 4)
    subscription.destroy()
    watch.destroy()


def test_what_is_lost_on_the_way_is_counted(graph: Graph) -> None:
    """Large best-effort messages over UDP are lost in pieces; a small one after them shows the gap."""
    received: list[str] = []
    lost: list[int] = []
    watch = GraphWatch(graph.node)
    subscription = AdaptiveSubscription(
        watch,
        [Source("words", TEXT)],
        lambda _, message: received.append(message.data[:5]),
        depth=50,
        on_lost=lost.append,
    )
    udp_only = {
        "FASTDDS_BUILTIN_TRANSPORTS": "UDPv4",
        "FASTDDS_DEFAULT_PROFILES_FILE": "",
        "FASTRTPS_DEFAULT_PROFILES_FILE": "",
    }
    words = [f"{name}={value}" for name, value in udp_only.items()]
    graph.start_command("talker", ["env", *words, sys.executable, "-c", LARGE_THEN_SMALL])
    graph.until("a loss", lambda: sum(lost) > 0, 60.0)
    assert "small" in received
    subscription.destroy()
    watch.destroy()


def test_status_and_reports_are_latched() -> None:
    for topic in (STATUS, REPORTS):
        assert topic in MONITOR_NODE.publishes
        assert PROFILES[topic.qos].durability.name == "TRANSIENT_LOCAL"
        assert PROFILES[topic.qos].reliability.name == "RELIABLE"
