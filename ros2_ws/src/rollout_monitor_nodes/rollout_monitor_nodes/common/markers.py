"""Hears episode boundaries on ``rollout/episode``, once each, whoever publishes them and however late this node starts.

Boundaries are latched, so a node that starts in mid-episode still learns which one runs. Two subscriptions listen,
because a latched one would not hear a volatile publisher (a one-shot command line); a marker heard by both counts once.
Of the history that a late node is handed, only a START that was not followed by its END matters.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

from rclpy.node import Node
from rollout_monitor_msgs.msg import Episode

from rollout_monitor.errors import InputError
from rollout_monitor.records import Boundary, EpisodeMarker
from rollout_monitor_nodes.common.conversions import marker_from_msg
from rollout_monitor_nodes.common.qos import PROFILES
from rollout_monitor_nodes.common.subscribe import STEADY

HISTORY_WAIT_S = 0.3
"""How long a START from before this node's time waits for its END: history comes in one go."""

TOPIC = "rollout/episode"


class MarkerListener:
    """Calls back with each boundary, in the order in which they were published."""

    def __init__(self, node: Node, on_marker: Callable[[EpisodeMarker], None]) -> None:
        self._node = node
        self._on_marker = on_marker
        self._since_ns = _wall_ns()
        self._heard: deque[tuple[int, int, str]] = deque(maxlen=64)
        self._waiting: EpisodeMarker | None = None
        self._timer: Any = None
        # A separate wrapper per subscription: rclpy tells by the callback's signature that it wants the message info.
        self._subscriptions = [
            node.create_subscription(Episode, TOPIC, self._on_message, PROFILES[name])
            for name in ("MARKERS", "MARKERS_VOLATILE")
        ]

    def destroy(self) -> None:
        """Stop listening."""
        self._stop_waiting()
        for subscription in self._subscriptions:
            self._node.destroy_subscription(subscription)

    def _on_message(self, msg: Episode, info: dict[str, int]) -> None:
        key = (int(info["source_timestamp"]), int(msg.boundary), str(msg.episode_id))
        if key in self._heard:
            return
        self._heard.append(key)
        try:
            marker = marker_from_msg(msg)
        except InputError as error:
            self._node.get_logger().error(str(error))
            return
        if key[0] < self._since_ns:
            self._on_history(marker)
        else:
            self._pass_on(marker)

    def _on_history(self, marker: EpisodeMarker) -> None:
        """A marker from before this node listened. Several publishers' histories may come interleaved."""
        if marker.boundary is Boundary.START:
            if self._waiting is None or marker.stamp_ns >= self._waiting.stamp_ns:
                self._waiting = marker
            if self._timer is None:
                self._timer = self._node.create_timer(HISTORY_WAIT_S, self._end_of_history, clock=STEADY)
        elif self._waiting is not None and self._waiting.episode_id == marker.episode_id:
            self._waiting = None
        else:
            self._on_marker(marker)  # ends what runs, or nothing: the core ignores an END of another episode

    def _pass_on(self, marker: EpisodeMarker) -> None:
        self._end_of_history()
        self._on_marker(marker)

    def _end_of_history(self) -> None:
        waiting, self._waiting = self._waiting, None
        self._stop_waiting()
        if waiting is not None:
            self._on_marker(waiting)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._node.destroy_timer(self._timer)
            self._timer = None


def _wall_ns() -> int:
    """Wall time, for comparison with the middleware's source stamps; no decision about an episode hangs on it."""
    return time.time_ns()
