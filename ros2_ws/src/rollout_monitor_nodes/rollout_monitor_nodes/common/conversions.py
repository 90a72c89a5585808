"""Records of the core to ROS messages and back, without loss: the one place where either side's fields are spelled out.

In messages NaN stands for an absent float, -1 for an absent count, an empty string for an absent name, and a flag
beside it for an absent stamp. Stamps are header stamps in nanoseconds.
"""

from __future__ import annotations

import math
from typing import Any, TypeVar

from builtin_interfaces.msg import Time
from rollout_monitor_msgs import msg as ros

from rollout_monitor.errors import InputError
from rollout_monitor.records import (
    Boundary,
    CameraHealth,
    Direction,
    EffortSpike,
    EpisodeMarker,
    EpisodeReport,
    EpisodeState,
    EstimateStatus,
    Event,
    EventKind,
    GridRow,
    JointHealth,
    KinematicSummary,
    Label,
    MonitorStatus,
    MotionFigures,
    Outcome,
    ProgressEstimate,
    Severity,
)

_NS = 1_000_000_000
_SECONDS_LIMIT = 2**31

BOUNDARIES = {Boundary.START: ros.Episode.BOUNDARY_START, Boundary.END: ros.Episode.BOUNDARY_END}
LABELS = {
    None: ros.Episode.LABEL_NONE,
    Label.SUCCESS: ros.Episode.LABEL_SUCCESS,
    Label.FAILURE: ros.Episode.LABEL_FAILURE,
}
ESTIMATE_STATUSES = {status: getattr(ros.Progress, f"STATUS_{status.name}") for status in EstimateStatus}
DIRECTIONS = {direction: getattr(ros.Progress, f"DIRECTION_{direction.name}") for direction in Direction}
EVENT_KINDS = {kind: getattr(ros.MonitorEvent, f"KIND_{kind.name}") for kind in EventKind}
SEVERITIES = {severity: getattr(ros.MonitorEvent, f"SEVERITY_{severity.name}") for severity in Severity}
EPISODE_STATES = {state: getattr(ros.MonitorStatus, f"STATE_{state.name}") for state in EpisodeState}
MOTIONS = {
    None: ros.MonitorStatus.MOTION_UNKNOWN,
    False: ros.MonitorStatus.MOTION_STILL,
    True: ros.MonitorStatus.MOTION_MOVING,
}
OUTCOMES = {outcome: getattr(ros.EpisodeReport, f"OUTCOME_{outcome.name}") for outcome in Outcome}
DECIDED_BY = {
    "none": ros.EpisodeReport.DECIDED_BY_NONE,
    "label": ros.EpisodeReport.DECIDED_BY_LABEL,
    "model": ros.EpisodeReport.DECIDED_BY_MODEL,
    "progress": ros.EpisodeReport.DECIDED_BY_PROGRESS,
}


K = TypeVar("K")


def _inverse(mapping: dict[K, int], value: int, field: str) -> K:
    for key, constant in mapping.items():
        if constant == value:
            return key
    raise InputError(f"{field} has the unknown value {value}")


def label_from_constant(value: int) -> Label | None:
    """A ``LABEL_*`` constant as a label.

    Raises:
        InputError: no such constant.
    """
    return _inverse(LABELS, value, "label")


# --- small parts -------------------------------------------------------------------------------------------------


def time_to_msg(stamp_ns: int) -> Time:
    """Nanoseconds to a message stamp.

    Raises:
        InputError: outside what the message can hold (years 1901 to 2038).
    """
    seconds, nanoseconds = divmod(stamp_ns, _NS)
    if not -_SECONDS_LIMIT <= seconds < _SECONDS_LIMIT:
        raise InputError(f"stamp {stamp_ns} ns does not fit a ROS time (32 bit seconds)")
    return Time(sec=seconds, nanosec=nanoseconds)


def time_from_msg(stamp: Time) -> int:
    """A message stamp in nanoseconds."""
    return int(stamp.sec) * _NS + int(stamp.nanosec)


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _maybe(value: float) -> float | None:
    return None if math.isnan(value) else value


def _optional_time(stamp_ns: int | None) -> Time:
    return Time() if stamp_ns is None else time_to_msg(stamp_ns)


# --- episode boundaries ------------------------------------------------------------------------------------------


def marker_to_msg(marker: EpisodeMarker) -> ros.Episode:
    """EpisodeMarker to Episode."""
    msg = ros.Episode(
        episode_id=marker.episode_id,
        boundary=BOUNDARIES[marker.boundary],
        task=marker.task,
        label=LABELS[marker.label],
        source=marker.source,
    )
    msg.header.stamp = time_to_msg(marker.stamp_ns)
    return msg


def marker_from_msg(msg: ros.Episode) -> EpisodeMarker:
    """Episode to EpisodeMarker.

    Raises:
        InputError: a name, task or constant that no episode can have.
    """
    try:
        return EpisodeMarker(
            boundary=_inverse(BOUNDARIES, msg.boundary, "Episode.boundary"),
            stamp_ns=time_from_msg(msg.header.stamp),
            episode_id=msg.episode_id,
            task=msg.task,
            label=_inverse(LABELS, msg.label, "Episode.label"),
            source=msg.source,
        )
    except ValueError as error:  # pydantic's and ours
        raise InputError(f"episode marker {msg.episode_id!r} cannot be used: {_first_line(error)}") from error


def _first_line(error: ValueError) -> str:
    return " ".join(str(error).split())


# --- perception --------------------------------------------------------------------------------------------------


def progress_to_msg(estimate: ProgressEstimate, frame_id: str = "") -> ros.Progress:
    """ProgressEstimate to Progress; ``frame_id`` is the primary camera's."""
    msg = ros.Progress(
        episode_id=estimate.episode_id,
        status=ESTIMATE_STATUSES[estimate.status],
        direction=DIRECTIONS[estimate.direction],
        subtask=-1 if estimate.subtask is None else estimate.subtask,
        progress=_number(estimate.progress),
        lower=_number(estimate.lower),
        upper=_number(estimate.upper),
        success_probability=_number(estimate.success_probability),
        latency=_number(estimate.latency_s),
        dropped=estimate.dropped,
        camera_names=list(estimate.camera_stamps_ns),
        camera_stamps=[time_to_msg(stamp) for stamp in estimate.camera_stamps_ns.values()],
        reason=estimate.reason,
        model=estimate.model,
        model_hash=estimate.model_hash,
    )
    msg.header.stamp = time_to_msg(estimate.stamp_ns)
    msg.header.frame_id = frame_id
    return msg


def progress_from_msg(msg: ros.Progress) -> ProgressEstimate:
    """Progress to ProgressEstimate."""
    stamps = [time_from_msg(stamp) for stamp in msg.camera_stamps]
    return ProgressEstimate(
        stamp_ns=time_from_msg(msg.header.stamp),
        episode_id=msg.episode_id,
        status=_inverse(ESTIMATE_STATUSES, msg.status, "Progress.status"),
        progress=_maybe(msg.progress),
        lower=_maybe(msg.lower),
        upper=_maybe(msg.upper),
        success_probability=_maybe(msg.success_probability),
        direction=_inverse(DIRECTIONS, msg.direction, "Progress.direction"),
        subtask=None if msg.subtask < 0 else msg.subtask,
        reason=msg.reason,
        camera_stamps_ns=dict(zip(msg.camera_names, stamps, strict=True)),
        model=msg.model,
        model_hash=msg.model_hash,
        latency_s=_maybe(msg.latency),
        dropped=msg.dropped,
    )


_FIGURES = (
    *("u_v", "u_a", "mu_v", "u_v_si", "u_a_si", "mu_v_si", "rms_jerk", "ldlj", "sparc"),
    *("idle_fraction", "peak_speed", "peak_acceleration"),
)
_COUNTS = ("reversals", "speed_peaks")
_LISTS = ("s_v", "s_a", "rms_jerk_per_joint")
_NAMES = ("worst_joint_v", "worst_joint_a", "worst_joint_jerk")


def motion_to_msg(figures: MotionFigures) -> ros.MotionFigures:
    """MotionFigures to its message."""
    msg = ros.MotionFigures(samples=figures.samples, duration=figures.duration_s)
    for name in _FIGURES:
        setattr(msg, name, _number(getattr(figures, name)))
    for name in _COUNTS:
        count = getattr(figures, name)
        setattr(msg, name, -1 if count is None else count)
    for name in _LISTS:
        setattr(msg, name, getattr(figures, name))
    for name in _NAMES:
        setattr(msg, name, getattr(figures, name) or "")
    return msg


def motion_from_msg(msg: ros.MotionFigures) -> MotionFigures:
    """A MotionFigures message to its record."""
    fields: dict[str, Any] = {name: _maybe(getattr(msg, name)) for name in _FIGURES}
    fields.update({name: None if getattr(msg, name) < 0 else getattr(msg, name) for name in _COUNTS})
    fields.update({name: list(getattr(msg, name)) for name in _LISTS})
    fields.update({name: getattr(msg, name) or None for name in _NAMES})
    return MotionFigures(samples=msg.samples, duration_s=msg.duration, **fields)


_JOINT_COUNTS = (
    *("received", "used", "non_finite", "not_advancing", "malformed", "unusable", "unstamped", "stray", "lost"),
    *("implausible", "gaps", "clock_jumps", "clock_steps"),
)
_CAMERA_COUNTS = ("received", "used", "bad", "repeated", "not_advancing", "unstamped", "stray", "lost", "clock_steps")


def joint_health_to_msg(health: JointHealth) -> ros.JointHealth:
    """JointHealth to its message."""
    return ros.JointHealth(
        **{name: getattr(health, name) for name in _JOINT_COUNTS},
        rate=_number(health.rate_hz),
        last_stamp=_optional_time(health.last_stamp_ns),
        has_last_stamp=health.last_stamp_ns is not None,
        missing_joints=list(health.missing_since_ns),
        implausible_joint=health.implausible_joint,
        missing_since=[time_to_msg(stamp) for stamp in health.missing_since_ns.values()],
    )


def joint_health_from_msg(msg: ros.JointHealth) -> JointHealth:
    """A JointHealth message to its record."""
    return JointHealth(
        **{name: getattr(msg, name) for name in _JOINT_COUNTS},
        rate_hz=_maybe(msg.rate),
        implausible_joint=msg.implausible_joint,
        last_stamp_ns=time_from_msg(msg.last_stamp) if msg.has_last_stamp else None,
        missing_since_ns=dict(
            zip(msg.missing_joints, (time_from_msg(stamp) for stamp in msg.missing_since), strict=True)
        ),
    )


def _spike_to_msg(spike: EffortSpike) -> ros.EffortSpike:
    return ros.EffortSpike(
        stamp=time_to_msg(spike.stamp_ns),
        value=spike.value,
        baseline=spike.baseline,
        deviations=spike.deviations,
        joint=spike.joint,
    )


def _spike_from_msg(msg: ros.EffortSpike) -> EffortSpike:
    return EffortSpike(
        stamp_ns=time_from_msg(msg.stamp),
        joint=msg.joint,
        value=msg.value,
        baseline=msg.baseline,
        deviations=msg.deviations,
    )


def kinematics_to_msg(summary: KinematicSummary) -> ros.Kinematics:
    """KinematicSummary to Kinematics."""
    msg = ros.Kinematics(
        episode_id=summary.episode_id,
        joint_names=summary.joint_names,
        grid_rate=summary.grid_rate_hz,
        segment=summary.segment,
        rows=[ros.GridRow(stamp=time_to_msg(row.stamp_ns), positions=row.positions) for row in summary.rows],
        window=motion_to_msg(summary.window),
        episode=motion_to_msg(summary.episode),
        spikes=[_spike_to_msg(spike) for spike in summary.spikes],
        health=joint_health_to_msg(summary.health),
        moving=summary.moving,
        end_of_episode=summary.end_of_episode,
    )
    msg.header.stamp = time_to_msg(summary.stamp_ns)
    return msg


def kinematics_from_msg(msg: ros.Kinematics) -> KinematicSummary:
    """Kinematics to KinematicSummary."""
    return KinematicSummary(
        stamp_ns=time_from_msg(msg.header.stamp),
        episode_id=msg.episode_id,
        joint_names=list(msg.joint_names),
        grid_rate_hz=msg.grid_rate,
        segment=msg.segment,
        rows=[GridRow(stamp_ns=time_from_msg(row.stamp), positions=list(row.positions)) for row in msg.rows],
        window=motion_from_msg(msg.window),
        episode=motion_from_msg(msg.episode),
        moving=msg.moving,
        spikes=[_spike_from_msg(spike) for spike in msg.spikes],
        health=joint_health_from_msg(msg.health),
        end_of_episode=msg.end_of_episode,
    )


def camera_to_msg(health: CameraHealth) -> ros.CameraHealth:
    """CameraHealth to its message."""
    msg = ros.CameraHealth(
        camera=health.camera,
        **{name: getattr(health, name) for name in _CAMERA_COUNTS},
        rate=_number(health.rate_hz),
        clock_offset=_number(health.clock_offset_s),
        offset_from=health.offset_from,
        luminance=_number(health.luminance),
        contrast=_number(health.contrast),
        last_frame=_optional_time(health.last_frame_ns),
        frozen_since=_optional_time(health.frozen_since_ns),
        dark_since=_optional_time(health.dark_since_ns),
        has_last_frame=health.last_frame_ns is not None,
        frozen=health.frozen_since_ns is not None,
        dark=health.dark_since_ns is not None,
    )
    msg.header.stamp = time_to_msg(health.stamp_ns)
    return msg


def camera_from_msg(msg: ros.CameraHealth) -> CameraHealth:
    """A CameraHealth message to its record."""
    return CameraHealth(
        camera=msg.camera,
        stamp_ns=time_from_msg(msg.header.stamp),
        **{name: getattr(msg, name) for name in _CAMERA_COUNTS},
        rate_hz=_maybe(msg.rate),
        clock_offset_s=_maybe(msg.clock_offset),
        offset_from=msg.offset_from,
        last_frame_ns=time_from_msg(msg.last_frame) if msg.has_last_frame else None,
        frozen_since_ns=time_from_msg(msg.frozen_since) if msg.frozen else None,
        dark_since_ns=time_from_msg(msg.dark_since) if msg.dark else None,
        luminance=_maybe(msg.luminance),
        contrast=_maybe(msg.contrast),
    )


# --- monitor -----------------------------------------------------------------------------------------------------


def event_to_msg(event: Event) -> ros.MonitorEvent:
    """Event to MonitorEvent."""
    news_ns = event.detected_ns if event.cleared_ns is None else event.cleared_ns
    msg = ros.MonitorEvent(
        event_id=event.event_id,
        kind=EVENT_KINDS[event.kind],
        severity=SEVERITIES[event.severity],
        is_cleared=event.cleared_ns is not None,
        onset=time_to_msg(event.onset_ns),
        detected=time_to_msg(event.detected_ns),
        cleared=_optional_time(event.cleared_ns),
        value_names=list(event.values),
        values=list(event.values.values()),
        episode_id=event.episode_id,
        subject=event.subject,
        reason=event.reason,
        evidence=event.evidence or "",
    )
    msg.header.stamp = time_to_msg(news_ns)
    return msg


def event_from_msg(msg: ros.MonitorEvent) -> Event:
    """MonitorEvent to Event."""
    return Event(
        event_id=msg.event_id,
        episode_id=msg.episode_id,
        kind=_inverse(EVENT_KINDS, msg.kind, "MonitorEvent.kind"),
        severity=_inverse(SEVERITIES, msg.severity, "MonitorEvent.severity"),
        onset_ns=time_from_msg(msg.onset),
        detected_ns=time_from_msg(msg.detected),
        cleared_ns=time_from_msg(msg.cleared) if msg.is_cleared else None,
        subject=msg.subject,
        values=dict(zip(msg.value_names, msg.values, strict=True)),
        reason=msg.reason,
        evidence=msg.evidence or None,
    )


_STATUS_FLOATS = (
    *("progress", "progress_raw", "lower", "upper", "mp", "drawdown", "max_drawdown", "success_probability"),
    *("smoothness", "rms_jerk"),
)


def status_to_msg(status: MonitorStatus) -> ros.MonitorStatus:
    """MonitorStatus to its message."""
    msg = ros.MonitorStatus(
        episode_id=status.episode_id,
        state=EPISODE_STATES[status.state],
        motion=MOTIONS[status.moving],
        task=status.task,
        elapsed=status.elapsed_s,
        estimate_age=_number(status.estimate_age_s),
        estimates=status.estimates,
        dropped=status.dropped,
        active_events=[event_to_msg(event) for event in status.active_events],
        model=status.model,
        **{name: _number(getattr(status, name)) for name in _STATUS_FLOATS},
    )
    msg.header.stamp = time_to_msg(status.stamp_ns)
    return msg


def status_from_msg(msg: ros.MonitorStatus) -> MonitorStatus:
    """A MonitorStatus message to its record."""
    floats: dict[str, Any] = {name: _maybe(getattr(msg, name)) for name in _STATUS_FLOATS}
    return MonitorStatus(
        stamp_ns=time_from_msg(msg.header.stamp),
        episode_id=msg.episode_id,
        state=_inverse(EPISODE_STATES, msg.state, "MonitorStatus.state"),
        task=msg.task,
        elapsed_s=msg.elapsed,
        moving=_inverse(MOTIONS, msg.motion, "MonitorStatus.motion"),
        active_events=[event_from_msg(event) for event in msg.active_events],
        estimates=msg.estimates,
        dropped=msg.dropped,
        estimate_age_s=_maybe(msg.estimate_age),
        model=msg.model,
        **floats,
    )


def report_to_msg(report: EpisodeReport, report_path: str = "", bag_path: str = "") -> ros.EpisodeReport:
    """EpisodeReport to its message: the figures most asked for as fields, all of it as JSON."""
    msg = ros.EpisodeReport(
        episode_id=report.episode_id,
        task=report.task,
        state=EPISODE_STATES[report.state],
        outcome=OUTCOMES[report.outcome.outcome],
        decided_by=DECIDED_BY[report.outcome.decided_by],
        label=LABELS[report.label],
        calibrated=report.outcome.calibrated,
        start=time_to_msg(report.start_ns),
        end=time_to_msg(report.end_ns),
        duration=report.duration_s,
        probability=_number(report.outcome.probability),
        estimates=report.estimates,
        missing_estimates=report.missing_estimates,
        dropped=report.dropped,
        reason=report.outcome.reason,
        source=report.source,
        robot=report.robot,
        model=report.model,
        report_json=report.model_dump_json(),
        report_path=report_path,
        bag_path=bag_path,
    )
    msg.header.stamp = time_to_msg(report.end_ns)
    _fill_metrics(msg, report)
    for severity in Severity:
        count = sum(event.severity is severity for event in report.events)
        setattr(msg, f"events_{severity.value.lower()}", count)
    return msg


def _fill_metrics(msg: ros.EpisodeReport, report: EpisodeReport) -> None:
    metrics, motion = report.metrics_final, report.motion
    for name in ("mp", "ppl", "cra", "drr", "fns", "sqs", "max_drawdown"):
        setattr(msg, name, _number(getattr(metrics, name) if metrics else None))
    msg.str_ratio = _number(metrics.str_ if metrics else None)
    msg.convention = metrics.convention if metrics else ""
    for name in ("u_v", "u_a", "mu_v", "rms_jerk", "sparc"):
        setattr(msg, name, _number(getattr(motion, name) if motion else None))


def report_from_msg(msg: ros.EpisodeReport) -> EpisodeReport:
    """The whole report from its message.

    Raises:
        InputError: the message carries no valid report.
    """
    try:
        return EpisodeReport.model_validate_json(msg.report_json)
    except ValueError as error:
        raise InputError(f"report of episode {msg.episode_id!r} cannot be read: {_first_line(error)}") from error
