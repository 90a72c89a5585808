"""`rollout-monitor sim`: the simulated cell from the command line."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

_EXAMPLES = """Examples:

  rollout-monitor sim generate --out data/sim --rollouts 20 --seed 0

  rollout-monitor sim generate --out data/stalls --rollouts 5 --seed 100 --task lift --mode stall --jobs 2
"""


def register(app: typer.Typer) -> None:
    """Add the command group."""
    group = typer.Typer(help="The simulated UR5e cell (extra [sim]).", no_args_is_help=True)
    group.command("generate", epilog=_EXAMPLES)(generate)
    app.add_typer(group, name="sim")


def generate(
    out: Annotated[Path, typer.Option(help="folder of the data set; a run that was stopped goes on there")],
    rollouts: Annotated[int, typer.Option(min=1, help="how many")],
    seed: Annotated[int, typer.Option(min=0, help="first seed; each rollout takes the next one")] = 0,
    task: Annotated[
        str | None, typer.Option(help="only this task: lift, stack_red_on_green, stack_green_on_red")
    ] = None,
    mode: Annotated[
        str | None, typer.Option(help="only this mode: success, miss, drop, drop_recover, stall, ...")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="processes; one per free core")] = 1,
    frame_rate: Annotated[float, typer.Option(help="camera rate, Hz: 20 divided by a whole number")] = 10.0,
) -> None:
    """Make simulated rollouts: pictures, 500 Hz joints, true progress and outcome. The same seed, the same rollout."""
    from rollout_monitor.sim import generate as maker  # noqa: PLC0415 - heavy

    plans = maker.plan_rollouts(rollouts, seed, task, mode)
    console = Console()
    ready = 0

    def report(meta: maker.RolloutMeta) -> None:
        nonlocal ready
        ready += 1
        console.print(f"{ready}/{len(plans)} {meta.id}: {meta.outcome}, {meta.duration_s:.1f} s", highlight=False)

    metas = maker.generate(out, plans, frame_rate_hz=frame_rate, jobs=jobs, report=report)
    outcomes = Counter(meta.outcome for meta in metas)
    console.print(f"{out / maker.INDEX}: {outcomes['success']} successes, {outcomes['failure']} failures")
