"""recorder: one rosbag2 (MCAP) per episode, from the messages' own bytes.

What came shortly before the START marker is kept in memory, so that nothing at the start is lost. A recording is closed
once its report has come (or is overdue); the next episode may have begun meanwhile.

What is lost at worst: by a kill, the messages of the last `FLUSH_EVERY_S` or so; by a power cut, those of the last
`SYNC_EVERY_S` besides. On a full disk a recording ends early, as a whole bag that says so.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rclpy.node import Node
from rclpy.serialization import deserialize_message
from rclpy.task import Future
from rollout_monitor_msgs.msg import EpisodeReport

from rollout_monitor.errors import InputError, RolloutMonitorError
from rollout_monitor.records import Boundary, EpisodeMarker
from rollout_monitor.store.definitions import schema_text_from_share
from rollout_monitor.store.qos import qos_yaml
from rollout_monitor.store.recording import EpisodeRecording
from rollout_monitor_nodes.common import diagnostics
from rollout_monitor_nodes.common.conversions import time_from_msg
from rollout_monitor_nodes.common.diagnostics import Diagnostics, Part
from rollout_monitor_nodes.common.folders import attempt_data, ensure_writable, stored_report
from rollout_monitor_nodes.common.images import camera_sources
from rollout_monitor_nodes.common.markers import Heard, MarkerListener
from rollout_monitor_nodes.common.params import declare
from rollout_monitor_nodes.common.qos import PROFILES, Offer
from rollout_monitor_nodes.common.spin import EXIT_FAILED, EXIT_OK, call_soon, run
from rollout_monitor_nodes.common.subscribe import STEADY, AdaptiveSubscription, GraphWatch, Source
from rollout_monitor_nodes.interfaces import EPISODE, JOINTS, OF_THE_MONITOR, RECORDER, REPORTS
from rollout_monitor_nodes.settings import RecorderSettings

TICK_S = 0.1
FLUSH_EVERY_S = 0.5
SYNC_EVERY_S = 2.0
"""How often the disk is waited for, in a thread of its own: a slow one must not hold up the streams."""
IMAGE_DEPTH = 120
PREROLL_BYTES = 256 * 1024 * 1024
"""Most memory for what came before a START; raw pictures would fill any machine."""

MARKER_QOS = qos_yaml(reliability="reliable", durability="transient_local", depth=PROFILES["MARKERS"].depth)


@dataclass(frozen=True)
class Message:
    """One message as it came."""

    topic: str
    type_name: str
    log_ns: int
    raw: bytes
    qos: str


class Preroll:
    """The messages of the last seconds."""

    def __init__(self, seconds: float, most_bytes: int = PREROLL_BYTES) -> None:
        self._span_ns = round(seconds * 1e9)
        self._most_bytes = most_bytes
        self._messages: deque[Message] = deque()
        self._bytes = 0

    def add(self, message: Message) -> None:
        """Keep a message and let go of what is too old or too much."""
        self._messages.append(message)
        self._bytes += len(message.raw)
        self._trim(message.log_ns)

    def before(self, now_ns: int) -> Iterator[Message]:
        """Those of the last seconds before this log time, in order."""
        self._trim(now_ns)
        return iter(self._messages)

    def _trim(self, now_ns: int) -> None:
        while self._messages and (now_ns - self._messages[0].log_ns > self._span_ns or self._bytes > self._most_bytes):
            self._bytes -= len(self._messages.popleft().raw)


@dataclass
class Open:
    """A recording that is being made."""

    recording: EpisodeRecording
    start: EpisodeMarker
    close_at_ns: int | None = None
    """When it is closed even without its report, steady time; None while the episode runs."""
    failed: bool = False

    @property
    def episode_id(self) -> str:
        """The episode's id."""
        return self.start.episode_id

    def is_of(self, episode_id: str, start_ns: int) -> bool:
        """Whether it is of the attempt of this name that began at this stamp."""
        return (self.start.episode_id, self.start.stamp_ns) == (episode_id, start_ns)


class Recorder(Node):
    """See the module's text."""

    def __init__(self) -> None:
        super().__init__(RECORDER.name)
        self.exit = Future()
        self.settings = declare(self, RecorderSettings)
        self._prefixes = [Path(part) for part in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep) if part]
        self._preroll = Preroll(self.settings.preroll_s)
        self._open: list[Open] = []
        self._schemas: dict[str, str] = {}
        self._refused: set[tuple[str, str]] = set()  # topics, with their types, that cannot be recorded
        self._stopping = False
        self._flushed_ns = 0
        self._topics: dict[str, str] = {}  # full name by relative name
        self._destroy: list[Callable[[], None]] = []
        self._ended = threading.Event()
        self._syncing = threading.Thread(target=self._sync_now_and_then, name="sync", daemon=True)
        self.trouble = ""
        self.kept = 0
        self.incomplete: list[str] = []
        """What became of the episodes that could not be recorded to their end."""

    # --- what `run` asks for ------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Listen.

        Raises:
            RolloutMonitorError: a folder that cannot be written, or a topic of a type that is not installed.
        """
        ensure_writable(Path(self.settings.recordings), "recordings")
        self._watch = GraphWatch(self)
        markers = MarkerListener(self, self._on_marker)
        sources = [
            (camera_sources(topic, self.settings.camera_transport), IMAGE_DEPTH)
            for topic in self.settings.camera_topics
        ]
        sources.append(([Source(JOINTS.name, JOINTS.type)], PROFILES["JOINTS"].depth))
        sources += [([Source(topic.name, topic.type)], PROFILES["RECORDS"].depth) for topic in OF_THE_MONITOR]
        sources += [([Source(topic)], PROFILES["JOINTS"].depth) for topic in self.settings.also]
        subscriptions = [self._listen(found, depth) for found, depth in sources]
        timer = self.create_timer(TICK_S, self._on_tick, clock=STEADY)
        state = Diagnostics(self, self._parts)
        self._destroy = [
            markers.destroy,
            *(subscription.destroy for subscription in subscriptions),
            lambda: self.destroy_timer(timer),
            self._watch.destroy,
            state.destroy,
        ]
        self._syncing.start()

    def stop(self, reason: str) -> None:
        """In mid-episode, wait a moment for the monitor's report, which it writes because it was stopped too."""
        if self._stopping:
            self._end_all("stopped twice")
        self._stopping = True
        for one in self._open:
            self.get_logger().info(f"stopping ({reason}); waiting for the report of episode {one.episode_id}")
            one.close_at_ns = self._steady_ns() + round(self.settings.stop_wait_s * 1e9)
        self._finish_if_done()

    def close(self) -> None:
        """Close what is still open."""
        self._ended.set()
        for destroy in self._destroy:
            destroy()
        self._end_all("the recorder ends")
        if self.incomplete:
            self.get_logger().error(f"not recorded to the end: {'; '.join(self.incomplete)}")

    # --- input --------------------------------------------------------------------------------------------------

    def _listen(self, sources: list[Source], depth: int) -> AdaptiveSubscription:
        subscription: AdaptiveSubscription

        def on_message(source: Source, raw: bytes) -> None:
            self._on_message(self._full_name(source.topic), source.type_name, raw, _offered(subscription.offers, depth))

        subscription = AdaptiveSubscription(self._watch, sources, on_message, depth=depth, raw=True)
        return subscription

    def _on_marker(self, heard: Heard) -> None:
        marker = heard.marker
        if marker.boundary is Boundary.START:
            if any(one.is_of(marker.episode_id, marker.stamp_ns) for one in self._open) or self._is_over(heard):
                return
            self._release_all("another episode was started")
            self._begin_episode(marker)
        self._on_message(self._full_name(EPISODE.name), EPISODE.type, heard.raw, MARKER_QOS)
        if marker.boundary is Boundary.END:
            for one in self._open:
                if one.episode_id == marker.episode_id and one.close_at_ns is None:
                    one.close_at_ns = self._steady_ns() + round(self.settings.report_wait_s * 1e9)

    def _on_message(self, topic: str, type_name: str, raw: bytes, qos: str) -> None:
        message = Message(topic, type_name, self._log_ns(), raw, qos)
        if type_name == REPORTS.type:
            self._on_report(message)
            return
        if type_name != EPISODE.type:  # boundaries of earlier attempts have no place in a later one's recording
            self._preroll.add(message)
        if self._open:
            self._write(self._open[-1], message)

    def _on_report(self, message: Message) -> None:
        """A report belongs to the recording of its episode, which is complete with it."""
        report = deserialize_message(message.raw, EpisodeReport)
        start_ns = time_from_msg(report.start)
        for one in list(self._open):
            if one.is_of(report.episode_id, start_ns):
                self._write(one, message)
                self._end(one, "its report has come")

    def _on_tick(self) -> None:
        now_ns = self._steady_ns()
        for one in list(self._open):
            if one.close_at_ns is not None and now_ns >= one.close_at_ns:
                self._end(one, "its report is overdue")
        if now_ns - self._flushed_ns >= FLUSH_EVERY_S * 1e9:
            self._flushed_ns = now_ns
            for one in self._open:
                self._guarded(one, one.recording.flush)

    # --- recordings ---------------------------------------------------------------------------------------------

    def _is_over(self, heard: Heard) -> bool:
        """Whether this START is history of an attempt that has its report: a latched publisher still says it."""
        marker = heard.marker
        report = stored_report(Path(self.settings.episodes), marker.episode_id, marker.stamp_ns)
        if not heard.historic or report is None:
            return False
        self.get_logger().info(f"START of episode {marker.episode_id} ignored: it is over, its report is in {report}")
        return True

    def _begin_episode(self, start: EpisodeMarker) -> None:
        episode_id = start.episode_id
        folder = Path(self.settings.recordings) / episode_id
        try:
            recording = EpisodeRecording(
                folder,
                ros_distro=os.environ.get("ROS_DISTRO", ""),
                compression=self.settings.compression,
                custom_data=attempt_data(episode_id, start.stamp_ns),
            )
        except RolloutMonitorError as error:
            self._give_up(str(error))
            return
        self.trouble = ""
        self._open.append(Open(recording, start))
        self.get_logger().info(f"recording episode {episode_id} to {recording.path}")
        for message in self._preroll.before(self._log_ns()):
            self._write(self._open[-1], message)

    def _write(self, one: Open, message: Message) -> None:
        """What is wrong with one topic is told once and leaves the others alone."""
        refused = (message.topic, message.type_name)
        if refused in self._refused:
            return

        def write() -> None:
            try:
                one.recording.add_topic(message.topic, message.type_name, self._schema(message.type_name), message.qos)
                one.recording.write(message.topic, message.log_ns, message.log_ns, message.raw)
            except InputError as error:
                self._refused.add(refused)
                self._complain(f"{message.topic} is not recorded: {error}")

        self._guarded(one, write)

    def _guarded(self, one: Open, action: Callable[[], object]) -> None:
        """Do something with a recording; a full disk ends it without harm to what it holds."""
        if one.failed:
            return
        try:
            action()
        except RolloutMonitorError as error:
            self._fail(one, str(error))

    def _fail(self, one: Open, trouble: str) -> None:
        if not one.failed:
            one.failed = True
            self._give_up(trouble)

    def _give_up(self, trouble: str) -> None:
        self.incomplete.append(trouble)
        self._complain(trouble)

    def _sync_now_and_then(self) -> None:
        """Run in a thread of its own."""
        while not self._ended.wait(SYNC_EVERY_S):
            for one in list(self._open):
                try:
                    one.recording.sync()
                except RolloutMonitorError as error:
                    if self.executor is not None:
                        call_soon(self.executor, self._fail, one, str(error))

    def _release_all(self, why: str) -> None:
        """A new episode begins: those that only wait for their report go on waiting, one that runs is closed soon."""
        soon = self._steady_ns() + round(self.settings.report_wait_s * 1e9)
        for one in self._open:
            if one.close_at_ns is None:
                self.get_logger().warning(f"episode {one.episode_id} was not ended: {why}")
                one.close_at_ns = soon

    def _end_all(self, why: str) -> None:
        for one in list(self._open):
            self._end(one, why)

    def _end(self, one: Open, why: str) -> None:
        self._open.remove(one)
        try:
            one.recording.close()
        except RolloutMonitorError as error:
            self._fail(one, str(error))
        if not one.failed:
            self.kept += 1
            self.get_logger().info(f"recording of episode {one.episode_id} closed ({why}): {one.recording.path}")
        self._finish_if_done()

    def _finish_if_done(self) -> None:
        if self._stopping and not self._open and not self.exit.done():
            self.exit.set_result(EXIT_FAILED if self.incomplete else EXIT_OK)

    # --- small things -------------------------------------------------------------------------------------------

    def _full_name(self, topic: str) -> str:
        if topic not in self._topics:
            self._topics[topic] = self.resolve_topic_name(topic)
        return self._topics[topic]

    def _schema(self, type_name: str) -> str:
        if type_name not in self._schemas:
            self._schemas[type_name] = schema_text_from_share(type_name, self._prefixes)
        return self._schemas[type_name]

    def _complain(self, trouble: str) -> None:
        self.trouble = trouble
        self.get_logger().error(trouble)

    def _parts(self) -> list[Part]:
        running = [one.episode_id for one in self._open]
        level = diagnostics.ERROR if self.trouble else diagnostics.OK
        message = self.trouble or (f"recording {running[-1]}" if running else "waiting for an episode")
        return [
            Part(
                "recording",
                level,
                message,
                {"kept": self.kept, "incomplete": len(self.incomplete), "open": ", ".join(running)},
            )
        ]

    def _log_ns(self) -> int:
        return int(self.get_clock().now().nanoseconds)

    @staticmethod
    def _steady_ns() -> int:
        return int(STEADY.now().nanoseconds)


@cache
def _qos_text(reliable: bool, transient_local: bool, depth: int) -> str:
    reliability = "reliable" if reliable else "best_effort"
    durability = "transient_local" if transient_local else "volatile"
    return qos_yaml(reliability=reliability, durability=durability, depth=depth)


def _offered(offers: list[Offer], depth: int) -> str:
    """What the publishers offer, for the bag: a player then offers the same."""
    reliable = bool(offers) and all(offer.reliable for offer in offers)
    latched = bool(offers) and all(offer.transient_local for offer in offers)
    return _qos_text(reliable, latched, depth)


def main() -> None:
    """Executable."""
    sys.exit(run("recorder", Recorder))


if __name__ == "__main__":
    main()
