"""`rollout-monitor metrics`: OPD metrics of a progress curve in a file."""

from __future__ import annotations

import json
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rollout_monitor.errors import InputError
from rollout_monitor.records import Label, OpdMetrics

if TYPE_CHECKING:
    from rollout_monitor.curve.settings import OpdSettings
    from rollout_monitor.curve.source import CurveFile

_EXAMPLES = """
Examples:

  rollout-monitor metrics curve.csv

  rollout-monitor metrics step_metrics.csv --convention toolkit-1.0 --prefixes

  rollout-monitor metrics curve.json --label failure --json

  rollout-monitor metrics curve.json --smooth --rate 1
"""

_SENTENCES = {
    "mp": "maximum progress",
    "mc25": "reached 25 %",
    "mc50": "reached 50 %",
    "mc75": "reached 75 %",
    "mc100": "reached 100 %",
    "tv": "path length: total variation of the curve",
    "ppl": "path efficiency, 1 is straight",
    "cra": "regret: mean shortfall from the best so far, lower is better",
    "str": "stagnation: share of steps below eps, lower is better",
    "max_drawdown": "largest fall from the best so far",
    "max_drawdown_index": "sample of the largest fall, counted from 0",
    "drr": "recovery after the largest fall, 1 is full",
    "fns": "how near a failure came to success",
    "sqs": "how well a success was done",
}
_TIMES_100 = ("toolkit-1.0",)
_COLUMNS = ("mp", "ppl", "cra", "str", "drr", "fns", "sqs")


class ConventionName(str, Enum):
    """Whose definitions to use."""

    PAPER = "paper"
    TOOLKIT = "toolkit"
    TOOLKIT_1_0 = "toolkit-1.0"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("metrics", epilog=_EXAMPLES)(metrics)


def metrics(
    curve: Annotated[Path, typer.Argument(help="progress curve, .json or .csv")],
    convention: Annotated[ConventionName, typer.Option(help="whose definitions")] = ConventionName.PAPER,
    prefixes: Annotated[bool, typer.Option("--prefixes", help="metrics at every prefix of the curve")] = False,
    label: Annotated[Label | None, typer.Option(help="known outcome; overrules one in the file")] = None,
    eps: Annotated[float, typer.Option(min=0.0, max=1.0, help="smaller steps are stagnant (strict)")] = 0.005,
    smooth: Annotated[bool, typer.Option("--smooth/--no-smooth", help="smooth first, as the convention does")] = False,
    rate: Annotated[float | None, typer.Option(help="samples per second, where the file has no stamps")] = None,
    clip: Annotated[bool, typer.Option("--clip", help="pull values outside 0..1 in, instead of an error")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON: one object, or a list with --prefixes")] = False,
) -> None:
    """OPD metrics of a progress curve: how far it got, how directly, what it lost and won back.

    Figures are within 0..1 (the path length aside), in JSON always; the table of toolkit-1.0 alone shows them times
    100, as that version printed them. A metric that does not apply is null in JSON and absent in tables: DRR where
    progress never fell, FNS of a success, SQS of a failure. A curve whose values exceed 1.5 is taken for percent.
    """
    from rollout_monitor.curve import opd  # noqa: PLC0415 - heavy imports stay in the command
    from rollout_monitor.curve.settings import OpdSettings  # noqa: PLC0415
    from rollout_monitor.curve.source import read_curve  # noqa: PLC0415

    settings = OpdSettings(convention=convention.value, eps=eps)
    held = read_curve(curve, clip=clip)
    values = _smoothed(held, settings, rate) if smooth else held.progress
    outcome = label if label is not None else held.label
    if prefixes:
        found = list(opd.prefixes(values, settings, outcome))
        typer.echo(json.dumps([_dump(one) for one in found], indent=1)) if as_json else _print_prefixes(curve, found)
        return
    one = opd.compute(values, settings, outcome)
    typer.echo(json.dumps(_dump(one), indent=1)) if as_json else _print_one(curve, one)


def _smoothed(held: CurveFile, settings: OpdSettings, rate: float | None) -> object:
    import numpy as np  # noqa: PLC0415

    from rollout_monitor.curve.smoothing import smooth_final  # noqa: PLC0415

    stamps = held.stamps_ns
    if rate is not None:
        if not rate > 0.0:
            raise InputError(f"--rate {rate:g}: a positive number of samples per second is needed")
        if stamps is not None:
            raise InputError("--rate is for files without stamps; this one has its own")
        stamps = np.round(np.arange(len(held.progress)) * (1e9 / rate)).astype(np.int64)
    if stamps is None and settings.convention == "paper" and len(held.progress) > 1:
        raise InputError("--smooth needs to know the time between samples: give --rate, or stamps in the file")
    return smooth_final(held.progress, stamps, settings)


def _dump(one: OpdMetrics) -> dict[str, object]:
    return one.model_dump(mode="json", by_alias=True)


def _print_one(path: Path, one: OpdMetrics) -> None:
    from rich.console import Console  # noqa: PLC0415
    from rich.markup import escape  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    outcome = "success" if one.success else "failure"
    title = f"{path.name}: {outcome} by {one.success_from}, {one.samples} samples, {_convention(one)}"
    table = Table("metric", "value", "meaning", title=escape(title))
    values = _dump(one)
    for key, sentence in _SENTENCES.items():
        table.add_row(key, _text(values[key], one.convention), sentence)
    Console().print(table)


def _print_prefixes(path: Path, found: list[OpdMetrics]) -> None:
    from rich import box  # noqa: PLC0415
    from rich.console import Console  # noqa: PLC0415
    from rich.markup import escape  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    title = f"{path.name}: every prefix, {_convention(found[0])}"
    table = Table("samples", "mc@", *_COLUMNS, title=escape(title), box=box.SIMPLE)  # fits 80 columns
    for one in found:
        values = _dump(one)
        milestone = next((str(q) for q in (100, 75, 50, 25) if values[f"mc{q}"]), "-")
        table.add_row(str(one.samples), milestone, *(_text(values[key], one.convention) for key in _COLUMNS))
    Console().print(table)


def _convention(one: OpdMetrics) -> str:
    return f"convention {one.convention}" + (", figures times 100" if one.convention in _TIMES_100 else "")


def _text(value: object, convention: str) -> str:
    if value is None:
        return "absent"
    if isinstance(value, bool) and convention not in _TIMES_100:
        return "yes" if value else "no"
    if isinstance(value, float | bool):
        return f"{100.0 * value:.2f}" if convention in _TIMES_100 else f"{value:.4f}"
    return str(value)
