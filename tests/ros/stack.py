"""The whole stack on one graph: prm_node, monitor_node and recorder in a namespace, fed by replay_node."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from graph import Graph, Heard, Process
from rollout_monitor_nodes.common.conversions import report_from_msg, status_from_msg

from rollout_monitor.records import EpisodeReport, MonitorStatus

NAMESPACE = "/ur5e"
CAMERAS = ("front", "wrist")
LISTENERS = 2  # subscriptions of one node on rollout/episode: latched and volatile
STACK_NODES = ("prm_node", "monitor_node", "recorder")


class Stack:
    """Starts nodes of the stack and listens to what they say."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.episodes = graph.folder / "episodes"
        self.recordings = graph.folder / "recordings"
        self.nodes: dict[str, Process] = {}
        self.statuses = self.listen("rollout/status", "MonitorStatus", "LATCHED")
        self.events = self.listen("rollout/events", "MonitorEvent", "RECORDS")
        self.reports = self.listen("rollout/reports", "EpisodeReport", "REPORTS")
        self.kinematics = self.listen("rollout/kinematics", "Kinematics", "RECORDS")
        for service in ("start_episode", "end_episode", "label_episode", "query_progress"):
            kind = "".join(word.capitalize() for word in service.split("_"))
            graph.client(f"{NAMESPACE}/rollout/{service}", f"rollout_monitor_msgs/srv/{kind}")

    def listen(self, topic: str, kind: str, profile: str) -> Heard:
        """Listen to one of the stack's topics."""
        return self.graph.listen(f"{NAMESPACE}/{topic}", f"rollout_monitor_msgs/msg/{kind}", profile)

    def start_prm(self, curve: Path | None, **parameters: object) -> Process:
        """prm_node with a recorded curve as its model, or with the embedded model."""
        model = {"model": "embedded"} if curve is None else {"model": "recorded", "model_path": curve}
        return self._start("prm_node", **model, **parameters)

    def start_monitor(self, **parameters: object) -> Process:
        """monitor_node with its store in the test's folder."""
        return self._start("monitor_node", episodes=self.episodes, recordings=self.recordings, **parameters)

    def start_recorder(self, **parameters: object) -> Process:
        """recorder with its recordings in the test's folder."""
        return self._start("recorder", episodes=self.episodes, recordings=self.recordings, **parameters)

    def start_all(self, curve: Path | None, **monitor_parameters: object) -> None:
        """All three, and wait until they hear each other."""
        self.start_prm(curve)
        self.start_monitor(**monitor_parameters)
        self.start_recorder()
        self.wait_until_connected()

    def _start(self, node: str, **parameters: object) -> Process:
        self.nodes[node] = self.graph.start(node, namespace=NAMESPACE, **parameters)
        return self.nodes[node]

    def wait_until_connected(self) -> None:
        """Wait until what one node publishes is heard by those that need it, this test included."""
        needed = {
            "rollout/status": {"recorder", "test_probe"},
            "rollout/reports": {"recorder", "test_probe"},
            "rollout/events": {"recorder", "test_probe"},
        }
        if "prm_node" in self.nodes:  # an adaptive subscription is made once there is a publisher
            needed["rollout/progress"] = {"monitor_node", "recorder"}
            needed["rollout/kinematics"] = {"monitor_node", "recorder", "test_probe"}
        running = {*self.nodes, "test_probe"}
        for topic, nodes in needed.items():
            self.graph.until(
                f"{nodes & running} on {topic}",
                lambda topic=topic, nodes=nodes: nodes & running <= self.graph.subscribers(f"{NAMESPACE}/{topic}"),
            )
        for node in self.nodes:
            self.graph.until(f"{node} on the graph", lambda node=node: node in self._there())
        self.graph.until("the first status", lambda: self.statuses.messages)

    def _there(self) -> list[str]:
        return [name for name, _ in self.graph.node.get_node_names_and_namespaces()]

    def play(
        self, bag: Path, *, cameras: Sequence[str] = CAMERAS, prefix: str = NAMESPACE, **parameters: object
    ) -> Process:
        """Replay a bag once everybody who should hear it is there."""
        there = set(self.nodes)
        watching = len(there & {"prm_node", "recorder"})
        wanted = {f"{prefix}/rollout/episode": LISTENERS * len(there), f"{prefix}/joint_states": watching}
        for index, camera in enumerate(cameras):
            extra = int(index == 0 and "monitor_node" in there)
            wanted[f"{prefix}/camera_{camera}/color/image_raw/compressed"] = watching + extra
        if not prefix:
            wanted = {f"{NAMESPACE}{topic}": count for topic, count in wanted.items()}
        wait_for = [f"{topic}={count}" for topic, count in wanted.items() if count]
        return self.graph.start(
            "replay_node",
            bag=bag,
            prefix=prefix,
            wait_for=wait_for,
            wait_for_subscribers_s=60.0,
            settle_s=0.5,
            **parameters,
        )

    # --- what they said -----------------------------------------------------------------------------------------

    @property
    def status(self) -> MonitorStatus:
        """The newest status."""
        return status_from_msg(self.statuses.messages[-1])

    def report_message(self, episode_id: str, deadline_s: float = 60.0) -> Any:
        """Wait for an episode's report message."""

        def found() -> Any:
            return next((msg for msg in self.reports.messages if msg.episode_id == episode_id), None)

        return self.graph.until(f"the report of {episode_id}", found, deadline_s)

    def report(self, episode_id: str, deadline_s: float = 60.0) -> EpisodeReport:
        """Wait for an episode's report."""
        return report_from_msg(self.report_message(episode_id, deadline_s))

    def logs(self) -> str:
        """For a failed test."""
        return self.graph.logs()
