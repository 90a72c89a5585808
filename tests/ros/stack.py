"""The whole stack on one graph: prm_node, monitor_node and recorder in a namespace, fed by replay_node."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from graph import Graph, Heard, Process
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rollout_monitor_nodes.common.conversions import report_from_msg, status_from_msg

from rollout_monitor.episode.settings import GateSettings, MonitorSettings
from rollout_monitor.events.settings import EventSettings, InputSettings
from rollout_monitor.records import EpisodeReport, MonitorStatus

NAMESPACE = "/ur5e"
CAMERAS = ("front", "wrist")
LISTENERS = 2  # subscriptions of one node on rollout/episode: latched and volatile
STACK_NODES = ("prm_node", "monitor_node", "recorder")

EVERY_STATUS = QoSProfile(
    depth=1000, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL
)
"""As a latched viewer, but one that misses none while the test is busy elsewhere."""

PATIENT = MonitorSettings(
    merge_wait_s=30.0, end_wait_s=120.0, events=EventSettings(inputs=InputSettings(camera_lost_s=60.0))
)
PATIENT_GATE = GateSettings(cameras=CAMERAS, pair_wait_s=2.0, pair_skew_s=2.0)
"""Waits in which a machine that is slow or busy comes to its end. Then nothing is judged by passing time: what does not
agree with the same recording judged offline is not the machine's fault.
"""

PATIENT_MONITOR = {
    "merge_wait_s": PATIENT.merge_wait_s,
    "end_wait_s": PATIENT.end_wait_s,
    "events__inputs__camera_lost_s": PATIENT.events.inputs.camera_lost_s,
    "quiet_s": 10.0,
    "fallback_s": 30.0,
}
PATIENT_PRM = {
    "gate__pair_wait_s": PATIENT_GATE.pair_wait_s,
    "gate__pair_skew_s": PATIENT_GATE.pair_skew_s,
    "queue": 1000,
    "end_wait_s": 3.0,
}
PATIENT_RECORDER = {"report_wait_s": 600.0, "stop_wait_s": 60.0}
"""The same as parameters of the nodes; the model gets every frame set, however long it takes."""


class Stack:
    """Starts nodes of the stack and listens to what they say."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.episodes = graph.folder / "episodes"
        self.recordings = graph.folder / "recordings"
        self.nodes: dict[str, Process] = {}
        self.statuses = self.listen("rollout/status", "MonitorStatus", EVERY_STATUS)
        self.events = self.listen("rollout/events", "MonitorEvent", "RECORDS")
        self.reports = self.listen("rollout/reports", "EpisodeReport", "REPORTS")
        self.kinematics = self.listen("rollout/kinematics", "Kinematics", "RECORDS")
        for service in ("start_episode", "end_episode", "label_episode", "query_progress"):
            kind = "".join(word.capitalize() for word in service.split("_"))
            graph.client(f"{NAMESPACE}/rollout/{service}", f"rollout_monitor_msgs/srv/{kind}")

    def listen(self, topic: str, kind: str, profile: str | QoSProfile) -> Heard:
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

    def start_all(self, curve: Path | None, *, patient: bool = False, **prm_parameters: object) -> None:
        """All three, patient or as they are by default, and wait until they hear each other."""
        self.start_prm(curve, **(PATIENT_PRM if patient else {}), **prm_parameters)
        self.start_monitor(**(PATIENT_MONITOR if patient else {}))
        self.start_recorder(**PATIENT_RECORDER)
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

    def report_message(self, episode_id: str, deadline_s: float = 120.0) -> Any:
        """Wait for an episode's report message."""

        def found() -> Any:
            return next((msg for msg in self.reports.messages if msg.episode_id == episode_id), None)

        return self.graph.until(f"the report of {episode_id}", found, deadline_s)

    def report(self, episode_id: str, deadline_s: float = 120.0) -> EpisodeReport:
        """Wait for an episode's report."""
        return report_from_msg(self.report_message(episode_id, deadline_s))

    def logs(self) -> str:
        """For a failed test."""
        return self.graph.logs()
