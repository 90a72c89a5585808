"""Packaging of the nodes for colcon (ament_python)."""

from setuptools import find_packages, setup

PACKAGE = "rollout_monitor_nodes"
NODES = (
    "prm_node",
    "monitor_node",
    "recorder",
    "overlay_node",
    "replay_node",
    "sim_robot_node",
    "watch",
    "dashboard_node",
)

setup(
    name=PACKAGE,
    version="0.1.0",
    packages=find_packages(exclude=["test"]),
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{PACKAGE}"]),
        (f"share/{PACKAGE}", ["package.xml"]),
    ],
    install_requires=["setuptools"],
    zip_safe=True,
    maintainer="rollout-monitor maintainers",
    maintainer_email="maintainers@rollout-monitor.dev",
    description="The thin rclpy nodes of rollout-monitor.",
    license="Apache-2.0",
    entry_points={"console_scripts": [f"{node} = {PACKAGE}.executables:{node}" for node in NODES]},
)
