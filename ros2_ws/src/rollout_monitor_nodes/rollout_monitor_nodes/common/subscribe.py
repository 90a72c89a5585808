"""Subscriptions that take what is there: the topic that is published, with the quality of service that is offered.

A subscription with fixed QoS silently receives nothing from a publisher that offers less (image_pipeline issues 770 and
828). So the subscription is made when the first publisher is discovered, as strict as all publishers allow, and made
anew when one appears that offers less. A mismatch that remains is named, with both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rclpy.clock import Clock
from rclpy.clock_type import ClockType
from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.subscription import Subscription

from rollout_monitor_nodes.common.qos import Offer, adapt, describe, satisfied_by
from rollout_monitor_nodes.common.types import import_type, is_installed

SEARCH_PERIOD_S = 0.1
"""How often the graph is looked at while nothing is found."""

WATCH_PERIOD_S = 1.0
"""How often afterwards."""

UNKNOWN_NODE = "_NODE_NAMESPACE_UNKNOWN_/_NODE_NAME_UNKNOWN_"
"""What rmw says as long as it has heard of a publisher but not yet of its node."""

STEADY = Clock(clock_type=ClockType.STEADY_TIME)
"""Timers that must fire although a simulated clock stands still use this clock."""


@dataclass(frozen=True)
class Source:
    """A topic that would do, with its type: ``sensor_msgs/msg/Image``; an empty type takes what is published."""

    topic: str
    type_name: str = ""


def node_name(info: Any) -> str:
    """Name of the node that an endpoint of the graph belongs to, with its namespace."""
    return f"{info.node_namespace.rstrip('/')}/{info.node_name}".replace(UNKNOWN_NODE, "a node")


def with_type(node: Node, source: Source) -> Source:
    """The source with the type its publishers have, where none was asked for and one is installed here."""
    if source.type_name:
        return source
    for info in node.get_publishers_info_by_topic(source.topic):
        if is_installed(info.topic_type):
            return replace(source, type_name=info.topic_type)
    return source


def offers_on(node: Node, source: Source) -> tuple[list[Offer], list[str]]:
    """What the topic's publishers offer, and a complaint for each that publishes another type."""
    offers: list[Offer] = []
    complaints: list[str] = []
    for info in node.get_publishers_info_by_topic(source.topic):
        name = node_name(info)
        if info.topic_type != source.type_name:
            expected = source.type_name or "a type that is installed here"
            complaints.append(f"{source.topic}: {name} publishes {info.topic_type}, expected {expected}")
            continue
        profile = info.qos_profile
        offers.append(
            Offer(
                node=name,
                reliable=profile.reliability == ReliabilityPolicy.RELIABLE,
                transient_local=profile.durability == DurabilityPolicy.TRANSIENT_LOCAL,
            )
        )
    return offers, complaints


class GraphWatch:
    """Looks at the graph for all adaptive subscriptions of a node, with one timer."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self._looks: list[Callable[[], bool]] = []
        self._timer = node.create_timer(SEARCH_PERIOD_S, self._look, clock=STEADY)
        self._count = 0

    def add(self, look: Callable[[], bool]) -> None:
        """Call ``look`` often until it says True (found), then once a second."""
        self._looks.append(look)
        self._set_period(SEARCH_PERIOD_S)

    def remove(self, look: Callable[[], bool]) -> None:
        """Call it no more."""
        self._looks.remove(look)

    def destroy(self) -> None:
        """Stop looking."""
        self.node.destroy_timer(self._timer)

    def _look(self) -> None:
        found = [look() for look in list(self._looks)]
        self._set_period(WATCH_PERIOD_S if all(found) else SEARCH_PERIOD_S)

    def _set_period(self, period_s: float) -> None:
        period_ns = round(period_s * 1e9)
        if self._timer.timer_period_ns != period_ns:
            self._timer.timer_period_ns = period_ns


class AdaptiveSubscription:
    """One subscription to whichever of several sources is published, re-made when the publishers change."""

    def __init__(
        self,
        watch: GraphWatch,
        sources: Sequence[Source],
        on_message: Callable[[Source, Any], None],
        *,
        depth: int,
        raw: bool = False,
        on_lost: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Start looking for a publisher.

        Args:
            watch: of the node that subscribes.
            sources: in order of preference.
            on_message: called with the source and the message (serialized bytes where ``raw``).
            depth: queue length.
            raw: hand over the serialized bytes.
            on_lost: called with the number of messages that the middleware found missing among those that came.
        """
        self._watch = watch
        self._node = watch.node
        self._sources = list(sources)
        self._on_message = on_message
        self._depth = depth
        self._raw = raw
        self._on_lost = on_lost
        self._subscription: Subscription | None = None
        self._profile: QoSProfile | None = None
        self._offers: list[Offer] = []
        self.source: Source | None = None
        self.trouble = ""
        watch.add(self._look)
        self._look()

    @property
    def publishers(self) -> int:
        """How many publishers of the chosen source were there at the last look."""
        return len(self._offers)

    @property
    def offers(self) -> list[Offer]:
        """What those publishers offer."""
        return list(self._offers)

    @property
    def topic(self) -> str:
        """The chosen topic, or all that would do."""
        chosen = [self.source] if self.source else self._sources
        return " or ".join(self._node.resolve_topic_name(source.topic) for source in chosen)

    def destroy(self) -> None:
        """Unsubscribe and stop looking."""
        self._watch.remove(self._look)
        self._unsubscribe()

    def _look(self) -> bool:
        complaints: list[str] = []
        found: list[tuple[Source, list[Offer]]] = []
        for source in (with_type(self._node, source) for source in self._sources):
            offers, mismatches = offers_on(self._node, source)
            complaints += mismatches
            if offers:
                found.append((source, offers))
        kept = [pair for pair in found if pair[0] == self.source]
        if kept or found:
            source, offers = (kept or found)[0]
            self._use(source, offers)
        else:
            self._offers = []
        self._complain("; ".join(complaints))
        return bool(self._offers)

    def _use(self, source: Source, offers: list[Offer]) -> None:
        self._offers = offers
        fits = self._profile is not None and all(satisfied_by(self._profile, offer) for offer in offers)
        if source == self.source and fits:
            return
        self._unsubscribe()
        self.source = source
        self._profile = adapt(self._depth, offers)
        self._subscription = self._subscribe(source, self._profile)
        names = ", ".join(str(offer) for offer in offers)
        self._node.get_logger().info(f"{self.topic}: subscribed to {names}")

    def _subscribe(self, source: Source, profile: QoSProfile) -> Subscription:
        events = SubscriptionEventCallbacks(
            incompatible_qos=lambda _: self._on_incompatible(),
            message_lost=lambda lost: self._on_lost(int(lost.total_count_change)),
            use_default_callbacks=False,
        )
        # Not a callback that takes the message's number as well: the EventsExecutor of Jazzy fails on it.
        return self._node.create_subscription(
            import_type(source.type_name),
            source.topic,
            lambda message: self._on_message(source, message),
            profile,
            raw=self._raw,
            event_callbacks=events,
        )

    def _on_incompatible(self) -> None:
        """The middleware says a publisher offers less than was asked: name both sides, then adapt."""
        assert self._profile is not None  # noqa: S101 - there is a subscription, so there is a profile
        asked = describe(
            self._profile.reliability == ReliabilityPolicy.RELIABLE,
            self._profile.durability == DurabilityPolicy.TRANSIENT_LOCAL,
        )
        source = self.source or self._sources[0]
        offers, _ = offers_on(self._node, source)
        less = [str(offer) for offer in offers if not satisfied_by(self._profile, offer)] or ["a publisher"]
        self._node.get_logger().warning(
            f"{self.topic}: {', '.join(less)} offers less than "
            f"{self._node.get_fully_qualified_name()} asked ({asked}); adapting"
        )
        self._look()

    def _complain(self, trouble: str) -> None:
        if trouble and trouble != self.trouble:
            self._node.get_logger().error(trouble)
        self.trouble = trouble

    def _unsubscribe(self) -> None:
        if self._subscription is not None:
            self._node.destroy_subscription(self._subscription)
            self._subscription = None
