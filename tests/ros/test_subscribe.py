"""Subscriptions adapt to what publishers offer, in whatever order they come, and name what does not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from graph import Graph
from rclpy.qos import QoSProfile
from rollout_monitor_nodes.common.qos import Offer, adapt
from rollout_monitor_nodes.common.subscribe import AdaptiveSubscription, GraphWatch, Source
from std_msgs.msg import Int32, String

INT, STRING = "std_msgs/msg/Int32", "std_msgs/msg/String"


def offering(reliable: bool, latched: bool) -> QoSProfile:
    return adapt(10, [Offer("", reliable, latched)])


class Listener:
    """An adaptive subscription in the test's own node."""

    def __init__(self, graph: Graph, *sources: Source, raw: bool = False) -> None:
        self.received: list[tuple[Source, object]] = []
        self.watch = GraphWatch(graph.node)
        self.subscription = AdaptiveSubscription(
            self.watch, sources, lambda source, msg: self.received.append((source, msg)), depth=10, raw=raw
        )

    def values(self) -> list[int]:
        return [msg.data for _, msg in self.received]


@pytest.fixture
def listen(graph: Graph) -> Iterator[Callable[..., Listener]]:
    listeners: list[Listener] = []

    def make(*sources: Source, raw: bool = False) -> Listener:
        listeners.append(Listener(graph, *sources, raw=raw))
        return listeners[-1]

    yield make
    for listener in listeners:
        listener.subscription.destroy()
        listener.watch.destroy()


@pytest.mark.parametrize("reliable", [True, False])
@pytest.mark.parametrize("latched", [True, False])
def test_any_publisher_is_received(
    graph: Graph, listen: Callable[..., Listener], reliable: bool, latched: bool
) -> None:
    """ros-perception/image_pipeline issue 828."""
    listener = listen(Source("numbers", INT))
    publisher = graph.publisher("numbers", INT, offering(reliable, latched))
    graph.until("a match", lambda: publisher.get_subscription_count() == 1)

    def received() -> bool:
        publisher.publish(Int32(data=1))
        return bool(listener.values())

    graph.until("a message", received)
    assert (listener.subscription.publishers, listener.subscription.trouble) == (1, "")


def test_a_latched_message_from_before_is_received(graph: Graph, listen: Callable[..., Listener]) -> None:
    """As UR's robot mode: published on change only; a volatile subscription would never see it."""
    graph.publisher("mode", INT, offering(True, True)).publish(Int32(data=7))
    listener = listen(Source("mode", INT))
    graph.until("the latched message", lambda: listener.values() == [7])


def test_a_weaker_publisher_that_comes_later_is_heard_as_well(graph: Graph, listen: Callable[..., Listener]) -> None:
    """rosbag2 issue 967: what is decided at the first discovery must not be final."""
    strong = graph.publisher("numbers", INT, offering(True, True))
    listener = listen(Source("numbers", INT))
    graph.until("the first", lambda: listener.subscription.publishers == 1)
    weak = graph.publisher("numbers", INT, offering(False, False))

    def both_received() -> bool:
        strong.publish(Int32(data=1))
        weak.publish(Int32(data=2))
        return {1, 2} <= set(listener.values())

    graph.until("both", both_received)


def test_another_type_is_named_and_harms_nothing(graph: Graph, listen: Callable[..., Listener]) -> None:
    graph.publisher("numbers", STRING, offering(True, False))
    listener = listen(Source("numbers", INT))
    graph.until("the complaint", lambda: listener.subscription.trouble)
    assert listener.subscription.trouble == (
        "numbers: /test_probe publishes std_msgs/msg/String, expected std_msgs/msg/Int32"
    )


def test_of_several_sources_the_published_one_is_taken(graph: Graph, listen: Callable[..., Listener]) -> None:
    listener = listen(Source("first", INT), Source("second", STRING))
    assert listener.subscription.topic == "/first or /second"
    publisher = graph.publisher("second", STRING, offering(True, True))
    publisher.publish(String(data="here"))
    graph.until("the second source", lambda: listener.received)
    assert listener.subscription.topic == "/second"
    assert listener.received[0][0] == Source("second", STRING)


def test_a_source_without_a_type_takes_the_published_one(graph: Graph, listen: Callable[..., Listener]) -> None:
    listener = listen(Source("numbers"), raw=True)
    graph.publisher("numbers", INT, offering(True, True)).publish(Int32(data=5))
    graph.until("a message", lambda: listener.received)
    assert listener.received[0][0].type_name == INT
    assert isinstance(listener.received[0][1], bytes)
