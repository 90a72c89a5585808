"""The commands that need a graph: replay and doctor, as a user starts them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
from graph import Graph
from sensor_msgs.msg import CompressedImage, JointState
from synthetic import make_rollout

COMMAND = [sys.executable, "-m", "rollout_monitor"]


def test_replay_plays_and_ends_with_its_own_exit_code(graph: Graph, tmp_path: Path) -> None:
    rollout = make_rollout(tmp_path / "it's a bag", seconds=1.0, joint_hz=250, cameras=("front",))
    joints = graph.listen("/arm/joint_states", "sensor_msgs/msg/JointState", "REPLAY", raw=True)
    options = ["--namespace", "arm", "--rate", "4", "--topic", "/joint_states", "--wait", "60"]
    replay = graph.start_command("replay", [*COMMAND, "replay", str(rollout.folder), *options])
    graph.until("the end", lambda: replay.popen.poll() is not None)
    assert replay.wait() == 0
    graph.until("all joint states", lambda: len(joints.messages) >= rollout.joint_messages)
    assert len(joints.messages) == rollout.joint_messages
    assert "Traceback" not in replay.text


def test_replay_stops_on_ctrl_c(graph: Graph, tmp_path: Path) -> None:
    rollout = make_rollout(tmp_path / "bag", seconds=30.0, joint_hz=100, camera_hz=10, cameras=("front",))
    replay = graph.start_command("replay", [*COMMAND, "replay", str(rollout.folder), "--wait", "0"])
    replay.said("playing")
    replay.signal(signal.SIGINT)
    assert replay.wait() == 0
    assert "Traceback" not in replay.text


def test_replay_of_nothing_is_wrong_usage(graph: Graph) -> None:
    replay = graph.start_command("replay", [*COMMAND, "replay", "/nowhere"])
    assert replay.wait() == 2
    assert replay.text.strip() == "error: /nowhere: no such file or folder"


def test_doctor_measures_and_judges_a_running_graph(graph: Graph) -> None:
    """A frozen camera that offers best effort, a viewer that asks for reliable, and joints that are fine."""
    kind = "sensor_msgs/msg/CompressedImage"
    camera = graph.publisher("/cam/image_raw/compressed", kind, "SENSOR")
    joints = graph.publisher("/joint_states", "sensor_msgs/msg/JointState", "REPLAY")
    graph.listen("/cam/image_raw/compressed", kind, "REPLAY")
    picture = np.full((48, 64, 3), 120, np.uint8)
    jpeg = cv2.imencode(".jpg", picture)[1].tobytes()

    def publish() -> None:
        stamp = graph.node.get_clock().now().to_msg()
        image, state = CompressedImage(format="jpeg", data=jpeg), JointState(name=["j"], position=[0.0])
        image.header.stamp = state.header.stamp = stamp
        camera.publish(image)
        joints.publish(state)

    timer = graph.node.create_timer(0.02, publish)
    env = {**os.environ, "ROS_DOMAIN_ID": str(graph.domain)}
    doctor = subprocess.Popen([*COMMAND, "doctor", "--json"], stdout=subprocess.PIPE, env=env, text=True)
    try:
        graph.until("the doctor's answer", lambda: doctor.poll() is not None, 120.0)
        answer = json.loads(doctor.stdout.read())  # type: ignore[union-attr]
    finally:
        doctor.kill()
        doctor.communicate()
        graph.node.destroy_timer(timer)
    assert doctor.returncode == 1
    said = {(f["level"], f["subject"]): f["what"] for f in answer["findings"]}
    assert "Hz" in said["ok", "/joint_states"]
    what = [f["what"] for f in answer["findings"] if f["subject"] == "/cam/image_raw/compressed"]
    assert any("one picture again and again" in text for text in what)
    assert any("/test_probe asks for reliable, /test_probe offers best effort" in text for text in what)
