"""Speed over real DDS: header stamp to published estimate, and joint states at 500 Hz without loss. Judges nothing.

Run through scripts/ros_run. Uses the graph helper of the ROS tests; each part runs on a domain of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
from rosbags.highlevel import AnyReader
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

from rollout_monitor.prm.files import models_folder

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "ros"))

from graph import Graph, Process  # noqa: E402
from rollout_monitor_nodes.common.conversions import joint_health_from_msg, time_from_msg  # noqa: E402
from rollout_monitor_nodes.common.conversions import time_to_msg as to_msg  # noqa: E402
from sensor_msgs.msg import JointState  # noqa: E402

DOMAIN = 58
PERIOD_S = 0.002
ESTIMATES = 400
REPEATS = 3
CAMERAS = ["camera_front/color/image_raw", "camera_wrist/color/image_raw"]


def main() -> None:
    """Both parts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bag", type=Path, default=ROOT / "demo" / "lift_drop_recover", help="recording to replay")
    parser.add_argument("--seconds", type=float, default=10.0, help="length of the joint part")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        larger = enlarged(options.bag, Path(folder) / "640x480", (640, 480))
        model = at_rate(Path(folder) / "model", 10.0)
        for part in (
            lambda graph: stamp_to_progress(graph, options.bag, model),
            lambda graph: stamp_to_progress(graph, larger, model),
            *REPEATS * (lambda graph: joints(graph, options.seconds), lambda graph: bare(graph, options.seconds)),
        ):
            run(Path(folder), part)


def at_rate(folder: Path, rate_hz: float) -> Path:
    """The embedded model, asked at another rate than it was trained for: what it answers plays no part here."""
    shutil.copytree(models_folder() / "embedded", folder)
    description = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    (folder / "model.json").write_text(json.dumps({**description, "rate_hz": rate_hz}), encoding="utf-8")
    return folder


def enlarged(bag: Path, out: Path, size: tuple[int, int]) -> Path:
    """The same recording with its JPEG pictures drawn larger (width, height)."""
    store = get_typestore(Stores.ROS2_JAZZY)
    with AnyReader([bag]) as reader, Writer(out, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        copies = {
            c.id: writer.add_connection(c.topic, c.msgtype, msgdef=c.msgdef.data, rihs01=c.digest)
            for c in reader.connections
        }
        for connection, stamp_ns, raw in reader.messages():
            data = raw
            if connection.msgtype.endswith("/CompressedImage"):
                message = store.deserialize_cdr(raw, connection.msgtype)
                picture = cv2.imdecode(message.data, cv2.IMREAD_COLOR)
                assert picture is not None
                message.data = cv2.imencode(".jpg", cv2.resize(picture, size), [cv2.IMWRITE_JPEG_QUALITY, 85])[1]
                data = bytes(store.serialize_cdr(message, connection.msgtype))
            writer.write(copies[connection.id], stamp_ns, data)
    return out


def run(folder: Path, part: Callable[[Graph], None]) -> None:
    """One part on a fresh graph."""
    graph = Graph(folder, DOMAIN)
    try:
        part(graph)
    finally:
        graph.close()


def stamp_to_progress(graph: Graph, bag: Path, model: Path) -> None:
    """Replay with stamps that begin now; compare each estimate's stamp with the moment it is received here."""
    prm = graph.start("prm_node", namespace="/ur5e", camera_topics=CAMERAS, model_path=model)
    graph.start("monitor_node", namespace="/ur5e", episodes=graph.folder / "e", camera_topic=CAMERAS[0])
    delays: list[float] = []
    inside: list[float] = []
    heard = graph.listen("/ur5e/rollout/progress", "rollout_monitor_msgs/msg/Progress", "RECORDS")
    graph.until("prm_node's publisher", lambda: heard.subscription.get_publisher_count() == 1)
    wait = ["/ur5e/joint_states=1", f"/ur5e/{CAMERAS[0]}/compressed=2", f"/ur5e/{CAMERAS[1]}/compressed=1"]
    replay = graph.start("replay_node", bag=bag, restamp=True, loop=True, wait_for=wait, settle_s=2.0)
    used = cpu_s(prm)
    began_s, seen = time.monotonic(), 0
    while len(delays) < ESTIMATES:
        graph.pump()
        for message in heard.messages[seen:]:
            if message.status == message.STATUS_OK:
                delays.append(time.time() - time_from_msg(message.header.stamp) / 1e9)
                inside.append(message.latency)
        seen = len(heard.messages)
    share = (cpu_s(prm) - used) / (time.monotonic() - began_s)
    replay.signal(signal.SIGINT)
    dropped = heard.messages[-1].dropped
    print(f"stamp to estimate received, two cameras, {bag.name}: {quantiles(delays)}")
    print(f"  {len(delays)} estimates, {dropped} dropped")
    print(f"  the camera's very first frame, held until the second bears out its stamp: {1e3 * delays[0]:.0f} ms")
    print(f"  of it frame arrival to estimate:       {quantiles(inside)}")
    print(f"  prm_node uses {100 * share:.0f} % of one core")


def joints(graph: Graph, seconds: float) -> None:
    """Two publishers at 500 Hz with seven joints each, into one prm_node without cameras."""
    curve = graph.folder / "curve.csv"
    curve.write_text("progress\n0.0\n0.0\n")
    prm = graph.start("prm_node", model="recorded", model_path=curve)
    heard = graph.listen("rollout/kinematics", "rollout_monitor_msgs/msg/Kinematics", "RECORDS")
    stamp_ns, sent, share = publish_joints(graph, prm, seconds)
    graph.until("the last kinematics", lambda: _received(heard.messages) >= 2 * sent - 120, 5.0)
    lost = _lost(heard.messages, stamp_ns)
    print(
        f"joint states of two arms at {sent / seconds:.0f} Hz each: {2 * sent} sent, {lost} lost as of the last summary"
    )
    print(f"  prm_node uses {100 * share:.0f} % of one core for reception, conversion and streaming kinematics")


def bare(graph: Graph, seconds: float) -> None:
    """The same into a process that receives and does nothing."""
    process = graph.start_command("bare", [sys.executable, str(ROOT / "bench" / "bare_reception.py")])
    _, _, share = publish_joints(graph, process, seconds)
    print(f"  a subscriber that does nothing with them: {100 * share:.0f} %")


def publish_joints(graph: Graph, receiver: Process, seconds: float) -> tuple[int, int, float]:
    """Send both arms' states; first stamp, messages per arm, and the share of a core that the receiver used."""
    arms = [graph.publisher("joint_states", "sensor_msgs/msg/JointState", "REPLAY") for _ in range(2)]
    graph.until("the subscription", lambda: all(arm.get_subscription_count() == 1 for arm in arms))
    names = [[f"{side}_joint_{number}" for number in range(7)] for side in ("left", "right")]
    sent = 0
    began_s, used = time.monotonic(), cpu_s(receiver)
    stamp_ns = time.time_ns()
    while time.monotonic() - began_s < seconds:
        if time.monotonic() - began_s < sent * PERIOD_S:
            time.sleep(0.0002)
            continue
        phase = 0.01 * sent + np.arange(7)
        for arm, joint_names in zip(arms, names, strict=True):
            msg = JointState(name=joint_names, position=np.sin(phase).tolist(), velocity=np.cos(phase).tolist())
            msg.effort = (3.0 * np.sin(phase) + 0.1 * np.cos(37.0 * phase)).tolist()
            msg.header.stamp = to_msg(stamp_ns + round(sent * PERIOD_S * 1e9))
            arm.publish(msg)
        sent += 1
    return stamp_ns, sent, (cpu_s(receiver) - used) / (time.monotonic() - began_s)


def _received(messages: list[object]) -> int:
    return int(messages[-1].health.received) if messages else 0  # type: ignore[attr-defined]


def _lost(messages: list[object], first_ns: int) -> int:
    """Messages up to the newest stamp that were not counted; one arm's last may still be on its way."""
    health = joint_health_from_msg(messages[-1].health)  # type: ignore[attr-defined]
    assert health.last_stamp_ns is not None
    due = 2 * (round((health.last_stamp_ns - first_ns) / (PERIOD_S * 1e9)) + 1)
    return max(0, due - health.received - 1)


def cpu_s(process: Process) -> float:
    """Processor time of a process so far, user and system, s."""
    fields = Path(f"/proc/{process.popen.pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def quantiles(seconds: list[float]) -> str:
    """p50, p90 and p99 in ms."""
    if not seconds:
        return "none"
    return "  ".join(
        f"p{q} {value * 1e3:.1f} ms"
        for q, value in zip((50, 90, 99), np.percentile(seconds, (50, 90, 99)), strict=True)
    )


if __name__ == "__main__":
    main()
