"""Publishers made from a node's interface table, and their end."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from rclpy.duration import Duration
from rclpy.node import Node

from rollout_monitor_nodes.common.qos import PROFILES
from rollout_monitor_nodes.common.types import import_type
from rollout_monitor_nodes.interfaces import Topic

ACKNOWLEDGED_WITHIN_S = 0.5
"""A reader that hangs must not keep a node from ending."""


def make_publisher(node: Node, topic: Topic) -> Any:
    """A publisher for one row of the table."""
    return node.create_publisher(import_type(topic.type), topic.name, PROFILES[topic.qos])


def destroy_publishers(node: Node, publishers: Iterable[Any], patience_s: float = ACKNOWLEDGED_WITHIN_S) -> None:
    """Destroy publishers once everybody has what they sent, or the patience for all of them together is at its end.

    The middleware sends later, from a thread of its own: what was published last would go down with the publisher.
    """
    end_s = time.monotonic() + patience_s
    for publisher in publishers:
        publisher.wait_for_all_acked(Duration(seconds=max(0.0, end_s - time.monotonic())))
        node.destroy_publisher(publisher)
