"""Looks at the running graph for some seconds and prints what it saw as JSON; `rollout-monitor doctor` judges it.

Usage: python -m rollout_monitor_nodes.graph_probe SECONDS [OTHER_DOMAIN ...]
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import rclpy
from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, LivelinessPolicy, ReliabilityPolicy
from rclpy.serialization import deserialize_message
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState

from rollout_monitor.errors import InputError
from rollout_monitor.images import luminance_and_contrast
from rollout_monitor_nodes.common.cdr import header_stamp_ns
from rollout_monitor_nodes.common.conversions import time_from_msg
from rollout_monitor_nodes.common.images import CameraFrame, FrameReader
from rollout_monitor_nodes.common.spin import make_executor
from rollout_monitor_nodes.common.subscribe import UNKNOWN_NODE, AdaptiveSubscription, GraphWatch, Source
from rollout_monitor_nodes.common.types import begins_with_header, is_installed
from rollout_monitor_nodes.interfaces import CLOCK, COMPRESSED, EPISODE, IMAGE, JOINT_STATE, OF_THE_MONITOR

PROBED = {IMAGE, COMPRESSED, JOINT_STATE, CLOCK.type, EPISODE.type, *(topic.type for topic in OF_THE_MONITOR)}
STREAMS = {IMAGE, COMPRESSED, JOINT_STATE, CLOCK.type}
"""What comes without end where all is well."""

DISCOVERY_S = 1.5
PATIENCE_S = 3.5
"""Participants that missed each other announce themselves again after three seconds."""

LONGEST_S = 5.0
"""Other domains are looked into for so long at most."""

LOOK_PERIOD_S = 0.2
"""A frame of each camera is decoded this often: decoding all of them would make the doctor lose some."""

FOREVER_NS = 2**62
"""A deadline or lease of more than a century is none."""

NAME = "rollout_monitor_doctor"

SOCKETS = Path("/proc/net/udp")
FIRST_PORT, PORTS_PER_DOMAIN, NEWEST_DOMAIN = 7400, 250, 101
DISCOVERY_PORTS = {0, 10}
"""Of a domain's ports, those of the multicast discovery and of the first participant's (DDSI-RTPS 2.5, 9.6.2)."""


@dataclass
class Seen:
    """One topic: who is on it, and what came."""

    name: str
    types: list[str]
    publishers: list[dict[str, Any]] = field(default_factory=list)
    subscribers: list[dict[str, Any]] = field(default_factory=list)
    probed: bool = False
    received: int = 0
    lost: int = 0
    unreadable: int = 0
    looked_into: int = 0
    damaged: int = 0
    malformed: int = 0
    not_finite: int = 0
    encoding: str = ""
    span_s: float = 0.0
    rate_hz: float | None = None
    largest_bytes: int = 0
    first_stamp_ns: int | None = None
    last_stamp_ns: int | None = None
    backward_stamps: int = 0
    repeated_frames: int = 0
    luminance: float | None = None
    contrast: float | None = None
    trouble: str = ""


class Probe:
    """Listens to one topic."""

    def __init__(self, node: Node, watch: GraphWatch, seen: Seen) -> None:
        self._node = node
        self._frames = FrameReader(node)
        self._times_s: list[float] = []
        self._fingerprint: bytes = b""
        self._looked_s = -math.inf
        self.seen = seen
        seen.probed = True
        self._subscription = AdaptiveSubscription(
            watch, [Source(seen.name, seen.types[0])], self._on_message, depth=1000, raw=True, on_lost=self._on_lost
        )

    def _on_lost(self, lost: int) -> None:
        self.seen.lost += lost

    def _on_message(self, source: Source, raw: bytes) -> None:
        seen = self.seen
        seen.received += 1
        seen.largest_bytes = max(seen.largest_bytes, len(raw))
        self._times_s.append(time.monotonic())
        stamp_ns = _stamp(source.type_name, raw)
        if stamp_ns is not None:
            if seen.last_stamp_ns is not None and stamp_ns < seen.last_stamp_ns:
                seen.backward_stamps += 1
            seen.first_stamp_ns = stamp_ns if seen.first_stamp_ns is None else seen.first_stamp_ns
            seen.last_stamp_ns = stamp_ns
        if source.type_name in (IMAGE, COMPRESSED):
            self._on_frame(source, raw)
        if source.type_name == JOINT_STATE:
            self._on_joints(deserialize_message(raw, JointState))

    def _on_frame(self, source: Source, raw: bytes) -> None:
        frame = self._frames.read(source, raw)
        if frame is None:
            self.seen.unreadable += 1
            self.seen.trouble = self._frames.trouble
            return
        self.seen.repeated_frames += frame.fingerprint == self._fingerprint
        self._fingerprint, self.seen.encoding = frame.fingerprint, frame.encoding
        if self._times_s[-1] - self._looked_s >= LOOK_PERIOD_S:
            self._looked_s = self._times_s[-1]
            self._look_into(frame)

    def _look_into(self, frame: CameraFrame) -> None:
        self.seen.looked_into += 1
        try:
            self.seen.luminance, self.seen.contrast = luminance_and_contrast(frame.decode())
        except InputError as error:
            self.seen.damaged += 1
            self.seen.trouble = str(error)

    def _on_joints(self, joints: JointState) -> None:
        arrays = (joints.position, joints.velocity, joints.effort)
        if not joints.name or any(len(values) not in (0, len(joints.name)) for values in arrays):
            self.seen.malformed += 1
        elif not all(map(math.isfinite, joints.position)):
            self.seen.not_finite += 1

    def waits(self, seconds: float, now_s: float) -> bool:
        """Whether a stream has not been heard for so long yet."""
        heard_s = now_s - self._times_s[0] if self._times_s else 0.0
        return self.seen.types[0] in STREAMS and heard_s < seconds

    def finish(self) -> None:
        """Work out the rate, once, at the end."""
        seen = self.seen
        seen.span_s = self._times_s[-1] - self._times_s[0] if self._times_s else 0.0
        if seen.span_s > 0:
            seen.rate_hz = (len(self._times_s) - 1) / seen.span_s
        seen.trouble = seen.trouble or self._subscription.trouble


def _stamp(type_name: str, raw: bytes) -> int | None:
    try:
        if type_name == CLOCK.type:
            return time_from_msg(deserialize_message(raw, Clock).clock)
        return header_stamp_ns(raw) if begins_with_header(type_name) else None
    except InputError:
        return None


def look(seconds: float) -> dict[str, Any]:
    """Everything on the graph of this process's domain.

    Args:
        seconds: how long each stream is listened to, from its first message on; where one is heard late the look takes
            up to ``PATIENCE_S`` more.
    """
    node = Node(NAME)
    executor = make_executor()
    executor.add_node(node)
    watch = GraphWatch(node)
    probes: dict[str, Probe] = {}
    topics: dict[str, Seen] = {}
    end_s = time.monotonic() + max(seconds, DISCOVERY_S)
    while (now_s := time.monotonic()) < end_s or (
        now_s < end_s + PATIENCE_S and any(probe.waits(seconds, now_s) for probe in probes.values())
    ):
        for name, types in node.get_topic_names_and_types():
            topics.setdefault(name, Seen(name, list(types))).types = list(types)
            if name not in probes and types[0] in PROBED and is_installed(types[0]) and node.count_publishers(name):
                probes[name] = Probe(node, watch, topics[name])
        executor.spin_once(timeout_sec=0.05)
    for probe in probes.values():
        probe.finish()
    for seen in topics.values():
        seen.publishers = _endpoints(node.get_publishers_info_by_topic(seen.name))
        seen.subscribers = _endpoints(node.get_subscriptions_info_by_topic(seen.name))
    names = sorted(f"{ns.rstrip('/')}/{name}" for name, ns in node.get_node_names_and_namespaces() if name != NAME)
    executor.remove_node(node)
    executor.shutdown()
    node.destroy_node()
    return {"nodes": names, "topics": [asdict(topics[name]) for name in sorted(topics)]}


def _endpoints(infos: list[Any]) -> list[dict[str, Any]]:
    return [
        {
            "node": f"{info.node_namespace.rstrip('/')}/{info.node_name}".replace(UNKNOWN_NODE, "a node"),
            "type": info.topic_type,
            "reliable": info.qos_profile.reliability == ReliabilityPolicy.RELIABLE,
            "transient_local": info.qos_profile.durability == DurabilityPolicy.TRANSIENT_LOCAL,
            "deadline_ns": _finite_ns(info.qos_profile.deadline),
            "manual": info.qos_profile.liveliness == LivelinessPolicy.MANUAL_BY_TOPIC,
            "lease_ns": _finite_ns(info.qos_profile.liveliness_lease_duration),
        }
        for info in infos
        if info.node_name != NAME
    ]


def _finite_ns(duration: Duration) -> int | None:
    """A deadline or lease; None where there is none."""
    return duration.nanoseconds if 0 < duration.nanoseconds < FOREVER_NS else None


def nodes_in(domains: list[int]) -> dict[str, int]:
    """How many nodes there are in other domains, by domain; silent ones are left out.

    It looks until the numbers have not changed for ``PATIENCE_S``, ``LONGEST_S`` at most.
    """
    contexts = []
    for domain in domains:
        context = rclpy.Context()
        rclpy.init(context=context, domain_id=domain)
        contexts.append((domain, context, Node(NAME, context=context, enable_rosout=False)))
    counts: dict[str, int] = {}
    began_s = changed_s = now_s = time.monotonic()
    while now_s < min(changed_s + PATIENCE_S, began_s + LONGEST_S):
        time.sleep(LOOK_PERIOD_S)
        now_s = time.monotonic()
        found = {str(domain): sum(name != NAME for name in node.get_node_names()) for domain, _, node in contexts}
        if found != counts:
            counts, changed_s = found, now_s
    for _, context, node in contexts:
        node.destroy_node()
        rclpy.shutdown(context=context)
    return {domain: count for domain, count in counts.items() if count}


def domains_in_use(sockets: str) -> set[int]:
    """Domains of which a process of this machine seems to be, by the ports it listens on.

    Args:
        sockets: Linux's table of UDP sockets, /proc/net/udp.
    """
    domains = set()
    for line in sockets.splitlines()[1:]:
        port = int(line.split()[1].rpartition(":")[2], 16)
        domain, offset = divmod(port - FIRST_PORT, PORTS_PER_DOMAIN)
        if offset in DISCOVERY_PORTS and 0 <= domain <= NEWEST_DOMAIN:
            domains.add(domain)
    return domains


def _elsewhere(asked: list[int]) -> dict[str, int]:
    own = int(os.environ.get("ROS_DOMAIN_ID") or 0)
    seen = domains_in_use(SOCKETS.read_text()) if SOCKETS.is_file() else set()
    others = sorted({*asked, *seen} - {own})
    return nodes_in(others) if others else {}


def _something_is_missing(found: dict[str, Any]) -> bool:
    """Whether no camera or no arm is there: then the other domains are worth a look."""
    published = {kind for topic in found["topics"] if topic["publishers"] for kind in topic["types"]}
    return not (JOINT_STATE in published and published & {IMAGE, COMPRESSED})


def main() -> None:
    """Command line."""
    seconds, domains = float(sys.argv[1]), [int(text) for text in sys.argv[2:]]
    rclpy.init(args=[])
    try:
        found = look(seconds)
    finally:
        rclpy.shutdown()
    found["other_domains"] = _elsewhere(domains) if _something_is_missing(found) else {}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
