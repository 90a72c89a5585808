"""Publishes the state of a node's parts on /diagnostics, once a second and at once when a level changes."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.node import Node

from rollout_monitor_nodes.common.clock_watch import ClockWatch
from rollout_monitor_nodes.common.qos import PROFILES
from rollout_monitor_nodes.common.qos_watch import QosWatch
from rollout_monitor_nodes.common.subscribe import STEADY, AdaptiveSubscription

PERIOD_S = 1.0
RECENT_S = 10.0
"""What was wrong with a stream is said for this long: one pause an hour ago is no trouble now."""

CHECK_PERIOD_S = 0.2

OK, WARN, ERROR, STALE = DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR, DiagnosticStatus.STALE


H = TypeVar("H")


@dataclass(frozen=True)
class Part:
    """The state of one part: a stream, the model, the disk."""

    name: str
    level: bytes
    message: str
    values: dict[str, object] = field(default_factory=dict)


class Recent(Generic[H]):
    """What a stream's health was a while ago, to tell what has happened since."""

    def __init__(self, steady_s: Callable[[], float] = time.monotonic) -> None:
        self._steady_s = steady_s
        self._seen: deque[tuple[float, H]] = deque()

    def before(self, health: H) -> H:
        """The health of `RECENT_S` ago, or the oldest since; ``health`` is the newest, and kept."""
        now_s = self._steady_s()
        if not self._seen or now_s - self._seen[-1][0] >= PERIOD_S:
            self._seen.append((now_s, health))
        while len(self._seen) > 1 and self._seen[1][0] <= now_s - RECENT_S:
            self._seen.popleft()
        return self._seen[0][1]


class Diagnostics:
    """Asks the node for its parts and publishes them, with two more: its topics' two sides, and its clock."""

    def __init__(self, node: Node, parts: Callable[[], Iterable[Part]], hardware_id: str = "") -> None:
        self._node = node
        self._parts = parts
        self._hardware_id = hardware_id
        self._levels: dict[str, bytes] = {}
        self._since_s = PERIOD_S
        self._looked_s = PERIOD_S
        self._qos = QosWatch(node)
        self._clock = ClockWatch(node)
        self._publisher = node.create_publisher(DiagnosticArray, "/diagnostics", PROFILES["DIAGNOSTICS"])
        self._timer = node.create_timer(CHECK_PERIOD_S, self._check, clock=STEADY)

    def destroy(self) -> None:
        """Publish no more."""
        self._clock.destroy()
        self._node.destroy_timer(self._timer)
        self._node.destroy_publisher(self._publisher)

    def _check(self) -> None:
        self._since_s += CHECK_PERIOD_S
        parts = [*self._parts(), self._qos_part(), self._clock_part()]
        levels = {part.name: part.level for part in parts}
        if levels == self._levels and self._since_s < PERIOD_S:
            return
        self._levels, self._since_s = levels, 0.0
        array = DiagnosticArray(status=[self._status(part) for part in parts])
        array.header.stamp = self._node.get_clock().now().to_msg()
        self._publisher.publish(array)

    def _qos_part(self) -> Part:
        self._looked_s += CHECK_PERIOD_S
        if self._looked_s >= PERIOD_S:
            self._looked_s = 0.0
            self._qos.look()
        wrong = self._qos.mismatches
        return Part("qos", ERROR if wrong else OK, "; ".join(wrong) or "all sides match", {"mismatches": len(wrong)})

    def _clock_part(self) -> Part:
        trouble, values = self._clock.look()
        return Part("clock", ERROR if trouble else OK, trouble or "as it should be", dict(values))

    def _status(self, part: Part) -> DiagnosticStatus:
        return DiagnosticStatus(
            level=part.level,
            name=f"{self._node.get_fully_qualified_name()[1:]}: {part.name}",
            message=part.message,
            hardware_id=self._hardware_id,
            values=[KeyValue(key=key, value=str(value)) for key, value in part.values.items()],
        )


def stream_part(name: str, subscription: AdaptiveSubscription, values: dict[str, Any], trouble: str = "") -> Part:
    """The state of one input stream: not there, mismatched, in trouble, or fine."""
    values = {"topic": subscription.topic, "publishers": subscription.publishers, **values}
    if subscription.trouble:
        return Part(name, ERROR, subscription.trouble, values)
    if not subscription.publishers:
        return Part(name, STALE, f"no publisher on {subscription.topic}", values)
    return Part(name, WARN if trouble else OK, trouble or "streaming", values)
