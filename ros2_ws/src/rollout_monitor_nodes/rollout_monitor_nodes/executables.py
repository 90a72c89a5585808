"""Where `ros2 run rollout_monitor_nodes ...` enters: the stop signals are caught before anything else is imported.

Importing takes a second; an operator who stops the stack within it gets a clean end, too, and no traceback.
"""

from __future__ import annotations

import importlib

from rollout_monitor_nodes.common import signals


def _enter(name: str) -> None:
    signals.catch()
    importlib.import_module(f"rollout_monitor_nodes.{name}").main()


def prm_node() -> None:
    """Run prm_node."""
    _enter("prm_node")


def monitor_node() -> None:
    """Run monitor_node."""
    _enter("monitor_node")


def recorder() -> None:
    """Run recorder."""
    _enter("recorder")


def overlay_node() -> None:
    """Run overlay_node."""
    _enter("overlay_node")


def replay_node() -> None:
    """Run replay_node."""
    _enter("replay_node")


def sim_robot_node() -> None:
    """Run sim_robot_node."""
    _enter("sim_robot_node")


def watch() -> None:
    """Run watch."""
    _enter("watch")


def dashboard_node() -> None:
    """Run dashboard_node."""
    _enter("dashboard_node")
