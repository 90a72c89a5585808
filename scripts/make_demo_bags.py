"""Makes the bundled recordings in ``demo/``: three attempts at the simulated table as rosbag2 folders (MCAP).

Needs the extra [sim]. The same command gives the same messages. The takes are of the plan ``test``, with seeds that no
data set reaches: nothing of them is in training or in any figure. The seeds were picked for showing their behaviour
plainly within eleven seconds, and among those for being judged rightly.

    python scripts/make_demo_bags.py --out demo [--only lift_success]
"""

from __future__ import annotations

import argparse
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rosbags.interfaces import Qos, QosDurability, QosHistory, QosLiveliness, QosReliability, QosTime
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin, Writer
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from rollout_monitor.images import encode_jpeg
from rollout_monitor.sim.tabletop.plans import plan_takes
from rollout_monitor.sim.tabletop.takes import CameraFrame, JointSample, LiveTake
from rollout_monitor.store.messages import EPISODE, EPISODE_DEFINITION

START_NS = 1_700_000_000 * 1_000_000_000
FRAME_RATE_HZ = 10.0
JPEG_QUALITY = 85
NAMESPACE = "/ur5e"
FOREVER = QosTime(9223372036, 854775807)
"""RMW_DURATION_INFINITE: no deadline, no lifespan."""


@dataclass(frozen=True)
class Demo:
    """One recording."""

    name: str
    task: str
    mode: str
    seed: int


DEMOS = (
    Demo("lift_success", "lift:red", "success", 900057),
    Demo("lift_drop_recover", "lift:red", "drop_recover", 900057),
    Demo("stack_stall", "on:red:green", "stall", 900059),
)


class BagWriter:
    """Writes a take's samples as ROS messages into one bag."""

    def __init__(self, writer: Writer, take: LiveTake) -> None:
        self._store = get_typestore(Stores.ROS2_JAZZY)
        self._store.register(get_types_from_msg(EPISODE_DEFINITION, EPISODE))
        self._writer = writer
        self._take = take
        self._types = self._store.types
        self._cameras = {
            view: self._connect(f"camera_{view}/color/image_raw/compressed", "sensor_msgs/msg/CompressedImage")
            for view in take.views
        }
        self._joints = self._connect("joint_states", "sensor_msgs/msg/JointState")
        self._episode = self._connect("rollout/episode", EPISODE, latched=True)

    def _connect(self, topic: str, kind: str, *, latched: bool = False) -> Any:
        qos = Qos(
            QosHistory.KEEP_LAST,
            10,
            QosReliability.RELIABLE,
            QosDurability.TRANSIENT_LOCAL if latched else QosDurability.VOLATILE,
            FOREVER,
            FOREVER,
            QosLiveliness.AUTOMATIC,
            FOREVER,
            False,
        )
        return self._writer.add_connection(
            f"{NAMESPACE}/{topic}", kind, typestore=self._store, offered_qos_profiles=[qos]
        )

    def _header(self, stamp_ns: int, frame: str = "") -> Any:
        seconds, rest = divmod(START_NS + stamp_ns, 1_000_000_000)
        stamp = self._types["builtin_interfaces/msg/Time"](sec=seconds, nanosec=rest)
        return self._types["std_msgs/msg/Header"](stamp=stamp, frame_id=frame)

    def _write(self, connection: Any, stamp_ns: int, message: Any) -> None:
        self._writer.write(connection, START_NS + stamp_ns, self._store.serialize_cdr(message, connection.msgtype))

    def frame(self, frame: CameraFrame) -> None:
        """One picture as JPEG."""
        data = np.frombuffer(encode_jpeg(frame.rgb, JPEG_QUALITY), dtype=np.uint8)
        header = self._header(frame.stamp_ns, f"camera_{frame.view}_color_optical_frame")
        message = self._types["sensor_msgs/msg/CompressedImage"](header=header, format="jpeg", data=data)
        self._write(self._cameras[frame.view], frame.stamp_ns, message)

    def joints(self, sample: JointSample) -> None:
        """One joint sample."""
        position, velocity, effort = (np.ascontiguousarray(row) for row in sample.values)
        message = self._types["sensor_msgs/msg/JointState"](
            header=self._header(sample.stamp_ns, "base_link"),
            name=self._take.joint_names,
            position=position,
            velocity=velocity,
            effort=effort,
        )
        self._write(self._joints, sample.stamp_ns, message)

    def marker(self, stamp_ns: int, episode: str, boundary: int) -> None:
        """Start (0) or end (1) of the episode; how it went is left to the monitor."""
        message = self._types[EPISODE](
            header=self._header(stamp_ns),
            episode_id=episode,
            boundary=boundary,
            task=self._take.spec.text if boundary == 0 else "",
            label=0,
            source="demo bag",
        )
        self._write(self._episode, stamp_ns, message)


def make(demo: Demo, out: Path) -> str:
    """Write one bag, replacing an old one; returns a line about it."""
    folder = out / demo.name
    temporary = out / f".{demo.name}.tmp"
    for path in (temporary, folder):
        shutil.rmtree(path, ignore_errors=True)
    (spec,) = plan_takes("test", 1, demo.seed, task=demo.task, mode=demo.mode, arm="ur5e")
    take = LiveTake(spec, frame_rate_hz=FRAME_RATE_HZ)
    writer = Writer(temporary, version=9, storage_plugin=StoragePlugin.MCAP)
    writer.set_compression(CompressionMode.STORAGE, CompressionFormat.ZSTD)
    # rosbag2 reads custom_data as a map: without an entry it would be written as null.
    writer.set_custom_data("seed", str(demo.seed))
    stamp = 0
    with writer:
        bag = BagWriter(writer, take)
        bag.marker(0, demo.name, 0)
        for sample in take.stream():
            stamp = sample.stamp_ns
            if isinstance(sample, CameraFrame):
                bag.frame(sample)
            else:
                bag.joints(sample)
        bag.marker(stamp, demo.name, 1)
    rename_storage(temporary, demo.name)
    temporary.rename(folder)
    size = sum(path.stat().st_size for path in folder.iterdir()) / 1e6
    return f"{folder}: {spec.text}, {demo.mode}, {stamp / 1e9:.2f} s, {take.outcome}, {size:.1f} MB"


def rename_storage(folder: Path, name: str) -> None:
    """Give the storage file the bag's own name, in the metadata too."""
    (old,) = folder.glob("*.mcap")
    new = folder / f"{name}.mcap"
    old.rename(new)
    metadata = folder / "metadata.yaml"
    metadata.write_text(metadata.read_text(encoding="utf-8").replace(old.name, new.name), encoding="utf-8")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Make the bundled demo recordings.")
    parser.add_argument("--out", type=Path, default=Path("demo"))
    parser.add_argument("--only", choices=[demo.name for demo in DEMOS], help="make only this one")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for demo in DEMOS:
        if given.only in (None, demo.name):
            print(make(demo, given.out), flush=True)


if __name__ == "__main__":
    main()
