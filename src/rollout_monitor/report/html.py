"""The page of one episode: a single HTML file that needs nothing else, offline, by mail or on paper.

Everything that came from outside is escaped by the template engine, and the page's own policy forbids any script but
its own and any address but ``data:`` pictures.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from rollout_monitor import __version__
from rollout_monitor.frames import RgbImage
from rollout_monitor.records import EpisodeReport, Event, MotionFigures, Severity
from rollout_monitor.report import drawing, wording
from rollout_monitor.report.pictures import embed

_HERE = Path(__file__).parent
_HASH_SHOWN = 12
_LOWEST_LABEL, _HIGHEST_LABEL = 88.0, 9.0  # percent of the chart from its top: a label needs some room to its edge
_MILESTONES = (("25 %", "mc25", 0.25), ("50 %", "mc50", 0.50), ("75 %", "mc75", 0.75), ("100 %", "mc100", 1.0))


def render(report: EpisodeReport, pictures: Mapping[str, bytes | RgbImage] | Path) -> str:
    """Draw the page of one episode.

    Args:
        report: the record; anything in it may be absent.
        pictures: JPEG bytes or pictures (height, width, 3) uint8 RGB, by the file name that ``KeyFrame.file`` and
            ``Event.evidence`` give; or the episode's folder, whose ``frames/`` has them. What is missing or unreadable
            is shown as missing.

    Returns:
        The whole page. The same report and pictures give the same page.
    """
    axis = drawing.time_axis(report)
    events = sorted(report.events, key=lambda event: (event.onset_ns, event.event_id))
    spans = drawing.lay_out_events(events, axis, report.end_ns)
    names = [frame.file for frame in report.key_frames] + [event.evidence for event in events if event.evidence]
    embedded = embed(names, pictures)
    curve = drawing.draw_curve(report.curve, axis)
    script = _static("episode.js")
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
        lanes=max((span.lane + 1 for span in spans), default=0),
        milestones=_milestones(report),
        metrics=wording.metric_rows(report.metrics_final, report.metrics_live),
        headline=_headline(report),
        motion=_motion_rows(report.motion),
        joints=_joint_rows(report),
        cameras=[(camera, _camera_state(camera.frozen_since_ns, camera.dark_since_ns)) for camera in report.cameras],
        pictures=embedded,
        samples=_json(drawing.hover_samples(report, axis)),
        style=Markup(_static("episode.css")),  # noqa: S704 - our own file
        script=Markup(script),  # noqa: S704 - our own file
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        model_hash=report.model_hash[:_HASH_SHOWN],
        version=__version__,
    )


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
        reached = bool(getattr(metrics, name))
        first = next((point.stamp_ns for point in report.curve if point.final >= level - 1e-9), None)
        rows.append(
            {
                "text": text,
                "level": level,
                "reached": reached,
                "when": wording.since_start(first, report.start_ns) if reached and first is not None else "",
            }
        )
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


def _camera_state(frozen_since_ns: int | None, dark_since_ns: int | None) -> str:
    states = [word for word, since in (("frozen", frozen_since_ns), ("dark", dark_since_ns)) if since is not None]
    return " and ".join(states) + " at the end" if states else "live at the end"


def _motion_rows(motion: MotionFigures | None) -> list[tuple[str, str, str, str]]:
    """(name, value, unit, meaning) of each figure that is there."""
    if motion is None:
        return []
    rows: list[tuple[str, float | None, str, str]] = [
        ("SPARC", motion.sparc, "", "Smoothness of the joint speed's spectrum; nearer 0 is smoother."),
        ("LDLJ", motion.ldlj, "", "Smoothness from dimensionless jerk; nearer 0 is smoother."),
        ("RMS jerk", motion.rms_jerk, "rad/s³", "Mean abruptness of all joints; lower is smoother."),
        ("Peak speed", motion.peak_speed, "rad/s", "The fastest any joint moved."),
        ("Peak acceleration", motion.peak_acceleration, "rad/s²", "The hardest any joint was accelerated."),
        ("Mean speed", motion.mu_v_si, "rad/s", "Mean joint speed over time and joints."),
        ("U_v", motion.u_v_si, "(rad/s)²", _largest("velocity", motion.worst_joint_v)),
        ("U_a", motion.u_a_si, "(rad/s²)²", _largest("acceleration", motion.worst_joint_a)),
        ("Speed peaks", motion.speed_peaks, "", "Separate bursts of motion; fewer is smoother."),
        ("Reversals", motion.reversals, "", "Times a joint turned back, summed over the joints."),
    ]
    shown = [(name, wording.significant(value), unit, text) for name, value, unit, text in rows if value is not None]
    if motion.idle_fraction is not None:
        shown.append(("Idle", wording.percent(motion.idle_fraction), "", "Share of the time in which no joint moved."))
    return shown


def _largest(what: str, joint: str | None) -> str:
    return f"Largest variance of joint {what}" + (f", that of {joint}." if joint else ".")


def _joint_rows(report: EpisodeReport) -> list[dict[str, Any]]:
    """Per joint: figures with the length of a bar relative to the worst joint, and whether it is that."""
    motion = report.motion
    if motion is None:
        return []
    columns = (
        (motion.s_v, motion.worst_joint_v),
        (motion.s_a, motion.worst_joint_a),
        (motion.rms_jerk_per_joint, motion.worst_joint_jerk),
    )
    rows = [
        {"joint": joint, "cells": [_joint_cell(values, index, worst == joint) for values, worst in columns]}
        for index, joint in enumerate(report.joint_names)
    ]
    return rows if any(values for values, _ in columns) else []


def _joint_cell(values: list[float], index: int, worst: bool) -> dict[str, Any] | None:
    """One joint's figure, with a bar as a share of the largest; None where there is no figure."""
    if index >= len(values):
        return None
    largest = max(values) or 1.0
    return {"text": wording.significant(values[index]), "bar": round(100 * values[index] / largest, 1), "worst": worst}
