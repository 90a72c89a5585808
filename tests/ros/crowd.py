"""Ten robots, or as many as asked for, that publish what a stack publishes while an attempt runs: for the dashboard.

Usage: python crowd.py ROBOTS HZ. Stamps are the system's time, so that a page can tell how late it is.
"""

from __future__ import annotations

import math
import sys
import time
from contextlib import suppress

import cv2
import numpy as np
import rclpy
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rollout_monitor_nodes.common import conversions as convert
from rollout_monitor_nodes.common.qos import PROFILES
from rollout_monitor_nodes.common.types import import_type
from sensor_msgs.msg import CompressedImage

from rollout_monitor.records import (
    CameraHealth,
    EpisodeState,
    EstimateStatus,
    GridRow,
    JointHealth,
    KinematicSummary,
    MonitorStatus,
    MotionFigures,
    ProgressEstimate,
)

NS = 1_000_000_000
JOINTS = [f"joint_{number}" for number in range(6)]
CAMERA = "camera_front/color/image_raw"
PICTURES = 20
SIZE = (240, 320)


class Robot(Node):
    """One robot; it is named after the node that knows its cameras."""

    def __init__(self, number: int, hz: float, jpegs: list[bytes]) -> None:
        super().__init__("prm_node", namespace=f"/robot_{number:02d}")
        self.declare_parameter("cameras", ["front"])
        self.declare_parameter("camera_topics", [CAMERA])
        self.declare_parameter("camera_transport", "auto")
        self._number, self._hz, self._jpegs = number, hz, jpegs
        self._start_ns = time.time_ns()
        self._ticks = number
        self._senders = {
            name: self.create_publisher(import_type(f"rollout_monitor_msgs/msg/{kind}"), f"rollout/{name}", profile)
            for name, kind, profile in (
                ("status", "MonitorStatus", PROFILES["LATCHED"]),
                ("progress", "Progress", PROFILES["RECORDS"]),
                ("kinematics", "Kinematics", PROFILES["RECORDS"]),
                ("cameras", "CameraHealth", PROFILES["RECORDS"]),
            )
        }
        self._camera = self.create_publisher(CompressedImage, f"{CAMERA}/compressed", PROFILES["REPLAY_IMAGES"])
        self.create_timer(1 / hz, self._publish)

    def _publish(self) -> None:
        now_ns = time.time_ns()
        elapsed_s = (now_ns - self._start_ns) / NS
        progress = 0.5 - 0.45 * math.cos(elapsed_s / 5 + self._number)
        self._ticks += 1
        episode = f"crowd_{self._number}"
        status = MonitorStatus(
            stamp_ns=now_ns,
            episode_id=episode,
            state=EpisodeState.RUNNING,
            task=f"task of robot {self._number}",
            elapsed_s=elapsed_s,
            progress=progress,
            progress_raw=progress,
            mp=0.95,
            drawdown=0.95 - progress,
            max_drawdown=0.9,
            smoothness=-2.5,
            rms_jerk=1.5,
            moving=True,
            estimates=self._ticks,
            estimate_age_s=0.05,
            model="crowd 1",
        )
        estimate = ProgressEstimate(
            stamp_ns=now_ns, episode_id=episode, status=EstimateStatus.OK, progress=progress, latency_s=0.02
        )
        figures = MotionFigures(
            samples=100, duration_s=2.0, rms_jerk=1.5, sparc=-2.5, rms_jerk_per_joint=[0.5 + progress] * len(JOINTS)
        )
        health = JointHealth(received=self._ticks, used=self._ticks, rate_hz=500.0, last_stamp_ns=now_ns)
        summary = KinematicSummary(
            stamp_ns=now_ns,
            episode_id=episode,
            joint_names=JOINTS,
            grid_rate_hz=100.0,
            rows=[GridRow(stamp_ns=now_ns, positions=[0.1] * len(JOINTS))] * 10,
            window=figures,
            episode=figures,
            moving=True,
            health=health,
        )
        self._senders["status"].publish(convert.status_to_msg(status))
        self._senders["progress"].publish(convert.progress_to_msg(estimate))
        self._senders["kinematics"].publish(convert.kinematics_to_msg(summary))
        if self._ticks % int(self._hz) == 0:
            camera = CameraHealth(camera="front", stamp_ns=now_ns, last_frame_ns=now_ns, rate_hz=self._hz)
            self._senders["cameras"].publish(convert.camera_to_msg(camera))
        picture = CompressedImage(format="jpeg", data=self._jpegs[self._ticks % len(self._jpegs)])
        picture.header.stamp = convert.time_to_msg(now_ns)
        self._camera.publish(picture)


def jpegs() -> list[bytes]:
    """Pictures that differ, as large as those of a real scene."""
    rng = np.random.default_rng(5)
    scene = cv2.resize(rng.integers(0, 255, (24, 32, 3), dtype=np.uint8), SIZE[::-1])
    pictures = []
    for number in range(PICTURES):
        picture = scene.copy()
        cv2.circle(picture, (16 * number, 120), 30, (0, 0, 255), -1)
        pictures.append(cv2.imencode(".jpg", picture)[1].tobytes())
    return pictures


def main() -> None:
    """Command line; runs until it is stopped."""
    rclpy.init()
    executor = SingleThreadedExecutor()
    pictures = jpegs()
    for number in range(int(sys.argv[1])):
        executor.add_node(Robot(number, float(sys.argv[2]), pictures))
    with suppress(KeyboardInterrupt, ExternalShutdownException):
        executor.spin()


if __name__ == "__main__":
    main()
