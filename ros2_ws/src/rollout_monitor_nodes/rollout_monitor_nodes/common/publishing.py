"""Publishers made from a node's interface table."""

from __future__ import annotations

from typing import Any

from rclpy.node import Node

from rollout_monitor_nodes.common.qos import PROFILES
from rollout_monitor_nodes.common.types import import_type
from rollout_monitor_nodes.interfaces import Topic


def make_publisher(node: Node, topic: Topic) -> Any:
    """A publisher for one row of the table."""
    return node.create_publisher(import_type(topic.type), topic.name, PROFILES[topic.qos])
