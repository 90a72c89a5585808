"""`rollout-monitor score`: progress curves of many videos at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from rollout_monitor.cli.evaluate import VIDEO_SUFFIXES
from rollout_monitor.errors import InputError

if TYPE_CHECKING:
    from rollout_monitor.cli.scoring import Curve

MOST_RATE_HZ = 240.0

_EXAMPLES = """
Examples:

  rollout-monitor score videos --task "lift the red cube" --out curves.csv

  rollout-monitor score a.mp4 b.mp4 --task "lift the red cube" --rate 5 --json

  rollout-monitor score videos --task "lift the red cube" --model-path adapted/lift --out curves.parquet
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("score", epilog=_EXAMPLES)(score)


def score(
    videos: Annotated[list[Path], typer.Argument(help="videos, or folders of videos")],
    task: Annotated[str, typer.Option(help="instruction in plain words, the same for all")],
    rate: Annotated[float, typer.Option(help="pictures looked at per second of video")] = 1.0,
    out: Annotated[Path | None, typer.Option(help="write every point to this .csv or .parquet")] = None,
    model_path: Annotated[
        Path | None, typer.Option(help="folder of an embedded model; default: the released one")
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="threads; default: one per core")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print the summary as JSON")] = False,
) -> None:
    """Progress curves of many videos, judged side by side by the embedded model.

    The numbers are those that the model gives live at the same pictures; `evaluate` makes a report of one recording.
    """
    from rollout_monitor.cli.scoring import check_output, find_videos, idle_cores, score_videos, write_curves  # noqa: PLC0415
    from rollout_monitor.prm.embedded import EmbeddedModel  # noqa: PLC0415 - loads onnxruntime

    if not 0.0 < rate <= MOST_RATE_HZ:
        raise InputError(f"--rate {rate}: expected pictures per second, more than 0 and at most {MOST_RATE_HZ:g}")
    if jobs is not None and jobs < 1:
        raise InputError(f"--jobs {jobs}: expected at least one thread")
    if out is not None:
        check_output(out)
    found = find_videos(videos, VIDEO_SUFFIXES)
    console = Console(stderr=True)
    model = EmbeddedModel(model_path)
    for note in model.reset(task).notes:
        console.print(f"note: {note}", style="dim", soft_wrap=True, markup=False)

    def tell(curve: Curve) -> None:
        if curve.trouble:
            console.print(f"warning: {curve.trouble}", style="bold yellow", soft_wrap=True, markup=False)

    curves = score_videos(model, found, task, rate, min(jobs or idle_cores(), len(found)), tell)
    if out is not None:
        write_curves(curves, out)
    summaries = [_summary(curve) for curve in curves]
    if as_json:
        typer.echo(json.dumps(summaries, indent=1))
    else:
        Console().print(_table(summaries))
    if any(curve.trouble for curve in curves):
        raise typer.Exit(1)


def _summary(curve: Curve) -> dict[str, Any]:
    """The headline figures of a curve; None where no picture could be read."""
    last = curve.points[-1][1] if curve.points else None
    return {
        "video": str(curve.video),
        "pictures": len(curve.points),
        "highest_progress": max((said.progress for _, said in curve.points if said.progress is not None), default=None),
        "last_progress": last.progress if last else None,
        "last_success_probability": last.success_probability if last else None,
        "last_subtask": last.subtask if last else None,
        "trouble": curve.trouble,
    }


def _table(summaries: list[dict[str, Any]]) -> Table:
    table = Table("video", "pictures", "highest", "last", "success", "subtask")
    for one in summaries:
        cells = [one["highest_progress"], one["last_progress"], one["last_success_probability"]]
        shown = ["-" if value is None else f"{value:.3f}" for value in cells]
        subtask = "-" if one["last_subtask"] is None else str(one["last_subtask"])
        table.add_row(one["video"], str(one["pictures"]), *shown, subtask)
    return table
