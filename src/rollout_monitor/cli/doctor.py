"""`rollout-monitor doctor`: what is wrong with this machine's ROS environment and the running graph, and what to do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Annotated, Any

import typer

from rollout_monitor.errors import RolloutMonitorError

_PROBE = "rollout_monitor_nodes.graph_probe"
_EXAMPLES = """
Examples:

  scripts/ros_run rollout-monitor doctor

  ROS_DOMAIN_ID=7 scripts/ros_run rollout-monitor doctor --seconds 10

  scripts/ros_run rollout-monitor doctor --json

Exit codes: 0 nothing is wrong, 1 a warning or an error was found, 2 wrong usage. What it says: docs/doctor.md.
"""
_STYLES = {"ok": "green", "note": "cyan", "warning": "yellow", "error": "red"}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("doctor", epilog=_EXAMPLES)(doctor)


def doctor(
    seconds: Annotated[float, typer.Option(min=1.0, max=600.0, help="how long to measure rates")] = 4.0,
    domain: Annotated[list[int] | None, typer.Option(help="also look for nodes in this domain; repeatable")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print findings and the graph as JSON")] = False,
) -> None:
    """Examine environment and graph: topics, types, rates, QoS on both sides; name what is wrong and the remedy."""
    import importlib.util  # noqa: PLC0415 - what the command needs stays in the command
    import time  # noqa: PLC0415
    from dataclasses import asdict  # noqa: PLC0415

    from rollout_monitor.cli.diagnosis import (  # noqa: PLC0415
        Level,
        examine_environment,
        examine_graph,
        worst,
    )

    environ = dict(os.environ)
    has_rclpy = importlib.util.find_spec("rclpy") is not None
    has_nodes = importlib.util.find_spec("rollout_monitor_nodes") is not None
    findings = examine_environment(environ, has_rclpy, has_nodes)
    graph: dict[str, Any] | None = None
    if has_rclpy and has_nodes:
        graph = _probe(seconds, sorted({0, 1, 2, *(domain or [])}))
        findings += examine_graph(graph, environ, time.time_ns())
    if as_json:
        typer.echo(json.dumps({"findings": [asdict(finding) for finding in findings], "graph": graph}, indent=1))
    else:
        _show(findings)
    raise typer.Exit(1 if worst(findings) in (Level.WARN, Level.ERROR) else 0)


def _probe(seconds: float, domains: list[int]) -> dict[str, Any]:
    """Look at the graph in a process of its own: a middleware that crashes must not take the doctor with it."""
    command = [sys.executable, "-m", _PROBE, str(seconds), *map(str, domains)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - built here
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise RolloutMonitorError(f"the graph could not be looked at (exit code {done.returncode}): {last}")
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def _show(findings: list[Any]) -> None:
    from rich.console import Console  # noqa: PLC0415
    from rich.markup import escape  # noqa: PLC0415

    console = Console(highlight=False)
    for finding in findings:
        style = _STYLES[finding.level.value]
        level = f"[{style}]{finding.level.value:>7}[/{style}]"
        console.print(f"{level}  [bold]{escape(finding.subject)}[/bold]: {escape(finding.what)}", soft_wrap=True)
        if finding.remedy:
            console.print(f"         -> {escape(finding.remedy)}", soft_wrap=True)
