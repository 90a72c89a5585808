"""`rollout-monitor report`: an episode's page again, a site over many episodes, a store's list and index."""

from __future__ import annotations

import json
from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from rollout_monitor.cli.metrics import ConventionName

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rollout_monitor.records import EpisodeReport
    from rollout_monitor.store.episodes import EpisodeRow
    from rollout_monitor.store.film import Film

DEFAULT_STORE = Path("episodes")
_PROBLEMS_SHOWN = 20
_EXAMPLES = """Examples:

  rollout-monitor report episodes/lift-0031              draw its page again

  rollout-monitor report lift-0031.json -o page.html     from the figures alone, without pictures

  rollout-monitor report episodes/lift-0031 --recording episodes/recordings/lift-0031
                                                         with a film of all cameras, made from its recording

  rollout-monitor report episodes                        leaderboard and explorer: episodes/site/index.html

  rollout-monitor report curves --convention toolkit-1.0 -o site     of a published judge's curves

  rollout-monitor report list --store episodes           what is in the store

  rollout-monitor report reindex --store episodes        make the index anew from the folders
"""


class StatisticName(str, Enum):
    """How continuous metrics are summed up."""

    MEDIAN = "median"
    MEAN = "mean"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("report", epilog=_EXAMPLES)(report)


def report(
    target: Annotated[
        str, typer.Argument(help="an episode's folder or report.json, a folder of episodes, `list` or `reindex`")
    ],
    store: Annotated[Path, typer.Option("--store", help="the store's folder, for list and reindex")] = DEFAULT_STORE,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="write the page, or the site, here")] = None,
    recording: Annotated[Path | None, typer.Option(help="make the film from this recording of the episode")] = None,
    camera: Annotated[list[str] | None, typer.Option(help="NAME=TOPIC in the recording; repeatable")] = None,
    tags: Annotated[
        Path | None, typer.Option("--tags", help="CSV: policy, task, sim or real, tags; else tags.csv")
    ] = None,
    convention: Annotated[ConventionName, typer.Option(help="of the metrics of curve files")] = ConventionName.PAPER,
    statistic: Annotated[StatisticName, typer.Option(help="of continuous metrics")] = StatisticName.MEDIAN,
    as_json: Annotated[bool, typer.Option("--json", help="print the list as JSON")] = False,
) -> None:
    """Draw the page of a stored episode again, build the site of a folder of episodes, or look after a store.

    The site: leaderboard, policies by tasks, portraits, failure positions, simulation against real, trajectory
    explorer. It lies in FOLDER/site unless --output says otherwise, opens from disk, and an earlier site is replaced.
    """
    if target == "list":
        _list(store, as_json)
    elif target == "reindex":
        _reindex(store)
    elif Path(target).is_dir() and not (Path(target) / "report.json").is_file():
        if recording is not None:
            from rollout_monitor.errors import InputError  # noqa: PLC0415

            raise InputError(f"--recording is for one episode, and {target} is a folder of episodes")
        _site(Path(target), output, tags, convention, statistic)
    else:
        _draw(Path(target), output, recording, camera or [])


def _site(
    folder: Path, output: Path | None, tags: Path | None, convention: ConventionName, statistic: StatisticName
) -> None:
    from rollout_monitor.curve.settings import OpdSettings  # noqa: PLC0415
    from rollout_monitor.report.site import build  # noqa: PLC0415

    settings = OpdSettings.for_convention(convention.value)
    built = build(folder, output, tags=tags, settings=settings, statistic=statistic.value)
    for problem in built.problems[:_PROBLEMS_SHOWN]:
        typer.secho(f"note: {problem}", err=True)
    if len(built.problems) > _PROBLEMS_SHOWN:
        typer.secho(f"note: and {len(built.problems) - _PROBLEMS_SHOWN} more, see read.html", err=True)
    name, size = built.largest
    typer.secho(
        f"{built.episodes} attempts, {built.counted} in the figures, {len(built.problems)} problems; {built.files} "
        f"files, {built.size / 1e6:.1f} MB, the largest {name} {size / 1e6:.2f} MB",
        err=True,
    )
    typer.echo(built.folder / "index.html")


def _draw(target: Path, output: Path | None, recording: Path | None, camera: list[str]) -> None:
    from rollout_monitor.errors import InputError, StoreError  # noqa: PLC0415 - heavy imports stay in the command
    from rollout_monitor.report.files import draw, redraw  # noqa: PLC0415
    from rollout_monitor.store.episodes import PAGE, REPORT, read_report  # noqa: PLC0415
    from rollout_monitor.store.files import write_whole  # noqa: PLC0415

    source = target / REPORT if target.is_dir() else target
    if not source.is_file():
        raise InputError(f"{target}: expected an episode's folder or its {REPORT}, or a folder of episodes")
    if output is None and source.name != REPORT:
        raise InputError(f"{source}: a report outside of an episode's folder; say where its page goes with --output")
    film = None if recording is None else _film(recording, camera, read_report(source))
    page = output or source.parent / PAGE
    try:
        if output is None:
            redraw(source.parent, film)
        else:
            write_whole(output, draw(source, film)[0].encode())
    except OSError as error:
        raise StoreError(f"{page} could not be written: {error.strerror}; the report itself is untouched") from error
    typer.echo(page)


def _film(recording: Path, camera: list[str], report: EpisodeReport) -> Film:
    from functools import partial  # noqa: PLC0415

    from rollout_monitor.cli.evaluate import name_topics  # noqa: PLC0415
    from rollout_monitor.cli.offline import bag_shots, choose_sources  # noqa: PLC0415
    from rollout_monitor.errors import InputError  # noqa: PLC0415
    from rollout_monitor.store.bags import open_bag  # noqa: PLC0415
    from rollout_monitor.store.film import make_film  # noqa: PLC0415

    with open_bag(recording) as bag:
        cameras = choose_sources(bag, name_topics(camera), None).cameras
    shots = partial(bag_shots, recording, cameras, report.start_ns, report.end_ns)
    film = make_film(shots, tuple(cameras), report.start_ns, report.end_ns)
    if film is None:
        raise InputError(
            f"{recording}: no film of {report.episode_id} could be made: it has no picture between the episode's start "
            "and end, or this installation of PyAV has no H.264 encoder"
        )
    return film


def _list(store: Path, as_json: bool) -> None:
    from rollout_monitor.errors import InputError  # noqa: PLC0415
    from rollout_monitor.store.episodes import EpisodeStore  # noqa: PLC0415

    if not store.is_dir():
        raise InputError(f"{store}: no such folder; name the store with --store")
    rows = EpisodeStore(store).list()
    if as_json:
        typer.echo(json.dumps([asdict(row) for row in rows], indent=1))
    else:
        Console().print(_table(rows))


def _reindex(store: Path) -> None:
    from rollout_monitor.errors import InputError  # noqa: PLC0415
    from rollout_monitor.store.episodes import EpisodeStore  # noqa: PLC0415

    if not store.is_dir():
        raise InputError(f"{store}: no such folder; name the store with --store")
    done = EpisodeStore(store).reindex()
    for problem in done.problems:
        typer.secho(f"note: {problem}", err=True)
    typer.echo(f"{done.episodes} episodes and {done.labels} labels are in the index")


def _table(rows: Sequence[EpisodeRow]) -> Table:
    from rich.text import Text  # noqa: PLC0415

    table = Table("episode", "task", "outcome", "by", "duration", "MP", "SQS", "FNS", "alarms", box=None)
    for row in rows:
        # Text, not str: names from outside must not be read as markup
        table.add_row(
            Text(row.folder),
            Text(row.task),
            row.outcome if row.state == "ENDED" else f"{row.outcome} ({row.state.lower()})",
            row.decided_by,
            f"{row.duration_s:.1f} s",
            *("" if value is None else f"{value:.2f}" for value in (row.mp, row.sqs, row.fns)),
            f"{row.errors} errors, {row.warnings} warnings",
        )
    return table
