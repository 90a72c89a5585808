"""Whether a node's clock can be trusted: with use_sim_time it is as good as whoever publishes /clock.

Without /clock the time stands at zero (rclpy issue 792); with two publishers it flips between two times (rclpy issue
1490 tells of time set back). Events go by header stamps and survive both, but silence cannot be told then, so it is
said.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from rclpy.clock import JumpThreshold
from rclpy.duration import Duration
from rclpy.node import Node

from rollout_monitor_nodes.common.subscribe import node_name

STANDS_S = 2.0
"""A simulated clock that does not move for this long is said to stand."""

BACK_S = 0.5


class ClockWatch:
    """Looks at one node's clock."""

    def __init__(self, node: Node, steady_s: Callable[[], float] = time.monotonic) -> None:
        self._node = node
        self._steady_s = steady_s
        self._simulated = bool(node.get_parameter("use_sim_time").value)
        self._now_ns = -1
        self._moved_s = steady_s()
        self.jumps_back = 0
        self._handle = node.get_clock().create_jump_callback(
            JumpThreshold(min_forward=None, min_backward=Duration(seconds=-BACK_S), on_clock_change=False),
            post_callback=self._on_jump,
        )

    def destroy(self) -> None:
        """Look no more."""
        self._handle.unregister()

    def look(self) -> tuple[str, Mapping[str, object]]:
        """What is wrong, empty where nothing is, and figures."""
        now_ns = int(self._node.get_clock().now().nanoseconds)
        if now_ns != self._now_ns:
            self._now_ns, self._moved_s = now_ns, self._steady_s()
        if not self._simulated:
            return "", {"source": "system"}
        publishers = sorted(node_name(info) for info in self._node.get_publishers_info_by_topic("/clock"))
        return self._trouble(publishers), {
            "source": "/clock",
            "publishers": len(publishers),
            "jumps_back": self.jumps_back,
            "now_s": now_ns / 1e9,
        }

    def _trouble(self, publishers: list[str]) -> str:
        stood_s = self._steady_s() - self._moved_s
        if not publishers:
            return "use_sim_time is set, but nobody publishes /clock: silence cannot be noticed"
        if len(publishers) > 1:
            return f"/clock has {len(publishers)} publishers, time flips between them: {', '.join(publishers)}"
        if stood_s >= STANDS_S:
            return f"/clock of {publishers[0]} stands still for {stood_s:.0f} s: silence cannot be noticed"
        return ""

    def _on_jump(self, jump: object) -> None:  # noqa: ARG002 - the signature that rclpy calls
        self.jumps_back += 1
        if self.jumps_back == 1 or self.jumps_back % 100 == 0:
            self._node.get_logger().warning(f"the clock was set back, {self.jumps_back} times by now")
