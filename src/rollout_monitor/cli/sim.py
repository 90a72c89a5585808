"""`rollout-monitor sim`: simulated rollouts from the command line."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

_EXAMPLES = """Examples:

  rollout-monitor sim generate --out data/sim --plan train --rollouts 4000 --jobs 2

  rollout-monitor sim generate --out data/sim_test --plan unseen_arm --rollouts 100

  rollout-monitor sim generate --out data/drops --plan train --task on:red:green --mode drop --rollouts 5
"""


def register(app: typer.Typer) -> None:
    """Add the command group."""
    group = typer.Typer(help="Simulated rollouts (extra [sim]).", no_args_is_help=True)
    group.command("generate", epilog=_EXAMPLES)(generate)
    app.add_typer(group, name="sim")


def generate(
    out: Annotated[Path, typer.Option(help="folder of the data set; a run that was stopped goes on there")],
    rollouts: Annotated[int, typer.Option(min=1, help="how many")],
    plan: Annotated[
        str,
        typer.Option(
            help="train, val, test, unseen_arm, unseen_camera, unseen_task_near, unseen_task_multistage, unseen_both "
            "or a cell_..., see docs/simulation.md"
        ),
    ],
    seed: Annotated[int, typer.Option(min=0, help="first seed; each rollout takes the next one")] = 0,
    task: Annotated[str | None, typer.Option(help="only this task, as on:red:green")] = None,
    mode: Annotated[
        str | None, typer.Option(help="only this mode: success, miss, drop, drop_recover, stall, ...")
    ] = None,
    arm: Annotated[str | None, typer.Option(help="only this arm: ur5e, panda, iiwa, kinova3, sawyer, arx5")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="processes; one per free core")] = 1,
    frame_rate: Annotated[float, typer.Option(help="camera rate, Hz: 20 divided by a whole number")] = 5.0,
) -> None:
    """Make simulated rollouts: pictures, joint states, true progress and outcome. The same seed, the same rollout."""
    from rollout_monitor.sim.tabletop import files, plans  # noqa: PLC0415 - heavy

    specs = plans.plan_takes(plan, rollouts, seed, task=task, mode=mode, arm=arm)
    console = Console(emoji=False, markup=False, highlight=False, soft_wrap=True)
    ready = 0

    def report(row: files.TakeRow) -> None:
        nonlocal ready
        ready += 1
        console.print(
            f"{ready}/{len(specs)} {row.id}: {row.arms}, {row.task}, {row.mode}: {row.outcome}, {row.duration_s:.1f} s"
        )

    rows = files.generate(out, specs, frame_rate_hz=frame_rate, jobs=jobs, report=report)
    outcomes = Counter(row.outcome for row in rows)
    console.print(f"{out / files.INDEX}: {outcomes['success']} successes, {outcomes['failure']} failures")
