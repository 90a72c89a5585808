"""The command line `rollout-monitor`. Each command lives in the module of its name and adds itself.

A named command is the only one that is imported, so that a long-running one holds no more than it needs.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from rollout_monitor import __version__
from rollout_monitor.errors import InputError, RolloutMonitorError

COMMANDS = (
    "demo",
    "up",
    "replay",
    "dashboard",
    "doctor",
    "evaluate",
    "score",
    "metrics",
    "kinematics",
    "report",
    "models",
    "adapt",
    "qualify",
    "sim",
)
"""In the order of `--help`."""

_ABOUT = "Knows, live, how a robot's attempt is going: progress, smoothness, stalls, drawdowns, an episode report."
EXIT_FAILED, EXIT_USAGE = 1, 2


def build_app(wanted: Sequence[str] = COMMANDS) -> typer.Typer:
    """The application with these commands."""
    app = typer.Typer(
        name="rollout-monitor",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
    )
    app.callback(help=_ABOUT)(_options)
    for name in wanted:
        importlib.import_module(f"rollout_monitor.cli.{name}").register(app)
    return app


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and exit: 0 fine, 1 the run itself failed, 2 wrong usage or bad input."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    named = [word for word in given if not word.startswith("-")][:1]
    app = build_app(named if named and named[0] in COMMANDS else COMMANDS)
    try:
        app(given, prog_name="rollout-monitor")
    except RolloutMonitorError as error:
        if "--debug" in given:
            raise
        _complain(" ".join(str(error).split()))
        sys.exit(EXIT_USAGE if isinstance(error, InputError) else EXIT_FAILED)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"rollout-monitor {__version__}")
        raise typer.Exit


def _options(
    debug: Annotated[bool, typer.Option("--debug", help="show where an error was raised")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="print the version and exit", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Options of the program itself; ``--debug`` is declared here for the help and read by `main`, where errors end."""


def _complain(line: str) -> None:
    typer.secho(f"error: {line}", err=True, fg=typer.colors.RED)
