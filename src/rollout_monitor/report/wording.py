"""The words of the page: what each figure means, how this value reads, why one is absent."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from rollout_monitor.records import (
    Drawdown,
    EpisodeReport,
    EpisodeState,
    Event,
    Label,
    OpdMetrics,
    Outcome,
    Severity,
    Stall,
    UsualRange,
)
from rollout_monitor.store.labels import LabelFact

NS = 1_000_000_000
ABSENT = "—"
_PLAUSIBLE_CLOCK_NS = 946_684_800 * NS  # 2000-01-01: an earlier stamp is a simulator's or a bag's own time
_MINUTE_S = 60.0
_SEEN_S = 0.25  # the arm's state comes ten times a second, so either end of a stall may lack a tenth


@dataclass(frozen=True)
class Verdict:
    """How the outcome is shown: a word, a symbol that needs no colour, a CSS class."""

    word: str
    symbol: str
    css: str


@dataclass(frozen=True)
class MetricRow:
    """One line of the metrics table."""

    short: str
    name: str
    meaning: str
    live: str
    final: str
    reading: str
    better: str
    absent: bool
    usual: str
    """Range and number of earlier successes; empty where there are too few."""
    aside: str
    """``below`` or ``above`` where the value is outside of the usual range."""


@dataclass(frozen=True)
class _Metric:
    short: str
    field: str
    name: str
    meaning: str
    better: str
    value: Callable[[OpdMetrics], float | None]
    reading: Callable[[OpdMetrics], str]
    absent: str = ""


VERDICTS = {
    Outcome.SUCCESS: Verdict("Success", "✓", "success"),
    Outcome.FAILURE: Verdict("Failure", "✕", "failure"),
    Outcome.UNDECIDED: Verdict("Undecided", "?", "undecided"),
}
SEVERITY_SYMBOLS = {Severity.INFO: "i", Severity.WARN: "!", Severity.ERROR: "✕"}
_DECIDED_BY = {
    "label": "decided by the label given at the end",
    "model": "decided by the model's success probability",
    "progress": "decided by the progress reached",
    "none": "nothing decided it",
}


def number(value: float | None, digits: int = 2) -> str:
    """A figure with fixed decimals; very small and very large ones in powers of ten; a dash where there is none."""
    if value is None or not math.isfinite(value):
        return ABSENT
    if value != 0 and (abs(value) < 0.5 * 10**-digits or abs(value) >= 1e5):
        mantissa, _, exponent = f"{value:.{max(digits - 1, 1)}e}".partition("e")
        return f"{mantissa}·10{_superscript(int(exponent))}"
    return f"{value:.{digits}f}".replace("-", "−")


def significant(value: float | None, digits: int = 3) -> str:
    """A figure with so many significant digits, without zeros at its end; whole numbers as they are."""
    if value is None or not math.isfinite(value):
        return ABSENT
    if isinstance(value, int) or value == 0:
        return f"{value:.0f}".replace("-", "−")
    size = math.floor(math.log10(abs(value)))
    decimals = digits if size < -digits or size >= 5 else max(digits - 1 - size, 0)
    mantissa, power, exponent = number(value, decimals).partition("·")
    return (mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa) + power + exponent


def span(event: Event, start_ns: int) -> str:
    """When an event was, relative to the start, and how long it took to be noticed."""
    when = since_start(event.onset_ns, start_ns)
    if event.cleared_ns is None:
        when += " until the end"
    elif event.cleared_ns > event.onset_ns:
        when += f" to {since_start(event.cleared_ns, start_ns)} ({seconds((event.cleared_ns - event.onset_ns) / NS)})"
    delay = (event.detected_ns - event.onset_ns) / NS
    return f"{when}, noticed after {seconds(delay)}" if delay >= 0.05 else when


def percent(value: float | None) -> str:
    """A share in whole percent."""
    return ABSENT if value is None else f"{100 * value:.0f} %"


def seconds(value: float) -> str:
    """A duration: ``12.4 s``, from a minute on ``2 min 05.0 s``, from an hour on ``1 h 02 min``."""
    if abs(value) < _MINUTE_S - 0.05:
        return f"{value:.1f} s".replace("-", "−")
    minutes, rest = divmod(round(value, 1), _MINUTE_S)
    if minutes < 60:
        return f"{minutes:.0f} min {rest:04.1f} s"
    hours, minutes = divmod(round(value / _MINUTE_S), 60)
    return f"{hours:.0f} h {minutes:02.0f} min"


def since_start(stamp_ns: int, start_ns: int) -> str:
    """A moment relative to the start: ``+12.4 s`` or ``+2:05.0``."""
    offset = (stamp_ns - start_ns) / NS
    sign = "−" if offset < -0.05 else "+"
    offset = round(abs(offset), 1)
    if offset < _MINUTE_S:
        return f"{sign}{offset:.1f} s"
    minutes, rest = divmod(offset, _MINUTE_S)
    hours, minutes = divmod(int(minutes), 60)
    return f"{sign}{hours}:{minutes:02d}:{rest:04.1f}" if hours else f"{sign}{minutes}:{rest:04.1f}"


def clock(stamp_ns: int) -> str:
    """Date and time in UTC, or the stream's own time where the stamp is no date."""
    if stamp_ns < _PLAUSIBLE_CLOCK_NS:
        return f"stream time {stamp_ns / NS:.3f} s"
    return datetime.fromtimestamp(stamp_ns // NS, tz=timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")


def verdict(report: EpisodeReport) -> Verdict:
    """Word, symbol and colour class of the outcome."""
    shown = VERDICTS[report.outcome.outcome]
    if report.state is EpisodeState.INTERRUPTED and report.outcome.outcome is Outcome.UNDECIDED:
        return Verdict("Interrupted", "‖", "undecided")
    return shown


def decided(report: EpisodeReport) -> str:
    """What decided the outcome, in one clause."""
    return _DECIDED_BY[report.outcome.decided_by]


def trust(report: EpisodeReport) -> str:
    """Whether the decision stands on calibrated thresholds."""
    if report.outcome.calibrated:
        return f"calibrated on this task ({report.calibration})" if report.calibration else "calibrated on this task"
    return "not calibrated: documented default thresholds"


def label(value: Label | None) -> str:
    """A label in words."""
    return ABSENT if value is None else value.value


def tags(facts: Sequence[LabelFact]) -> list[tuple[str, str]]:
    """Tags and who said each, in the order in which they were said first."""
    said: dict[str, list[str]] = {}
    for fact in facts:
        for tag in fact.tags:
            who = said.setdefault(tag, [])
            if fact.who not in who:
                who.append(fact.who)
    return [(tag, ", ".join(who)) for tag, who in said.items()]


def metric_rows(final: OpdMetrics | None, live: OpdMetrics | None, usual: Sequence[UsualRange] = ()) -> list[MetricRow]:
    """The table of metrics: live values beside the final ones, and how the task usually comes out."""
    if final is None:
        return []
    ranges = {one.metric: one for one in usual}
    rows = []
    for metric in _METRICS:
        value = metric.value(final)
        known = ranges.get(metric.field)
        rows.append(
            MetricRow(
                short=metric.short,
                name=metric.name,
                meaning=metric.meaning,
                live=number(metric.value(live)) if live else ABSENT,
                final=number(value),
                reading=metric.absent if value is None else metric.reading(final),
                better=metric.better,
                absent=value is None,
                usual="" if known is None else f"{number(known.low)} to {number(known.high)} (n {known.n})",
                aside="" if known is None or value is None else _aside(value, known),
            )
        )
    return rows


def _aside(value: float, usual: UsualRange) -> str:
    """On which side of the usual range a value is, as far as two decimals tell."""
    if round(value, 2) < round(usual.low, 2):
        return "below"
    return "above" if round(value, 2) > round(usual.high, 2) else ""


def recovery(fall: Drawdown, start_ns: int) -> str:
    """What became of a fall."""
    if fall.recovered_ns is not None:
        took = seconds((fall.recovered_ns - fall.trough_ns) / NS)
        return f"made good at {since_start(fall.recovered_ns, start_ns)}, {took} after its lowest"
    if fall.recovery < 0.005:
        return "never made good"
    return f"never made good completely: {percent(fall.recovery)} of it at best"


def stall_split(stall: Stall) -> str:
    """How a stall divides, the larger part first."""
    parts = [(stall.moving_s, "moving without effect"), (stall.still_s, "still")]
    if stall.unseen_s > _SEEN_S:
        parts.append((stall.unseen_s, "without joint states to tell"))
    told = [f"{seconds(length)} {what}" for length, what in sorted(parts, key=lambda part: -part[0]) if length >= 0.05]
    return ", ".join(told)


def short_name(field: str) -> str:
    """The table's short name of a metric by its name in the record."""
    return {"max_drawdown": "MDD"}.get(field, field.strip("_").upper())


def _superscript(exponent: int) -> str:
    return str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def _travelled(metrics: OpdMetrics) -> str:
    if metrics.tv == 0:
        return "Progress never moved."
    return f"Progress moved up and down by {number(metrics.tv)} in all to reach {number(metrics.mp)}."


def _fell(metrics: OpdMetrics) -> str:
    if metrics.max_drawdown <= 0:
        return "Progress never fell."
    return f"At worst it stood {number(metrics.max_drawdown)} below a best of before."


def _recovered(metrics: OpdMetrics) -> str:
    if metrics.drr is None or metrics.drr <= 0.005:
        return "Nothing of the deepest fall was made good."
    if metrics.drr >= 0.995:
        return "The deepest fall was made good completely."
    return f"{percent(metrics.drr)} of the deepest fall was made good."


def _nearly(metrics: OpdMetrics) -> str:
    if metrics.mc75:
        milestones = "the milestones at 50 and 75 % were reached"
    elif metrics.mc50:
        milestones = "the milestone at 50 % was reached, the one at 75 % was not"
    else:
        milestones = "the milestone at 50 % was not reached"
    return f"It got to {percent(metrics.mp)}; {milestones}."


_METRICS = (
    _Metric(
        "MP",
        "mp",
        "Maximum progress",
        "The furthest the attempt ever got.",
        "higher is better",
        lambda m: m.mp,
        lambda m: f"It got to {percent(m.mp)} of the task at best.",
    ),
    _Metric(
        "PPL",
        "ppl",
        "Path efficiency",
        "How directly progress was made; every fall and every detour lowers it.",
        "higher is better",
        lambda m: m.ppl,
        _travelled,
    ),
    _Metric(
        "TV",
        "tv",
        "Total variation",
        "All movement of progress, up and down, added up.",
        "lower is better",
        lambda m: m.tv,
        lambda m: f"A climb to {number(m.mp)} without any fall takes {number(m.mp)}.",
    ),
    _Metric(
        "CRA",
        "cra",
        "Cumulative regret",
        "How far, on average, progress stood below its best so far.",
        "lower is better",
        lambda m: m.cra,
        lambda m: f"On average {percent(m.cra)} of the best value was missing again.",
    ),
    _Metric(
        "STR",
        "str",
        "Stagnation",
        "Share of steps in which progress did not move to speak of.",
        "lower is better",
        lambda m: m.str_,
        lambda m: f"Progress stood still in {percent(m.str_)} of the steps.",
    ),
    _Metric(
        "MDD",
        "max_drawdown",
        "Maximum drawdown",
        "The deepest fall below a best value reached before.",
        "lower is better",
        lambda m: m.max_drawdown,
        _fell,
    ),
    _Metric(
        "DRR",
        "drr",
        "Drawdown recovery",
        "How much of the deepest fall was made good again.",
        "higher is better",
        lambda m: m.drr,
        _recovered,
        "Absent: progress never fell, so there was nothing to recover.",
    ),
    _Metric(
        "FNS",
        "fns",
        "Failure near-success",
        "For failures: how close it came, from 0 (nowhere) to 1 (all but done).",
        "higher is better",
        lambda m: m.fns,
        _nearly,
        "Absent: defined for failures only, and this counts as a success.",
    ),
    _Metric(
        "SQS",
        "sqs",
        "Success quality",
        "For successes: how clean it was, from 0 to 1.",
        "higher is better",
        lambda m: m.sqs,
        lambda m: f"From path efficiency {number(m.ppl)}, regret {number(m.cra)} and stagnation {number(m.str_)}.",
        "Absent: defined for successes only, and this does not count as one.",
    ),
)
