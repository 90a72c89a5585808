"""Badly behaved (or well behaved) nodes in a process of their own, for the tests of `rollout-monitor doctor`.

Usage: python talker.py KIND NODE TOPIC [WORD ...] [-- KIND NODE TOPIC [WORD ...] ...]; the words are explained
where they are used.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress

import cv2
import numpy as np
import rclpy
from builtin_interfaces.msg import Time
from rclpy.clock import Clock as NodeClock
from rclpy.clock_type import ClockType
from rclpy.duration import Duration
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import CompressedImage, Image, JointState


def quality(words: set[str]) -> QoSProfile:
    """Best effort unless ``reliable``; volatile unless ``latched``; a deadline of 10 ms if ``hurried``."""
    reliability = ReliabilityPolicy.RELIABLE if "reliable" in words else ReliabilityPolicy.BEST_EFFORT
    durability = DurabilityPolicy.TRANSIENT_LOCAL if "latched" in words else DurabilityPolicy.VOLATILE
    profile = QoSProfile(depth=5, reliability=reliability, durability=durability)
    if "hurried" in words:
        profile.deadline = Duration(nanoseconds=10_000_000)
    return profile


def camera(node: Node, topic: str, words: set[str]) -> Callable[[], None]:
    """640x480 if ``large``, else 32x24; ``frozen``, ``dark``, or noise that changes."""
    publisher = node.create_publisher(Image, topic, quality(words))
    height, width = (480, 640) if "large" in words else (24, 32)
    rng = np.random.default_rng(1)
    still = rng.integers(0, 256, height * width * 3, dtype=np.uint8).tobytes()

    def publish() -> None:
        data = still if "frozen" in words else rng.integers(0, 4 if "dark" in words else 256, len(still), np.uint8)
        message = Image(height=height, width=width, encoding="rgb8", step=width * 3, data=bytes(data))
        message.header.stamp = node.get_clock().now().to_msg()
        publisher.publish(message)

    return publish


def torn(node: Node, topic: str, words: set[str]) -> Callable[[], None]:
    """A camera that sends JPEG of which the middle is missing."""
    publisher = node.create_publisher(CompressedImage, topic, quality(words))
    rng = np.random.default_rng(2)

    def publish() -> None:
        whole = cv2.imencode(".jpg", rng.integers(0, 256, (120, 160, 3), dtype=np.uint8))[1].tobytes()
        message = CompressedImage(format="jpeg", data=whole[:1500] + whole[-1500:])
        message.header.stamp = node.get_clock().now().to_msg()
        publisher.publish(message)

    return publish


def depth(node: Node, topic: str, words: set[str]) -> Callable[[], None]:
    """A depth camera that measures nothing."""
    publisher = node.create_publisher(Image, topic, quality(words))

    def publish() -> None:
        message = Image(height=24, width=32, encoding="16UC1", step=64, data=bytes(24 * 64))
        message.header.stamp = node.get_clock().now().to_msg()
        publisher.publish(message)

    return publish


def joints(node: Node, topic: str, words: set[str]) -> Callable[[], None]:
    """An arm of one joint; ``malformed`` with a position too many, ``blind`` with one that is no number."""
    publisher = node.create_publisher(JointState, topic, quality(words))

    def publish() -> None:
        message = JointState(name=["elbow_joint"], position=[float("nan") if "blind" in words else 0.5])
        if "malformed" in words:
            message.position.append(0.5)
        message.header.stamp = node.get_clock().now().to_msg()
        publisher.publish(message)

    return publish


def clock(node: Node, topic: str, words: set[str]) -> Callable[[], None]:
    """A clock, which moves unless it is ``stuck``, ``looping`` or ``crawling`` (20 us a second)."""
    publisher = node.create_publisher(Clock, topic, quality(words))
    ticks = 0

    def publish() -> None:
        nonlocal ticks
        ticks += 0 if "stuck" in words else 1
        moved = (
            Time(nanosec=ticks * 1000) if "crawling" in words else Time(sec=ticks % 20 if "looping" in words else ticks)
        )
        publisher.publish(Clock(clock=Time(sec=1000 + moved.sec, nanosec=moved.nanosec)))

    return publish


def viewer(node: Node, topic: str, words: set[str]) -> Callable[[], None]:
    """Looks at a camera and shows nothing."""
    node.create_subscription(Image, topic, lambda _: None, quality(words))
    return lambda: None


def sleeper(node: Node, topic: str, words: set[str]) -> Callable[[], None]:
    """A node that goes by simulated time."""
    node.set_parameters([Parameter("use_sim_time", value=True)])
    return lambda: None


KINDS: dict[str, Callable[[Node, str, set[str]], Callable[[], None]]] = {
    "camera": camera,
    "torn": torn,
    "depth": depth,
    "joints": joints,
    "clock": clock,
    "viewer": viewer,
    "sleeper": sleeper,
}


def make(kind: str, name: str, topic: str, *words: str) -> Node:
    """A node that publishes twenty times a second."""
    node = Node(name)
    publish = KINDS[kind](node, topic, set(words))
    node.create_timer(0.05, publish, clock=NodeClock(clock_type=ClockType.STEADY_TIME))
    return node


def main() -> None:
    """Command line; runs until it is stopped."""
    rclpy.init()
    executor = SingleThreadedExecutor()
    nodes = [make(*words.split()) for words in " ".join(sys.argv[1:]).split(" -- ")]
    for node in nodes:
        executor.add_node(node)
    with suppress(KeyboardInterrupt, ExternalShutdownException):
        executor.spin()


if __name__ == "__main__":
    main()
