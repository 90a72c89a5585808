"""`rollout-monitor kinematics`: smoothness of recorded joint positions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from rollout_monitor.errors import InputError

_EXAMPLES = """
Examples:

  rollout-monitor kinematics joints.csv --rate 30

  rollout-monitor kinematics rtde_log.csv --json

  rollout-monitor kinematics runs.csv --columns '^V10_' --time-column none --rate 125
"""

_FIGURES = (
    ("u_v", "worst velocity variance, unit steps (rad^2)", "worst_joint_v"),
    ("u_a", "worst acceleration variance, unit steps (rad^2)", "worst_joint_a"),
    ("mu_v", "mean absolute velocity, unit steps (rad)", None),
    ("u_v_si", "worst velocity variance, (rad/s)^2", "worst_joint_v"),
    ("u_a_si", "worst acceleration variance, (rad/s^2)^2", "worst_joint_a"),
    ("mu_v_si", "mean absolute velocity, rad/s", None),
    ("rms_jerk", "RMS jerk, rad/s^3", "worst_joint_jerk"),
    ("ldlj", "log dimensionless jerk, nearer 0 is smoother", None),
    ("sparc", "spectral arc length, nearer 0 is smoother", None),
    ("idle_fraction", "share of steps in which every joint stands still", None),
    ("reversals", "changes of direction, all joints", None),
    ("speed_peaks", "peaks of the joint-speed norm", None),
    ("peak_speed", "largest joint speed, rad/s", None),
    ("peak_acceleration", "largest joint acceleration, rad/s^2", None),
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("kinematics", epilog=_EXAMPLES)(kinematics)


def kinematics(
    joints: Annotated[Path, typer.Argument(help="joint positions in rad, CSV with a header of joint names")],
    rate: Annotated[float, typer.Option(help="grid rate, Hz; without a time column the rows are this grid")] = 30.0,
    columns: Annotated[str | None, typer.Option(help="regular expression that chooses the joint columns")] = None,
    time_column: Annotated[str | None, typer.Option(help="name of the time column, or none")] = None,
    gripper: Annotated[list[str] | None, typer.Option(help="column kept out of smoothness; repeatable")] = None,
    gap_limit: Annotated[float, typer.Option(help="longer holes are left open, s")] = 0.2,
    idle_speed: Annotated[float, typer.Option(help="slower is standing still, rad/s")] = 0.02,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> None:
    """Kinematic smoothness of recorded joint positions: the paper's summary, the same in SI units, jerk, SPARC.

    With a time column (t, time, timestamp in seconds; stamp_ns in nanoseconds) the log is brought to a uniform grid
    of --rate as the live stream would be: low-passed where it is faster, holes left open. Without one its rows are
    the grid. The measured positions of a UR RTDE log (actual_q_0 ...) are recognised; --columns chooses others.
    """
    from pydantic import ValidationError  # noqa: PLC0415 - heavy imports stay in the command

    from rollout_monitor.motion.csv import read_joints, to_grid  # noqa: PLC0415
    from rollout_monitor.motion.figures import figures  # noqa: PLC0415
    from rollout_monitor.motion.settings import MotionSettings  # noqa: PLC0415
    from rollout_monitor.motion.text import i_phys  # noqa: PLC0415

    try:
        settings = MotionSettings(grid_rate_hz=rate, gap_limit_s=gap_limit, idle_speed=idle_speed)
    except ValidationError as error:
        raise InputError("; ".join(f"{e['loc'][0] if e['loc'] else ''}: {e['msg']}" for e in error.errors())) from error
    log = read_joints(joints, columns, time_column).without(gripper or [])
    gridded = to_grid(log, settings)
    found = figures(gridded.segments, rate, log.joint_names, idle_speed)
    text = i_phys(found, log.joint_names) if found.u_a is not None else None
    result = {
        **found.model_dump(mode="json"),
        "joint_names": log.joint_names,
        "grid_rate_hz": rate,
        "segments": len(gridded.segments),
        "time_column": log.time_column,
        "i_phys": text,
        "health": gridded.health.model_dump(mode="json") if gridded.health else None,
    }
    typer.echo(json.dumps(result, indent=1)) if as_json else _print(joints, result)


def _print(path: Path, result: dict[str, object]) -> None:
    from rich.console import Console  # noqa: PLC0415
    from rich.markup import escape  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    title = f"{path.name}: {result['samples']} rows at {result['grid_rate_hz']:g} Hz, {result['segments']} segment(s)"
    table = Table("figure", "value", "worst joint", "meaning", title=escape(title))
    for key, meaning, worst in _FIGURES:
        value = result[key]
        text = "absent" if value is None else f"{value:.5g}"
        table.add_row(key, text, escape(str(result[worst] or "")) if worst else "", meaning)
    console = Console()
    console.print(table)
    if result["i_phys"]:
        console.print(escape(str(result["i_phys"])), soft_wrap=True)
