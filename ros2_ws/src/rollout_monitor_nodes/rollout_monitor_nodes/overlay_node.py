"""overlay_node: what the monitor says in; a picture, markers and words for people out.

It converts messages and calls `rollout_monitor.report.overlay`. Nothing is drawn that nobody looks at.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import cv2
from rollout_monitor_msgs import msg as ros

from rollout_monitor.errors import InputError
from rollout_monitor.frames import RgbImage
from rollout_monitor.records import EpisodeState
from rollout_monitor.report.overlay.markers import Place, markers
from rollout_monitor.report.overlay.picture import draw_overlay
from rollout_monitor.report.overlay.rerun_stream import RerunStream
from rollout_monitor.report.overlay.view import Age, LiveView, ViewState
from rollout_monitor_nodes.common import conversions as convert
from rollout_monitor_nodes.common import diagnostics
from rollout_monitor_nodes.common.diagnostics import Diagnostics, Part
from rollout_monitor_nodes.common.display import image_to_msg, markers_to_msg, overlay_text_to_msg
from rollout_monitor_nodes.common.images import CameraFrame, FrameReader, camera_sources
from rollout_monitor_nodes.common.managed import ManagedNode
from rollout_monitor_nodes.common.publishing import destroy_publishers, make_publisher
from rollout_monitor_nodes.common.qos import PROFILES
from rollout_monitor_nodes.common.spin import run
from rollout_monitor_nodes.common.streamtime import StreamClock, passing_time
from rollout_monitor_nodes.common.subscribe import STEADY, AdaptiveSubscription, GraphWatch, Source
from rollout_monitor_nodes.common.types import import_type, is_installed
from rollout_monitor_nodes.interfaces import (
    EVENTS,
    KINEMATICS,
    MARKERS,
    OVERLAY,
    OVERLAY_NODE,
    OVERLAY_TEXT,
    PROGRESS,
    STATUS,
)
from rollout_monitor_nodes.settings import OverlayNodeSettings

CAMERA_DEPTH = 1
"""Only the newest picture is drawn on."""

CAMERA = "camera picture"
OF_AN_ATTEMPT = ("monitor status", "estimate", "joint data")
"""What can be old, in the words that the operator reads; the latter should be there while an attempt runs."""

LEAST_HZ = 2.0
"""A picture is drawn again this often although nothing came: the age that it shows goes on."""


class OverlayNode(ManagedNode):
    """See the module's text."""

    settings: OverlayNodeSettings

    def __init__(self) -> None:
        super().__init__(OVERLAY_NODE)
        self._publishers_by_topic: dict[str, Any] = {}
        self._destroy_on_deactivate: list[Callable[[], None]] = []
        self._camera: AdaptiveSubscription | None = None
        self._rerun: RerunStream | None = None
        self._drawn = 0
        self._sent = 0
        cv2.setNumThreads(1)  # a picture this small gains nothing by more, and loses by waiting for a busy core

    # --- transitions --------------------------------------------------------------------------------------------

    def configure(self) -> None:
        """Make the publishers, and the Rerun stream where one is asked for."""
        topics = [OVERLAY, MARKERS, *([OVERLAY_TEXT] if is_installed(OVERLAY_TEXT.type) else [])]
        self._publishers_by_topic = {topic.name: make_publisher(self, topic) for topic in topics}
        at = self.settings.markers
        self._place = Place(at.frame, at.x, at.y, at.z, at.height_m, at.hoop_radius_m)
        self._markers_namespace = f"{self.get_namespace().strip('/')}/progress".lstrip("/")
        if self.settings.rerun is not None:
            self._rerun = RerunStream(self.settings.rerun, self.get_namespace())

    def activate(self) -> None:
        """Subscribe to what the monitor says; to the camera once somebody looks."""
        passed_ns = passing_time(self)
        self._live = LiveView()
        self._clocks = {name: StreamClock(passed_ns) for name in (CAMERA, *OF_AN_ATTEMPT)}
        self._status_stamp_ns: int | None = None
        self._episode_id, self._state = "", EpisodeState.IDLE
        self._frame: CameraFrame | None = None
        self._picture: RgbImage | None = None
        self._picture_of: CameraFrame | None = None
        self._news, self._drawn_news, self._drawn_ns = 0, -1, 0
        self._frames = FrameReader(self)
        self._watch = GraphWatch(self)
        records = PROFILES["RECORDS"]
        subscriptions = [
            self.create_subscription(ros.MonitorStatus, STATUS.name, self._on_status, PROFILES["LATCHED"]),
            self.create_subscription(ros.MonitorEvent, EVENTS.name, self._on_event, records),
            self.create_subscription(ros.Progress, PROGRESS.name, self._on_progress, records),
            self.create_subscription(ros.Kinematics, KINEMATICS.name, self._on_kinematics, records),
        ]
        timers = [
            self.create_timer(1.0 / self.settings.rate_hz, self._on_picture_tick, clock=STEADY),
            self.create_timer(1.0 / self.settings.markers.rate_hz, self._on_marker_tick, clock=STEADY),
        ]
        state = Diagnostics(self, self._parts)
        self._destroy_on_deactivate = [
            *(lambda one=one: self.destroy_timer(one) for one in timers),
            *(lambda one=one: self.destroy_subscription(one) for one in subscriptions),
            self._stop_looking,
            state.destroy,
            self._watch.destroy,
        ]

    def deactivate(self) -> None:
        """Unsubscribe, and take the markers away."""
        for destroy in self._destroy_on_deactivate:
            destroy()
        self._destroy_on_deactivate = []
        self._publish_markers(())

    def clean_up(self) -> None:
        """Let go of publishers and stream, once everybody has the last message."""
        destroy_publishers(self, self._publishers_by_topic.values())
        self._publishers_by_topic = {}
        if self._rerun is not None:
            self._rerun.close()
        self._rerun = None

    # --- input --------------------------------------------------------------------------------------------------

    def _on_status(self, msg: ros.MonitorStatus) -> None:
        status = self.converted(convert.status_from_msg, msg)
        if status is not None:
            if status.state is EpisodeState.RUNNING and status.episode_id != self._episode_id:
                for source in OF_AN_ATTEMPT:  # their silence between two attempts was none
                    self._clocks[source].restart(status.stamp_ns)
            self._status_stamp_ns, self._episode_id, self._state = status.stamp_ns, status.episode_id, status.state
            self._saw("monitor status", status.stamp_ns)
            self._live.on_status(status)

    def _on_event(self, msg: ros.MonitorEvent) -> None:
        event = self.converted(convert.event_from_msg, msg)
        if event is not None:
            self._news += 1
            self._live.on_event(event)

    def _on_progress(self, msg: ros.Progress) -> None:
        estimate = self.converted(convert.progress_from_msg, msg)
        if estimate is not None:
            self._saw("estimate", estimate.stamp_ns)
            self._live.on_estimate(estimate)

    def _on_kinematics(self, msg: ros.Kinematics) -> None:
        self._saw("joint data", convert.time_from_msg(msg.header.stamp))

    def _on_image(self, source: Source, raw: bytes) -> None:
        frame = self._frames.read(source, raw)
        if frame is not None:
            self._frame = frame
            self._saw(CAMERA, frame.stamp_ns)

    def _saw(self, source: str, stamp_ns: int) -> None:
        self._clocks[source].saw(stamp_ns)
        self._news += 1

    # --- output -------------------------------------------------------------------------------------------------

    def _on_picture_tick(self) -> None:
        lookers = self._lookers(OVERLAY.name)
        if not lookers and self._rerun is None:
            self._stop_looking()
        elif self._camera is None:
            self._look()
        if not (lookers or self._lookers(OVERLAY_TEXT.name) or self._rerun) or not self._is_due():
            return
        view = self._view()
        if lookers or self._rerun is not None:
            picture = draw_overlay(view, self._decoded(), self.settings.width)
            self._drawn += 1
            if lookers:
                self._publish_picture(picture, view)
            if self._rerun is not None:
                self._rerun.send(view, picture, self._place)
        if self._lookers(OVERLAY_TEXT.name):
            self._publishers_by_topic[OVERLAY_TEXT.name].publish(
                overlay_text_to_msg(import_type(OVERLAY_TEXT.type), view)
            )

    def _on_marker_tick(self) -> None:
        if self._status_stamp_ns is not None and self._lookers(MARKERS.name):
            self._publish_markers(markers(self._view(), self._place))

    def _publish_markers(self, made: tuple[Any, ...]) -> None:
        publisher = self._publishers_by_topic.get(MARKERS.name)
        if publisher is None or self._status_stamp_ns is None:
            return
        self._sent += 1
        at = self.settings.markers
        publisher.publish(markers_to_msg(made, self._status_stamp_ns, at.frame, self._markers_namespace, at.lifetime_s))

    def _publish_picture(self, picture: RgbImage, view: ViewState) -> None:
        frame = self._picture_of
        stamp_ns = frame.stamp_ns if frame is not None else (view.stamp_ns or 0)
        frame_id = frame.frame_id if frame is not None else ""
        self._publishers_by_topic[OVERLAY.name].publish(image_to_msg(picture, stamp_ns, frame_id))

    def _lookers(self, topic: str) -> int:
        publisher = self._publishers_by_topic.get(topic)
        return 0 if publisher is None else int(publisher.get_subscription_count())

    def _is_due(self) -> bool:
        """Something came since the last picture, or the age that it shows has gone on."""
        now_ns = STEADY.now().nanoseconds
        if self._news == self._drawn_news and now_ns - self._drawn_ns < 1e9 / LEAST_HZ:
            return False
        self._drawn_news, self._drawn_ns = self._news, now_ns
        return True

    def _look(self) -> None:
        self._clocks[CAMERA].restart(0)
        self._camera = AdaptiveSubscription(
            self._watch,
            camera_sources(self.settings.camera_topic, self.settings.camera_transport),
            self._on_image,
            depth=CAMERA_DEPTH,
            raw=True,
        )

    def _stop_looking(self) -> None:
        if self._camera is not None:
            self._camera.destroy()
        self._camera = self._frame = self._picture = self._picture_of = None

    def _decoded(self) -> RgbImage | None:
        """The newest picture; the one before where that is damaged. Decoded only now, when it is to be drawn on."""
        if self._frame is not self._picture_of and self._frame is not None:
            try:
                self._picture, self._picture_of = self._frame.decode(), self._frame
            except InputError:  # said by the reader
                self._frame = self._picture_of
        return self._picture

    def _view(self) -> ViewState:
        return self._live.view(self._ages(), self.settings.stale_s)

    def _ages(self) -> list[Age]:
        """Of the sources that should be there: the camera where there is one, the others while an attempt runs."""
        there = self._frame is not None or (self._camera is not None and self._camera.publishers > 0)
        wanted = [*([CAMERA] if there else []), *(OF_AN_ATTEMPT if self._state is EpisodeState.RUNNING else [])]
        return [Age(source, self._clocks[source].quiet_s) for source in wanted]

    # --- diagnostics --------------------------------------------------------------------------------------------

    def _parts(self) -> list[Part]:
        parts = [
            self._part("overlay", OVERLAY.name, "drawn", self._drawn),
            self._part("markers", MARKERS.name, "sent", self._sent),
        ]
        if self._camera is not None:
            parts.append(diagnostics.stream_part(f"camera {self.settings.camera}", self._camera, {}))
        return parts

    def _part(self, name: str, topic: str, counted: str, count: int) -> Part:
        lookers = self._lookers(topic)
        message = f"for {lookers}" if lookers else "idle: nobody subscribes"
        return Part(name, diagnostics.OK, message, {"subscribers": lookers, counted: count})


def main() -> None:
    """Executable."""
    sys.exit(run("overlay_node", OverlayNode))


if __name__ == "__main__":
    main()
