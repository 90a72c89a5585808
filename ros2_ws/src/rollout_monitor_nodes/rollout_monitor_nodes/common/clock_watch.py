"""Whether a node's clock can be trusted: with use_sim_time it is as good as whoever publishes /clock.

Without /clock the time stands at zero (rclpy issue 792); with two publishers it flips between two times (rclpy issue
1490 tells of time set back). Events go by header stamps and survive both, but silence cannot be told then, so it is
said.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from rclpy.clock import JumpThreshold, TimeJump
from rclpy.duration import Duration
from rclpy.node import Node

from rollout_monitor_nodes.common.subscribe import node_name

STANDS_S = 2.0
"""A simulated clock that does not move for this long is said to stand."""

BACK_S = 0.5
AHEAD_S = 10.0
"""A simulated clock that goes on by more at once was set: no simulator publishes it so seldom."""

STEP_S = 0.2
"""The system's clock was set where it and passing time differ by more between two looks."""

SAID_S = 10.0
"""For so long it is said that a clock was set."""


class ClockWatch:
    """Looks at one node's clock."""

    def __init__(self, node: Node, steady_s: Callable[[], float] = time.monotonic) -> None:
        self._node = node
        self._steady_s = steady_s
        self._simulated = bool(node.get_parameter("use_sim_time").value)
        self._now_ns = -1
        self._moved_s = steady_s()
        self._steady_then_s, self._doubt_then_s = steady_s(), 0.0
        self._set_by_s = 0.0
        self._set_s: float | None = None  # steady time when it was set
        self.jumps_back = self.jumps_ahead = 0
        self._handle = node.get_clock().create_jump_callback(
            JumpThreshold(
                min_forward=Duration(seconds=AHEAD_S), min_backward=Duration(seconds=-BACK_S), on_clock_change=False
            ),
            post_callback=self._on_jump,
        )

    def destroy(self) -> None:
        """Look no more."""
        self._handle.unregister()

    def look(self) -> tuple[str, Mapping[str, object]]:
        """What is wrong, empty where nothing is, and figures."""
        before_s, now_ns, steady_s = self._steady_s(), int(self._node.get_clock().now().nanoseconds), self._steady_s()
        doubt_s = steady_s - before_s  # a busy machine may pause between the two clocks
        if not self._simulated and self._now_ns >= 0:
            step_s = (now_ns - self._now_ns) / 1e9 - (steady_s - self._steady_then_s)
            if abs(step_s) > STEP_S + max(doubt_s, self._doubt_then_s):
                self._note(step_s)
        self._steady_then_s, self._doubt_then_s = steady_s, doubt_s
        if now_ns != self._now_ns:
            self._now_ns, self._moved_s = now_ns, self._steady_s()
        if not self._simulated:
            return self._was_set("system clock"), {"source": "system", **self._jumps()}
        publishers = sorted(node_name(info) for info in self._node.get_publishers_info_by_topic("/clock"))
        return self._trouble(publishers), {
            "source": "/clock",
            "publishers": len(publishers),
            **self._jumps(),
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
        return self._was_set("/clock")

    def _jumps(self) -> dict[str, int]:
        return {"jumps_back": self.jumps_back, "jumps_ahead": self.jumps_ahead}

    def _was_set(self, clock: str) -> str:
        if self._set_s is None or self._steady_s() - self._set_s > SAID_S:
            return ""
        side = "ahead" if self._set_by_s > 0 else "back"
        return f"{clock} was set {side} by {abs(self._set_by_s):.1f} s"

    def _on_jump(self, jump: TimeJump) -> None:
        if self._now_ns > 0:  # a simulated clock that begins was not set
            self._note(jump.delta.nanoseconds / 1e9)

    def _note(self, step_s: float) -> None:
        self._set_by_s, self._set_s = step_s, self._steady_s()
        self.jumps_ahead += step_s > 0
        self.jumps_back += step_s < 0
        count = self.jumps_back + self.jumps_ahead
        if count == 1 or count % 100 == 0:
            self._node.get_logger().warning(f"the clock was set by {step_s:+.1f} s, {count} times by now")
