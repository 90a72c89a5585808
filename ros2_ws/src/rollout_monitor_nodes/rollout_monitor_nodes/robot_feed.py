"""Everything between one robot and the dashboard: its messages become cards, its cameras pictures, buttons calls.

Streams are taken serialized and looked at a few times a second: a page shows no more, and ten robots cost no more.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import rollout_monitor_msgs.msg as ros
from rcl_interfaces.srv import GetParameters
from rclpy.node import Node
from rclpy.serialization import deserialize_message
from rclpy.task import Future
from rollout_monitor_msgs import srv
from std_srvs.srv import Trigger

from rollout_monitor.dashboard.commands import SOURCE, Answer, Arm, Command, End, Say, Start
from rollout_monitor.dashboard.dashboard import Dashboard
from rollout_monitor.dashboard.pictures import PERIOD_S, as_sent, made_small
from rollout_monitor.errors import InputError
from rollout_monitor.records import Label
from rollout_monitor_nodes.common import conversions as convert
from rollout_monitor_nodes.common.cdr import read_compressed_image
from rollout_monitor_nodes.common.images import FrameReader, camera_sources
from rollout_monitor_nodes.common.qos import PROFILES
from rollout_monitor_nodes.common.subscribe import AdaptiveSubscription, GraphWatch, Source
from rollout_monitor_nodes.interfaces import CAMERAS, COMPRESSED, EVENTS, KINEMATICS, PROGRESS, REPORTS, STATUS

LOOK_S = 0.25
"""Kinematics and estimates are looked at this often."""

ANSWER_WAIT_S = 5.0
_PARAMETERS = ("cameras", "camera_topics", "camera_transport")
_SERVICES: dict[str, Any] = {
    "start_episode": srv.StartEpisode,
    "end_episode": srv.EndEpisode,
    "label_episode": srv.LabelEpisode,
    "arm_reset": Trigger,
    "disarm_reset": Trigger,
}


class RobotFeed:
    """See the module's text. Every method is called in the executor's thread."""

    def __init__(self, node: Node, watch: GraphWatch, dashboard: Dashboard, namespace: str) -> None:
        """Subscribe and make clients.

        Args:
            node: the dashboard's.
            watch: of that node.
            dashboard: what is fed.
            namespace: of the robot; ``/`` for the root. It is the robot's name on the page.
        """
        self._node = node
        self._watch = watch
        self._dashboard = dashboard
        self.namespace = namespace
        self._prefix = namespace.rstrip("/")
        self._frames = FrameReader(node)
        self._cameras: dict[str, tuple[str, str]] = {}  # topic and transport by camera
        self._shown: dict[str, AdaptiveSubscription] = {}
        self._picture_s: dict[str, float] = {}
        self._asked: Future | None = None
        self._asked_of = ""
        self._asking: Any = None
        self._open: dict[Future, tuple[float, Any, Callable[[Answer], None]]] = {}
        dashboard.board.set_part(namespace, "cameras", [])
        self._subscribe(STATUS.name, ros.MonitorStatus, "LATCHED", convert.status_from_msg, dashboard.on_status)
        self._subscribe(EVENTS.name, ros.MonitorEvent, "RECORDS", convert.event_from_msg, dashboard.board.on_event)
        self._subscribe(CAMERAS.name, ros.CameraHealth, "SENSOR", convert.camera_from_msg, dashboard.board.on_camera)
        self._watch_stream(KINEMATICS.name, ros.Kinematics, convert.kinematics_from_msg, dashboard.board.on_kinematics)
        self._watch_stream(PROGRESS.name, ros.Progress, convert.progress_from_msg, dashboard.board.on_progress)
        reports = f"{self._prefix}/{REPORTS.name}"
        node.create_subscription(ros.EpisodeReport, reports, self._on_report, PROFILES["REPORTS"])
        # Made now, so that the servers know them when they are needed.
        self._clients = {
            name: node.create_client(kind, f"{self._prefix}/rollout/{name}") for name, kind in _SERVICES.items()
        }

    # --- what the robot says ------------------------------------------------------------------------------------

    def _subscribe(
        self, topic: str, kind: Any, profile: str, from_msg: Callable[[Any], Any], tell: Callable[[str, Any], None]
    ) -> None:
        self._node.create_subscription(
            kind, f"{self._prefix}/{topic}", lambda msg: self._told(from_msg, tell, msg), PROFILES[profile]
        )

    def _watch_stream(
        self, topic: str, kind: Any, from_msg: Callable[[Any], Any], tell: Callable[[str, Any], None]
    ) -> None:
        looked_s = float("-inf")

        def on_raw(raw: bytes) -> None:
            nonlocal looked_s
            now_s = time.monotonic()
            if now_s - looked_s >= LOOK_S:
                looked_s = now_s
                self._told(from_msg, tell, deserialize_message(raw, kind))

        profile = PROFILES["SENSOR"]
        self._node.create_subscription(kind, f"{self._prefix}/{topic}", on_raw, profile, raw=True)

    def _told(self, from_msg: Callable[[Any], Any], tell: Callable[[str, Any], None], msg: object) -> None:
        try:
            record = from_msg(msg)
        except ValueError as error:  # pydantic's and ours: a stranger's message must not end the dashboard
            line = " ".join(str(error).split())[:300]
            self._node.get_logger().error(f"{type(msg).__name__} message refused: {line}", throttle_duration_sec=5.0)
            return
        tell(self.namespace, record)

    def _on_report(self, msg: ros.EpisodeReport) -> None:
        def tell(name: str, report: Any) -> None:
            self._dashboard.on_report(name, report, msg.report_path)

        self._told(convert.report_from_msg, tell, msg)

    # --- what is there of it ------------------------------------------------------------------------------------

    def look(self) -> None:
        """Look whether its nodes and services are there, and give up on answers that are overdue; once a second."""
        progress = self._node.get_publishers_info_by_topic(f"{self._prefix}/{PROGRESS.name}")
        ready = {name: client.service_is_ready() for name, client in self._clients.items()}
        presence = {
            "monitor": self._node.count_publishers(f"{self._prefix}/{STATUS.name}") > 0,
            "perception": bool(progress),
            "services": ready,
        }
        self._dashboard.board.set_part(self.namespace, "presence", presence)
        known = [info for info in progress if not info.node_name.startswith("_")]
        self._ask_for_cameras(f"{known[0].node_namespace.rstrip('/')}/{known[0].node_name}" if known else "")
        now_s = time.monotonic()
        for future, (deadline_s, client, answered) in list(self._open.items()):
            if now_s >= deadline_s:
                del self._open[future]
                client.remove_pending_request(future)
                answered(Answer(False, f"no answer within {ANSWER_WAIT_S:g} s: look whether it happened"))

    def _ask_for_cameras(self, perception: str) -> None:
        """Cameras are a matter of prm_node's parameters; a node that comes back may have others."""
        if perception != self._asked_of:
            self._asked_of, self._asked = perception, None
            if self._asking is not None:
                self._node.destroy_client(self._asking)
            self._asking = None
            if perception:
                self._asking = self._node.create_client(GetParameters, f"{perception}/get_parameters")
        if self._asking is not None and self._asked is None and self._asking.service_is_ready():
            self._asked = self._asking.call_async(GetParameters.Request(names=list(_PARAMETERS)))
            self._asked.add_done_callback(self._on_cameras)

    def _on_cameras(self, future: Future) -> None:
        result: Any = future.result()
        if future is not self._asked or result is None or len(result.values) != len(_PARAMETERS):
            return
        values = result.values
        names, topics = values[0].string_array_value, values[1].string_array_value
        transport = values[2].string_value or "auto"
        self._cameras = {
            name: (topic if topic.startswith("/") else f"{self._prefix}/{topic}", transport)
            for name, topic in zip(names, topics, strict=False)
            if topic
        }
        self._dashboard.board.set_part(self.namespace, "cameras", list(self._cameras))

    # --- pictures -----------------------------------------------------------------------------------------------

    def show(self, cameras: frozenset[str]) -> None:
        """Subscribe to these cameras and to no others: pictures that nobody looks at cost nothing."""
        for camera in self._shown.keys() - cameras:
            self._shown.pop(camera).destroy()
        for camera in (cameras & self._cameras.keys()) - self._shown.keys():
            topic, transport = self._cameras[camera]
            self._shown[camera] = AdaptiveSubscription(
                self._watch,
                camera_sources(topic, transport if transport in ("raw", "compressed") else "auto"),
                partial(self._on_image, camera),
                depth=1,
                raw=True,
            )

    def _on_image(self, camera: str, source: Source, raw: bytes) -> None:
        now_s = time.monotonic()
        if now_s - self._picture_s.get(camera, float("-inf")) < PERIOD_S * 0.9:
            return
        self._picture_s[camera] = now_s
        try:
            if source.type_name == COMPRESSED:
                data = read_compressed_image(raw).data
                kind = as_sent(data)
                if kind is not None:
                    self._dashboard.pictures.put(self.namespace, camera, kind, bytes(data))
                    return
            frame = self._frames.read(source, raw)
            if frame is not None:
                self._dashboard.pictures.put(self.namespace, camera, "image/jpeg", made_small(frame.decode()))
        except InputError:
            return  # said by the reader

    # --- what is asked of it ------------------------------------------------------------------------------------

    def call(self, command: Command, answered: Callable[[Answer], None]) -> None:
        """Call the service that a command stands for."""
        service, request = _request(command)
        client = self._clients[service]
        if not client.service_is_ready():
            answered(Answer(False, f"nobody serves {self._prefix}/rollout/{service}"))
            return
        future = client.call_async(request)
        self._open[future] = (time.monotonic() + ANSWER_WAIT_S, client, _worded(command, answered))
        future.add_done_callback(self._on_answer)

    def _on_answer(self, future: Future) -> None:
        _, _, answered = self._open.pop(future, (0.0, None, None))
        if answered is None:
            return
        result = future.result()
        fine = result is not None and bool(result.success)
        words = result.message if result is not None else "the call failed"
        answered(Answer(fine, str(words) or ("done" if fine else "refused, without a reason")))


def _worded(command: Command, answered: Callable[[Answer], None]) -> Callable[[Answer], None]:
    """A note without a label is no label that was taken back, which is what the service says of it."""
    if not isinstance(command, Say) or command.label is not None or not command.note:
        return answered
    return lambda answer: answered(Answer(True, f"{command.who}'s note is kept") if answer.fine else answer)


def _request(command: Command) -> tuple[str, Any]:
    """The service and the request of a command."""
    if isinstance(command, Start):
        source = f"{SOURCE} ({command.who})" if command.who else SOURCE
        return "start_episode", srv.StartEpisode.Request(task=command.task, source=source)
    if isinstance(command, End):
        return "end_episode", srv.EndEpisode.Request(episode_id=command.episode, label=_label(command.label))
    if isinstance(command, Say):
        return "label_episode", srv.LabelEpisode.Request(
            episode_id=command.episode, label=_label(command.label), who=command.who, note=command.note
        )
    assert isinstance(command, Arm)  # noqa: S101 - the last kind of command
    return command.do, Trigger.Request()


def _label(label: str | None) -> Any:
    return convert.LABELS[None if label is None else Label(label)]
