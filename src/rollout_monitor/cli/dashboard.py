"""`rollout-monitor dashboard`: a live page with a card per robot, in any browser on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rollout_monitor.cli.replay import become_node

NODE = "rollout_monitor_nodes.dashboard_node"

_EXAMPLES = """
Examples:

  scripts/ros_run rollout-monitor dashboard

  scripts/ros_run rollout-monitor dashboard --episodes ~/episodes --namespace /ur5e --namespace /arx_left

  scripts/ros_run rollout-monitor dashboard --host 0.0.0.0 --name cell-3.local
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("dashboard", epilog=_EXAMPLES)(dashboard)


def dashboard(
    episodes: Annotated[
        list[Path] | None, typer.Option(help="folder of reports; repeatable; default: episodes")
    ] = None,
    namespace: Annotated[
        list[str] | None, typer.Option(help="show this robot; repeatable; default: every robot that is heard")
    ] = None,
    host: Annotated[
        str, typer.Option(help="address to bind to; one that others can reach brings a token")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="port; 0 takes any that is free")] = 8642,
    name: Annotated[
        list[str] | None, typer.Option(help="host name that it is reached under, besides addresses; repeatable")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="file of the token, readable by you alone; default: a random token")
    ] = None,
) -> None:
    """Serve the live dashboard until Ctrl-C: robots, their episodes and controls, past episodes and their reports."""
    become_node(NODE, parameters(episodes or [Path("episodes")], namespace or [], host, port, name or [], token_file))


def parameters(
    episodes: list[Path], namespaces: list[str], host: str, port: int, names: list[str], token_file: Path | None
) -> dict[str, object]:
    """The node's parameters. An empty list is left out: ROS has no empty array without a type."""
    values: dict[str, object] = {
        "host": host,
        "port": port,
        "episodes": [str(folder.absolute()) for folder in episodes],
    }
    if namespaces:
        values["namespaces"] = namespaces
    if names:
        values["names"] = names
    if token_file is not None:
        values["token_file"] = str(token_file.absolute())
    return values
