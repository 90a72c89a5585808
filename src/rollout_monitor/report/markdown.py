"""The Markdown twin of the page: what a pull request needs, in a screen of text.

Whatever came from outside stands in code spans, one line and cut to a length: there it can neither be markup, nor
call somebody's name, nor break a table.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from rollout_monitor.records import EpisodeReport
from rollout_monitor.report import wording
from rollout_monitor.report.health import health
from rollout_monitor.report.line import plain
from rollout_monitor.store.labels import LabelFact

LONGEST = 300
"""Characters of a text from outside."""
_BARS = "▁▂▃▄▅▆▇█"
_COLUMNS = 60


def summary(report: EpisodeReport, labels: Sequence[LabelFact] = ()) -> str:
    """A report as GitHub-flavoured Markdown.

    Args:
        report: the record; anything in it may be absent.
        labels: what was said about the episode.
    """
    verdict = wording.verdict(report)
    parts = [
        f"### {verdict.symbol} {verdict.word}: {code(report.task) if report.task else 'no task given'}",
        f"{code(report.outcome.reason)}  \n"
        f"{_sentence(wording.decided(report))} Thresholds: {code(wording.trust(report))}.",
        _curve(report),
        _failure(report),
        _bullets("Before you trust a figure", [code(note) for note in report.notes]),
        _metrics(report),
        _falls(report),
        _stalls(report),
        _events(report),
        _health(report),
        _bullets("Said about it", _given(report) + [_said(fact) for fact in labels]),
        _made(report),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def code(text: str) -> str:
    """A text from outside as a code span: one line, cut, with a fence longer than any run of backticks in it."""
    line = " ".join(plain(text).split())
    if len(line) > LONGEST:
        line = f"{line[:LONGEST]}… ({len(line)} characters)"
    if not line:
        return wording.ABSENT
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", line)), default=0))
    space = " " if "`" in line else ""
    return f"{fence}{space}{line}{space}{fence}".replace("|", "\\|")


def _sentence(clause: str) -> str:
    return f"{clause[:1].upper()}{clause[1:]}."


def _curve(report: EpisodeReport) -> str:
    """The final curve as a row of bars, one for each of equal stretches of time."""
    span = report.end_ns - report.start_ns
    if not report.curve or span <= 0:
        return "No progress estimate came, so there is no curve."
    at = np.array([(point.stamp_ns - report.start_ns) / span for point in report.curve])
    values = np.array([point.final for point in report.curve])
    columns = min(_COLUMNS, len(values))
    column = np.clip((at * columns).astype(int), 0, columns - 1)
    bars = [_bar(values[column == index]) for index in range(columns)]
    best = wording.percent(report.metrics_final.mp if report.metrics_final else None)
    return f"`{''.join(bars)}` best {best}, {wording.seconds(report.duration_s)}"


def _bar(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> str:
    return " " if not values.size else _BARS[min(int(values.mean() * len(_BARS)), len(_BARS) - 1)]


def _failure(report: EpisodeReport) -> str:
    return "" if report.failed_at is None else f"**Where it failed:** {code(report.failed_at.reason)}"


def _metrics(report: EpisodeReport) -> str:
    rows = wording.metric_rows(report.metrics_final, report.metrics_live, report.usual)
    if not rows:
        return "No metrics: no progress estimate came."
    usual = any(row.usual for row in rows)
    head = ["metric", "final", "live", *(["usual"] if usual else []), "meaning"]
    lines = [
        [f"**{row.short}** {row.name}", row.final, row.live, *([_usual(row)] if usual else []), row.meaning]
        for row in rows
    ]
    return _table(head, lines, figures=3 if usual else 2)


def _usual(row: wording.MetricRow) -> str:
    return f"{row.usual} **{row.aside}**" if row.aside else row.usual or wording.ABSENT


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], figures: int) -> str:
    """A table whose columns behind the first are figures, as many as told."""
    marks = ["---", *["---:"] * figures, *["---"] * (len(head) - 1 - figures)]
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, marks, *rows))


def _falls(report: EpisodeReport) -> str:
    return _bullets(
        "Falls",
        [
            f"−{wording.number(fall.depth)} from {wording.percent(fall.peak)} at "
            f"{wording.since_start(fall.peak_ns, report.start_ns)}; {wording.recovery(fall, report.start_ns)}"
            for fall in report.drawdowns
        ],
    )


def _stalls(report: EpisodeReport) -> str:
    return _bullets(
        "Stalls",
        [
            f"{wording.since_start(stall.onset_ns, report.start_ns)}: {wording.stall_split(stall)}"
            for stall in report.stalls
        ],
    )


def _events(report: EpisodeReport) -> str:
    return _bullets(
        "Events",
        [
            f"{event.severity.value} {event.kind.value} {wording.span(event, report.start_ns)}"
            + (f" {code(event.subject)}" if event.subject else "")
            + f": {code(event.reason)}"
            for event in sorted(report.events, key=lambda event: (event.onset_ns, event.event_id))
        ],
    )


def _health(report: EpisodeReport) -> str:
    table = health(report)
    if table is None:
        return "**Data health:** no camera and no joint states were heard."
    odd = [
        f"{code(stream)}: {row.name} {code(cell.text)}"
        for row in table.rows
        for stream, cell in zip(table.streams, row.cells, strict=True)
        if cell.odd
    ]
    return _bullets("Data health", odd or [f"{len(table.streams)} streams, nothing amiss"])


def _said(fact: LabelFact) -> str:
    label = "" if fact.label is None else f" **{fact.label.value}**"
    note = f" {code(fact.note)}" if fact.note else ""
    return f"{code(fact.who)}{label}{note} ({wording.clock(fact.stamp_ns)})"


def _given(report: EpisodeReport) -> list[str]:
    if report.label is None:
        return []
    return [f"{code(report.ended_by or 'whoever ended it')} **{report.label.value}** at its end"]


def _made(report: EpisodeReport) -> str:
    model = f"{code(report.model)} {code(report.model_hash[:12])}" if report.model else "no model"
    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    return f"<sub>Episode {code(report.episode_id)}, judged by {model}. {code(versions)}</sub>"


def _bullets(title: str, lines: Sequence[str]) -> str:
    return f"**{title}**\n\n" + "\n".join(f"- {line}" for line in lines) if lines else ""
