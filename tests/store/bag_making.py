"""Bags for tests: messages serialised by rosbags from their definitions, independently of the code under test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from rollout_monitor.store.messages import COMPRESSED_IMAGE, EPISODE, EPISODE_DEFINITION, IMAGE, JOINT_STATE
from rollout_monitor.store.qos import qos_yaml
from rollout_monitor.store.recording import EpisodeRecording

NS = 1_000_000_000
START_NS = 1_780_000_000 * NS
STORE = get_typestore(Stores.ROS2_JAZZY)
STORE.register(get_types_from_msg(EPISODE_DEFINITION, EPISODE))
NAMES = ["elbow_joint", "shoulder_pan_joint", "wrist_1_joint"]
Message = tuple[str, str, int, bytes]


def header(stamp_ns: int, frame: str = "") -> Any:
    time = STORE.types["builtin_interfaces/msg/Time"](sec=stamp_ns // NS, nanosec=stamp_ns % NS)
    return STORE.types["std_msgs/msg/Header"](stamp=time, frame_id=frame)


def serialise(kind: str, **fields: Any) -> bytes:
    return bytes(STORE.serialize_cdr(STORE.types[kind](**fields), kind))


def joint_state(stamp_ns: int, positions: list[float], *, with_rates: bool = True) -> bytes:
    values = np.array(positions)
    empty = np.array([], dtype=np.float64)
    return serialise(
        JOINT_STATE,
        header=header(stamp_ns),
        name=NAMES[: len(positions)],
        position=values,
        velocity=values * 0.1 if with_rates else empty,
        effort=values * 2 if with_rates else empty,
    )


def image(stamp_ns: int, picture: np.ndarray[Any, np.dtype[np.uint8]]) -> bytes:
    rows, columns = picture.shape[:2]
    return serialise(
        IMAGE,
        header=header(stamp_ns, "camera"),
        height=rows,
        width=columns,
        encoding="rgb8",
        is_bigendian=0,
        step=columns * 3,
        data=picture.reshape(-1),
    )


def compressed(stamp_ns: int, jpeg: bytes) -> bytes:
    return serialise(COMPRESSED_IMAGE, header=header(stamp_ns), format="jpeg", data=np.frombuffer(jpeg, dtype=np.uint8))


def marker(stamp_ns: int, boundary: int, episode_id: str = "lift-1", label: int = 0) -> bytes:
    return serialise(
        EPISODE,
        header=header(stamp_ns),
        episode_id=episode_id,
        boundary=boundary,
        task="lift the cube",
        label=label,
        source="operator",
        BOUNDARY_START=0,
        BOUNDARY_END=1,
        LABEL_NONE=0,
        LABEL_SUCCESS=1,
        LABEL_FAILURE=2,
    )


def messages(seconds: float = 3.0, *, seed: int = 0) -> list[Message]:
    """(topic, type, log time, raw): joints at 100 Hz, frames at 10 Hz, a marker at both ends, in log order."""
    rng = np.random.default_rng(seed)
    made: list[Message] = [("/rollout/episode", EPISODE, START_NS, marker(START_NS, 0))]
    for index in range(int(seconds * 100)):
        stamp = START_NS + index * 10_000_000
        values = rng.normal(size=3).tolist()
        made.append(
            ("/joint_states", JOINT_STATE, stamp + 1_000_000, joint_state(stamp, values, with_rates=index % 2 == 0))
        )
        if index % 10 == 0:
            picture = rng.integers(0, 256, (24, 32, 3), dtype=np.uint8)
            made.append(("/camera/image_raw", IMAGE, stamp + 5_000_000, image(stamp, picture)))
    end = START_NS + int(seconds * NS)
    made.append(("/rollout/episode", EPISODE, end, marker(end, 1, label=1)))
    return sorted(made, key=lambda message: message[2])


def definition(kind: str) -> str:
    return STORE.generate_msgdef(kind, ros_version=2)[0]


def record(folder: Path, made: list[Message]) -> Path:
    """Record messages with the recorder."""
    with EpisodeRecording(folder, ros_distro="jazzy", custom_data={"task": "lift"}) as recording:
        for topic, kind, log_ns, raw in made:
            recording.add_topic(topic, kind, definition(kind), qos_yaml(reliability="best_effort"))
            recording.write(topic, log_ns, log_ns - 500_000, raw)
    return recording.path


def storage_file(bag: Path) -> Path:
    return next(bag.glob("*.mcap"))
