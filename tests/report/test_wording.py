"""Figures and times in words."""

from __future__ import annotations

import pytest
from report_examples import at, event, metrics

from rollout_monitor.records import EventKind, Severity
from rollout_monitor.report import wording


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (0.8249, 2, "0.82"),
        (-3.174, 2, "−3.17"),
        (0.0, 2, "0.00"),
        (0.0049, 2, "4.9·10⁻³"),
        (123456.0, 2, "1.2·10⁵"),
        (None, 2, "—"),
        (float("nan"), 2, "—"),
        (float("-inf"), 2, "—"),
        (41.0, 0, "41"),
    ],
)
def test_number(value: float | None, digits: int, text: str) -> None:
    assert wording.number(value, digits) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (25.1, "25.1"),
        (0.37, "0.37"),
        (0.004, "0.004"),
        (1.82e-4, "1.82·10⁻⁴"),
        (8e-6, "8·10⁻⁶"),
        (19, "19"),
        (0.0, "0"),
        (1000.4, "1000"),
        (100, "100"),
    ],
)
def test_significant(value: float, text: str) -> None:
    assert wording.significant(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min 00.0 s"),
        (125.0, "2 min 05.0 s"),
        (7200.0, "2 h 00 min"),
        (3599.99, "1 h 00 min"),
    ],
)
def test_seconds(value: float, text: str) -> None:
    assert wording.seconds(value) == text


@pytest.mark.parametrize(
    ("offset", "text"),
    [
        (0.0, "+0.0 s"),
        (12.43, "+12.4 s"),
        (-3.0, "−3.0 s"),
        (125.0, "+2:05.0"),
        (3725.5, "+1:02:05.5"),
        (59.97, "+1:00.0"),
    ],
)
def test_since_start(offset: float, text: str) -> None:
    assert wording.since_start(at(offset), at(0)) == text


def test_span() -> None:
    def when(onset: float, detected: float, cleared: float | None) -> str:
        return wording.span(event(0, EventKind.STALL, Severity.WARN, onset, detected, cleared, "x"), at(0))

    assert when(5, 6.5, 9) == "+5.0 s to +9.0 s (4.0 s), noticed after 1.5 s"
    assert when(5, 5, None) == "+5.0 s until the end"
    assert when(5, 5, 5) == "+5.0 s"


def test_clock() -> None:
    assert wording.clock(1_780_000_000_000_000_000) == "2026-05-28 20:26:40 UTC"
    assert wording.clock(27_520_000_000) == "stream time 27.520 s"


def test_readings_follow_the_values() -> None:
    rows = {row.short: row for row in wording.metric_rows(metrics([0.1, 0.5, 0.9, 0.1, 0.1], success=False), None)}
    assert rows["MP"].final == "0.90"
    assert "90 %" in rows["MP"].reading
    assert "moved up and down by 1.60 in all to reach 0.90" in rows["PPL"].reading
    assert rows["STR"].reading == "Progress stood still in 25 % of the steps."
    assert rows["DRR"].reading == "Nothing of the deepest fall was made good."
    assert "the milestones at 50 and 75 % were reached" in rows["FNS"].reading
    assert (rows["SQS"].final, rows["SQS"].absent) == ("—", True)
    assert all(row.live == "—" for row in rows.values())
    climbing = {row.short: row for row in wording.metric_rows(metrics([0.2, 0.6, 1.0], success=True), None)}
    assert climbing["DRR"].absent
    assert "never fell" in climbing["DRR"].reading
    assert climbing["MDD"].reading == "Progress never fell."
    assert climbing["FNS"].absent
    still = {row.short: row for row in wording.metric_rows(metrics([0.0, 0.0], success=False), None)}
    assert still["PPL"].reading == "Progress never moved."
    assert wording.metric_rows(None, None) == []
