"""`rollout-monitor qualify`: what a model is worth, measured on what it was never trained or tuned on."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from rollout_monitor.errors import InputError, RolloutMonitorError

_EXAMPLES = """Examples:

  rollout-monitor qualify --suite sim --data data/sim

  rollout-monitor qualify --suite sim --data data/sim --model models/table --out qualification --jobs 2
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("qualify", epilog=_EXAMPLES)(qualify)


def qualify(
    data: Annotated[Path, typer.Option(help="takes of `sim generate` with the plans of docs/simulation.md")],
    suite: Annotated[str, typer.Option(help="sim: simulated takes with known truth")] = "sim",
    model: Annotated[Path | None, typer.Option(help="folder of a model; models/table")] = None,
    work: Annotated[Path, typer.Option(help="folder for features")] = Path("data/train"),
    out: Annotated[Path | None, typer.Option(help="folder for the table, as Markdown and JSON")] = None,
    cells: Annotated[bool, typer.Option(help="the columns with adaptation too; they take most of the time")] = True,
    card: Annotated[bool, typer.Option("--card", help="write MODEL_CARD.md into the model's folder")] = False,
    jobs: Annotated[int, typer.Option(min=1, help="processes; one per free core")] = 1,
) -> None:
    """Print direction, progress and outcome figures with 95 % intervals, zero-shot and adapted.

    Needs the extras [train] and [sim].
    """
    if suite != "sim":
        raise InputError(f"unknown suite {suite!r}; known suites: sim")
    try:
        from rollout_monitor.train import card as cards  # noqa: PLC0415 - torch
        from rollout_monitor.train import qualifying  # noqa: PLC0415
        from rollout_monitor.train.adapting import AdaptRecipe  # noqa: PLC0415
        from rollout_monitor.train.exporting import load_network  # noqa: PLC0415
    except ImportError as error:
        raise RolloutMonitorError(f"qualifying needs torch ({error}); pip install 'rollout-monitor[train]'") from error
    import torch  # noqa: PLC0415

    from rollout_monitor.prm.files import models_folder  # noqa: PLC0415

    torch.set_num_threads(1)
    console = Console(emoji=False, markup=False, highlight=False, soft_wrap=True)
    folder = model or models_folder() / "table"
    network, vocabulary, description = load_network(folder)
    ready = qualifying.Suite(network, vocabulary, folder / "backbone.onnx", data, work, jobs)
    columns = qualifying.open_columns(ready, console.print)
    if cells:
        columns += qualifying.cell_columns(ready, AdaptRecipe(), tell=console.print)
    table = qualifying.as_markdown(columns)
    console.print(table)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "qualification.md").write_text(table + "\n", encoding="utf-8")
        about = {"model": description["name"], "files": description["files"], "columns": [asdict(c) for c in columns]}
        (out / "qualification.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
        console.print(f"written: {out}")
    if card:
        console.print(f"written: {cards.write_card(folder, description, columns)}")
