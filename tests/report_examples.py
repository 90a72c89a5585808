"""Episode reports as the monitor would make them, for tests of what stores and draws them: seeded, self-consistent."""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt

from rollout_monitor.frames import RgbImage
from rollout_monitor.records import (
    CameraHealth,
    CurvePoint,
    Drawdown,
    EpisodeReport,
    EpisodeState,
    Event,
    EventKind,
    FailurePoint,
    JointHealth,
    JointTrace,
    KeyFrame,
    Label,
    LiveFinalGap,
    MotionFigures,
    MotionStretch,
    MotionTraces,
    OpdMetrics,
    Outcome,
    OutcomeDecision,
    Severity,
    Stall,
    UsualRange,
)

START_NS = 1_780_000_000_000_000_000
NS = 1_000_000_000
JOINTS = [f"{name}_joint" for name in ("shoulder_pan", "shoulder_lift", "elbow", "wrist_1", "wrist_2", "wrist_3")]
Floats = npt.NDArray[np.float64]


def at(seconds: float) -> int:
    """Stamp a number of seconds after the start."""
    return START_NS + round(seconds * NS)


def success_report() -> EpisodeReport:
    """A stack that loses the cube once, recovers and succeeds."""
    knots = [(0, 0.03), (4, 0.22), (7, 0.48), (9.2, 0.55), (10.2, 0.3), (12, 0.34), (16, 0.66), (20, 0.93), (24, 0.985)]
    curve = curve_through(knots, rate_hz=5.0, seed=1)
    events = [
        event(
            0,
            EventKind.DRAWDOWN,
            Severity.WARN,
            9.4,
            9.8,
            15.2,
            "Progress fell from 0.55 to 0.30; recovered fully",
            drawdown=0.25,
        ),
        event(
            1,
            EventKind.CONTACT,
            Severity.INFO,
            9.0,
            9.1,
            9.3,
            "wrist_2_joint: current 3.1 A against 1.2 A",
            deviations=6.4,
            subject="wrist_2_joint",
        ),
        event(
            2, EventKind.PLATEAU_DONE, Severity.INFO, 22.0, 23.0, None, "High and flat at 0.98 for 1.0 s", progress=0.98
        ),
        event(
            3,
            EventKind.SUCCESS,
            Severity.INFO,
            24.0,
            24.0,
            24.0,
            "Success probability 0.97 held for 1.0 s",
            probability=0.97,
        ),
    ]
    return report(
        "stack-0007",
        "put the red cube on the green cube",
        curve,
        24.0,
        events,
        outcome=OutcomeDecision(
            outcome=Outcome.SUCCESS,
            decided_by="model",
            probability=0.97,
            calibrated=True,
            reason="The model's success probability of 0.97 is above the calibrated threshold 0.81",
        ),
        calibration="stack.calibration.json",
    ).model_copy(
        update={
            "drawdowns": [
                Drawdown(
                    peak_ns=at(9.4),
                    peak=0.55,
                    trough_ns=at(10.4),
                    trough=0.31,
                    depth=0.24,
                    recovery=1.0,
                    recovered_ns=at(14.6),
                    event_id=0,
                    before="start.jpg",
                    after="peak.jpg",
                    regained="end.jpg",
                )
            ],
            "usual": [
                UsualRange(metric="mp", low=0.97, high=0.995, n=12),
                UsualRange(metric="ppl", low=0.81, high=0.93, n=12),
                UsualRange(metric="drr", low=0.8, high=1.0, n=5),
            ],
        }
    )


def failure_report() -> EpisodeReport:
    """A lift that gets half way, lets go and stalls until it is stopped; with hindered cameras and notes."""
    knots = [(0, 0.02), (5, 0.3), (9, 0.62), (10.5, 0.64), (12, 0.41), (15, 0.38), (38, 0.37)]
    curve = curve_through(knots, rate_hz=5.0, seed=2)
    events = [
        event(
            0,
            EventKind.CAMERA_FROZEN,
            Severity.WARN,
            6.0,
            6.5,
            7.8,
            "wrist camera shows the same frame since 0.5 s",
            subject="wrist",
            frozen_s=1.8,
        ),
        event(
            1,
            EventKind.DRAWDOWN,
            Severity.ERROR,
            10.8,
            11.4,
            None,
            "Progress fell from 0.64 to 0.38 and did not recover",
            drawdown=0.27,
            evidence="event-1.jpg",
        ),
        event(
            2,
            EventKind.ROUGH_MOTION,
            Severity.WARN,
            11.2,
            12.2,
            14.0,
            "elbow_joint jerks at 41 rad/s³, three times its usual",
            subject="elbow_joint",
            rms_jerk=41.2,
        ),
        event(
            3,
            EventKind.STALL,
            Severity.ERROR,
            16.0,
            21.0,
            None,
            "No progress for 5 s while the arm was MOVING: working without effect",
            subject="MOVING",
            progress=0.37,
            change=0.004,
            evidence="event-3.jpg",
        ),
        event(4, EventKind.MODEL_LATE, Severity.WARN, 30.0, 31.0, 32.5, "Newest estimate is 1.4 s old", age_s=1.4),
        event(5, EventKind.FAILURE, Severity.ERROR, 38.0, 38.0, 38.0, "Ended at 0.37 of the task", progress=0.37),
    ]
    made = report(
        "lift-0031",
        "lift the blue cylinder and hold it above the tray",
        curve,
        38.0,
        events,
        outcome=OutcomeDecision(
            outcome=Outcome.FAILURE, decided_by="progress", reason="Progress ended at 0.37 and never reached 0.99"
        ),
    )
    return made.model_copy(
        update={
            "label": Label.FAILURE,
            "ended_by": "operator",
            "failed_at": FailurePoint(
                stamp_ns=at(10.4),
                progress=0.64,
                event_id=1,
                picture="peak.jpg",
                reason="it came no further than 64%, last at 10.4 s; what began at 10.8 s was never made good: it fell",
            ),
            "drawdowns": [
                Drawdown(
                    peak_ns=at(10.4),
                    peak=0.64,
                    trough_ns=at(37.0),
                    trough=0.36,
                    depth=0.28,
                    recovery=0.1,
                    event_id=1,
                    before="peak.jpg",
                    after="end.jpg",
                )
            ],
            "stalls": [
                Stall(
                    event_id=3,
                    onset_ns=at(16),
                    end_ns=at(38),
                    moving_s=15.0,
                    still_s=6.0,
                    unseen_s=1.0,
                    stretches=[
                        MotionStretch(start_ns=at(16), end_ns=at(31), moving=True),
                        MotionStretch(start_ns=at(32), end_ns=at(38), moving=False),
                    ],
                )
            ],
            "dropped": 14,
            "missing_estimates": 6,
            "notes": [
                "No calibration file was found for this task: documented default thresholds apply.",
                'The task names a "cylinder", a word the model never saw in training.',
            ],
            "cameras": [
                camera("front", rate_hz=29.9),
                camera("wrist", rate_hz=14.6, repeated=53, bad=2, not_advancing=1, frozen_since_ns=at(37.1)),
            ],
        }
    )


def interrupted_report() -> EpisodeReport:
    """The clock jumped before anything was measured: no curve, no joints, no cameras."""
    return EpisodeReport(
        episode_id="lift-0032",
        task="lift the blue cylinder",
        state=EpisodeState.INTERRUPTED,
        start_ns=12 * NS,
        end_ns=12 * NS,
        duration_s=0.0,
        outcome=OutcomeDecision(
            outcome=Outcome.UNDECIDED, decided_by="none", reason="The clock went back before anything was measured"
        ),
        events=[
            Event(
                event_id=0,
                episode_id="lift-0032",
                kind=EventKind.CLOCK_JUMP,
                severity=Severity.ERROR,
                onset_ns=12 * NS,
                detected_ns=12 * NS,
                reason="Stamps went back by 12.0 s",
            )
        ],
    )


def long_report(hours: float = 2.0, rate_hz: float = 10.0) -> EpisodeReport:
    """A report of a very long episode, with 30 Hz joint speeds."""
    rng = np.random.default_rng(5)
    seconds = hours * 3600
    knots = [
        (t, float(v)) for t, v in zip(np.linspace(0, seconds, 40), np.clip(rng.normal(0.5, 0.2, 40), 0, 1), strict=True)
    ]
    return report("long-1", "sort all screws", curve_through(knots, rate_hz=rate_hz, seed=6), seconds, [])


def pictures() -> dict[str, RgbImage]:
    """Pictures by the names that the example reports use."""
    names = ["start.jpg", "peak.jpg", "end.jpg", "event-1.jpg", "event-3.jpg"]
    return {name: scene(index) for index, name in enumerate(names)}


def scene(index: int) -> RgbImage:
    """A table with two blocks and a gripper, 480 x 640."""
    height, width = 480, 640
    image = np.full((height, width, 3), (206, 209, 212), np.uint8)
    cv2.rectangle(image, (0, 300), (width, height), (171, 140, 104), -1)
    cv2.rectangle(image, (400, 300), (480, 380), (60, 140, 90), -1)
    x, y = 140 + 55 * index, 330 - 40 * (index % 3)
    cv2.rectangle(image, (x, y), (x + 64, y + 64), (196, 62, 52), -1)
    cv2.rectangle(image, (x + 24, 0), (x + 40, y - 26), (70, 76, 84), -1)
    cv2.rectangle(image, (x - 6, y - 26), (x + 70, y - 12), (52, 58, 64), -1)
    for side in (x - 6, x + 60):
        cv2.rectangle(image, (side, y - 12), (side + 10, y + 30), (52, 58, 64), -1)
    return image


def report(
    episode_id: str,
    task: str,
    curve: list[CurvePoint],
    duration_s: float,
    events: list[Event],
    *,
    outcome: OutcomeDecision | None = None,
    calibration: str | None = None,
) -> EpisodeReport:
    """A whole report around a curve."""
    decision = outcome or OutcomeDecision(outcome=Outcome.UNDECIDED, decided_by="none", reason="It was stopped early")
    success = decision.outcome is Outcome.SUCCESS
    final = metrics([point.final for point in curve], success=success)
    live = metrics([point.live for point in curve], success=success)
    return EpisodeReport(
        episode_id=episode_id,
        task=task,
        state=EpisodeState.ENDED,
        start_ns=START_NS,
        end_ns=at(duration_s),
        duration_s=duration_s,
        source="operator",
        robot="ur5e",
        outcome=decision,
        metrics_final=final,
        metrics_live=live,
        largest_live_final_gap=LiveFinalGap(metric="ppl", live=live.ppl, final=final.ppl),
        curve=curve,
        estimates=len(curve),
        motion=motion(duration_s),
        joint_names=JOINTS,
        i_phys="Six joints over the whole episode; the elbow varies most in velocity and acceleration.",
        speed=speeds(duration_s),
        traces=traces(duration_s),
        versions={"rollout-monitor": "0.1.0", "numpy": "2.2.6"},
        events=events,
        cameras=[camera("front", rate_hz=30.0), camera("wrist", rate_hz=30.0)],
        joints=JointHealth(
            received=int(duration_s * 500),
            used=int(duration_s * 500) - 3,
            not_advancing=3,
            rate_hz=499.8,
            last_stamp_ns=at(duration_s),
        ),
        key_frames=[
            KeyFrame(stamp_ns=at(0.1), camera="front", file="start.jpg", why="start"),
            KeyFrame(stamp_ns=at(duration_s / 2), camera="front", file="peak.jpg", why="peak"),
            KeyFrame(stamp_ns=at(duration_s - 0.1), camera="wrist", file="end.jpg", why="end"),
        ],
        settings={
            "rate_hz": 5.0,
            "eps": 0.005,
            "smoothing_sigma_s": 0.6,
            "stall_window_s": 5.0,
            "task_budget_s": None,
            "armed": False,
        },
        calibration=calibration,
        model="embedded-1",
        model_hash="9f2c" * 16,
        latency_p50_s=0.041,
        latency_p99_s=0.118,
        bag=f"{episode_id}.bag",
    )


def curve_through(knots: list[tuple[float, float]], *, rate_hz: float, seed: int) -> list[CurvePoint]:
    """A noisy curve through (seconds, progress) with its smoothed forms and a 90 % interval."""
    rng = np.random.default_rng(seed)
    times = np.arange(0.0, knots[-1][0] + 1e-9, 1.0 / rate_hz)
    clean = np.interp(times, [t for t, _ in knots], [v for _, v in knots])
    raw = np.clip(clean + rng.normal(0, 0.022, times.size), 0, 1)
    final = np.clip(np.convolve(np.pad(raw, 4, mode="edge"), np.hanning(11)[1:-1] / 5.0, mode="valid"), 0, 1)
    live = np.empty_like(raw)
    live[0] = raw[0]
    for index in range(1, raw.size):
        live[index] = 0.65 * live[index - 1] + 0.35 * raw[index]
    half = 0.05 + 0.05 * np.sin(np.pi * clean)
    return [
        CurvePoint(
            stamp_ns=at(float(t)),
            raw=round(float(r), 4),
            live=round(float(lv), 4),
            final=round(float(f), 4),
            lower=round(max(float(r - h), 0.0), 4),
            upper=round(min(float(r + h), 1.0), 4),
            success_probability=round(float(f) ** 8, 4),
        )
        for t, r, lv, f, h in zip(times, raw, live, final, half, strict=True)
    ]


def metrics(values: list[float], *, success: bool, eps: float = 0.005) -> OpdMetrics:
    """OPD metrics of a curve, paper convention, straight from the definitions."""
    p = np.array(values)
    steps = np.abs(np.diff(p))
    best = np.maximum.accumulate(p)
    drawdown = best - p
    worst = int(np.argmax(drawdown))
    mp, tv = float(p.max()), float(steps.sum())
    ppl = min(mp * mp / tv, 1.0) if tv else 0.0
    cra = float(drawdown.sum() / (p.size * mp)) if mp else 0.0
    stagnation = float((steps < eps).mean()) if steps.size else 0.0
    reached = {f"mc{q}": bool(mp >= q / 100) for q in (25, 50, 75, 100)}
    return OpdMetrics(
        samples=p.size,
        success=success,
        success_from="progress",
        mp=mp,
        **reached,
        tv=tv,
        ppl=ppl,
        cra=cra,
        str_=stagnation,
        max_drawdown=float(drawdown[worst]),
        max_drawdown_index=worst,
        drr=min(1.0, float((p[worst:].max() - p[worst]) / drawdown[worst])) if drawdown[worst] > 0 else None,
        fns=None if success else 0.5 * mp + 0.3 * reached["mc75"] + 0.2 * reached["mc50"],
        sqs=0.5 * ppl + 0.3 * (1 - cra) + 0.2 * (1 - stagnation) if success else None,
    )


def motion(duration_s: float) -> MotionFigures:
    """Figures of a plausible arm motion."""
    return MotionFigures(
        samples=int(duration_s * 30),
        duration_s=duration_s,
        u_v=1.82e-4,
        u_a=3.1e-5,
        mu_v=0.0061,
        s_v=[1.1e-4, 9.4e-5, 1.82e-4, 6.1e-5, 2.2e-5, 8.0e-6],
        s_a=[1.2e-5, 1.1e-5, 3.1e-5, 1.4e-5, 6.0e-6, 2.0e-6],
        u_v_si=0.164,
        u_a_si=25.1,
        mu_v_si=0.183,
        worst_joint_v="elbow_joint",
        worst_joint_a="elbow_joint",
        rms_jerk=12.4,
        rms_jerk_per_joint=[7.1, 6.8, 12.9, 18.2, 5.5, 2.1],
        worst_joint_jerk="wrist_1_joint",
        ldlj=-8.42,
        sparc=-3.17,
        idle_fraction=0.21,
        reversals=37,
        speed_peaks=19,
        peak_speed=1.31,
        peak_acceleration=4.6,
    )


def traces(duration_s: float) -> MotionTraces:
    """Velocity and jerk of each joint in 200 columns; the first three have no jerk yet."""
    columns = np.linspace(0.0, duration_s, 200)
    joints = []
    for index, joint in enumerate(JOINTS):
        v = 0.4 * np.sin(columns * (0.3 + 0.1 * index))
        velocity = [(round(float(low), 3), round(float(low) + 0.05, 3)) for low in v]
        jerk = [None if k < 3 else (-20.0 - index, round(20.0 + k % 7, 1)) for k in range(columns.size)]
        joints.append(JointTrace(joint=joint, velocity=velocity, jerk=jerk))
    return MotionTraces(stamps_ns=[at(float(t)) for t in columns], joints=joints)


def speeds(duration_s: float) -> list[tuple[int, float]]:
    """Joint-speed norm at 30 Hz: bursts of motion with pauses."""
    t = np.arange(0.0, duration_s, 1 / 30)
    rng = np.random.default_rng(3)
    norm = np.abs(np.sin(t * 0.9)) * (0.5 + 0.4 * np.sin(t * 0.23)) + np.abs(rng.normal(0, 0.02, t.size))
    return [(at(float(s)), round(float(v), 4)) for s, v in zip(t, norm, strict=True)]


def camera(
    name: str,
    *,
    rate_hz: float,
    repeated: int = 0,
    bad: int = 0,
    not_advancing: int = 0,
    frozen_since_ns: int | None = None,
) -> CameraHealth:
    """Health of one camera at the end."""
    return CameraHealth(
        camera=name,
        stamp_ns=at(24.0),
        received=int(rate_hz * 24),
        rate_hz=rate_hz,
        repeated=repeated,
        bad=bad,
        not_advancing=not_advancing,
        frozen_since_ns=frozen_since_ns,
        last_frame_ns=at(24.0),
        luminance=121.0,
        contrast=48.0,
    )


def event(
    number: int,
    kind: EventKind,
    severity: Severity,
    onset_s: float,
    detected_s: float,
    cleared_s: float | None,
    reason: str,
    *,
    subject: str = "",
    evidence: str | None = None,
    **values: float,
) -> Event:
    """An event by seconds since the start."""
    return Event(
        event_id=number,
        episode_id="example",
        kind=kind,
        severity=severity,
        onset_ns=at(onset_s),
        detected_ns=at(detected_s),
        cleared_ns=None if cleared_s is None else at(cleared_s),
        subject=subject,
        values=values,
        reason=reason,
        evidence=evidence,
    )
