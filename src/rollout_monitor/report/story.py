"""The attempt in a few lines, for a reader with a minute: what happened when."""

from __future__ import annotations

from dataclasses import dataclass

from rollout_monitor.records import EpisodeReport
from rollout_monitor.report import wording

MOST = 8
"""Lines; what matters least is left out first."""
_FINAL, _FAILURE, _FALL, _STALL, _MILESTONE = range(5)
_MILESTONES = ((0.25, "mc25"), (0.50, "mc50"), (0.75, "mc75"), (1.0, "mc100"))


@dataclass(frozen=True)
class Moment:
    """One line.

    Attributes:
        stamp_ns: when.
        text: what.
        tone: CSS class of its colour; empty for plain text.
    """

    stamp_ns: int
    text: str
    tone: str = ""


def moments(report: EpisodeReport) -> list[Moment]:
    """What happened, in the order of time: the outcome, where it failed, falls and stalls, milestones."""
    end = Moment(report.end_ns, f"{wording.verdict(report).word} after {wording.seconds(report.duration_s)}")
    ranked: list[tuple[int, float, Moment]] = [(_FINAL, 0.0, end)]
    if report.failed_at is not None:
        text = f"at its best for the last time, {wording.percent(report.failed_at.progress)}"
        ranked.append((_FAILURE, 0.0, Moment(report.failed_at.stamp_ns, text)))
    for fall in report.drawdowns:
        text = f"falls by {wording.number(fall.depth)}; {wording.recovery(fall, report.start_ns)}"
        ranked.append((_FALL, -fall.depth, Moment(fall.peak_ns, text, "error" if fall.recovery < 0.5 else "warn")))
    for stall in report.stalls:
        length = stall.end_ns - stall.onset_ns
        ranked.append((_STALL, -float(length), Moment(stall.onset_ns, f"stalls: {wording.stall_split(stall)}", "warn")))
    for level, name in _MILESTONES:
        stamp_ns = reached(report, level, name)
        if stamp_ns is not None:
            ranked.append((_MILESTONE, -level, Moment(stamp_ns, f"reaches {wording.percent(level)}", "success")))
    kept = [moment for _, _, moment in sorted(ranked, key=lambda item: item[:2])[:MOST]]
    return sorted(kept, key=lambda moment: moment.stamp_ns)


def reached(report: EpisodeReport, level: float, name: str) -> int | None:
    """When the final curve first reached a milestone, None where the final figures do not count it as reached."""
    if report.metrics_final is None or not getattr(report.metrics_final, name):
        return None
    return next((point.stamp_ns for point in report.curve if point.final >= level - 1e-9), None)
