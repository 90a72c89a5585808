"""`rollout-monitor up`: start the monitor's nodes and keep them running, without `ros2 launch`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_EXAMPLES = """
Examples:

  scripts/ros_run rollout-monitor up

  scripts/ros_run rollout-monitor up --namespace /ur5e --camera front=/cam/color/image_raw --joint-states /joint_states

  scripts/ros_run rollout-monitor up --params-file my_task.yaml --episodes /data/episodes

  scripts/ros_run rollout-monitor up --dry-run
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("up", epilog=_EXAMPLES)(up)


def up(
    config: Annotated[Path | None, typer.Option(help="parameters of all nodes; default: config/monitor.yaml")] = None,
    params_file: Annotated[Path | None, typer.Option(help="further parameters; its values win")] = None,
    stack: Annotated[Path | None, typer.Option(help="which nodes run; default: config/stack.yaml")] = None,
    namespace: Annotated[str, typer.Option(help="namespace of the robot, for example /ur5e")] = "",
    camera: Annotated[list[str] | None, typer.Option(help="NAME=TOPIC, the primary first; repeatable")] = None,
    joint_states: Annotated[str | None, typer.Option(help="joint state topic, where it is named otherwise")] = None,
    model: Annotated[str | None, typer.Option(help="progress model; see `rollout-monitor models`")] = None,
    episodes: Annotated[str | None, typer.Option(help="folder for reports and recordings")] = None,
    use_sim_time: Annotated[
        bool | None, typer.Option("--use-sim-time/--no-use-sim-time", help="take the time from /clock")
    ] = None,
    record: Annotated[bool, typer.Option("--record/--no-record", help="record each episode")] = True,
    log_level: Annotated[str, typer.Option(help="debug, info, warn, error or fatal")] = "info",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="print what would be started, as JSON")] = False,
) -> None:
    """Start the nodes, show their output, restart what may be restarted; Ctrl-C stops all of them cleanly."""
    import asyncio  # noqa: PLC0415 - heavy imports stay in the command

    from rollout_monitor.bringup.stack import Options, as_json, describe, parse_cameras  # noqa: PLC0415
    from rollout_monitor.bringup.supervisor import Supervisor  # noqa: PLC0415

    processes = describe(
        Options(
            config=config,
            params_file=params_file,
            stack=stack,
            namespace=namespace,
            cameras=parse_cameras(camera or []),
            joint_states=joint_states,
            model=model,
            episodes=episodes,
            use_sim_time=use_sim_time,
            record=record,
            log_level=log_level,
        )
    )
    if dry_run:
        typer.echo(as_json(processes))
        return
    raise typer.Exit(asyncio.run(Supervisor(processes).run()))
