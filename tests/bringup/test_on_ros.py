"""What the bring-up assumes about ROS 2 itself, asked of the real thing. Needs the environment of scripts/ros_run."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from domains import domain_of_our_own

from rollout_monitor.bringup.parameters import read_parameters, resolve

rclpy = pytest.importorskip("rclpy", reason="rclpy cannot be imported; run through scripts/ros_run")
from rclpy.executors import SingleThreadedExecutor  # noqa: E402 - only where there is ROS 2
from rclpy.qos import QoSProfile, ReliabilityPolicy  # noqa: E402
from sensor_msgs.msg import Image  # noqa: E402

pytestmark = pytest.mark.ros

DEADLINE_S = 60.0
IMAGES, WIDTH, HEIGHT, RATE_HZ = 100, 1920, 1080, 10.0
UNBROKEN = 12  # images in a row

PUBLISHER = f"""
import sys, time
import rclpy
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import Image

rclpy.init(domain_id=int(sys.argv[1]))
node = rclpy.create_node("camera")
publisher = node.create_publisher(Image, "image", QoSProfile(depth=5, reliability=ReliabilityPolicy.BEST_EFFORT))
image = Image(width={WIDTH}, height={HEIGHT}, step={WIDTH} * 3, encoding="rgb8")
image.data = bytes({WIDTH} * {HEIGHT} * 3)
deadline = time.monotonic() + {DEADLINE_S}
while not publisher.get_subscription_count():
    if time.monotonic() > deadline: sys.exit("no subscriber came")
    time.sleep(0.01)
for number in range({IMAGES}):
    image.header.stamp.sec = number
    publisher.publish(image)
    time.sleep(1 / {RATE_HZ})
    if not publisher.get_subscription_count(): break
rclpy.shutdown()
"""


@pytest.fixture(scope="module")
def domain() -> Iterator[int]:
    with domain_of_our_own() as domain:
        yield domain


@pytest.mark.parametrize(
    "key", ["/**", "/**/prm_node", "/*/prm_node", "/prm_node", "prm_node", "/ur5e/prm_node", "/ur5e/**"]
)
def test_sections_match_as_ros_matches_them(tmp_path: Path, domain: int, key: str) -> None:
    path = tmp_path / "parameters.yaml"
    path.write_text(f"{key}:\n  ros__parameters:\n    gate: {{jump_s: 2.0}}\n    names: [a, b]\n", encoding="utf-8")
    context = rclpy.Context()
    rclpy.init(args=["--ros-args", "--params-file", str(path)], context=context, domain_id=domain)
    try:
        for namespace in ("", "/ur5e", "/lab/ur5e"):
            node = rclpy.create_node("prm_node", namespace=namespace or None, context=context)
            given = {name: parameter.value for name, parameter in node._parameter_overrides.items()}
            node.destroy_node()
            assert resolve(read_parameters(path), f"{namespace}/prm_node") == given
    finally:
        rclpy.shutdown(context=context)


def test_large_best_effort_images_arrive(domain: int) -> None:
    """Without the shared-memory profile most of them are lost, silently: no run of them arrives unbroken."""
    context = rclpy.Context()
    rclpy.init(context=context, domain_id=domain)
    node = rclpy.create_node("viewer", context=context)
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(node)
    got: list[int] = []
    qos = QoSProfile(depth=5, reliability=ReliabilityPolicy.BEST_EFFORT)
    node.create_subscription(Image, "image", lambda image: got.append(image.header.stamp.sec), qos)
    with subprocess.Popen([sys.executable, "-c", PUBLISHER, str(domain)]) as camera:
        try:
            while longest_run(got) < UNBROKEN and camera.poll() is None:
                executor.spin_once(timeout_sec=0.1)
        finally:  # the camera ends when nobody looks
            executor.shutdown()
            node.destroy_node()
            rclpy.shutdown(context=context)
    assert camera.returncode == 0
    assert longest_run(got) >= UNBROKEN, f"of {IMAGES} images came {got}"


def longest_run(numbers: list[int]) -> int:
    """Length of the longest stretch that counts up by ones."""
    longest = run = 0
    for before, number in itertools.pairwise([-2, *numbers]):
        run = run + 1 if number == before + 1 else 1
        longest = max(longest, run)
    return longest
