"""`rollout-monitor models`: which progress models there are, and what each declares about itself."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

_EXAMPLES = """Examples:

  rollout-monitor models

  rollout-monitor models --json
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("models", epilog=_EXAMPLES)(models)


def models(as_json: Annotated[bool, typer.Option("--json", help="print as JSON")] = False) -> None:
    """List the progress models; loads each one that needs no file of yours and checks its hashes."""
    rows = _rows()
    if as_json:
        typer.echo(json.dumps(rows, indent=1))
    else:
        _print(rows)
    if any("error" in row for row in rows):
        raise typer.Exit(1)


def _rows() -> list[dict[str, Any]]:
    from rollout_monitor.errors import RolloutMonitorError  # noqa: PLC0415
    from rollout_monitor.prm import registry  # noqa: PLC0415 - loads models

    rows: list[dict[str, Any]] = []
    for name in registry.names():
        row: dict[str, Any] = {"model": name, "about": registry.DESCRIPTIONS.get(name, "")}
        if name != "recorded":  # a recorded curve needs a file: there is nothing to load
            try:
                model = registry.create(name)
            except RolloutMonitorError as error:
                row["error"] = str(error)
            else:
                row["card"] = {**asdict(model.card), "style": model.card.style.value}
                row["folder"] = str(getattr(model, "folder", ""))
                row["files"] = getattr(model, "files", {})
        rows.append(row)
    return rows


def _print(rows: list[dict[str, Any]]) -> None:
    console = Console()
    for row in rows:
        console.print(f"[bold]{row['model']}[/bold]: {row['about']}", highlight=False)
        table = Table(show_header=False)
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        if "error" in row:
            table.add_row("error", row["error"], style="red")
        for key, value in row.get("card", {}).items():
            table.add_row(key, str(value))
        if row.get("folder"):
            table.add_row("folder", row["folder"])
        for file, digest in row.get("files", {}).items():
            table.add_row(file, f"SHA-256 {digest}")
        if table.row_count:
            console.print(table)
