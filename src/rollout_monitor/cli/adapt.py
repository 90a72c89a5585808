"""`rollout-monitor adapt`: fits a model to a user's own cell from a handful of his takes."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from rollout_monitor.errors import InputError, RolloutMonitorError

if TYPE_CHECKING:
    from rollout_monitor.judges.bootstrap import Figure

_EXAMPLES = """Examples:

  rollout-monitor adapt --episodes takes --task "put the can in the bin"

  rollout-monitor adapt --episodes dataset --task "fold the towel" --labels marks.csv --cameras top,wrist
"""
CALIBRATION, NOTES = "calibration.json", "ADAPTED.md"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("adapt", epilog=_EXAMPLES)(adapt)


def adapt(
    episodes: Annotated[Path, typer.Option(help="folder of takes: bags, LeRobot datasets, HDF5; see docs/takes.md")],
    task: Annotated[str, typer.Option(help="the instruction, in the words that the monitor will be given")],
    labels: Annotated[Path | None, typer.Option(help="CSV take,success; goes before what the takes say")] = None,
    cameras: Annotated[str | None, typer.Option(help="cameras to use, the primary first, separated by commas")] = None,
    base: Annotated[Path | None, typer.Option(help="folder of the model to start from; models/table")] = None,
    out: Annotated[Path | None, typer.Option(help="where versions go; models/adapted/<task>")] = None,
    hdf5_rate: Annotated[float | None, typer.Option(help="rows per second of HDF5 files that do not say it")] = None,
    leave_out: Annotated[bool, typer.Option(help="leave takes out that cannot be used, instead of stopping")] = False,
    jobs: Annotated[int, typer.Option(min=1, help="processes; one per free core")] = 2,
) -> None:
    """Fit a model to your own cell: 10 to 30 takes, each marked as success or failure.

    Prints figures on takes held out in turn, beside those of the model as it is, and writes a new version of the model
    with calibrated thresholds. Needs the extra [train].
    """
    try:
        from rollout_monitor.train import (  # noqa: PLC0415 - torch
            adapting,
            exporting,
            negatives,
            own_takes,
            thresholds,
        )
    except ImportError as error:
        raise RolloutMonitorError(f"adapting needs torch ({error}); pip install 'rollout-monitor[train]'") from error
    import torch  # noqa: PLC0415

    from rollout_monitor.events import calibration  # noqa: PLC0415
    from rollout_monitor.prm.backbone import Backbone  # noqa: PLC0415
    from rollout_monitor.prm.files import hash_of_hashes, models_folder  # noqa: PLC0415
    from rollout_monitor.prm.joint_names import JointOrders  # noqa: PLC0415
    from rollout_monitor.store.takes import open_takes  # noqa: PLC0415

    console = Console(emoji=False, markup=False, highlight=False, soft_wrap=True)
    versions = out or models_folder() / "adapted" / _slug(task)
    if versions.exists() and not versions.is_dir():
        raise InputError(f"{versions} is a file: name a folder for the model's versions (--out)")
    folder = base or models_folder() / "table"
    network, vocabulary, description = exporting.load_network(folder)
    unknown = vocabulary.encode(task)[1]
    if unknown:
        console.print(f"words new to the model, read as unknown ones: {', '.join(unknown)}")
    takes = open_takes(
        episodes,
        task=task,
        labels=labels,
        cameras=[name.strip() for name in cameras.split(",")] if cameras else None,
        leave_out=(lambda line: console.print(f"left out: {line}")) if leave_out else None,
        hdf5_rate_hz=hdf5_rate,
    )
    own_takes.check_marks(takes)
    torch.set_num_threads(1)
    rate_hz = float(description["rate_hz"])
    recipe = adapting.AdaptRecipe()
    with _bar(console) as bar:
        reading = bar.add_task("reading takes", total=len(takes))
        mine = own_takes.read_takes(
            takes,
            task,
            negatives.other_texts(network, vocabulary, task),
            Backbone(folder / "backbone.onnx"),
            JointOrders(description["joint_orders"]),
            rate_hz,
            lambda done: bar.update(reading, completed=done),
            console.print,
        )
        adapting.check_takes(mine)
        mine = adapting.label_takes(network, vocabulary, mine)
        learning = bar.add_task("learning", total=recipe.folds + 1)
        before = adapting.held_out([network] * len(mine), vocabulary, mine)
        after, fitted = adapting.cross_validate(
            network,
            vocabulary,
            mine,
            recipe,
            jobs=jobs,
            report=lambda done, total: bar.update(learning, completed=done, total=total),
        )
    found = thresholds.calibrate(after.forward, rate_hz)
    figures = {"as it is": before.figures(), "adapted": after.figures()}
    good = sum(take.success for take in mine)
    version = _next_version(versions)
    kept = {key: description[key] for key in ("rate_hz", "memory_mb", "joint_orders", "decided_by_probability")}
    about = {
        **kept,
        "name": f"{description['name']}+{_slug(task)}-{version.name}",
        "adapted": {
            "task": task,
            "from": description["name"],
            "from_sha256": hash_of_hashes(dict(description["files"])),
            "takes": [{"id": take.id, "success": take.success} for take in mine],
            "figures": {title: {n: asdict(f) for n, f in table.items()} for title, table in figures.items()},
        },
    }
    written = exporting.export_model(fitted, vocabulary, folder / "backbone.onnx", version, about)
    calibration.save(
        calibration.Calibration(
            task=task,
            model=str(written["name"]),
            model_hash=hash_of_hashes(dict(written["files"])),
            alpha=found.alpha,
            n=found.n,
            thresholds=found.values,
        ),
        version / CALIBRATION,
    )
    notes = [*found.notes, *_warnings(figures)]
    (version / NOTES).write_text(_page(task, good, len(mine) - good, figures, found, notes), encoding="utf-8")
    console.print(_table(figures, good, len(mine) - good))
    for name, value in found.values.items():
        console.print(f"{name}: {value:g}")
    for note in notes:
        console.print(f"note: {note}")
    console.print(f"written: {version}")
    console.print(f"use it: prm_node model_path {version}, monitor_node calibration {version / CALIBRATION}")


def _bar(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console
    )


def _slug(task: str) -> str:
    """A folder's name from an instruction."""
    return re.sub(r"[^a-z0-9]+", "_", task.lower()).strip("_")[:60] or "task"


def _next_version(folder: Path) -> Path:
    """The folder of a version that is not there yet; the ones before stay."""
    numbers = [int(path.name[1:]) for path in folder.glob("v*") if path.name[1:].isdigit()] if folder.is_dir() else []
    return folder / f"v{max(numbers, default=0) + 1}"


def _warnings(figures: dict[str, dict[str, Figure]]) -> list[str]:
    """What the figures say against using the model."""
    name = "success accuracy, by progress"
    before, after = figures["as it is"][name], figures["adapted"][name]
    notes = []
    if after.value < before.value:
        notes.append(f"adapting made {name} worse on takes held out ({before.value:.2f} to {after.value:.2f})")
    if after.value < 0.8:
        notes.append("fewer than 8 of 10 outcomes are right on takes held out: record more takes before you rely on it")
    return notes


def _table(figures: dict[str, dict[str, Figure]], good: int, bad: int) -> Table:
    table = Table(title=f"{good} successes, {bad} failures; figures on takes held out, 95 % intervals")
    table.add_column("figure")
    for title in figures:
        table.add_column(title)
    for name in next(iter(figures.values())):
        table.add_row(name, *(str(column[name]) for column in figures.values()))
    return table


def _page(task: str, good: int, bad: int, figures: dict[str, dict[str, Figure]], found: Any, notes: list[str]) -> str:
    """What was done, for whoever finds the folder."""
    rows = "\n".join(
        f"| {name} | " + " | ".join(str(column[name]) for column in figures.values()) + " |"
        for name in next(iter(figures.values()))
    )
    return (
        f"# Model adapted to {json.dumps(task)}\n\n{good} successes and {bad} failures. Figures are of takes held "
        f"out in turn (cross-validation), with 95 % intervals over takes.\n\n| figure | {' | '.join(figures)} |\n"
        f"| --- |{' --- |' * len(figures)}\n{rows}\n\nThresholds by split conformal prediction (alpha "
        f"{found.alpha:.2f}, n = {found.n}), in `{CALIBRATION}`:\n\n"
        + "\n".join(f"- `{name}`: {value:g}" for name, value in found.values.items())
        + "\n\n"
        + "\n".join(f"- {note}" for note in notes)
        + "\n"
    )
