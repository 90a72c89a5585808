"""Records go through messages, and through the bytes on the wire, without loss."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rclpy.serialization import deserialize_message, serialize_message
from rollout_monitor_nodes.common import conversions as c

from rollout_monitor import records as r
from rollout_monitor.errors import InputError

STAMPS = st.integers(min_value=0, max_value=2**31 * 10**9 - 1)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
POSITIVE = st.floats(min_value=0.0, max_value=1e6)
UNITS = st.floats(min_value=0.0, max_value=1.0)
COUNTS = st.integers(min_value=0, max_value=2**31 - 1)
TEXTS = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=12)
NAMES = TEXTS.filter(bool)


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


MARKERS = st.builds(
    r.EpisodeMarker,
    boundary=st.sampled_from(r.Boundary),
    stamp_ns=STAMPS,
    episode_id=st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9_.-]{0,20}\Z"),
    task=TEXTS,
    label=maybe(st.sampled_from(r.Label)),
    source=TEXTS,
)
ESTIMATES = st.builds(
    r.ProgressEstimate,
    stamp_ns=STAMPS,
    episode_id=TEXTS,
    status=st.sampled_from(r.EstimateStatus),
    progress=maybe(UNITS),
    lower=maybe(UNITS),
    upper=maybe(UNITS),
    success_probability=maybe(UNITS),
    direction=st.sampled_from(r.Direction),
    subtask=maybe(st.integers(0, r.MOST_SUBTASKS)),
    reason=TEXTS,
    camera_stamps_ns=st.dictionaries(NAMES, STAMPS, max_size=3),
    model=TEXTS,
    model_hash=TEXTS,
    latency_s=maybe(POSITIVE),
    dropped=COUNTS,
)
FIGURES = st.builds(
    r.MotionFigures,
    samples=COUNTS,
    duration_s=POSITIVE,
    **{
        name: maybe(FLOATS)
        for name in [
            "u_v",
            "u_a",
            "mu_v",
            "u_v_si",
            "u_a_si",
            "mu_v_si",
            "rms_jerk",
            "ldlj",
            "sparc",
            "peak_speed",
            "peak_acceleration",
        ]
    },
    idle_fraction=maybe(UNITS),
    **{name: st.lists(FLOATS, max_size=3) for name in ("s_v", "s_a", "rms_jerk_per_joint")},
    **{name: maybe(NAMES) for name in ("worst_joint_v", "worst_joint_a", "worst_joint_jerk")},
    **{name: maybe(COUNTS) for name in ("reversals", "speed_peaks")},
)
JOINT_HEALTHS = st.builds(
    r.JointHealth,
    **dict.fromkeys(["received", "used", "non_finite", "not_advancing", "malformed", "gaps", "clock_jumps"], COUNTS),
    **dict.fromkeys(["unusable", "unstamped", "stray", "implausible", "clock_steps", "lost"], COUNTS),
    implausible_joint=NAMES,
    missing_since_ns=st.dictionaries(NAMES, STAMPS, max_size=3),
    rate_hz=maybe(POSITIVE),
    last_stamp_ns=maybe(STAMPS),
)
SUMMARIES = st.builds(
    r.KinematicSummary,
    stamp_ns=STAMPS,
    episode_id=TEXTS,
    joint_names=st.lists(NAMES, max_size=3),
    grid_rate_hz=st.floats(min_value=1.0, max_value=1000.0),
    segment=COUNTS,
    rows=st.lists(st.builds(r.GridRow, stamp_ns=STAMPS, positions=st.lists(FLOATS, max_size=3)), max_size=2),
    window=FIGURES,
    episode=FIGURES,
    moving=st.booleans(),
    spikes=st.lists(
        st.builds(r.EffortSpike, stamp_ns=STAMPS, joint=NAMES, value=FLOATS, baseline=FLOATS, deviations=FLOATS),
        max_size=2,
    ),
    health=JOINT_HEALTHS,
    end_of_episode=st.booleans(),
)
CAMERAS = st.builds(
    r.CameraHealth,
    camera=NAMES,
    stamp_ns=STAMPS,
    **dict.fromkeys(("received", "used", "bad", "repeated", "not_advancing", "unstamped", "stray", "lost"), COUNTS),
    clock_steps=COUNTS,
    rate_hz=maybe(POSITIVE),
    clock_offset_s=maybe(FLOATS),
    offset_from=NAMES,
    **{name: maybe(STAMPS) for name in ("last_frame_ns", "frozen_since_ns", "dark_since_ns")},
    luminance=maybe(POSITIVE),
    contrast=maybe(POSITIVE),
)
EVENTS = st.builds(
    r.Event,
    event_id=COUNTS,
    episode_id=TEXTS,
    kind=st.sampled_from(r.EventKind),
    severity=st.sampled_from(r.Severity),
    onset_ns=STAMPS,
    detected_ns=STAMPS,
    cleared_ns=maybe(STAMPS),
    subject=TEXTS,
    values=st.dictionaries(NAMES, FLOATS, max_size=3),
    reason=TEXTS,
    evidence=maybe(NAMES),
)
STATUSES = st.builds(
    r.MonitorStatus,
    stamp_ns=STAMPS,
    episode_id=TEXTS,
    state=st.sampled_from(r.EpisodeState),
    task=TEXTS,
    elapsed_s=POSITIVE,
    **{
        name: maybe(UNITS)
        for name in [
            "progress",
            "progress_raw",
            "lower",
            "upper",
            "mp",
            "drawdown",
            "max_drawdown",
            "success_probability",
        ]
    },
    smoothness=maybe(FLOATS),
    rms_jerk=maybe(POSITIVE),
    moving=maybe(st.booleans()),
    active_events=st.lists(EVENTS, max_size=2),
    estimates=COUNTS,
    dropped=COUNTS,
    estimate_age_s=maybe(POSITIVE),
    model=TEXTS,
)
METRICS = st.builds(
    r.OpdMetrics,
    convention=st.sampled_from(["paper", "toolkit", "toolkit-1.0"]),
    samples=st.integers(min_value=1, max_value=10**6),
    success=st.booleans(),
    success_from=st.sampled_from(["label", "progress"]),
    **{name: st.booleans() for name in ("mc25", "mc50", "mc75", "mc100")},
    **dict.fromkeys(("mp", "tv", "ppl", "cra", "str", "max_drawdown"), FLOATS),
    max_drawdown_index=COUNTS,
    **{name: maybe(FLOATS) for name in ("drr", "fns", "sqs")},
)
REPORTS = st.builds(
    r.EpisodeReport,
    episode_id=TEXTS,
    task=TEXTS,
    state=st.sampled_from([r.EpisodeState.ENDED, r.EpisodeState.INTERRUPTED]),
    start_ns=STAMPS,
    end_ns=STAMPS,
    duration_s=POSITIVE,
    label=maybe(st.sampled_from(r.Label)),
    outcome=st.builds(
        r.OutcomeDecision,
        outcome=st.sampled_from(r.Outcome),
        decided_by=st.sampled_from(["label", "model", "progress", "none"]),
        probability=maybe(UNITS),
        calibrated=st.booleans(),
        reason=TEXTS,
    ),
    metrics_final=maybe(METRICS),
    motion=maybe(FIGURES),
    events=st.lists(EVENTS, max_size=3),
    cameras=st.lists(CAMERAS, max_size=2),
    joints=maybe(JOINT_HEALTHS),
    estimates=COUNTS,
    dropped=COUNTS,
    notes=st.lists(TEXTS, max_size=2),
)

PAIRS = [
    (MARKERS, c.marker_to_msg, c.marker_from_msg),
    (ESTIMATES, c.progress_to_msg, c.progress_from_msg),
    (FIGURES, c.motion_to_msg, c.motion_from_msg),
    (JOINT_HEALTHS, c.joint_health_to_msg, c.joint_health_from_msg),
    (SUMMARIES, c.kinematics_to_msg, c.kinematics_from_msg),
    (CAMERAS, c.camera_to_msg, c.camera_from_msg),
    (EVENTS, c.event_to_msg, c.event_from_msg),
    (STATUSES, c.status_to_msg, c.status_from_msg),
    (REPORTS, c.report_to_msg, c.report_from_msg),
]


@pytest.mark.parametrize(("strategy", "to_msg", "from_msg"), PAIRS, ids=[pair[1].__name__ for pair in PAIRS])
def test_a_record_survives_the_wire(strategy: Any, to_msg: Any, from_msg: Any) -> None:
    @settings(max_examples=60, deadline=None)
    @given(strategy)
    def check(record: Any) -> None:
        msg = to_msg(record)
        arrived = deserialize_message(serialize_message(msg), type(msg))
        assert from_msg(arrived) == record

    check()


@given(STAMPS)
def test_stamps_are_exact_to_the_nanosecond(stamp_ns: int) -> None:
    assert c.time_from_msg(c.time_to_msg(stamp_ns)) == stamp_ns


def test_a_stamp_that_does_not_fit_is_refused() -> None:
    with pytest.raises(InputError, match="does not fit a ROS time"):
        c.time_to_msg(2**31 * 10**9)


def test_absent_figures_are_nan_and_never_zero() -> None:
    msg = c.motion_to_msg(r.MotionFigures(samples=0, duration_s=0.0))
    assert math.isnan(msg.u_v) and math.isnan(msg.sparc)
    assert (msg.reversals, msg.speed_peaks) == (-1, -1)


def test_every_event_kind_and_state_has_its_constant() -> None:
    assert len(set(c.EVENT_KINDS.values())) == len(r.EventKind)
    assert len(set(c.EPISODE_STATES.values())) == len(r.EpisodeState)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [("episode_id", "../etc", "episode_id"), ("boundary", 7, "Episode.boundary has the unknown value 7")],
)
def test_a_marker_that_no_episode_can_have_is_refused(field: str, value: object, said: str) -> None:
    marker = r.EpisodeMarker(boundary=r.Boundary.START, stamp_ns=1, episode_id="e1", task="lift")
    msg = c.marker_to_msg(marker)
    setattr(msg, field, value)
    with pytest.raises(InputError, match=said):
        c.marker_from_msg(msg)


def test_report_counts_events_by_severity() -> None:
    events = [
        r.Event(event_id=i, episode_id="e", kind=r.EventKind.STALL, severity=s, onset_ns=0, detected_ns=0, reason="x")
        for i, s in enumerate([r.Severity.WARN, r.Severity.ERROR, r.Severity.WARN])
    ]
    outcome = r.OutcomeDecision(outcome=r.Outcome.UNDECIDED, decided_by="none", reason="nothing came")
    report = r.EpisodeReport(
        episode_id="e",
        task="lift",
        state=r.EpisodeState.INTERRUPTED,
        start_ns=0,
        end_ns=1,
        duration_s=0.0,
        outcome=outcome,
        events=events,
    )
    msg = c.report_to_msg(report, report_path="/reports/e", bag_path="/bags/e")
    assert (msg.events_info, msg.events_warn, msg.events_error) == (0, 2, 1)
    assert math.isnan(msg.mp) and msg.convention == ""
    assert (msg.report_path, msg.bag_path) == ("/reports/e", "/bags/e")
