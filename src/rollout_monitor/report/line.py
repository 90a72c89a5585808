"""The operator's line in a terminal: one status as one line, one report as a few."""

from __future__ import annotations

from pathlib import Path

from rollout_monitor.records import EpisodeReport, Event, MonitorStatus, Outcome, Severity

_BAR = 24
_SYMBOLS = {Severity.INFO: "i", Severity.WARN: "!", Severity.ERROR: "X"}


def plain(text: str) -> str:
    """Text from outside without control characters, so that a task or reason cannot steer the terminal."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def live_line(status: MonitorStatus, width: int = 120) -> str:
    """Progress bar, MP, drawdown, state, smoothness and alarms, cut to ``width`` characters.

    Values that are not known yet show as ``--``. Milestones at 25, 50 and 75 % are marked in the empty part of the bar.
    """
    parts = [
        f"{status.state.value:<11}",
        f"{status.elapsed_s:5.1f} s",
        _bar(status.progress),
        _percent(status.progress),
        f"MP {_percent(status.mp)}",
        f"drawdown {_percent(status.drawdown)}",
        {True: "moving", False: "still ", None: "no arm"}[status.moving],
        "smoothness " + ("  --" if status.smoothness is None else f"{status.smoothness:5.1f}"),
        *([_alarms(status.active_events)] if status.active_events else []),
    ]
    return "  ".join(parts)[:width]


def event_line(event: Event, start_ns: int | None) -> str:
    """An event as it is raised or cleared."""
    at = event.cleared_ns if event.cleared_ns is not None else event.detected_ns
    when = "" if start_ns is None else f"{(at - start_ns) / 1e9:6.1f} s  "
    raised = event.cleared_ns is None or event.cleared_ns == event.onset_ns
    what = f"{_SYMBOLS[event.severity]} {event.kind.value}" if raised else f"- {event.kind.value} cleared"
    subject = f" {plain(event.subject)}" if event.subject else ""
    return f"    {when}{what}{subject}: {plain(event.reason)}"


def report_lines(report: EpisodeReport, path: str | Path) -> list[str]:
    """The end of an episode: outcome, why, the figures most asked for, where the report lies."""
    symbol = {Outcome.SUCCESS: "[OK]", Outcome.FAILURE: "[FAILED]", Outcome.UNDECIDED: "[?]"}[report.outcome.outcome]
    lines = [
        f"{symbol} {plain(report.episode_id)}: {report.outcome.outcome.value.upper()} after {report.duration_s:.1f} s"
        f" ({report.state.value})",
        f"     {plain(report.outcome.reason)}",
    ]
    metrics = report.metrics_final
    if metrics is not None:
        named = {
            "MP": metrics.mp,
            "PPL": metrics.ppl,
            "CRA": metrics.cra,
            "STR": metrics.str_,
            "DRR": metrics.drr,
            "FNS": metrics.fns,
            "SQS": metrics.sqs,
        }
        lines.append("     " + "  ".join(f"{name} {value:.2f}" for name, value in named.items() if value is not None))
    lines.append(f"     report: {path}")
    return lines


def _bar(progress: float | None) -> str:
    filled = 0 if progress is None else round(progress * _BAR)
    marks = {_BAR * quarter // 4 for quarter in (1, 2, 3)}
    return "[" + "".join("#" if i < filled else "|" if i in marks else "." for i in range(_BAR)) + "]"


def _percent(value: float | None) -> str:
    return " -- " if value is None else f"{value:4.0%}"


def _alarms(events: list[Event]) -> str:
    return " ".join(f"{_SYMBOLS[event.severity]}{event.kind.value}" for event in events)
