"""`rollout-monitor replay`: play a recorded rollout over real topics, with its original timing."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from rollout_monitor.errors import InputError

_NODE = "rollout_monitor_nodes.replay_node"

_EXAMPLES = """
Examples:

  scripts/ros_run rollout-monitor replay demo/lift_success

  scripts/ros_run rollout-monitor replay take_12.mcap --namespace /ur5e --rate 2

  scripts/ros_run rollout-monitor replay take_12 --loop --clock

  scripts/ros_run rollout-monitor replay take_12 --topic /joint_states --wait-for /joint_states=2
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("replay", epilog=_EXAMPLES)(replay)


def replay(
    bag: Annotated[Path, typer.Argument(help="rosbag2 folder, .mcap or .db3 file")],
    rate: Annotated[float, typer.Option(help="factor on the original timing")] = 1.0,
    loop: Annotated[bool, typer.Option("--loop", help="begin again at the end; stamps are moved on")] = False,
    clock: Annotated[bool, typer.Option("--clock", help="publish /clock from the recording's time")] = False,
    restamp: Annotated[bool, typer.Option("--restamp", help="move stamps so that the recording begins now")] = False,
    namespace: Annotated[str, typer.Option(help="put before every topic of the bag, for example /ur5e")] = "",
    topic: Annotated[list[str] | None, typer.Option(help="play only this topic of the bag; repeatable")] = None,
    outputs: Annotated[bool, typer.Option("--outputs", help="play also what a monitor had published")] = False,
    wait_for: Annotated[list[str] | None, typer.Option(help="TOPIC or TOPIC=N subscribers to wait for")] = None,
    wait: Annotated[float, typer.Option(help="longest wait for subscribers, s; 0 starts at once")] = 10.0,
) -> None:
    """Play a recording byte for byte over the topics it was recorded from; ends with exit code 0 when done."""
    if not bag.exists():
        raise InputError(f"{bag}: no such file or folder")
    parameters: dict[str, object] = {
        "bag": str(bag.absolute()),
        "rate": float(rate),
        "loop": loop,
        "clock": clock,
        "restamp": restamp,
        "prefix": namespace,
        "outputs": outputs,
        "wait_for_subscribers_s": float(wait),
    }
    if topic:
        parameters["topics"] = topic
    if wait_for:
        parameters["wait_for"] = wait_for
    become_node(_NODE, parameters)


def become_node(module: str, parameters: dict[str, object]) -> None:
    """Replace this process by a node, so that signals and the exit code are the node's own.

    Raises:
        InputError: no ROS 2 environment.
    """
    require_ros(module)
    command = [sys.executable, "-m", module, "--ros-args"]
    for name, value in parameters.items():
        command += ["-p", f"{name}:={json.dumps(value)}"]  # JSON is YAML with every text quoted
    sys.stdout.flush()
    os.execv(sys.executable, command)  # noqa: S606 - no shell, and the command is built here


def require_ros(module: str) -> None:
    """Say what to do where ROS 2 or the built workspace is not in the environment.

    Raises:
        InputError: it is not.
    """
    missing = [name for name in ("rclpy", module.partition(".")[0]) if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(
            f"{missing[0]} cannot be imported: run 'make setup' once, then start this through scripts/ros_run"
        )
