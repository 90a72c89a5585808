"""Records as the page shows them: plain JSON, shortened and rounded. What came from outside is bounded here, once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from rollout_monitor.records import (
    CameraHealth,
    EpisodeReport,
    Event,
    JointHealth,
    KinematicSummary,
    MonitorStatus,
    ProgressEstimate,
)

Card: TypeAlias = dict[str, Any]
"""A part of a robot's card, or all that is new of it, ready for JSON."""

LONGEST_TEXT = 1000
"""Characters of a text that pages get; what is longer ends in an ellipsis."""

LONGEST_LIST = 32
"""Entries of a list from outside that pages get: joints, alarms, diagnostics."""

_MS = 1_000_000
_NS = 1_000_000_000


def short(text: str) -> str:
    """A text from outside, no longer than pages need."""
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 1]}…"


def rounded(value: float | None, digits: int = 4) -> float | None:
    """A figure as it is sent."""
    return None if value is None else round(value, digits)


def status_card(status: MonitorStatus) -> Card:
    """The one line an operator reads, as a part of the card."""
    start_ns = status.stamp_ns - round(status.elapsed_s * _NS)
    return {
        "episode": short(status.episode_id),
        "state": status.state.value,
        "task": short(status.task),
        "elapsed": round(status.elapsed_s, 2),
        "progress": rounded(status.progress),
        "mp": rounded(status.mp),
        "drawdown": rounded(status.drawdown),
        "worst": rounded(status.max_drawdown),
        "done": rounded(status.success_probability),
        "smoothness": rounded(status.smoothness, 2),
        "moving": status.moving,
        "estimates": status.estimates,
        "dropped": status.dropped,
        "age": rounded(status.estimate_age_s, 2),
        "model": short(status.model),
        "stamp": status.stamp_ns // _MS,
        "active": [event_card(event, start_ns) for event in status.active_events[:LONGEST_LIST]],
    }


def event_card(event: Event, start_ns: int | None) -> Card:
    """An event; ``at`` is seconds from the start, None where that is not known."""
    over_at = event.cleared_ns
    return {
        "id": event.event_id,
        "episode": short(event.episode_id),
        "kind": event.kind.value,
        "severity": event.severity.value,
        "subject": short(event.subject),
        "reason": short(event.reason),
        "at": None if start_ns is None else round((event.onset_ns - start_ns) / _NS, 1),
        "over": over_at is not None,
        "lasted": None if over_at is None else round((over_at - event.onset_ns) / _NS, 1),
    }


def motion_card(summary: KinematicSummary) -> Card:
    """Smoothness per joint, over the sliding window."""
    jerks = summary.window.rms_jerk_per_joint
    names = summary.joint_names if len(jerks) == len(summary.joint_names) else []
    return {
        "moving": summary.moving,
        "sparc": rounded(summary.window.sparc, 2),
        "ldlj": rounded(summary.window.ldlj, 2),
        "jerk": rounded(summary.window.rms_jerk, 2),
        "joints": [[short(name), round(jerk, 2)] for name, jerk in zip(names, jerks, strict=False)][:LONGEST_LIST],
    }


def camera_row(health: CameraHealth) -> Card:
    """A camera's line in the table of data health."""
    trouble = [
        *(["frozen"] if health.frozen_since_ns is not None else []),
        *(["dark"] if health.dark_since_ns is not None else []),
        *([] if health.last_frame_ns is not None else ["no frame yet"]),
    ]
    return _row(
        health.rate_hz,
        None if health.last_frame_ns is None else (health.stamp_ns - health.last_frame_ns) / _NS,
        health.lost,
        {"bad": health.bad, "repeated": health.repeated, **_refused(health)},
        trouble,
    )


def joints_row(health: JointHealth, stamp_ns: int) -> Card:
    """The joint stream's line in the table of data health; ``stamp_ns`` is the stream time of this state."""
    missing = list(health.missing_since_ns)[:LONGEST_LIST]
    counts = {
        "malformed": health.malformed,
        "unusable": health.unusable,
        "implausible": health.implausible,
        "gaps": health.gaps,
        **_refused(health),
    }
    trouble = [f"{short(name)} missing" for name in missing]
    age_s = None if health.last_stamp_ns is None else max(0.0, (stamp_ns - health.last_stamp_ns) / _NS)
    return _row(health.rate_hz, age_s, health.lost, counts, trouble)


def model_row(estimate: ProgressEstimate) -> Card:
    """The progress model's line: its latency in the place of an age."""
    return _row(None, estimate.latency_s, estimate.dropped, {}, [short(estimate.reason)] if estimate.reason else [])


def _refused(health: CameraHealth | JointHealth) -> Mapping[str, int]:
    return {
        "out of order": health.not_advancing,
        "unstamped": health.unstamped,
        "stray": health.stray,
    }


def _row(
    rate_hz: float | None, age_s: float | None, lost: int, counts: Mapping[str, int], trouble: Sequence[str]
) -> Card:
    return {
        "rate": rounded(rate_hz, 1),
        "age": rounded(age_s, 3),
        "lost": lost,
        "counts": {name: count for name, count in counts.items() if count},
        "trouble": list(trouble),
    }


def report_card(report: EpisodeReport, link: str | None) -> Card:
    """The outcome of the newest episode; ``link`` is the address of its page, where this dashboard has it."""
    metrics = report.metrics_final
    return {
        "episode": short(report.episode_id),
        "task": short(report.task),
        "outcome": report.outcome.outcome.value,
        "reason": short(report.outcome.reason),
        "mp": rounded(metrics.mp if metrics else None, 3),
        "sqs": rounded(metrics.sqs if metrics else None, 3),
        "fns": rounded(metrics.fns if metrics else None, 3),
        "link": link,
    }
