"""A subscriber that does nothing: the EventsExecutor receiving `joint_states`, for `bench_ros.py` to compare with."""

from __future__ import annotations

import rclpy
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from rclpy.task import Future
from rollout_monitor_nodes.common.spin import make_executor, spin_until
from sensor_msgs.msg import JointState


def main() -> None:
    """Receive until the process is ended."""
    rclpy.init()
    node = Node("bare_reception")
    node.create_subscription(JointState, "joint_states", lambda _: None, qos_profile_sensor_data)
    executor = make_executor()
    executor.add_node(node)
    spin_until(executor, Future(executor=executor))


if __name__ == "__main__":
    main()
