"""`rollout-monitor evaluate`: judge a recorded rollout offline, with the engine that runs live."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from rollout_monitor.errors import InputError
from rollout_monitor.prm.protocol import ProgressModel
from rollout_monitor.records import EpisodeReport, Label

if TYPE_CHECKING:
    from rollout_monitor.store.film import Shot

VIDEO_SUFFIXES = {".mp4", ".mkv", ".avi", ".mov", ".webm"}

_EXAMPLES = """
Examples:

  rollout-monitor evaluate demo/lift_success

  rollout-monitor evaluate take_12.mcap --task "lift the red cube" --camera front=/cam/image_raw --label success

  rollout-monitor evaluate episode.mp4 --task "hang the mug" --out reports --json

  rollout-monitor evaluate episode.mp4 --task "hang the mug" --model recorded --curve judge.csv --curve-rate 1
"""


@dataclass(frozen=True)
class _Judged:
    """One episode of the recording, and where its film comes from."""

    report: EpisodeReport
    pictures: dict[str, bytes]
    cameras: tuple[str, ...]
    shots: Callable[[], Iterable[Shot]]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("evaluate", epilog=_EXAMPLES)(evaluate)


def evaluate(
    recording: Annotated[Path, typer.Argument(help="rosbag2 folder, .mcap, .db3 or a video")],
    task: Annotated[str, typer.Option(help="instruction in plain words; needed where the bag has no markers")] = "",
    model: Annotated[str, typer.Option(help="progress model; see `rollout-monitor models`")] = "embedded",
    curve: Annotated[Path | None, typer.Option(help="recorded curve for --model recorded")] = None,
    curve_rate: Annotated[float, typer.Option(help="samples per second of a --curve without stamps")] = 1.0,
    camera: Annotated[list[str] | None, typer.Option(help="NAME=TOPIC, the primary first; repeatable")] = None,
    joints: Annotated[str | None, typer.Option(help="JointState topic; found where there is just one")] = None,
    label: Annotated[Label | None, typer.Option(help="what is known of the outcome")] = None,
    out: Annotated[Path | None, typer.Option(help="keep reports and pages in this folder")] = None,
    config: Annotated[Path | None, typer.Option(help="parameters file, as for the nodes")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print the full reports as JSON")] = False,
) -> None:
    """Judge a recorded rollout offline: progress, OPD metrics, kinematics, events, outcome."""
    console = Console(stderr=True)
    progress_model = _model(model, curve, curve_rate)
    judged = _run(recording, task, progress_model, camera or [], joints, label, config, console)
    if not judged:
        raise InputError(f"{recording}: holds no episode (no START marker); give --task to judge it as one attempt")
    kept = [_keep(one, out) for one in judged]
    if as_json:
        typer.echo(json.dumps([one.report.model_dump(mode="json", by_alias=True) for one in judged], indent=1))
        return
    for one, path in zip(judged, kept, strict=True):
        Console().print(_table(one.report))
        if path is not None:
            Console().print(f"report: {path}", soft_wrap=True)


def _run(
    recording: Path,
    task: str,
    model: ProgressModel,
    camera: list[str],
    joints: str | None,
    label: Label | None,
    config: Path | None,
    console: Console,
) -> list[_Judged]:
    from rollout_monitor.bringup.parameters import load_settings  # noqa: PLC0415 - heavy imports stay in the command
    from rollout_monitor.cli.offline import bag_shots, choose_sources, run_bag, run_video, video_shots  # noqa: PLC0415
    from rollout_monitor.episode.monitor import Closed  # noqa: PLC0415
    from rollout_monitor.episode.rollout import RolloutMonitor  # noqa: PLC0415
    from rollout_monitor.records import Boundary, EpisodeMarker  # noqa: PLC0415
    from rollout_monitor.store.bags import open_bag  # noqa: PLC0415

    if not recording.exists():
        raise InputError(f"{recording}: no such file or folder")
    settings = load_settings(config)
    video = recording.suffix.lower() in VIDEO_SUFFIXES
    if video and not task:
        raise InputError(f"{recording}: a video has no markers; say what the robot had to do with --task")
    cameras = name_topics(camera)
    whole = None
    if task:
        name = "".join(letter if letter.isalnum() or letter in "_.-" else "_" for letter in recording.stem) or "episode"
        name = name if name[0].isalnum() else f"e{name}"
        whole = EpisodeMarker(boundary=Boundary.START, stamp_ns=0, episode_id=name, task=task, source=recording.name)

    def engine(names: tuple[str, ...]) -> RolloutMonitor:
        gate = settings.gate.model_copy(update={"cameras": names, "rate_hz": model.card.rate_hz})
        return RolloutMonitor(model, gate, settings.monitor)

    if video:
        assert whole is not None  # noqa: S101 - a video without a task was refused above
        outputs = run_video(recording, "front", model.card.rate_hz, engine(("front",)), whole, label)
        shots = partial(video_shots, recording, "front")
        return [_Judged(one.report, one.pictures, ("front",), shots) for one in outputs if isinstance(one, Closed)]
    with open_bag(recording) as bag:
        sources = choose_sources(bag, cameras, joints)
        for note in [*(note for note in bag.notes if note not in bag.damage), *sources.notes]:
            console.print(f"note: {note}", style="dim", soft_wrap=True)
        known = len(sources.notes)
        outputs = run_bag(bag, sources, engine(tuple(sources.cameras)), whole, label)
        closed = [one for one in outputs if isinstance(one, Closed)]
        damage = [*bag.damage, *sources.notes[known:]]
        for note in damage:
            console.print(f"warning: {note}", style="bold yellow", soft_wrap=True, markup=False)
        return [
            _Judged(
                report := one.report.model_copy(update={"notes": [*one.report.notes, *damage]}),
                one.pictures,
                tuple(sources.cameras),
                partial(bag_shots, recording, sources.cameras, report.start_ns, report.end_ns),
            )
            for one in closed
        ]


def _model(name: str, curve: Path | None, curve_rate: float) -> ProgressModel:
    from rollout_monitor.prm.registry import create  # noqa: PLC0415

    if name != "recorded":
        return create(name)
    if curve is None:
        raise InputError("--model recorded needs --curve FILE: the recorded progress")
    if not 0.0 < curve_rate <= 240.0:
        raise InputError(f"--curve-rate {curve_rate}: expected samples per second, more than 0 and at most 240")
    return create(name, path=curve, rate_hz=curve_rate)


def name_topics(given: list[str]) -> dict[str, str]:
    """``NAME=TOPIC`` texts as topic by name.

    Raises:
        InputError: a text of another form.
    """
    cameras: dict[str, str] = {}
    for text in given:
        name, equals, topic = text.partition("=")
        if not (name and equals and topic):
            raise InputError(f"--camera {text!r}: expected NAME=TOPIC, for example front=/camera/color/image_raw")
        cameras[name] = topic
    return cameras


def _keep(judged: _Judged, out: Path | None) -> Path | None:
    if out is None:
        return None
    from rollout_monitor.report.html import render  # noqa: PLC0415
    from rollout_monitor.report.markdown import summary  # noqa: PLC0415
    from rollout_monitor.store.episodes import EpisodeStore  # noqa: PLC0415
    from rollout_monitor.store.film import make_film  # noqa: PLC0415
    from rollout_monitor.store.usual import with_usual  # noqa: PLC0415

    store = EpisodeStore(out)
    report = with_usual(store, judged.report)
    film = make_film(judged.shots, judged.cameras, report.start_ns, report.end_ns)
    return store.write(
        report,
        judged.pictures,
        render(report, judged.pictures, film=film),
        text=summary(report),
        film=film.mp4 if film else None,
    )


def _table(report: EpisodeReport) -> Table:
    """The headline figures."""
    table = Table(title=f"{report.episode_id}: {report.outcome.outcome.value}", title_justify="left", show_header=False)
    table.add_row("task", report.task)
    table.add_row("outcome", f"{report.outcome.outcome.value}, by {report.outcome.decided_by}: {report.outcome.reason}")
    table.add_row("duration", f"{report.duration_s:.1f} s, {report.estimates} estimates by {report.model}")
    metrics = report.metrics_final
    if metrics is not None:
        figures = {"MP": metrics.mp, "PPL": metrics.ppl, "CRA": metrics.cra, "STR": metrics.str_}
        optional = {"DRR": metrics.drr, "FNS": metrics.fns, "SQS": metrics.sqs}
        figures.update({name: value for name, value in optional.items() if value is not None})
        table.add_row("OPD (final)", "  ".join(f"{name} {value:.3f}" for name, value in figures.items()))
    motion = report.motion
    if motion is not None and motion.u_v is not None and motion.u_a is not None:
        table.add_row("motion", f"U_v {motion.u_v:.3g}  U_a {motion.u_a:.3g}  worst joint {motion.worst_joint_a}")
    for event in report.events:
        onset = (event.onset_ns - report.start_ns) / 1e9
        table.add_row(f"{event.severity.value}", f"{onset:6.1f} s  {event.kind.value} {event.subject}  {event.reason}")
    for note in report.notes:
        table.add_row("note", note)
    return table
