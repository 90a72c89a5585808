"""monitor_node: estimates, kinematics and camera health in; status, events and reports out.

It converts messages and calls `rollout_monitor.episode.monitor`; reports are kept by `episodes`' thread.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rclpy.time import Time
from rollout_monitor_msgs import msg as ros
from rollout_monitor_msgs import srv
from sensor_msgs.msg import JointState

from rollout_monitor import images
from rollout_monitor.episode.monitor import Closed, Monitor, Output
from rollout_monitor.episode.pictures import Picture, PictureClock
from rollout_monitor.errors import InputError, RolloutMonitorError
from rollout_monitor.events.outcome import time_budget
from rollout_monitor.records import (
    Boundary,
    EpisodeMarker,
    EpisodeReport,
    EpisodeState,
    Event,
    KinematicSummary,
    MonitorStatus,
    Severity,
)
from rollout_monitor_nodes.common import conversions as convert
from rollout_monitor_nodes.common import diagnostics
from rollout_monitor_nodes.common.diagnostics import Diagnostics, Part
from rollout_monitor_nodes.common.images import FrameReader, camera_sources
from rollout_monitor_nodes.common.managed import ManagedNode
from rollout_monitor_nodes.common.markers import Heard, MarkerListener
from rollout_monitor_nodes.common.publishing import make_publisher
from rollout_monitor_nodes.common.qos import PROFILES
from rollout_monitor_nodes.common.spin import run
from rollout_monitor_nodes.common.streamtime import StreamClock, passing_time
from rollout_monitor_nodes.common.subscribe import STEADY, AdaptiveSubscription, GraphWatch, Source
from rollout_monitor_nodes.episodes import ReportKeeper
from rollout_monitor_nodes.fallback import FallbackJoints, SegmentNumbers
from rollout_monitor_nodes.interfaces import (
    CAMERAS,
    EPISODE,
    EVENTS,
    JOINTS,
    KINEMATICS,
    MONITOR_NODE,
    PROGRESS,
    REPORTS,
    STATUS,
)
from rollout_monitor_nodes.settings import MonitorNodeSettings

TICK_S = 0.1
CAMERA_DEPTH = 10
OVERDUE_S = 2.0
"""Passing time, after the wait in stream time, that an ended episode gets before it is closed all the same."""

_NS = 1_000_000_000
_SERVICE_SOURCE = "service"
_LEVELS = {Severity.INFO: diagnostics.OK, Severity.WARN: diagnostics.WARN, Severity.ERROR: diagnostics.ERROR}


class MonitorNode(ManagedNode):
    """See the module's text."""

    settings: MonitorNodeSettings

    def __init__(self) -> None:
        super().__init__(MONITOR_NODE)
        self._publishers_by_topic: dict[str, Any] = {}
        self._destroy_on_deactivate: list[Callable[[], None]] = []
        self._monitor: Monitor
        self._keeper: ReportKeeper
        self._keeping = 0  # reports that are being written
        self._stopping = False
        self._running: EpisodeMarker | None = None
        self._ended_ns: int | None = None  # passing time when the END of an episode that is not closed yet was heard
        self._segments = SegmentNumbers()
        self._fallback: FallbackJoints | None = None
        self._fallback_told = False
        self._joints: AdaptiveSubscription | None = None

    # --- transitions --------------------------------------------------------------------------------------------

    def configure(self) -> None:
        """Open the store and make publishers and services."""
        calibration = self.settings.calibration
        if calibration is not None and not Path(calibration).is_file():
            raise InputError(f"parameter 'calibration': {calibration}: no such file")
        self._keeper = ReportKeeper(
            Path(self.settings.episodes), Path(self.settings.recordings), self._on_kept, self.get_logger().error
        )
        self._monitor = Monitor(self.settings.monitor(), self._budget)
        topics = (EPISODE, STATUS, EVENTS, REPORTS)
        self._publishers_by_topic = {topic.name: make_publisher(self, topic) for topic in topics}

    def activate(self) -> None:
        """Subscribe and serve."""
        self._passed_ns = passed_ns = passing_time(self)
        self._stream = StreamClock(passed_ns)  # of everything that carries stamps
        self._records_clock = StreamClock(passed_ns)  # of what the core is fed with
        self._kinematics_clock = StreamClock(passed_ns)
        self._frames = FrameReader(self)
        self._picture_clock = PictureClock()
        self._watch = GraphWatch(self)
        markers = MarkerListener(self, self._on_heard)
        records = PROFILES["RECORDS"]
        subscriptions = [
            self.create_subscription(ros.Progress, PROGRESS.name, self._on_progress, records),
            self.create_subscription(ros.Kinematics, KINEMATICS.name, self._on_kinematics, records),
            self.create_subscription(ros.CameraHealth, CAMERAS.name, self._on_camera, records),
        ]
        self._camera = AdaptiveSubscription(
            self._watch,
            camera_sources(self.settings.camera_topic, self.settings.camera_transport),
            self._on_image,
            depth=CAMERA_DEPTH,
            raw=True,
        )
        services = [
            self.create_service(srv.StartEpisode, "rollout/start_episode", self._serve_start),
            self.create_service(srv.EndEpisode, "rollout/end_episode", self._serve_end),
            self.create_service(srv.LabelEpisode, "rollout/label_episode", self._serve_label),
            self.create_service(srv.QueryProgress, "rollout/query_progress", self._serve_query),
        ]
        timer = self.create_timer(TICK_S, self._on_tick, clock=STEADY)
        state = Diagnostics(self, self._parts, self.settings.robot)
        self._destroy_on_deactivate = [
            markers.destroy,
            self._camera.destroy,
            *(lambda one=one: self.destroy_subscription(one) for one in subscriptions),
            *(lambda one=one: self.destroy_service(one) for one in services),
            lambda: self.destroy_timer(timer),
            state.destroy,
            self._end_fallback,
            self._watch.destroy,
        ]
        self._publish(STATUS.name, convert.status_to_msg(self._monitor.status))

    def deactivate(self) -> None:
        """Interrupt what runs and unsubscribe."""
        self._handle(self._monitor.interrupt("the monitor was deactivated"))
        for destroy in self._destroy_on_deactivate:
            destroy()
        self._destroy_on_deactivate = []

    def clean_up(self) -> None:
        """Wait for reports that are being written."""
        if self._publishers_by_topic:
            self._keeper.close()
        for publisher in self._publishers_by_topic.values():
            self.destroy_publisher(publisher)
        self._publishers_by_topic = {}

    def stop(self, reason: str) -> None:
        """Interrupt a running episode, keep and publish its report, then end."""
        self._stopping = True
        if self.active:
            self._handle(self._monitor.interrupt(f"the monitor was stopped ({reason})"))
        self._finish_if_done()

    # --- input --------------------------------------------------------------------------------------------------

    def _on_heard(self, heard: Heard) -> None:
        self._on_marker(heard.marker)

    def _on_marker(self, marker: EpisodeMarker) -> None:
        if marker.boundary is Boundary.START:
            if marker != self._running:
                self._on_start(marker)
        elif self._running is not None and marker.episode_id == self._running.episode_id:
            self._on_end(marker)
        elif self._running is not None:
            self.get_logger().warning(
                f"END of episode {marker.episode_id} ignored: {self._running.episode_id} is running"
            )

    def _on_start(self, marker: EpisodeMarker) -> None:
        self.get_logger().info(f"episode {marker.episode_id}: start")
        self._end_fallback()
        self._handle(self._monitor.on_marker(marker))
        self._running, self._ended_ns = marker, None
        for clock in (self._stream, self._records_clock, self._kinematics_clock):
            clock.restart(marker.stamp_ns)

    def _on_end(self, marker: EpisodeMarker) -> None:
        self.get_logger().info(f"episode {marker.episode_id}: end")
        if self._fallback is not None:
            self._fallback.end_at(marker.stamp_ns)
        self._running = None
        self._ended_ns = self._passed_ns()
        self._stream.saw(marker.stamp_ns)
        self._handle(self._monitor.on_marker(marker))

    def _on_progress(self, msg: ros.Progress) -> None:
        estimate = self._converted(convert.progress_from_msg, msg)
        if estimate is not None:
            self._saw_record(estimate.stamp_ns)
            self._handle(self._monitor.on_estimate(estimate))

    def _on_kinematics(self, msg: ros.Kinematics) -> None:
        summary = self._converted(convert.kinematics_from_msg, msg)
        if summary is not None:
            self._end_fallback()
            self._kinematics_clock.saw(summary.stamp_ns)
            self._take_kinematics("prm_node", summary)

    def _take_kinematics(self, source: str, summary: KinematicSummary) -> None:
        self._saw_record(summary.stamp_ns)
        self._handle(self._monitor.on_kinematics(self._segments.renumber(source, summary)))

    def _saw_record(self, stamp_ns: int) -> None:
        self._stream.saw(stamp_ns)
        self._records_clock.saw(stamp_ns)

    def _on_camera(self, msg: ros.CameraHealth) -> None:
        health = self._converted(convert.camera_from_msg, msg)
        if health is not None:
            self._saw_record(health.stamp_ns)
            self._handle(self._monitor.on_camera(health))

    def _on_image(self, source: Source, raw: bytes) -> None:
        frame = self._frames.read(source, raw)
        if frame is None or not self._picture_clock.wants(frame.stamp_ns):
            return
        try:
            jpeg = images.encode_jpeg(frame.decode())
        except InputError:
            return  # said by the reader
        self._monitor.on_picture(Picture(frame.stamp_ns, self.settings.camera, jpeg))

    def _on_tick(self) -> None:
        """What silence means: prm_node may be gone, streams may have stopped, an ended episode gets no more."""
        if self._running is not None and self._kinematics_clock.quiet_s >= self.settings.fallback_s:
            self._begin_fallback(self._running)
        self._close_overdue()
        now_ns = self._stream.now_ns()
        if now_ns is None or self._records_clock.quiet_s < self.settings.quiet_s:
            return
        if self._fallback is not None and not self._fallback.was_given_time():
            return  # first let it find out whether the joints are there
        if self._fallback is not None:
            self._take_fallback(self._fallback.finish())
        self._handle(self._monitor.on_quiet(now_ns))

    def _close_overdue(self) -> None:
        """An END may be stamped by a clock that the streams never reach: then passing time closes the episode."""
        if self._ended_ns is None or self._monitor.running_id is None:
            self._ended_ns = None
        elif self._passed_ns() - self._ended_ns > (self.settings.end_wait_s + OVERDUE_S) * _NS:
            self._ended_ns = None
            self.get_logger().warning("the streams did not reach the stamp of the END marker: are the clocks the same?")
            self._handle(self._monitor.finish())

    def _converted(self, from_msg: Callable[[Any], Any], msg: object) -> Any:
        """A record, or None after a complaint: another version's or a stranger's message must not end the monitor."""
        try:
            return from_msg(msg)
        except ValueError as error:  # pydantic's and ours
            line = " ".join(str(error).split())
            self.get_logger().error(f"{type(msg).__name__} message refused: {line}", throttle_duration_sec=5.0)
            return None

    # --- when prm_node gives no kinematics ----------------------------------------------------------------------

    def _begin_fallback(self, running: EpisodeMarker) -> None:
        if self._fallback is not None:
            return
        self._fallback = FallbackJoints(self.settings.motion, running)
        self._joints = AdaptiveSubscription(
            self._watch, [Source(JOINTS.name, JOINTS.type)], self._on_joints, depth=PROFILES["JOINTS"].depth
        )

    def _on_joints(self, _: Source, msg: JointState) -> None:
        if self._fallback is None:
            return
        stamp_ns = convert.time_from_msg(msg.header.stamp)
        self._stream.saw(stamp_ns)
        self._take_fallback(self._fallback.add(stamp_ns, msg.name, msg.position, msg.velocity, msg.effort))

    def _take_fallback(self, summaries: list[KinematicSummary]) -> None:
        for summary in summaries:
            if not self._fallback_told:
                self._fallback_told = True
                self.get_logger().warning("no kinematics from prm_node: watching the joint states directly")
            self._take_kinematics("monitor_node", summary)
            if summary.end_of_episode:
                self._end_fallback()

    def _end_fallback(self) -> None:
        """Stop watching the joints here: kinematics are back, or the episode is over."""
        if self._joints is not None:
            self._joints.destroy()
        if self._fallback_told:
            self.get_logger().info("no longer watching the joint states directly")
        self._fallback, self._joints, self._fallback_told = None, None, False

    # --- output -------------------------------------------------------------------------------------------------

    def _handle(self, outputs: list[Output]) -> None:
        for output in outputs:
            if isinstance(output, Event):
                self._say(output)
                self._publish(EVENTS.name, convert.event_to_msg(output))
            elif isinstance(output, MonitorStatus):
                self._publish(STATUS.name, convert.status_to_msg(output))
                if output.state is not EpisodeState.RUNNING:
                    self._running = None
            elif isinstance(output, Closed):
                self._keeping += 1
                self._keeper.keep(output)

    def _say(self, event: Event) -> None:
        line = f"{event.kind.value} {event.subject} {event.reason}"
        if event.cleared_ns is not None and event.cleared_ns != event.detected_ns:
            self.get_logger().info(f"over: {line}")
        elif event.severity is Severity.INFO:
            self.get_logger().info(line)
        else:
            self.get_logger().warning(line)

    def _on_kept(self, report: EpisodeReport, report_path: str, bag_path: str) -> None:
        """Called from the keeper's thread."""
        self._publish(REPORTS.name, convert.report_to_msg(report, report_path, bag_path))
        self.get_logger().info(f"episode {report.episode_id}: {report.outcome.outcome.value}, report in {report_path}")
        executor = self.executor
        if executor is not None:
            executor.create_task(self._one_kept)

    def _one_kept(self) -> None:
        self._keeping -= 1
        self._finish_if_done()

    def _finish_if_done(self) -> None:
        if self._stopping and self._keeping == 0:
            self.finish()

    def _publish(self, topic: str, msg: object) -> None:
        self._publishers_by_topic[topic].publish(msg)

    def _budget(self, task: str) -> float | None:
        timeout = self.settings.events.timeout
        return time_budget([] if timeout.budget_s > 0 else self._keeper.budget_history(task), timeout)

    # --- services -----------------------------------------------------------------------------------------------

    def _serve_start(
        self, request: srv.StartEpisode.Request, response: srv.StartEpisode.Response
    ) -> srv.StartEpisode.Response:
        running = self._monitor.running_id
        stamp_ns = self._boundary_stamp(request.stamp)
        try:
            if running is not None:
                raise InputError(f"episode {running} is running; end it first")
            if not request.task.strip():
                raise InputError("the task is empty; say in plain words what the robot has to do")
            marker = _marker(
                boundary=Boundary.START,
                stamp_ns=stamp_ns,
                episode_id=request.episode_id or f"episode_{stamp_ns // 1_000_000}",
                task=request.task,
                source=request.source or _SERVICE_SOURCE,
            )
        except InputError as error:
            response.message = str(error)
            return response
        self._announce(marker)
        response.success, response.episode_id = True, marker.episode_id
        response.message = f"episode {marker.episode_id} runs"
        return response

    def _serve_end(self, request: srv.EndEpisode.Request, response: srv.EndEpisode.Response) -> srv.EndEpisode.Response:
        running = self._running
        try:
            if running is None:
                raise InputError("no episode is running")
            if request.episode_id not in ("", running.episode_id):
                raise InputError(f"episode {running.episode_id} is running, not {request.episode_id}")
            marker = _marker(
                boundary=Boundary.END,
                stamp_ns=max(running.stamp_ns, self._boundary_stamp(request.stamp)),
                episode_id=running.episode_id,
                task=running.task,
                label=convert.label_from_constant(request.label),
                source=_SERVICE_SOURCE,
            )
        except InputError as error:
            response.message = str(error)
            return response
        response.report_path = str(self._keeper.expected_path(running.episode_id))
        self._announce(marker)
        response.success, response.message = True, f"episode {marker.episode_id} is being closed"
        return response

    def _serve_label(
        self, request: srv.LabelEpisode.Request, response: srv.LabelEpisode.Response
    ) -> srv.LabelEpisode.Response:
        try:
            label = convert.label_from_constant(request.label)
            folder = self._keeper.label(
                request.episode_id, label, request.who, request.note, stamp_ns=self.get_clock().now().nanoseconds
            )
        except RolloutMonitorError as error:
            response.message = str(error)
            return response
        response.success = True
        response.message = f"{request.who} on episode {folder}: {'label taken back' if label is None else label.value}"
        return response

    def _serve_query(
        self, _: srv.QueryProgress.Request, response: srv.QueryProgress.Response
    ) -> srv.QueryProgress.Response:
        status = self._monitor.status
        response.running = status.state is EpisodeState.RUNNING
        response.status = convert.status_to_msg(status)
        return response

    def _announce(self, marker: EpisodeMarker) -> None:
        """Publish a boundary and act on it; hearing it again from the topic changes nothing."""
        self._publish(EPISODE.name, convert.marker_to_msg(marker))
        self._on_marker(marker)

    def _boundary_stamp(self, asked: Time) -> int:
        """The stamp asked for; else now in stream time; else, before any stream, the node's clock."""
        stamp_ns = convert.time_from_msg(asked)
        if stamp_ns:
            return stamp_ns
        now_ns = self._stream.now_ns()
        return int(self.get_clock().now().nanoseconds) if now_ns is None else now_ns

    # --- diagnostics --------------------------------------------------------------------------------------------

    def _parts(self) -> list[Part]:
        status = self._monitor.status
        worst = max((event.severity for event in status.active_events), key=list(Severity).index, default=Severity.INFO)
        level = _LEVELS[worst]
        reasons = "; ".join(event.reason for event in status.active_events)
        episode = Part(
            "episode",
            level,
            reasons or status.state.value.lower(),
            {
                "episode_id": status.episode_id,
                "state": status.state.value,
                "progress": status.progress,
                "mp": status.mp,
            },
        )
        trouble = self._keeper.trouble
        store = Part("reports", diagnostics.ERROR if trouble else diagnostics.OK, trouble or self.settings.episodes)
        source = "monitor_node" if self._fallback_told else "prm_node"
        joints = Part(
            "kinematics",
            diagnostics.WARN if self._fallback_told else diagnostics.OK,
            f"from {source}",
            {"source": source},
        )
        return [episode, store, joints, diagnostics.stream_part("pictures", self._camera, {})]


def _marker(**fields: Any) -> EpisodeMarker:
    """A marker from a service call's fields.

    Raises:
        InputError: a field that no marker can have.
    """
    try:
        return EpisodeMarker(**fields)
    except ValueError as error:
        raise InputError(" ".join(str(error).split())) from error


def main() -> None:
    """Executable."""
    sys.exit(run("monitor_node", MonitorNode))


if __name__ == "__main__":
    main()
