"""Everything here needs a ROS 2 environment: run through scripts/ros_run, as `make test` does."""

from __future__ import annotations

import importlib.util

import pytest

MISSING = [
    name for name in ("rclpy", "rollout_monitor_msgs", "rollout_monitor_nodes") if not importlib.util.find_spec(name)
]
collect_ignore_glob = ["test_*.py"] if MISSING else []


def pytest_report_header() -> str | None:
    """Say why nothing of this folder runs, where that is so."""
    if MISSING:
        return f"tests/ros is left out: {', '.join(MISSING)} cannot be imported; run it through scripts/ros_run"
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what starts processes of its own."""
    for item in items:
        if "graph" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.ros)
