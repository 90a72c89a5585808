"""prm_node: cameras and joints in, progress estimates, kinematics and camera health out.

It converts messages and calls `rollout_monitor.episode.perception`; the model runs in `worker`'s thread.
"""

from __future__ import annotations

import sys
import time
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from rollout_monitor.episode.estimator import Estimator
from rollout_monitor.episode.perception import Output, Perception
from rollout_monitor.errors import InputError
from rollout_monitor.events.inputs import clock_words, stamp_words
from rollout_monitor.prm.protocol import ProgressModel
from rollout_monitor.prm.registry import create
from rollout_monitor.records import Boundary, CameraHealth, JointHealth, KinematicSummary, ProgressEstimate
from rollout_monitor_nodes.common import diagnostics
from rollout_monitor_nodes.common.cdr import JointReader
from rollout_monitor_nodes.common.conversions import (
    camera_to_msg,
    kinematics_to_msg,
    progress_to_msg,
)
from rollout_monitor_nodes.common.diagnostics import Diagnostics, Part, Recent
from rollout_monitor_nodes.common.folders import stored_report
from rollout_monitor_nodes.common.images import FrameReader, camera_sources
from rollout_monitor_nodes.common.managed import ManagedNode
from rollout_monitor_nodes.common.markers import Heard, MarkerListener
from rollout_monitor_nodes.common.publishing import make_publisher
from rollout_monitor_nodes.common.qos import PROFILES
from rollout_monitor_nodes.common.spin import EXIT_FAILED, run
from rollout_monitor_nodes.common.streamtime import StreamClock, passing_time
from rollout_monitor_nodes.common.subscribe import STEADY, AdaptiveSubscription, GraphWatch, Source
from rollout_monitor_nodes.interfaces import CAMERAS, JOINTS, KINEMATICS, PRM_NODE, PROGRESS
from rollout_monitor_nodes.settings import PrmNodeSettings
from rollout_monitor_nodes.worker import EstimatorWorker

TICK_S = 0.1
QUIET_S = 0.5
"""Without any message for this long, camera health goes by passing time: a dead camera must still be reported."""

CAMERA_DEPTH = 10
ARRIVALS_KEPT = 512


class PrmNode(ManagedNode):
    """See the module's text."""

    settings: PrmNodeSettings

    def __init__(self) -> None:
        super().__init__(PRM_NODE)
        self._model: ProgressModel | None = None
        self._perception: Perception
        self._worker: EstimatorWorker | None = None
        self._subscriptions_by_name: dict[str, AdaptiveSubscription] = {}
        self._destroy_on_deactivate: list[Callable[[], None]] = []
        self._publishers_by_topic: dict[str, Any] = {}
        self._arrivals: OrderedDict[int, float] = OrderedDict()
        self._frame_ids: dict[str, str] = {}
        self._recent_frames: dict[str, Recent[CameraHealth]] = {}
        self._recent_joints: Recent[JointHealth] = Recent()

    # --- transitions --------------------------------------------------------------------------------------------

    def configure(self) -> None:
        """Load the model and make the publishers."""
        options = {"path": self.settings.model_path} if self.settings.model_path else {}
        self._model = create(self.settings.model, **options)
        card = self._model.card
        self._perception = Perception(self.settings.gate_for(card), self.settings.motion)
        self._publishers_by_topic = {
            topic.name: make_publisher(self, topic) for topic in (PROGRESS, KINEMATICS, CAMERAS)
        }
        self.get_logger().info(f"model {card.name}: {card.rate_hz:g} frame sets per second, {card.device}")

    def activate(self) -> None:
        """Start the model's thread and subscribe."""
        assert self._model is not None  # noqa: S101 - the state machine configures first
        self._stream = StreamClock(passing_time(self))
        self._recent_frames = {camera: Recent() for camera in self.settings.cameras}
        self._recent_joints = Recent()
        self._frames = FrameReader(self)
        self._worker = EstimatorWorker(
            Estimator(self._model),
            self.settings.queue,
            on_estimate=self._publish_estimate,
            on_note=self.get_logger().warning,
        )
        watch = GraphWatch(self)
        markers = MarkerListener(self, self._on_marker)
        for camera, topic in zip(self.settings.cameras, self.settings.camera_topics, strict=True):
            self._subscriptions_by_name[camera] = AdaptiveSubscription(
                watch,
                camera_sources(topic, self.settings.camera_transport),
                self._camera_callback(camera),
                depth=CAMERA_DEPTH,
                raw=True,
                on_lost=partial(self._perception.count_lost, camera),
            )
        self._joint_reader = JointReader()
        self._subscriptions_by_name["joints"] = AdaptiveSubscription(
            watch,
            [Source(JOINTS.name, JOINTS.type)],
            self._on_joints,
            depth=PROFILES["JOINTS"].depth,
            raw=True,
            on_lost=partial(self._perception.count_lost, None),
        )
        timer = self.create_timer(TICK_S, self._on_tick, clock=STEADY)
        state = Diagnostics(self, self._parts)
        self._destroy_on_deactivate = [
            markers.destroy,
            *(subscription.destroy for subscription in self._subscriptions_by_name.values()),
            lambda: self.destroy_timer(timer),
            watch.destroy,
            state.destroy,
        ]

    def deactivate(self) -> None:
        """Unsubscribe and end the model's thread."""
        for destroy in self._destroy_on_deactivate:
            destroy()
        self._destroy_on_deactivate = []
        self._subscriptions_by_name = {}
        if self._worker is not None and not self._worker.stop():
            self.get_logger().warning("the model did not come back from its last estimate; leaving it behind")
        self._worker = None

    def clean_up(self) -> None:
        """Let go of the model."""
        for publisher in self._publishers_by_topic.values():
            self.destroy_publisher(publisher)
        self._publishers_by_topic = {}
        self._model = None

    # --- input --------------------------------------------------------------------------------------------------

    def _on_marker(self, heard: Heard) -> None:
        marker = heard.marker
        if heard.historic and marker.boundary is Boundary.START:
            report = stored_report(Path(self.settings.episodes), marker.episode_id, marker.stamp_ns)
            if report is not None:  # a publisher that was never told of the end still says it
                self.get_logger().info(f"START of episode {marker.episode_id} ignored: its report is in {report}")
                return
        self.get_logger().info(f"episode {marker.episode_id}: {marker.boundary.value}")
        if self._stream.now_ns() is None:
            self._stream.saw(marker.stamp_ns)  # so that time goes on where no input has a stamp to go by
        self._handle(self._perception.on_marker(marker))

    def _camera_callback(self, camera: str) -> Callable[[Source, bytes], None]:
        primary = camera == self.settings.cameras[0]

        def on_image(source: Source, raw: bytes) -> None:
            arrived_s = time.monotonic()
            frame = self._frames.read(source, raw)
            if frame is None:
                self._perception.gate.on_bad_image(camera)
                return
            if primary:
                self._note_arrival(frame.stamp_ns, arrived_s)
                self._frame_ids[camera] = frame.frame_id
            outputs = self._perception.on_image(camera, frame.stamp_ns, frame.decode, frame.fingerprint)
            self._saw(self._perception.gate.last_ns(camera))
            self._handle(outputs)

        return on_image

    def _on_joints(self, _: Source, raw: bytes) -> None:
        try:
            joints = self._joint_reader.read(raw)
        except InputError:
            self._perception.on_bad_joints()
            return
        outputs = self._perception.on_joints(
            joints.stamp_ns, joints.names, joints.positions, joints.velocities, joints.efforts
        )
        self._saw(self._perception.joints.heard_ns)
        self._handle(outputs)

    def _saw(self, believed_ns: int | None) -> None:
        """Note an input's newest stamp that is believed; others are no clock for anything."""
        if believed_ns is not None:
            self._stream.saw(believed_ns)

    def _on_tick(self) -> None:
        """What silence means: an ended episode gets no more frames, a camera may be dead, or the model's thread."""
        if self._worker is not None and not self._worker.alive:
            self.get_logger().fatal("the model's thread has died: ending, to be started again")
            self.finish(EXIT_FAILED)
        quiet_s, now_ns = self._stream.quiet_s, self._stream.now_ns()
        if self._perception.ending and quiet_s >= self.settings.end_wait_s:
            self._handle(self._perception.finish_episode())
        elif self._perception.running and now_ns is not None and quiet_s >= QUIET_S:
            self._handle(self._perception.on_time(now_ns))

    # --- output -------------------------------------------------------------------------------------------------

    def _handle(self, outputs: list[Output]) -> None:
        for output in outputs:
            if isinstance(output, KinematicSummary):
                self._publish(KINEMATICS.name, kinematics_to_msg(output))
            elif isinstance(output, CameraHealth):
                self._publish(CAMERAS.name, camera_to_msg(output))
            elif self._worker is not None:
                self._worker.put(output, self._arrivals.get(getattr(output, "stamp_ns", -1)))

    def _publish_estimate(self, estimate: ProgressEstimate) -> None:
        """Called from the model's thread; publishing is thread safe."""
        primary = self.settings.cameras[0]
        self._publish(PROGRESS.name, progress_to_msg(estimate, self._frame_ids.get(primary, "")))

    def _publish(self, topic: str, msg: object) -> None:
        self._publishers_by_topic[topic].publish(msg)

    def _note_arrival(self, stamp_ns: int, arrived_s: float) -> None:
        self._arrivals[stamp_ns] = arrived_s
        while len(self._arrivals) > ARRIVALS_KEPT:
            self._arrivals.popitem(last=False)

    # --- diagnostics --------------------------------------------------------------------------------------------

    def _parts(self) -> list[Part]:
        cameras = [self._camera_part(camera) for camera in self.settings.cameras]
        return [*cameras, self._joints_part(), self._model_part()]

    def _camera_part(self, camera: str) -> Part:
        subscription = self._subscriptions_by_name[camera]
        health = self._perception.gate.camera_health(camera, self._stream.now_ns() or 0)
        values = health.model_dump(exclude={"camera", "schema_version", "stamp_ns"})
        values["age_s"] = self._age_s(health.last_frame_ns)
        trouble = _camera_trouble(health, self._recent_frames[camera].before(health))
        return diagnostics.stream_part(f"camera {camera}", subscription, values, trouble)

    def _age_s(self, stamp_ns: int | None) -> float | None:
        """How old the newest message of an input is in stream time, s; None where none came."""
        now_ns = self._stream.now_ns()
        return None if stamp_ns is None or now_ns is None else max(0, now_ns - stamp_ns) / 1e9

    def _joints_part(self) -> Part:
        health, subscription = self._perception.joint_health, self._subscriptions_by_name["joints"]
        values = {**health.model_dump(exclude={"schema_version"}), "age_s": self._age_s(health.last_stamp_ns)}
        trouble = _joints_trouble(health, self._recent_joints.before(health), subscription.publishers)
        return diagnostics.stream_part("joints", subscription, values, trouble)

    def _model_part(self) -> Part:
        assert self._worker is not None and self._model is not None  # noqa: S101 - only while active
        health = self._worker.health()
        level = diagnostics.OK if health.alive else diagnostics.ERROR
        message = "ready" if health.alive else "the model's thread has died"
        return Part("model", level, message, {"model": self._model.card.name, **vars(health)})


def _joints_trouble(health: JointHealth, before: JointHealth, publishers: int) -> str:
    """What is wrong now, or has been since the older health."""
    found = ["two publishers or more"] if publishers > 1 else []
    if health.missing_since_ns:
        found.append(f"missing: {', '.join(health.missing_since_ns)}")
    if health.implausible > before.implausible:
        found.append(f"joint {health.implausible_joint} jumps away and back: two publishers of the same joints?")
    if stamps := stamp_words(health, before):
        found.append(stamps)
    return "; ".join(found)


def _camera_trouble(health: CameraHealth, before: CameraHealth) -> str:
    if health.bad and health.bad == health.received:
        return f"none of {health.bad} frames could be read"
    if words := "; ".join(filter(None, (clock_words(health), stamp_words(health, before)))):
        return words
    if health.frozen_since_ns is not None:
        return "repeats one picture"
    return "dark" if health.dark_since_ns is not None else ""


def main() -> None:
    """Executable."""
    sys.exit(run("prm_node", PrmNode))


if __name__ == "__main__":
    main()
