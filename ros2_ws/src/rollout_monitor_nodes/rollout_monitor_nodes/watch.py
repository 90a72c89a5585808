"""Shows the running episode in a terminal: one live line, each event, the outcome and where the report lies."""

from __future__ import annotations

import shutil
import sys

import rollout_monitor_msgs.msg as ros
from rclpy.node import Node
from rclpy.task import Future

from rollout_monitor.records import EpisodeState
from rollout_monitor.report.line import event_line, live_line, plain, report_lines
from rollout_monitor_nodes.common import qos, spin
from rollout_monitor_nodes.common.conversions import event_from_msg, report_from_msg, status_from_msg
from rollout_monitor_nodes.common.params import declare
from rollout_monitor_nodes.settings import WatchSettings

_ERASE = "\r\x1b[2K"


class WatchNode(Node):
    """Subscribes to status, events and reports of one robot and prints them."""

    def __init__(self) -> None:
        super().__init__("watch")
        self._settings = declare(self, WatchSettings)
        self.exit: Future = Future()
        self._live = sys.stdout.isatty()
        self._line_shown = False
        self._printed_s = float("-inf")
        self._episode = ""
        self._elapsed_s = 0.0
        self._reports: set[tuple[str, int]] = set()
        self._start_ns: int | None = None
        self.create_subscription(ros.MonitorStatus, "rollout/status", self._on_status, qos.PROFILES["LATCHED"])
        self.create_subscription(ros.MonitorEvent, "rollout/events", self._on_event, qos.PROFILES["RECORDS"])
        self.create_subscription(ros.EpisodeReport, "rollout/reports", self._on_report, qos.PROFILES["RECORDS"])

    def begin(self) -> None:
        """Nothing to start: the subscriptions do the work."""

    def stop(self, reason: str) -> None:
        """End at once."""
        del reason
        if not self.exit.done():
            self.exit.set_result(spin.EXIT_OK)

    def close(self) -> None:
        """Leave the terminal on a fresh line."""
        self._print()

    def _on_status(self, msg: ros.MonitorStatus) -> None:
        status = status_from_msg(msg)
        if status.state is not EpisodeState.RUNNING:
            return
        if status.episode_id != self._episode or status.elapsed_s < self._elapsed_s:
            self._start_ns = status.stamp_ns - round(status.elapsed_s * 1e9)
            self._episode, self._printed_s = status.episode_id, float("-inf")
            self._print(plain(f"--- {status.episode_id}: {status.task}"))
        self._elapsed_s = status.elapsed_s
        if self._live:
            width = shutil.get_terminal_size().columns
            sys.stdout.write(_ERASE + live_line(status, width - 1))
            sys.stdout.flush()
            self._line_shown = True
        elif status.elapsed_s - self._printed_s >= self._settings.line_every_s:
            self._printed_s = status.elapsed_s
            print(live_line(status, 160), flush=True)

    def _on_event(self, msg: ros.MonitorEvent) -> None:
        self._print(event_line(event_from_msg(msg), self._start_ns))

    def _on_report(self, msg: ros.EpisodeReport) -> None:
        report = report_from_msg(msg)
        self._print(*report_lines(report, msg.report_path))
        self._reports.add((report.episode_id, report.start_ns))
        if 0 < self._settings.reports <= len(self._reports) and not self.exit.done():
            self.exit.set_result(spin.EXIT_OK)

    def _print(self, *lines: str) -> None:
        if self._line_shown:
            sys.stdout.write(_ERASE)
            self._line_shown = False
        for line in lines:
            print(line)
        sys.stdout.flush()


def main() -> None:
    """Run the node."""
    sys.exit(spin.run("watch", WatchNode))


if __name__ == "__main__":
    main()
