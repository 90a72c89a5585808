"""Finds what can never be delivered: a publisher that offers less than a subscriber asks, with both sides' names.

DDS lets such a pair stay unconnected in silence (image_pipeline issue 828). The middleware's own warning names the
topic only, so the graph is asked who the two are. Every publisher and subscription of a node is watched, those with
fixed profiles and those that are about to adapt.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSCompatibility, QoSProfile, ReliabilityPolicy, qos_check_compatible

from rollout_monitor_nodes.common.qos import describe
from rollout_monitor_nodes.common.subscribe import node_name

_OWN_OF_ROS = ("/rosout", "/parameter_events")
_INFINITE_NS = 2**62


@dataclass(frozen=True)
class Side:
    """One end of a topic."""

    node: str
    profile: QoSProfile

    def __str__(self) -> str:
        reliable = self.profile.reliability == ReliabilityPolicy.RELIABLE
        latched = self.profile.durability == DurabilityPolicy.TRANSIENT_LOCAL
        return describe(reliable, latched)


class QosWatch:
    """Looks at all topics of a node when asked to; says what is new in the log."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.mismatches: list[str] = []
        """What cannot be delivered now, one line for each pair."""

    def look(self) -> None:
        """Look at the graph; a few calls of 0.1 ms per topic."""
        mismatches = sorted({*self._of_subscriptions(), *self._of_publishers()})
        for line in mismatches:
            if line not in self.mismatches:
                self._node.get_logger().error(line)
        for line in self.mismatches:
            if line not in mismatches:
                self._node.get_logger().info(f"no longer so: {line}")
        self.mismatches = mismatches

    def _of_subscriptions(self) -> Iterator[str]:
        for topic, own in _by_topic((sub.topic_name, sub.qos_profile) for sub in self._node.subscriptions):
            for info in self._node.get_publishers_info_by_topic(topic):
                if not any(_fits(info.qos_profile, profile) for profile in own):
                    yield self._line(topic, Side(node_name(info), info.qos_profile), Side(self._name, own[0]))

    def _of_publishers(self) -> Iterator[str]:
        for topic, (own, *_) in _by_topic((pub.topic_name, pub.qos_profile) for pub in self._node.publishers):
            others = self._node.get_subscriptions_info_by_topic(topic)
            served = {node_name(info) for info in others if _fits(own, info.qos_profile)}
            for info in others:
                if node_name(info) not in served:  # a node may listen twice, in two ways
                    yield self._line(topic, Side(self._name, own), Side(node_name(info), info.qos_profile))

    @property
    def _name(self) -> str:
        return str(self._node.get_fully_qualified_name())

    @staticmethod
    def _line(topic: str, publisher: Side, subscriber: Side) -> str:
        _, reason = _check(publisher.profile, subscriber.profile)
        why = reason.removeprefix("ERROR: ").rstrip("; ")
        return (
            f"{topic}: {publisher.node} offers {publisher}, {subscriber.node} asks for {subscriber}: "
            f"nothing is delivered ({why})"
        )


def _by_topic(endpoints: Iterable[tuple[str, QoSProfile]]) -> list[tuple[str, list[QoSProfile]]]:
    topics: dict[str, list[QoSProfile]] = {}
    for topic, profile in endpoints:
        if topic not in _OWN_OF_ROS:
            topics.setdefault(topic, []).append(profile)
    return list(topics.items())


def _check(offered: QoSProfile, asked: QoSProfile) -> tuple[QoSCompatibility, str]:
    return qos_check_compatible(_plain(offered), _plain(asked))  # type: ignore[no-any-return]


def _plain(profile: QoSProfile) -> QoSProfile:
    """The same with zero for every limit that is not set: the graph tells those as infinite, which would be a limit."""

    def limit(duration: Duration) -> Duration:
        return Duration() if duration.nanoseconds >= _INFINITE_NS else duration

    return QoSProfile(
        depth=1,
        reliability=profile.reliability,
        durability=profile.durability,
        deadline=limit(profile.deadline),
        liveliness=profile.liveliness,
        liveliness_lease_duration=limit(profile.liveliness_lease_duration),
    )


def _fits(offered: QoSProfile, asked: QoSProfile) -> bool:
    compatibility, _ = _check(offered, asked)
    return bool(compatibility != QoSCompatibility.ERROR)
