"""A small recording made for the tests: two JPEG cameras, 500 Hz joint states, markers, and a curve to match."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from rclpy.serialization import serialize_message
from rollout_monitor_nodes.common.conversions import marker_to_msg, time_to_msg
from rollout_monitor_nodes.common.types import import_type
from sensor_msgs.msg import CompressedImage, JointState

from rollout_monitor.records import Boundary, EpisodeMarker
from rollout_monitor.store.definitions import schema_text_from_share
from rollout_monitor.store.recording import EpisodeRecording

NS = 1_000_000_000
START_NS = 1_700_000_000 * NS + 123_456_789
JOINTS = ("shoulder_pan_joint", "shoulder_lift_joint", "elbow_joint", "wrist_1_joint", "wrist_2_joint", "wrist_3_joint")
PREFIXES = [Path(part) for part in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep) if part]
TASK = "lift the red cube"


@dataclass(frozen=True)
class Rollout:
    """What a synthetic recording holds."""

    folder: Path
    curve: Path
    episode_id: str
    start_ns: int
    end_ns: int
    joint_messages: int
    frames: int


def make_rollout(
    folder: Path,
    *,
    episode_id: str = "synthetic_1",
    seconds: float = 6.0,
    lead_s: float = 0.5,
    tail_s: float = 0.8,
    joint_hz: int = 500,
    camera_hz: int = 30,
    cameras: tuple[str, ...] = ("front", "wrist"),
    with_end: bool = True,
) -> Rollout:
    """Record ``seconds`` of an attempt whose progress rises to 1, with some stream before and after it."""
    start_ns, end_ns = START_NS + round(lead_s * NS), START_NS + round((lead_s + seconds) * NS)
    span_ns = round((lead_s + seconds + tail_s) * NS)
    items: list[tuple[int, str, str, bytes]] = []
    for boundary, stamp_ns in ((Boundary.START, start_ns), (Boundary.END, end_ns)):
        if boundary is Boundary.START or with_end:
            marker = EpisodeMarker(
                boundary=boundary, stamp_ns=stamp_ns, episode_id=episode_id, task=TASK, source="synthetic"
            )
            raw = serialize_message(marker_to_msg(marker))
            items.append((stamp_ns, "/rollout/episode", "rollout_monitor_msgs/msg/Episode", raw))
    joint_count = span_ns * joint_hz // NS
    items += [_joints(START_NS + index * NS // joint_hz, index / joint_hz) for index in range(joint_count)]
    rng = np.random.default_rng(7)
    frame_count = span_ns * camera_hz // NS
    for camera in cameras:
        offset_ns = 0 if camera == cameras[0] else 3_000_000
        for index in range(frame_count):
            items.append(_frame(camera, START_NS + offset_ns + index * NS // camera_hz, index, rng))
    items.sort(key=lambda item: item[0])
    with EpisodeRecording(folder, ros_distro=os.environ.get("ROS_DISTRO", "")) as recording:
        for stamp_ns, topic, type_name, raw in items:
            recording.add_topic(topic, type_name, schema_text_from_share(type_name, PREFIXES))
            recording.write(topic, stamp_ns, stamp_ns, raw)
    curve = folder.parent / f"{folder.name}.csv"
    times = [k * 0.05 for k in range(round(seconds / 0.05))]
    rows = [(start_ns + round(t * NS), min(1.0, 1.25 * t / seconds)) for t in times]
    curve.write_text("stamp_ns,progress\n" + "".join(f"{stamp},{value:.4f}\n" for stamp, value in rows))
    return Rollout(folder, curve, episode_id, start_ns, end_ns, joint_count, frame_count)


def _joints(stamp_ns: int, t: float) -> tuple[int, str, str, bytes]:
    phase = np.arange(len(JOINTS)) * 0.4 + 0.8 * t
    msg = JointState(name=list(JOINTS), position=np.sin(phase).tolist(), velocity=(0.8 * np.cos(phase)).tolist())
    msg.effort = (0.1 * np.cos(phase)).tolist()
    msg.header.stamp = time_to_msg(stamp_ns)
    return stamp_ns, "/joint_states", "sensor_msgs/msg/JointState", serialize_message(msg)


def _frame(camera: str, stamp_ns: int, index: int, rng: np.random.Generator) -> tuple[int, str, str, bytes]:
    picture = np.full((96, 128, 3), 90, np.uint8)
    picture[30:60, 2 * (index % 50) : 2 * (index % 50) + 20] = (40, 40, 220)
    picture[::8, ::8] = rng.integers(60, 200, (12, 16, 3), dtype=np.uint8)
    jpeg = cv2.imencode(".jpg", picture)[1].tobytes()
    msg = CompressedImage(format="jpeg", data=jpeg)
    msg.header.stamp = time_to_msg(stamp_ns)
    msg.header.frame_id = f"{camera}_frame"
    topic = f"/camera_{camera}/color/image_raw/compressed"
    return stamp_ns, topic, "sensor_msgs/msg/CompressedImage", serialize_message(msg)


__all__ = ["JOINTS", "NS", "START_NS", "TASK", "Rollout", "import_type", "make_rollout"]
