"""Views as the monitor would make them, for the tests of what is drawn."""

from __future__ import annotations

from collections.abc import Sequence

from rollout_monitor.records import EpisodeState, Event, EventKind, MonitorStatus, Severity
from rollout_monitor.report.overlay.view import LiveView


def alarm(kind: EventKind, severity: Severity, reason: str, subject: str = "", number: int = 0) -> Event:
    return Event(
        event_id=number,
        episode_id="take-1",
        kind=kind,
        severity=severity,
        onset_ns=0,
        detected_ns=0,
        subject=subject,
        reason=reason,
    )


def status(at_s: float, **fields: object) -> MonitorStatus:
    known = {"episode_id": "take-1", "state": EpisodeState.RUNNING, **fields}
    return MonitorStatus(stamp_ns=round(at_s * 1e9), elapsed_s=at_s, **known)  # type: ignore[arg-type]


def live(task: str = "lift", alarms: Sequence[Event] = ()) -> LiveView:
    """An attempt that got to 66 % and stands at 47 %."""
    view = LiveView()
    for at_s, progress, mp in ((0.0, 0.02, 0.02), (9.0, 0.66, 0.66), (14.0, 0.44, 0.66), (24.0, 0.47, 0.66)):
        view.on_status(
            status(
                at_s,
                task=task,
                progress=progress,
                mp=mp,
                drawdown=mp - progress,
                smoothness=-3.1,
                moving=True,
                active_events=list(alarms),
            )
        )
    return view
