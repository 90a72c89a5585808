"""`rollout-monitor demo`: the real stack watches three recorded rollouts, played over DDS in real time.

The dashboard runs beside it. Where it cannot, the demo is the same without it.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated

import typer
from rich.console import Console

from rollout_monitor.errors import InputError, RolloutMonitorError
from rollout_monitor.records import EpisodeReport

NAMESPACE = "/ur5e"
DASHBOARD_PORT = 8642
CAMERAS = ("front=camera_front/color/image_raw", "wrist=camera_wrist/color/image_raw")
_REPORT_WAIT_S = 90.0
_STOP_WAIT_S = 20.0

_EXAMPLES = """
Examples:

  make demo

  scripts/ros_run rollout-monitor demo --episodes /tmp/demo

  make demo-live
"""


@dataclass(frozen=True)
class Attempt:
    """One attempt of the demo and how it truly went, read from the simulator's state when it was made."""

    bag: str
    task: str  # at the simulated table, for --live
    mode: str
    seed: int
    title: str
    truth: str


ATTEMPTS = (
    Attempt("lift_success", "lift:red", "success", 900057, "a lift that goes well", "success"),
    Attempt(
        "lift_drop_recover", "lift:red", "drop_recover", 900057, "the cube is dropped and picked up again", "success"
    ),
    Attempt("stack_stall", "on:red:green", "stall", 900059, "the arm freezes in mid-task", "failure"),
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("demo", epilog=_EXAMPLES)(demo)


def demo(
    bags: Annotated[Path, typer.Option(help="folder of the bundled recordings")] = Path("demo"),
    episodes: Annotated[Path | None, typer.Option(help="folder for the reports; default: a new one in runs/")] = None,
    live: Annotated[bool, typer.Option("--live", help="simulate the attempts instead (extra [sim])")] = False,
    dashboard: Annotated[
        bool, typer.Option("--dashboard/--no-dashboard", help="serve the live dashboard meanwhile")
    ] = True,
) -> None:
    """Start the monitor, play a success, a recovered drop and a stall, and show what an operator sees."""
    console = Console()
    folder = _new_folder() if episodes is None else episodes
    folder.mkdir(parents=True, exist_ok=True)
    if not live:
        _refuse_missing([bags / attempt.bag for attempt in ATTEMPTS])
    console.print(f"[bold]rollout-monitor demo[/bold]: {len(ATTEMPTS)} attempts of a simulated UR5e, ", end="")
    console.print("live from the simulator" if live else "recorded, played at real time over DDS")
    for number, attempt in enumerate(ATTEMPTS, start=1):
        console.print(f"  {number}. {attempt.title} (truth: {attempt.truth})")
    console.print(f"logs and reports: {folder}", soft_wrap=True)
    port = _free_port() if dashboard else None
    if port is not None:
        console.print(f"live dashboard: http://127.0.0.1:{port}", soft_wrap=True)
    console.print()
    with (folder / "stack.log").open("w", encoding="utf-8") as log, _dashboard(port, folder, console):
        reports = _play(bags, folder, live, log)
    raise typer.Exit(_verdict(console, reports, folder))


def _free_port() -> int | None:
    """The dashboard's own port, or another where that is taken; None, and no dashboard, where there is none at all."""
    for port in (DASHBOARD_PORT, 0):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)) as listening:
            return int(listening.getsockname()[1])
    return None


@contextmanager
def _dashboard(port: int | None, folder: Path, console: Console) -> Iterator[subprocess.Popen[str] | None]:
    """The dashboard beside the demo. Nothing waits for it, and the demo goes on where it cannot run."""
    if port is None:
        yield None
        return
    command = [*_node("dashboard_node", namespace=""), "-p", f"port:={port}"]
    command += ["-p", f"episodes:={json.dumps([str(folder)])}"]
    with (folder / "dashboard.log").open("w", encoding="utf-8") as log, _running(command, log) as process:
        yield process
        if process.poll() is not None:
            console.print(f"the dashboard could not run: see {folder}/dashboard.log", soft_wrap=True)


def _play(bags: Path, folder: Path, live: bool, log: IO[str]) -> list[EpisodeReport]:
    up = [sys.executable, "-m", "rollout_monitor", "up", "--namespace", NAMESPACE, "--episodes", str(folder)]
    up += ["--params-file", str(bags / ("live.yaml" if live else "params.yaml"))]
    for camera in CAMERAS:
        up += ["--camera", camera]
    watch = [*_node("watch"), "-p", f"reports:={len(ATTEMPTS)}"]
    reports: list[EpisodeReport] = []
    with _running(up, log) as stack, _running(watch, None) as viewer:
        for command, attempts in _simulated() if live else _recorded(bags):
            with _running(command, log) as source:
                for attempt in attempts:
                    reports.append(_wait_for_report(reports, source, stack, attempt, folder))
                _wait_for_end(source, folder)
        try:
            viewer.wait(_REPORT_WAIT_S)
        except subprocess.TimeoutExpired as error:
            raise RolloutMonitorError("the terminal view missed a report that was written") from error
    return reports


def _recorded(bags: Path) -> list[tuple[list[str], Sequence[Attempt]]]:
    """One process that plays all recordings."""
    first, *further = (str(bags / attempt.bag) for attempt in ATTEMPTS)
    return [([*_node("replay_node"), "-p", f"bag:={first}", "-p", f"then:={json.dumps(further)}"], ATTEMPTS)]


def _simulated() -> list[tuple[list[str], Sequence[Attempt]]]:
    """A process per attempt: each has its own task."""
    return [
        (
            [
                *_node("sim_robot_node"),
                *("-p", f"task:={attempt.task}"),
                *("-p", f"mode:={attempt.mode}"),
                *("-p", f"seed:={attempt.seed}"),
            ],
            [attempt],
        )
        for attempt in ATTEMPTS
    ]


def _node(name: str, namespace: str = NAMESPACE) -> list[str]:
    command = [sys.executable, "-m", f"rollout_monitor_nodes.{name}", "--ros-args"]
    return [*command, "-r", f"__ns:={namespace}"] if namespace else command


@contextmanager
def _running(command: Sequence[str], log: IO[str] | None) -> Iterator[subprocess.Popen[str]]:
    """A process of our own, in a group of its own, that is ended as an operator would: SIGINT, then harder."""
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(  # noqa: S603 - the command is built here
        list(command), stdout=log, stderr=log, text=True, env=environment, start_new_session=log is not None
    )
    try:
        yield process
    finally:
        for kind in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            if process.poll() is not None:
                break
            process.send_signal(kind)
            try:
                process.wait(_STOP_WAIT_S)
            except subprocess.TimeoutExpired:
                continue


def _wait_for_report(
    known: Sequence[EpisodeReport],
    source: subprocess.Popen[str],
    stack: subprocess.Popen[str],
    attempt: Attempt,
    folder: Path,
) -> EpisodeReport:
    deadline = time.monotonic() + _REPORT_WAIT_S
    while time.monotonic() < deadline:
        _check_stack(stack, folder)
        if source.poll() not in (None, 0):
            raise RolloutMonitorError(
                f"playing '{attempt.title}' failed with exit code {source.returncode}: see {folder}/stack.log"
            )
        if len(kept := _kept(folder)) > len(known):
            newest = max(kept, key=lambda path: path.stat().st_mtime_ns)
            return EpisodeReport.model_validate_json(newest.read_text(encoding="utf-8"))
        time.sleep(0.05)
    raise RolloutMonitorError(f"no report of '{attempt.title}' within {_REPORT_WAIT_S:.0f} s: see {folder}/stack.log")


def _wait_for_end(source: subprocess.Popen[str], folder: Path) -> None:
    try:
        code = source.wait(_REPORT_WAIT_S)
    except subprocess.TimeoutExpired as error:
        raise RolloutMonitorError(f"the recording does not end: see {folder}/stack.log") from error
    if code != 0:
        raise RolloutMonitorError(f"playing failed with exit code {code}: see {folder}/stack.log")


def _kept(folder: Path) -> set[Path]:
    """Reports that are whole: a folder that is being written has a hidden name."""
    return {path for path in folder.glob("*/report.json") if not path.parent.name.startswith(".")}


def _check_stack(stack: subprocess.Popen[str], folder: Path) -> None:
    if stack.poll() is not None:
        raise RolloutMonitorError(f"the monitor ended with exit code {stack.returncode}: see {folder}/stack.log")


def _verdict(console: Console, reports: list[EpisodeReport], folder: Path) -> int:
    console.print("\nattempt                                   truth     monitor   open the report", soft_wrap=True)
    wrong = 0
    for attempt, report in zip(ATTEMPTS, reports, strict=True):
        told = report.outcome.outcome.value
        wrong += told != attempt.truth
        page = next(folder.glob(f"{report.episode_id}*/report.html"), folder)
        console.print(f"{attempt.title:<41} {attempt.truth:<9} {told:<9} {page}", soft_wrap=True, highlight=False)
    if wrong:
        console.print(f"[red]{wrong} of {len(reports)} outcomes are not the truth[/red]")
    return 1 if wrong else 0


def _refuse_missing(folders: Sequence[Path]) -> None:
    for folder in folders:
        if not folder.is_dir():
            raise InputError(f"{folder}: the bundled recording is not there; start the demo in the project's folder")


def _new_folder() -> Path:
    root = Path("runs")
    return next(path for n in itertools.count(1) if not (path := root / f"demo_{n}").exists())
