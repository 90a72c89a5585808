"""The life cycle of an event: debounced up, hysteresis down, never chattering."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from rollout_monitor.events.alarm import IMMEDIATE, Alarm, EventLog, Finding
from rollout_monitor.events.settings import Debounce
from rollout_monitor.records import EventKind, Severity


def finding(stamp: int, severity: Severity | None, over: bool = False, **kwargs: object) -> Finding:
    return Finding(stamp, severity, over=over, reason="because", **kwargs)  # type: ignore[arg-type]


def test_raises_after_k_of_n_with_onset_at_the_first_sample_shown() -> None:
    log, alarm = EventLog("e"), Alarm(EventKind.STALL, Debounce(raise_k=2, raise_n=3, clear_m=2))
    assert alarm.update(finding(1, Severity.WARN), log) == []
    assert alarm.update(finding(2, None), log) == []
    (event,) = alarm.update(finding(3, Severity.WARN), log)
    assert (event.onset_ns, event.detected_ns, event.cleared_ns) == (1, 3, None)


def test_the_detectors_own_onset_wins() -> None:
    log, alarm = EventLog("e"), Alarm(EventKind.STALL, IMMEDIATE)
    (event,) = alarm.update(finding(30, Severity.WARN, onset_ns=10), log)
    assert (event.onset_ns, event.detected_ns) == (10, 30)


def test_a_lone_error_among_warnings_does_not_escalate() -> None:
    """An ERROR may ask for a reset of the robot: it is debounced as a warning is."""
    log, alarm = EventLog("a"), Alarm(EventKind.DRAWDOWN, Debounce(raise_k=2, raise_n=3, clear_m=2))
    severities = [Severity.ERROR, Severity.WARN, Severity.WARN, Severity.ERROR, Severity.WARN, Severity.ERROR]
    told = [alarm.update(Finding(stamp, one, over=False), log) for stamp, one in enumerate(severities)]
    assert [[event.severity for event in events] for events in told] == [
        *([], [Severity.WARN], [], [], []),
        [Severity.ERROR],
    ]


def test_escalates_once_and_never_back() -> None:
    log, alarm = EventLog("e"), Alarm(EventKind.DRAWDOWN, IMMEDIATE)
    alarm.update(finding(1, Severity.WARN), log)
    (event,) = alarm.update(finding(2, Severity.ERROR), log)
    assert event.severity is Severity.ERROR and event.event_id == 0
    assert alarm.update(finding(3, Severity.ERROR), log) == []
    assert alarm.update(finding(4, Severity.WARN), log) == []
    assert [e.severity for e in log.events] == [Severity.ERROR]


def test_clears_only_after_m_samples_that_are_surely_over() -> None:
    log, alarm = EventLog("e"), Alarm(EventKind.STALL, Debounce(raise_k=1, raise_n=1, clear_m=2))
    alarm.update(finding(1, Severity.WARN), log)
    assert alarm.update(finding(2, None, over=True), log) == []
    assert alarm.update(finding(3, None, over=False), log) == []
    assert alarm.update(finding(4, None, over=True), log) == []
    (event,) = alarm.update(finding(5, None, over=True), log)
    assert event.cleared_ns == 5
    assert log.active == []


def test_active_events_are_worst_first() -> None:
    log = EventLog("e")
    Alarm(EventKind.STALL, IMMEDIATE).update(finding(1, Severity.WARN), log)
    Alarm(EventKind.DRAWDOWN, IMMEDIATE).update(finding(2, Severity.ERROR), log)
    assert [event.kind for event in log.active] == [EventKind.DRAWDOWN, EventKind.STALL]


@given(
    st.lists(st.sampled_from(["shown", "between", "over"]), max_size=200),
    st.integers(1, 5),
    st.integers(0, 3),
    st.integers(1, 5),
)
def test_events_never_overlap_nor_chatter(samples: list[str], k: int, extra: int, m: int) -> None:
    log, alarm = EventLog("e"), Alarm(EventKind.STALL, Debounce(raise_k=k, raise_n=k + extra, clear_m=m))
    for stamp, sample in enumerate(samples):
        alarm.update(finding(stamp, Severity.WARN if sample == "shown" else None, over=sample == "over"), log)
    events = log.events
    assert [event.event_id for event in events] == list(range(len(events)))
    for before, after in itertools.pairwise(events):
        assert before.cleared_ns is not None and before.cleared_ns < after.onset_ns
    for event in events:
        shown = sum(s == "shown" for s in samples[event.onset_ns : event.detected_ns + 1])
        assert shown >= k
        if event.cleared_ns is not None:
            last = samples[event.cleared_ns - m + 1 : event.cleared_ns + 1]
            assert last == ["over"] * m
