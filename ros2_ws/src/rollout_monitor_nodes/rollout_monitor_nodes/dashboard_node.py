"""dashboard_node: finds robots and connects each to the dashboard, which is `rollout_monitor.dashboard`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from rclpy.node import Node
from rclpy.task import Future

from rollout_monitor.bringup.stack import checked_namespace
from rollout_monitor.dashboard.board import MOST_ROBOTS
from rollout_monitor.dashboard.cards import LONGEST_LIST, short
from rollout_monitor.dashboard.commands import Answer, Command
from rollout_monitor.dashboard.dashboard import Dashboard, Options
from rollout_monitor_nodes.common.params import declare
from rollout_monitor_nodes.common.qos import PROFILES
from rollout_monitor_nodes.common.spin import EXIT_OK, call_soon, run
from rollout_monitor_nodes.common.subscribe import STEADY, GraphWatch
from rollout_monitor_nodes.interfaces import DIAGNOSTICS, STATUS
from rollout_monitor_nodes.robot_feed import RobotFeed
from rollout_monitor_nodes.settings import DashboardSettings

LOOK_PERIOD_S = 1.0
SHOWN_AS_ALARMS = "episode"
"""The monitor's own part that repeats the active events."""

_LEVELS = {DiagnosticStatus.WARN: "WARN", DiagnosticStatus.ERROR: "ERROR", DiagnosticStatus.STALE: "STALE"}


class DashboardNode(Node):
    """See the module's text. It is the robots' side of the dashboard."""

    def __init__(self) -> None:
        super().__init__("dashboard_node")
        settings = declare(self, DashboardSettings)
        self._wanted = {checked_namespace(name) or "/" for name in settings.namespaces}
        self.exit: Future = Future()
        self._feeds: dict[str, RobotFeed] = {}
        self._trouble: dict[str, dict[str, dict[str, str]]] = {}
        self._shown: frozenset[tuple[str, str]] = frozenset()
        self.dashboard = Dashboard(
            self,
            Options(
                host=settings.host,
                port=settings.port,
                names=[name.casefold() for name in settings.names],
                token_file=Path(settings.token_file) if settings.token_file else None,
                stores=[Path(folder) for folder in settings.episodes],
            ),
        )
        self._watch = GraphWatch(self)
        self.create_subscription(DiagnosticArray, DIAGNOSTICS.name, self._on_diagnostics, PROFILES["DIAGNOSTICS"])
        self.create_timer(LOOK_PERIOD_S, self._look, clock=STEADY)

    def begin(self) -> None:
        """Serve, and say where."""
        self.dashboard.start()
        file = self.dashboard.token_file
        print(f"dashboard: {self.dashboard.address}" + (f"  token: in {file}" if file else ""), flush=True)

    def stop(self, reason: str) -> None:
        """End at once."""
        del reason
        if not self.exit.done():
            self.exit.set_result(EXIT_OK)

    def close(self) -> None:
        """Close the pages' connections."""
        self.dashboard.stop()

    # --- the robots' side, as the dashboard asks for it ----------------------------------------------------------

    def call(self, command: Command, answered: Callable[[Answer], None]) -> None:
        """Called from the server's thread."""
        self._soon(self._call, command, answered)

    def show_cameras(self, wanted: frozenset[tuple[str, str]]) -> None:
        """Called from the server's thread."""
        self._soon(self._show, wanted)

    def _soon(self, action: Callable[..., object], *arguments: Any) -> None:
        if self.executor is not None:  # None: the node is being closed
            call_soon(self.executor, action, *arguments)

    def _call(self, command: Command, answered: Callable[[Answer], None]) -> None:
        feed = self._feeds.get(command.robot)
        if feed is None:
            answered(Answer(False, "this robot is not here"))
        else:
            feed.call(command, answered)

    def _show(self, wanted: frozenset[tuple[str, str]]) -> None:
        self._shown = wanted
        for name, feed in self._feeds.items():
            feed.show(frozenset(camera for robot, camera in wanted if robot == name))

    # --- the graph ----------------------------------------------------------------------------------------------

    def _look(self) -> None:
        for topic, types in self.get_topic_names_and_types():
            namespace = topic.removesuffix(f"/{STATUS.name}") or "/"
            wanted = not self._wanted or namespace in self._wanted
            if namespace != topic and wanted and STATUS.type in types and namespace not in self._feeds:
                self._meet(namespace)
        for feed in self._feeds.values():
            feed.look()
        self._show(self._shown)

    def _meet(self, namespace: str) -> None:
        if len(self._feeds) >= MOST_ROBOTS:
            self.get_logger().warning(f"more than {MOST_ROBOTS} robots: {namespace} is not shown", once=True)
            return
        self.get_logger().info(f"robot {namespace}")
        self._feeds[namespace] = RobotFeed(self, self._watch, self.dashboard, namespace)

    def _on_diagnostics(self, array: DiagnosticArray) -> None:
        changed = set()
        for status in array.status:
            node, _, part = status.name.partition(": ")
            namespace = f"/{node.rpartition('/')[0]}"
            if namespace not in self._feeds or part == SHOWN_AS_ALARMS:
                continue
            parts = self._trouble.setdefault(namespace, {})
            before = parts.pop(status.name, None)
            level = _LEVELS.get(status.level)
            if level is not None and len(parts) < LONGEST_LIST:
                name = short(status.name.removeprefix(f"{namespace[1:]}/"))
                parts[status.name] = {"name": name, "level": level, "message": short(status.message)}
            if before != parts.get(status.name):
                changed.add(namespace)
        for namespace in changed:
            self.dashboard.board.set_part(namespace, "diagnostics", list(self._trouble[namespace].values()))


def main() -> None:
    """Executable."""
    sys.exit(run("dashboard_node", DashboardNode))


if __name__ == "__main__":
    main()
