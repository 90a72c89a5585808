"""Hears episode boundaries on ``rollout/episode``, once each, whoever publishes them and however late this node starts.

Boundaries are latched, so a node that starts in mid-episode still learns which one runs. Of the history that a newly
found publisher hands over, only a START that was not followed by its END matters. Two subscriptions listen, because a
latched one would not hear a volatile publisher (a one-shot command line); what both hear counts once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

from rclpy.node import Node
from rclpy.serialization import deserialize_message
from rollout_monitor_msgs.msg import Episode

from rollout_monitor.errors import InputError
from rollout_monitor.records import Boundary, EpisodeMarker
from rollout_monitor_nodes.common.conversions import marker_from_msg
from rollout_monitor_nodes.common.qos import PROFILES
from rollout_monitor_nodes.common.subscribe import STEADY

TOPIC = "rollout/episode"
LISTENING_PROFILES = ("MARKERS", "MARKERS_VOLATILE")
_VOLATILE = LISTENING_PROFILES.index("MARKERS_VOLATILE")

HISTORY_S = 0.5
"""How long after a new publisher was found its markers may be history. Perception remembers two seconds of frames, so
a START that is held back for this long loses nothing."""

_CHECK_PERIOD_S = 0.1
_FORGET_AFTER = 4096


@dataclass(frozen=True)
class Heard:
    """A boundary and the bytes it came in.

    Attributes:
        historic: it was published before this node listened: only a latched publisher's history has it.
    """

    marker: EpisodeMarker
    raw: bytes
    historic: bool = False


class OnceEach:
    """Lets through what several listeners hear, as often as the keenest of them heard it."""

    def __init__(self, listeners: int) -> None:
        self._listeners = listeners
        self._forget()

    def _forget(self) -> None:
        self._heard: list[Counter[object]] = [Counter() for _ in range(self._listeners)]
        self._passed: Counter[object] = Counter()

    def is_new(self, listener: int, key: object) -> bool:
        """Whether this is news: the listener has now heard the key more often than it was let through."""
        if len(self._passed) > _FORGET_AFTER:
            self._forget()  # once in thousands of attempts: at worst one marker is heard twice, which changes nothing
        self._heard[listener][key] += 1
        if self._heard[listener][key] <= self._passed[key]:
            return False
        self._passed[key] = self._heard[listener][key]
        return True


def unfinished(history: list[Heard]) -> list[Heard]:
    """What of a new publisher's markers still matters: no attempt that has both begun and ended.

    An END without its START is kept: it may end the attempt that runs.
    """
    kept: list[Heard] = []
    for heard in history:
        same = [h for h in kept if h.marker.episode_id == heard.marker.episode_id]
        if heard.marker.boundary is Boundary.END and any(h.marker.boundary is Boundary.START for h in same):
            kept = [h for h in kept if h not in same]
        else:
            kept.append(heard)
    starts = [h for h in kept if h.marker.boundary is Boundary.START]
    return [h for h in kept if h.marker.boundary is Boundary.END or h is starts[-1]]


class MarkerListener:
    """Calls back with each boundary, in the order in which they were published."""

    def __init__(self, node: Node, on_marker: Callable[[Heard], None]) -> None:
        self._node = node
        self._on_marker = on_marker
        self._once = OnceEach(len(LISTENING_PROFILES))
        self._held: list[Heard] = []
        self._live: set[bytes] = set()  # what the volatile subscription heard: it is given no history
        self._publishers = 0
        self._subscriptions = [
            node.create_subscription(Episode, TOPIC, self._listener(index), PROFILES[name], raw=True)
            for index, name in enumerate(LISTENING_PROFILES)
        ]
        self._found_ns = self._now_ns()
        self._timer = node.create_timer(_CHECK_PERIOD_S, self._check, clock=STEADY)

    def destroy(self) -> None:
        """Stop listening."""
        self._node.destroy_timer(self._timer)
        for subscription in self._subscriptions:
            self._node.destroy_subscription(subscription)

    def _listener(self, index: int) -> Callable[[bytes], None]:
        return lambda raw: self._on_message(index, raw)

    def _on_message(self, listener: int, raw: bytes) -> None:
        if listener == _VOLATILE:
            self._live.add(raw)
        msg = deserialize_message(raw, Episode)
        key = (msg.boundary, msg.episode_id, msg.header.stamp.sec, msg.header.stamp.nanosec)
        if not self._once.is_new(listener, key):
            return
        try:
            heard = Heard(marker_from_msg(msg), raw)
        except InputError as error:
            self._node.get_logger().error(str(error))
            return
        self._look_for_publishers()
        if self._may_be_history() or self._held:
            self._held.append(heard)
        else:
            self._on_marker(heard)

    def _check(self) -> None:
        self._look_for_publishers()
        if self._held and not self._may_be_history():
            held, self._held = self._held, []
            for heard in unfinished(held):
                self._on_marker(replace(heard, historic=heard.raw not in self._live))
        if not self._held:
            self._live.clear()

    def _look_for_publishers(self) -> None:
        count = self._subscriptions[1].get_publisher_count()
        if count > self._publishers:
            self._found_ns = self._now_ns()
        self._publishers = count

    def _may_be_history(self) -> bool:
        return self._now_ns() - self._found_ns < HISTORY_S * 1e9

    @staticmethod
    def _now_ns() -> int:
        return int(STEADY.now().nanoseconds)
