"""The page of one episode: a single HTML file that needs nothing else, offline, by mail or on paper.

Everything that came from outside is escaped by the template engine, and the page's own policy forbids any script but
its own and any address but ``data:`` pictures and the film that the script unpacks.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from rollout_monitor import __version__
from rollout_monitor.frames import RgbImage
from rollout_monitor.records import Drawdown, EpisodeReport, Event, Severity
from rollout_monitor.report import drawing, wording
from rollout_monitor.report.health import health
from rollout_monitor.report.motion import joint_rows, motion_rows
from rollout_monitor.report.pictures import Embedded, embed
from rollout_monitor.report.story import moments, reached
from rollout_monitor.store.film import Film
from rollout_monitor.store.labels import LabelFact

_HERE = Path(__file__).parent
_HASH_SHOWN = 12
_FALLS_SHOWN = 12
_LOWEST_LABEL, _HIGHEST_LABEL = 88.0, 9.0  # percent of the chart from its top: a label needs some room to its edge
_MILESTONES = (("25 %", "mc25", 0.25), ("50 %", "mc50", 0.50), ("75 %", "mc75", 0.75), ("100 %", "mc100", 1.0))


def render(
    report: EpisodeReport,
    pictures: Mapping[str, bytes | RgbImage] | Path,
    *,
    film: Film | None = None,
    labels: Sequence[LabelFact] = (),
) -> str:
    """Draw the page of one episode.

    Args:
        report: the record; anything in it may be absent.
        pictures: JPEG bytes or pictures (height, width, 3) uint8 RGB, by the file name that ``KeyFrame.file`` and
            ``Event.evidence`` give; or the episode's folder, whose ``frames/`` has them. What is missing or unreadable
            is shown as missing.
        film: plays beside the curve; without one the key frames follow the playhead.
        labels: what was said about the episode.

    Returns:
        The whole page. The same report, pictures, film and labels give the same page.
    """
    axis = drawing.time_axis(report)
    events = sorted(report.events, key=lambda event: (event.onset_ns, event.event_id))
    spans = drawing.lay_out_events(events, axis, report.end_ns)
    numbers = {event.event_id: span.number for event, span in zip(events, spans, strict=True)}
    embedded = embed(_picture_names(report, events), pictures)
    curve = drawing.draw_curve(report.curve, axis)
    script = _static("episode.js")
    plots = drawing.draw_traces(report.traces, axis)
    return _template().render(
        report=report,
        words=wording,
        verdict=wording.verdict(report),
        axis=axis,
        ticks=[(left, _tick_label(time)) for left, time in axis.ticks()],
        curve=curve,
        depths=_depths(curve),
        speed=drawing.draw_speed(report.speed, axis),
        spans=list(zip(events, spans, strict=True)),
        numbers=numbers,
        lanes=max((span.lane + 1 for span in spans), default=0),
        milestones=_milestones(report),
        metrics=wording.metric_rows(report.metrics_final, report.metrics_live, report.usual),
        headline=_headline(report),
        moments=moments(report),
        falls=_deepest_first(report.drawdowns),
        stalls=[(stall, drawing.stall_bar(stall)) for stall in report.stalls],
        motion=motion_rows(report.motion),
        joints=joint_rows(report, plots),
        plots=plots,
        health=health(report),
        labels=labels,
        pictures=embedded,
        captions={frame.file: f"{frame.camera}: {frame.why}" for frame in report.key_frames},
        film=film,
        film_text=base64.b64encode(film.mp4).decode() if film else "",
        samples=_json(_samples(report, axis, embedded, film)),
        style=Markup(_static("episode.css")),  # noqa: S704 - our own file
        script=Markup(script),  # noqa: S704 - our own file
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        model_hash=report.model_hash[:_HASH_SHOWN],
        version=__version__,
    )


def _picture_names(report: EpisodeReport, events: Sequence[Event]) -> list[str]:
    named = [frame.file for frame in report.key_frames] + [event.evidence for event in events]
    for fall in report.drawdowns:
        named += [fall.before, fall.after, fall.regained]
    named.append(report.failed_at.picture if report.failed_at else None)
    return [name for name in named if name]


def _samples(
    report: EpisodeReport, axis: drawing.TimeAxis, embedded: Mapping[str, Embedded], film: Film | None
) -> dict[str, Any]:
    """What the script reads: where time is on the charts, values under the playhead, frames, where the film begins."""
    shown = [frame for frame in report.key_frames if frame.file in embedded]
    return {
        "from": (axis.start_ns - axis.zero_ns) / 1e9,
        "span": axis.span_ns / 1e9,
        **drawing.hover_samples(report, axis),
        "joints": drawing.joint_samples(report.traces, axis),
        "frames": [[round((frame.stamp_ns - axis.zero_ns) / 1e9, 3), embedded[frame.file].id] for frame in shown],
        "film": None if film is None else (film.start_ns - axis.zero_ns) / 1e9,
    }


def _deepest_first(falls: Sequence[Drawdown]) -> list[Drawdown]:
    """The deepest falls that the page has room for, in the order of time."""
    deepest = sorted(falls, key=lambda fall: -fall.depth)[:_FALLS_SHOWN]
    return sorted(deepest, key=lambda fall: fall.peak_ns)


@lru_cache(maxsize=1)
def _template() -> Template:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string((_HERE / "templates" / "episode.html.j2").read_text(encoding="utf-8"))


@lru_cache(maxsize=4)
def _static(name: str) -> str:
    return (_HERE / "static" / name).read_text(encoding="utf-8").strip()


def _json(table: Mapping[str, Any]) -> Markup:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(table, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace("&", "\\u0026"))  # noqa: S704 - escaped here


def _depths(curve: drawing.Curve | None) -> list[tuple[drawing.Marker, str, str]]:
    """(marker, where its label goes, text): below a low point and above the best value so far there is no curve."""
    labels = []
    if curve is not None and curve.maximum is not None:
        labels.append((curve.maximum, "below" if curve.maximum.bottom < _LOWEST_LABEL else "above", "deepest fall"))
    if curve is not None and curve.current is not None:
        labels.append(
            (curve.current, "above" if curve.current.top > _HIGHEST_LABEL else "below", "below the best at the end")
        )
    return labels


def _tick_label(seconds: float) -> str:
    """``0.5 s``, ``12 s``, from a minute on ``2:05``, from an hour on ``1:02:05``."""
    sign, size = ("−" if seconds < 0 else ""), abs(seconds)
    if size < 60:
        return f"{sign}{size:g} s"
    minutes, rest = divmod(round(size), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{sign}{hours}:{minutes:02d}:{rest:02d}" if hours else f"{sign}{minutes}:{rest:02d}"


def _milestones(report: EpisodeReport) -> list[dict[str, Any]]:
    """The four milestones: whether the final figures count them as reached, and when the final curve first did."""
    metrics = report.metrics_final
    if metrics is None:
        return []
    rows = []
    for text, name, level in _MILESTONES:
        first = reached(report, level, name)
        when = "" if first is None else wording.since_start(first, report.start_ns)
        rows.append({"text": text, "level": level, "reached": bool(getattr(metrics, name)), "when": when})
    return rows


def _headline(report: EpisodeReport) -> list[dict[str, str]]:
    """Four figures to be read from across the room."""
    metrics = report.metrics_final
    figures = [
        {
            "value": wording.percent(metrics.mp if metrics else None),
            "name": "best progress",
        }
    ]
    if metrics is not None and metrics.sqs is not None:
        figures.append({"value": wording.number(metrics.sqs), "name": "success quality (SQS)"})
    elif metrics is not None and metrics.fns is not None:
        figures.append({"value": wording.number(metrics.fns), "name": "near-success (FNS)"})
    figures.append(
        {"value": wording.number(metrics.max_drawdown if metrics else None), "name": "deepest fall of progress"}
    )
    figures.append({"value": wording.seconds(report.duration_s), "name": "duration"})
    figures.append(_alarms(report.events))
    return figures


def _alarms(events: list[Event]) -> dict[str, str]:
    errors = sum(event.severity is Severity.ERROR for event in events)
    warnings = sum(event.severity is Severity.WARN for event in events)
    name = f"error{'' if errors == 1 else 's'}, {warnings} warning{'' if warnings == 1 else 's'}"
    return {"value": str(errors), "name": name}
