"""The operator's line: right at both ends of the scale, silent where nothing is known, safe against hostile text."""

from __future__ import annotations

from rollout_monitor.records import EpisodeState, Event, EventKind, MonitorStatus, Severity
from rollout_monitor.report.line import event_line, live_line


def status(**fields: object) -> MonitorStatus:
    return MonitorStatus(stamp_ns=0, state=EpisodeState.RUNNING, **fields)  # type: ignore[arg-type]


def test_unknown_values_show_as_unknown() -> None:
    line = live_line(status())
    assert line.count("--") == 4 and "#" not in line and "no arm" in line


def test_the_bar_is_full_at_one_and_empty_at_zero() -> None:
    assert live_line(status(progress=1.0)).count("#") == 24
    assert live_line(status(progress=0.0)).count("#") == 0
    assert live_line(status(progress=0.5)).count("#") == 12


def test_alarms_come_with_a_symbol_and_the_line_fits() -> None:
    event = Event(
        event_id=0,
        episode_id="e",
        kind=EventKind.STALL,
        severity=Severity.WARN,
        onset_ns=0,
        detected_ns=2_000_000_000,
        reason="no progress",
    )
    line = live_line(status(progress=0.4, active_events=[event]))
    assert "!STALL" in line
    assert len(live_line(status(active_events=[event]), width=40)) == 40
    assert event_line(event, 0).strip() == "2.0 s  ! STALL: no progress"
    assert "cleared" in event_line(event.model_copy(update={"cleared_ns": 5_000_000_000}), 0)


def test_a_hostile_reason_cannot_steer_the_terminal() -> None:
    event = Event(
        event_id=0,
        episode_id="e",
        kind=EventKind.CAMERA_LOST,
        severity=Severity.ERROR,
        onset_ns=0,
        detected_ns=0,
        subject="fr\x1b[2Jont",
        reason="gone\r\n\x07",
    )
    assert all(letter.isprintable() for letter in event_line(event, None))
