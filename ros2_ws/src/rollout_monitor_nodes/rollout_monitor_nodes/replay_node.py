"""replay_node: plays a rosbag2 over the topics it was recorded from, byte for byte, with its original timing."""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Iterable, Iterator
from typing import Any

from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.serialization import deserialize_message, serialize_message
from rclpy.task import Future
from rclpy.time import Time
from rollout_monitor_msgs.msg import Episode
from rosgraph_msgs.msg import Clock

from rollout_monitor.errors import InputError, RolloutMonitorError
from rollout_monitor.store.bags import BagMessage, BagReader, BagTopic, DamagedBagError, open_bag
from rollout_monitor.store.qos import parse_qos
from rollout_monitor_nodes.common.cdr import header_stamp_ns, with_header_stamp
from rollout_monitor_nodes.common.params import declare
from rollout_monitor_nodes.common.publishing import make_publisher
from rollout_monitor_nodes.common.qos import PROFILES
from rollout_monitor_nodes.common.spin import EXIT_FAILED, EXIT_OK, call_soon, run
from rollout_monitor_nodes.common.types import begins_with_header, import_type
from rollout_monitor_nodes.interfaces import CLOCK, COMPRESSED, EPISODE, IMAGE, OF_THE_MONITOR, REPLAY_NODE
from rollout_monitor_nodes.player import LOOP_GAP_NS, Due, Pacer, laps, markers_first, with_clock
from rollout_monitor_nodes.settings import ReplaySettings
from rollout_monitor_nodes.waiting import SubscriberWait, parse_wanted

_NS = 1_000_000_000
_IMAGES = (IMAGE, COMPRESSED)


class ReplayNode(Node):
    """See the module's text."""

    def __init__(self) -> None:
        super().__init__(REPLAY_NODE.name)
        self.exit = Future()
        self.settings = declare(self, ReplaySettings)
        if not self.settings.bag:
            raise InputError("parameter 'bag' is empty: name a rosbag2 folder, an .mcap or a .db3 file")
        if self.settings.loop and self.settings.then:
            raise InputError("parameters 'loop' and 'then' exclude each other: one recording loops, several end")
        self._bags = [open_bag(path) for path in (self.settings.bag, *self.settings.then)]
        self._names: dict[str, str] = {}
        self._publishers_by_topic: dict[str, Any] = {}
        self._stamped: dict[str, bool] = {}
        self._clock_publisher: Any = None
        self._halt = threading.Event()
        self._thread = threading.Thread(target=self._play_and_end, name="player", daemon=True)
        self.sent = 0

    # --- what `run` asks for ------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Offer the bag's topics, then play in a thread of its own.

        Raises:
            InputError: nothing to play, or a type that is not installed here.
        """
        types: dict[str, str] = {}
        for bag in self._bags:
            for note in bag.notes:
                self.get_logger().warning(note)
            for topic in self._chosen(bag):
                if types.setdefault(topic.name, topic.type) != topic.type:
                    raise InputError(f"{bag.path}: {topic.name} is {topic.type} here, but {types[topic.name]} before")
                if topic.name not in self._names:
                    self._offer(topic)
        self._wanted = parse_wanted(self.settings.wait_for, self._names)
        if self.settings.clock:
            self._clock_publisher = make_publisher(self, CLOCK)
        self._thread.start()

    def stop(self, reason: str) -> None:  # noqa: ARG002
        """Stop playing; the thread ends the node."""
        self._halt.set()

    def close(self) -> None:
        """Wait for the thread and let go of the bag."""
        self._halt.set()
        if self._thread.is_alive():
            self._thread.join()
        for bag in self._bags:
            bag.close()

    # --- before it starts ---------------------------------------------------------------------------------------

    def _offer(self, topic: BagTopic) -> None:
        self._names[topic.name] = self._name(topic.name)
        self._stamped[topic.name] = begins_with_header(topic.type)
        self._publishers_by_topic[topic.name] = self.create_publisher(
            import_type(topic.type), self._names[topic.name], _offer(topic)
        )

    def _chosen(self, bag: BagReader) -> list[BagTopic]:
        asked, outputs = set(self.settings.topics), {topic.type for topic in OF_THE_MONITOR}
        unknown = sorted(asked - {topic.name for topic in bag.topics})
        if unknown:
            known = ", ".join(topic.name for topic in bag.topics)
            raise InputError(f"parameter 'topics': {unknown[0]} is not in {bag.path}; it has {known}")
        chosen = [
            topic
            for topic in bag.topics
            if (topic.name in asked or not asked)
            and (topic.type not in outputs or self.settings.outputs)
            and topic.name != CLOCK.name
        ]
        if not any(topic.count for topic in chosen):
            raise InputError(f"{bag.path}: nothing to play")
        return chosen

    def _name(self, topic: str) -> str:
        prefix = self.settings.prefix.strip("/")
        return f"/{prefix}{topic}" if prefix else topic

    def _wait_for_subscribers(self) -> None:
        wait = SubscriberWait(
            self._wanted,
            lambda topic: self._publishers_by_topic[topic].get_subscription_count(),
            settle_s=self.settings.settle_s,
            timeout_s=self.settings.wait_for_subscribers_s,
        )
        missing = wait.run(self._halt)
        if missing and not self._halt.is_set():
            self.get_logger().warning(
                f"starting without all subscribers after {self.settings.wait_for_subscribers_s:g} s: "
                + ", ".join(f"{self._names[topic]} has {has} of {needs}" for topic, (has, needs) in missing.items())
            )

    # --- playing (in the player's thread) -----------------------------------------------------------------------

    def _play_and_end(self) -> None:
        code = EXIT_FAILED
        try:
            self._wait_for_subscribers()
            for number, bag in enumerate(self._bags):
                if not (number and self._halt.wait(self.settings.pause_s)):
                    self._play(bag)
            self._halt.wait(self.settings.linger_s)
            code = EXIT_OK
        except RolloutMonitorError as error:
            self.get_logger().error(str(error))
        except Exception:
            self.get_logger().fatal(traceback.format_exc())
        finally:
            executor = self.executor
            if executor is not None:
                call_soon(executor, self._finish, code)

    def _finish(self, code: int) -> None:
        if not self.exit.done():
            self.exit.set_result(code)

    def _play(self, bag: BagReader) -> None:
        start_ns, end_ns = bag.start_ns or 0, bag.end_ns or 0
        span_ns = end_ns - start_ns + LOOP_GAP_NS
        due: Iterable[Due] = laps(lambda: self._one_pass(bag), span_ns, self.settings.loop)
        if self._clock_publisher is not None:
            due = with_clock(due, round(_NS / self.settings.clock_hz))
        pacer = Pacer(self.settings.rate, time.monotonic_ns, self._halt)
        self.get_logger().info(
            f"playing {bag.path}: {bag.duration_s:.1f} s at rate {self.settings.rate:g}"
            + (", looping" if self.settings.loop else "")
        )
        shift_ns: int | None = None
        for one in due:
            if shift_ns is None:  # only now: reading the first message takes its time
                shift_ns = int(self.get_clock().now().nanoseconds) - one.time_ns if self.settings.restamp else 0
            if not pacer.wait(one.time_ns):
                break
            if one.message is None:
                self._clock_publisher.publish(Clock(clock=Time(nanoseconds=one.time_ns + shift_ns).to_msg()))
            else:
                self._publish(one.message, shift_ns + one.lap * span_ns, one.lap)
        self.get_logger().info(
            f"{self.sent} messages played, the latest {pacer.latest_ns / 1e6:.1f} ms behind its time"
        )

    def _one_pass(self, bag: BagReader) -> Iterable[BagMessage]:
        played = {topic.name for topic in bag.topics} & set(self._names)
        return markers_first(self._readable(bag.messages(played)), EPISODE.type)

    def _readable(self, messages: Iterable[BagMessage]) -> Iterator[BagMessage]:
        """Play what can be read of a damaged recording, and say what could not."""
        try:
            yield from messages
        except DamagedBagError as error:
            self.get_logger().error(f"not everything was played: {error}")

    def _publish(self, message: BagMessage, shift_ns: int, lap: int) -> None:
        raw = message.raw
        if shift_ns and self._stamped[message.topic]:
            raw = with_header_stamp(raw, header_stamp_ns(raw) + shift_ns)
            if lap and message.type == EPISODE.type:
                raw = _renamed(raw, lap)
        self._publishers_by_topic[message.topic].publish(raw)
        self.sent += 1


def _renamed(raw: bytes, lap: int) -> bytes:
    """An episode marker of a later pass names an attempt of its own."""
    marker = deserialize_message(raw, Episode)
    marker.episode_id = f"{marker.episode_id}-{lap + 1}"
    return bytes(serialize_message(marker))


def _offer(topic: BagTopic) -> QoSProfile:
    """Reliable and deep; latched where the recorded publisher was, and for episode markers always."""
    if topic.type == EPISODE.type:
        return PROFILES["MARKERS"]
    profile = PROFILES["REPLAY_IMAGES" if topic.type in _IMAGES else "REPLAY"]
    recorded = parse_qos(topic.qos_yaml)
    if recorded and all(one["durability"] == "transient_local" for one in recorded):
        return QoSProfile(
            history=profile.history,
            depth=max(1, *(int(one["depth"]) for one in recorded)),
            reliability=profile.reliability,
            durability=DurabilityPolicy.TRANSIENT_LOCAL,
        )
    return profile


def main() -> None:
    """Executable."""
    sys.exit(run("replay_node", ReplayNode))


if __name__ == "__main__":
    main()
