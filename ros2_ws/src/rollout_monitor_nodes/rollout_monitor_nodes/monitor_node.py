"""monitor_node: estimates, kinematics and camera health in; status, events and reports out.

It converts messages and calls `rollout_monitor.episode.monitor`; reports are kept by `episodes`' thread.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError
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
from rollout_monitor_nodes.common.folders import ensure_writable, stored_report
from rollout_monitor_nodes.common.images import FrameReader, camera_sources
from rollout_monitor_nodes.common.managed import ManagedNode
from rollout_monitor_nodes.common.markers import Heard, MarkerListener
from rollout_monitor_nodes.common.publishing import destroy_publishers, make_publisher
from rollout_monitor_nodes.common.qos import PROFILES
from rollout_monitor_nodes.common.spin import EXIT_FAILED, EXIT_OK, call_soon, run
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
from rollout_monitor_nodes.unfinished import Unfinished, UnfinishedFile

TICK_S = 0.1
CAMERA_DEPTH = 10
OVERDUE_S = 1.0
"""Passing time, after the wait in stream time, that an ended episode gets before it is closed all the same."""

STAMP_OFF_S = 5.0
"""A boundary asked for by service that is further from the streams' time is on another clock, or a mistake."""

RESUME_WITHIN_S = 900.0
"""An attempt that a killed monitor left is taken up again when it began no longer ago than this, in stream time."""

RESTARTED = "the monitor was killed in this attempt and started again: figures from before that are missing"

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
        self._lost = False  # a report that could not be kept anywhere
        self._stopping = False
        self._open: EpisodeMarker | None = None  # START of the episode that the core runs or is closing
        self._ended_ns: int | None = None  # steady time when its END was heard
        self._left: Unfinished | None = None  # by a monitor that was killed; until it is taken up or reported
        self._taken_up: EpisodeMarker | None = None  # START of the episode that was
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
        store = Path(self.settings.episodes)
        ensure_writable(store, "episodes")
        self._unfinished = UnfinishedFile.of_node(store, self.get_fully_qualified_name(), self.get_logger().error)
        self._keeper = ReportKeeper(store, Path(self.settings.recordings), self._on_kept, self.get_logger().error)
        self._monitor = Monitor(self.settings.monitor(), self._budget)
        topics = (EPISODE, STATUS, EVENTS, REPORTS)
        self._publishers_by_topic = {topic.name: make_publisher(self, topic) for topic in topics}

    def activate(self) -> None:
        """Subscribe and serve."""
        passed_ns = passing_time(self)
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
        self._left = self._unfinished.read()
        self._report_if_ended()

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
        destroy_publishers(self, self._publishers_by_topic.values())
        self._publishers_by_topic = {}

    def stop(self, reason: str) -> None:
        """Interrupt a running episode, keep and publish its report, then end."""
        self._stopping = True
        if self.active:
            self._handle(self._monitor.interrupt(f"the monitor was stopped ({reason})"))
        self._finish_if_done()

    # --- input --------------------------------------------------------------------------------------------------

    @property
    def _running(self) -> EpisodeMarker | None:
        """START of the episode that is running; None while the last one is being closed, and between episodes."""
        return self._open if self._ended_ns is None else None

    def _on_heard(self, heard: Heard) -> None:
        marker = heard.marker
        if heard.historic and marker.boundary is Boundary.START:
            report = stored_report(Path(self.settings.episodes), marker.episode_id, marker.stamp_ns)
            if report is not None:  # a publisher that was never told of the end still says it
                self.get_logger().info(f"START of episode {marker.episode_id} ignored: its report is in {report}")
                return
        self._on_marker(marker)

    def _on_marker(self, marker: EpisodeMarker) -> None:
        self._settle_left(marker)
        if marker.boundary is Boundary.START:
            if self._open is None or not _same(marker, self._open):
                self._unfinished.write(Unfinished(start=marker))
                self._on_start(marker)
        elif self._running is not None and marker.episode_id == self._running.episode_id:
            self._unfinished.write(Unfinished(start=self._running, end=marker))
            self._on_end(marker)
        elif self._running is not None:
            self.get_logger().warning(
                f"END of episode {marker.episode_id} ignored: {self._running.episode_id} is running"
            )

    def _on_start(self, marker: EpisodeMarker) -> None:
        self.get_logger().info(f"episode {marker.episode_id}: start")
        self._end_fallback()
        outputs = self._monitor.on_marker(marker)
        self._open, self._ended_ns = marker, None
        for clock in (self._stream, self._records_clock, self._kinematics_clock):
            clock.restart(marker.stamp_ns)
        self._handle(outputs)

    def _on_end(self, marker: EpisodeMarker) -> None:
        self.get_logger().info(f"episode {marker.episode_id}: end")
        if self._fallback is not None:
            self._fallback.end_at(marker.stamp_ns)
        self._ended_ns = time.monotonic_ns()
        self._stream.saw(marker.stamp_ns)
        self._handle(self._monitor.on_marker(marker))

    def _on_progress(self, msg: ros.Progress) -> None:
        estimate = self.converted(convert.progress_from_msg, msg)
        if estimate is not None:
            self._saw_record(estimate.stamp_ns)
            self._handle(self._monitor.on_estimate(estimate))

    def _on_kinematics(self, msg: ros.Kinematics) -> None:
        summary = self.converted(convert.kinematics_from_msg, msg)
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
        health = self.converted(convert.camera_from_msg, msg)
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
        if now_ns is not None and self._left is not None:
            self._take_up_or_report(self._left, now_ns)
        if now_ns is None or self._records_clock.quiet_s < self.settings.quiet_s:
            return
        if self._fallback is not None and not self._fallback.was_given_time():
            return  # first let it find out whether the joints are there
        if self._fallback is not None:
            self._take_fallback(self._fallback.finish())
        self._handle(self._monitor.on_quiet(now_ns))

    def _close_overdue(self) -> None:
        """An END may be stamped by a clock that the streams never reach: then passing time closes the episode."""
        if self._ended_ns is None:
            return
        if time.monotonic_ns() - self._ended_ns > (self.settings.end_wait_s + OVERDUE_S) * _NS:
            self.get_logger().warning("the streams did not reach the stamp of the END marker: are the clocks the same?")
            self._handle(self._monitor.close_ending())

    # --- what a killed monitor left -----------------------------------------------------------------------------

    def _report_if_ended(self) -> None:
        """Of what was left, the first to settle: an attempt that has its report, and one whose END was heard."""
        left = self._left
        if left is None:
            return
        if stored_report(Path(self.settings.episodes), left.start.episode_id, left.start.stamp_ns) is not None:
            self._left = None
            self._unfinished.clear(left.start.episode_id, left.start.stamp_ns)
        elif left.end is not None:
            self._report_left(left)

    def _take_up_or_report(self, left: Unfinished, now_ns: int) -> None:
        """Whether the attempt still runs is for the streams' time to say."""
        if -STAMP_OFF_S * _NS <= now_ns - left.start.stamp_ns <= RESUME_WITHIN_S * _NS:
            self._take_up(left.start)
            self._stream.saw(now_ns)
        else:
            self._report_left(left)

    def _settle_left(self, marker: EpisodeMarker) -> None:
        """A boundary says more than the streams: which attempt runs, or that the one that was left is over."""
        left = self._left
        if left is None:
            return
        if marker.boundary is Boundary.START and not _same(marker, left.start):
            self._report_left(left)
        elif marker.episode_id == left.start.episode_id:
            self._take_up(left.start)

    def _take_up(self, start: EpisodeMarker) -> None:
        self._left, self._taken_up = None, start
        self.get_logger().warning(f"episode {start.episode_id} is taken up again: {RESTARTED}")
        self._on_start(start)

    def _report_left(self, left: Unfinished) -> None:
        """Report an attempt of which only the boundaries are known, through a core of its own."""
        self._left, self._taken_up = None, left.start
        core = Monitor(self.settings.monitor())
        outputs = core.on_marker(left.start)
        if left.end is not None:
            outputs += core.on_marker(left.end)
        else:
            outputs += core.interrupt("the monitor was killed and found the attempt over when it was started again")
        outputs += core.close_ending()
        self._handle([output for output in outputs if isinstance(output, Closed)])

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
            elif isinstance(output, Closed):
                self._keeping += 1
                self._keeper.keep(self._with_note(output))
        if self._open is not None and self._monitor.running_id != self._open.episode_id:
            self._open, self._ended_ns = None, None

    def _with_note(self, closed: Closed) -> Closed:
        """The report says where figures are missing because a monitor before this one was killed."""
        report = closed.report
        start = self._taken_up
        if start is None or (start.episode_id, start.stamp_ns) != (report.episode_id, report.start_ns):
            return closed
        return replace(closed, report=report.model_copy(update={"notes": [*report.notes, RESTARTED]}))

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
        where = f"report in {report_path}" if report_path else "its report could not be kept"
        self.get_logger().info(f"episode {report.episode_id}: {report.outcome.outcome.value}, {where}")
        self._lost |= not report_path
        executor = self.executor
        if executor is not None:
            call_soon(executor, self._one_kept, report)

    def _one_kept(self, report: EpisodeReport) -> None:
        self._unfinished.clear(report.episode_id, report.start_ns)
        self._keeping -= 1
        self._finish_if_done()

    def _finish_if_done(self) -> None:
        if self._stopping and self._keeping == 0:
            self.finish(EXIT_FAILED if self._lost else EXIT_OK)

    def _publish(self, topic: str, msg: object) -> None:
        self._publishers_by_topic[topic].publish(msg)

    def _budget(self, task: str) -> float | None:
        timeout = self.settings.events.timeout
        return time_budget([] if timeout.budget_s > 0 else self._keeper.budget_history(task), timeout)

    # --- services -----------------------------------------------------------------------------------------------

    def _serve_start(
        self, request: srv.StartEpisode.Request, response: srv.StartEpisode.Response
    ) -> srv.StartEpisode.Response:
        try:
            if self._running is not None:
                raise InputError(f"episode {self._running.episode_id} is running; end it first")
            if not request.task.strip():
                raise InputError("the task is empty; say in plain words what the robot has to do")
            stamp_ns = self._boundary_stamp(request.stamp)
            marker = _marker(
                boundary=Boundary.START,
                stamp_ns=stamp_ns,
                episode_id=request.episode_id or f"episode_{stamp_ns // 1_000_000}",
                task=request.task,
                source=request.source or _SERVICE_SOURCE,
            )
            if self._open is not None and _same(marker, self._open):
                raise InputError(f"episode {marker.episode_id} of this stamp is being closed")
            self._announce(marker)
            if self._running != marker:
                raise InputError(f"episode {marker.episode_id} was closed at once; its report says why")
        except InputError as error:
            response.message = str(error)
            return response
        response.success, response.episode_id = True, marker.episode_id
        response.message = f"episode {marker.episode_id} runs"
        return response

    def _serve_end(self, request: srv.EndEpisode.Request, response: srv.EndEpisode.Response) -> srv.EndEpisode.Response:
        running = self._running or (self._left.start if self._left is not None else None)
        try:
            if running is None:
                raise InputError("no episode is running")
            if request.episode_id not in ("", running.episode_id):
                raise InputError(f"episode {running.episode_id} is running, not {request.episode_id}")
            marker = _marker(
                boundary=Boundary.END,
                stamp_ns=self._end_stamp(request.stamp, running),
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
        """The stamp asked for; else now in stream time; else, before any stream, the node's clock.

        Raises:
            InputError: a stamp that is not among the streams'.
        """
        stamp_ns, now_ns = convert.time_from_msg(asked), self._stream.now_ns()
        if not stamp_ns:
            return int(self.get_clock().now().nanoseconds) if now_ns is None else now_ns
        if now_ns is not None and abs(stamp_ns - now_ns) > STAMP_OFF_S * _NS:
            raise InputError(
                f"the stamp {_seconds(stamp_ns)} is too far from the streams' time, {_seconds(now_ns)}: leave it zero "
                "to mean now, or take it from the streams' clock"
            )
        return stamp_ns

    def _end_stamp(self, asked: Time, start: EpisodeMarker) -> int:
        stamp_ns = self._boundary_stamp(asked)
        if convert.time_from_msg(asked) and stamp_ns < start.stamp_ns:
            raise InputError(f"the stamp {_seconds(stamp_ns)} is before the start, {_seconds(start.stamp_ns)}")
        return max(start.stamp_ns, stamp_ns)

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
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}") from error


def _same(one: EpisodeMarker, other: EpisodeMarker) -> bool:
    """Whether two START markers are of one attempt, as the core has it."""
    return (one.episode_id, one.stamp_ns) == (other.episode_id, other.stamp_ns)


def _seconds(stamp_ns: int) -> str:
    return f"{stamp_ns // _NS}.{stamp_ns % _NS // 1_000_000:03d} s"


def main() -> None:
    """Executable."""
    sys.exit(run("monitor_node", MonitorNode))


if __name__ == "__main__":
    main()
