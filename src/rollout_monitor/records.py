"""The typed, versioned records that cross a seam: between processes, into files, onto pages.

Every record is frozen and carries ``schema_version``. Stamps are header stamps in integer nanoseconds; durations
are seconds; angles are radians (REP-103). A value that does not apply is ``None``, never 0.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

SCHEMA_VERSION = 1

UnitInterval = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]

MOST_SUBTASKS = 127
"""What the message can hold."""

Subtask = Annotated[
    int | None,
    Field(ge=0, le=MOST_SUBTASKS, description="goals of the task done so far; None: the model does not say"),
]


class Record(BaseModel):
    """Base of all records: immutable, closed (an unknown field is an error), versioned."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1


# --- episode boundaries ------------------------------------------------------------------------------------------


class Boundary(str, Enum):
    """Which end of an episode a marker stands for."""

    START = "start"
    END = "end"


class Label(str, Enum):
    """What somebody (not the monitor) said about an attempt."""

    SUCCESS = "success"
    FAILURE = "failure"


class EpisodeMarker(Record):
    """Start or end of one attempt; the only thing that opens or closes an episode."""

    boundary: Boundary
    stamp_ns: int = Field(ge=0, description="stream time of the boundary, nanoseconds")
    episode_id: str = Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")
    task: str = Field(default="", max_length=1000, description="instruction in plain words; needed at START")
    label: Label | None = Field(default=None, description="outcome given by whoever ended the attempt, if any")
    source: str = Field(default="", max_length=200, description="who set the boundary: operator, bag, policy name")


# --- what perception says ----------------------------------------------------------------------------------------


class Direction(str, Enum):
    """Where progress is heading, as judged by the model."""

    UNKNOWN = "unknown"
    FALLING = "falling"
    FLAT = "flat"
    RISING = "rising"


class EstimateStatus(str, Enum):
    """Whether an estimate carries a value."""

    OK = "ok"
    MISSING = "missing"
    END_OF_EPISODE = "end_of_episode"


class ProgressEstimate(Record):
    """One step of a progress model."""

    stamp_ns: int = Field(description="header stamp of the primary camera's frame, nanoseconds")
    episode_id: str
    status: EstimateStatus
    progress: UnitInterval | None = Field(default=None, description="task progress; None unless status is OK")
    lower: UnitInterval | None = Field(default=None, description="lower end of the 90 % interval, if the model has one")
    upper: UnitInterval | None = Field(default=None, description="upper end of the 90 % interval, if the model has one")
    success_probability: UnitInterval | None = Field(default=None, description="that the task is done now")
    direction: Direction = Direction.UNKNOWN
    subtask: Subtask = None
    reason: str = Field(default="", description="why the value is missing, or what to know before trusting it")
    camera_stamps_ns: dict[str, int] = Field(default_factory=dict, description="stamp of each frame used, by camera")
    model: str = Field(default="", description="name and version of the model")
    model_hash: str = Field(default="", description="SHA-256 of the model's files, hex")
    latency_s: float | None = Field(default=None, description="frame arrival to estimate; not part of any decision")
    dropped: int = Field(default=0, ge=0, description="frame sets skipped in this episode because the model was busy")


class MotionFigures(Record):
    """Kinematic smoothness of one stretch of motion (Eval-Actions eq. 5-7, and SI/field measures).

    Per-joint lists are in the order of the summary's ``joint_names``. ``None`` where the stretch is too short.
    """

    samples: int = Field(ge=0, description="grid rows in the stretch")
    duration_s: float = Field(ge=0.0)
    u_v: float | None = Field(default=None, description="max over joints of var(v), unit steps, rad^2")
    u_a: float | None = Field(default=None, description="max over joints of var(a), unit steps, rad^2")
    mu_v: float | None = Field(default=None, description="mean |v| over time and joints, unit steps, rad")
    s_v: list[float] = Field(default_factory=list, description="var(v) per joint, unit steps")
    s_a: list[float] = Field(default_factory=list, description="var(a) per joint, unit steps")
    u_v_si: float | None = Field(default=None, description="(rad/s)^2")
    u_a_si: float | None = Field(default=None, description="(rad/s^2)^2")
    mu_v_si: float | None = Field(default=None, description="rad/s")
    worst_joint_v: str | None = None
    worst_joint_a: str | None = None
    rms_jerk: float | None = Field(default=None, description="rad/s^3, over all joints")
    rms_jerk_per_joint: list[float] = Field(default_factory=list)
    worst_joint_jerk: str | None = None
    ldlj: float | None = Field(default=None, description="log dimensionless jerk of joint speed; nearer 0 is smoother")
    sparc: float | None = Field(default=None, description="spectral arc length of joint speed; nearer 0 is smoother")
    idle_fraction: UnitInterval | None = Field(default=None, description="share of steps below the idle speed")
    reversals: int | None = Field(default=None, description="direction reversals, summed over joints")
    speed_peaks: int | None = Field(default=None, description="peaks of the joint-speed norm")
    peak_speed: float | None = Field(default=None, description="largest joint speed, rad/s")
    peak_acceleration: float | None = Field(default=None, description="largest joint acceleration, rad/s^2")


class JointHealth(Record):
    """What came in on the joint stream: since it began, or, in a report, within the episode.

    Every message is in exactly one class: ``received = used + not_advancing + malformed + unusable + unstamped +
    stray + implausible``. One that is doubtful is counted when those after it have shown what it was. ``non_finite``
    counts joint values, not messages; ``lost`` counts what never arrived.
    """

    received: int = Field(default=0, ge=0, description="messages")
    used: int = Field(default=0, ge=0, description="messages that gave at least one sample")
    non_finite: int = Field(default=0, ge=0, description="joint samples dropped as NaN or infinite")
    not_advancing: int = Field(default=0, ge=0, description="messages dropped because their stamp did not advance")
    malformed: int = Field(default=0, ge=0, description="messages whose arrays do not fit their names")
    unusable: int = Field(default=0, ge=0, description="messages without a finite position of a wanted joint")
    unstamped: int = Field(default=0, ge=0, description="messages dropped because their stamp was zero")
    stray: int = Field(default=0, ge=0, description="messages dropped because their stamp was far from its neighbours")
    implausible: int = Field(
        default=0, ge=0, description="messages dropped because a joint cannot have been there and back"
    )
    implausible_joint: str = Field(default="", description="the joint that the newest of these is about")
    lost: int = Field(default=0, ge=0, description="messages that were lost on the way, as the middleware counts them")
    gaps: int = Field(default=0, ge=0, description="holes longer than the limit, left unfilled")
    clock_jumps: int = Field(default=0, ge=0, description="times the stamps went back")
    clock_steps: int = Field(default=0, ge=0, description="times the stamps went back by less than counts as a jump")
    rate_hz: float | None = Field(default=None, description="median message rate over the last second of stamps")
    last_stamp_ns: int | None = None
    missing_since_ns: dict[str, int] = Field(
        default_factory=dict, description="joints without which no grid row can be formed now, with their last stamp"
    )

    @property
    def timed(self) -> int:
        """Messages with a stamp to go by."""
        return self.received - self.unstamped - self.stray - self.not_advancing


class GridRow(Record):
    """One row of the uniform joint grid."""

    stamp_ns: int
    positions: list[float] = Field(description="rad (or m), in the order of joint_names")


class EffortSpike(Record):
    """Effort or motor current that left its running baseline."""

    stamp_ns: int
    joint: str
    value: float = Field(description="effort as published (N m, or A on UR)")
    baseline: float
    deviations: float = Field(description="distance from the baseline in running standard deviations")


class KinematicSummary(Record):
    """How the arm moves now and has moved in this episode."""

    stamp_ns: int = Field(description="stamp of the newest grid row; goes on while none can be formed")
    episode_id: str = ""
    joint_names: list[str] = Field(default_factory=list)
    grid_rate_hz: float = Field(gt=0.0)
    segment: int = Field(default=0, ge=0, description="grows when the clock jumps back or a gap is left")
    rows: list[GridRow] = Field(default_factory=list, description="grid rows since the summary before this one")
    window: MotionFigures = Field(description="over the sliding window")
    episode: MotionFigures = Field(description="since the episode's start")
    moving: bool = Field(description="some joint was faster than the idle speed within the window's last half second")
    spikes: list[EffortSpike] = Field(default_factory=list, description="since the summary before this one")
    health: JointHealth
    end_of_episode: bool = False


class CameraHealth(Record):
    """One camera stream, published on a change and at a fixed rate of stream time.

    Every frame is in exactly one class: ``received = used + bad + not_advancing + unstamped + stray``. A frame that
    nobody decoded counts as used; the first one, and one with a stamp far from the last, is counted when the next one
    has come.
    ``repeated`` frames are among the used and bad ones; ``lost`` ones never arrived.
    """

    camera: str
    stamp_ns: int = Field(description="stream time of this report")
    received: int = Field(default=0, ge=0, description="frames")
    used: int = Field(default=0, ge=0, description="frames that frame sets were chosen from")
    bad: int = Field(default=0, ge=0, description="frames that could not be decoded")
    repeated: int = Field(default=0, ge=0, description="frames identical to the one before")
    not_advancing: int = Field(default=0, ge=0, description="frames dropped because their stamp did not advance")
    unstamped: int = Field(default=0, ge=0, description="frames dropped because their stamp was zero")
    stray: int = Field(default=0, ge=0, description="frames dropped because their stamp was far from its neighbours")
    lost: int = Field(default=0, ge=0, description="frames that were lost on the way, as the middleware counts them")
    clock_steps: int = Field(default=0, ge=0, description="times the stamps went back by less than counts as a jump")
    rate_hz: float | None = None
    last_frame_ns: int | None = Field(default=None, description="stamp of the newest frame")
    clock_offset_s: float | None = Field(
        default=None, description="this stamp minus offset_from's while both arrive; None: one of them does not"
    )
    offset_from: str = Field(default="", description="the input whose clock the offset is against")
    frozen_since_ns: int | None = Field(default=None, description="first of the identical frames now showing")
    dark_since_ns: int | None = Field(default=None, description="first of the dark frames now showing")
    luminance: float | None = Field(default=None, description="mean luma of the newest frame, 0..255")
    contrast: float | None = Field(default=None, description="standard deviation of luma of the newest frame, 0..128")


# --- what the monitor says ---------------------------------------------------------------------------------------


class EventKind(str, Enum):
    """Kinds of event; see the events guide for what raises each."""

    STALL = "STALL"
    DRAWDOWN = "DRAWDOWN"
    PLATEAU_DONE = "PLATEAU_DONE"
    SUCCESS = "SUCCESS"
    FAILURE = "FAILURE"
    TIMEOUT = "TIMEOUT"
    ROUGH_MOTION = "ROUGH_MOTION"
    CONTACT = "CONTACT"
    CAMERA_LOST = "CAMERA_LOST"
    CAMERA_FROZEN = "CAMERA_FROZEN"
    CAMERA_DARK = "CAMERA_DARK"
    JOINTS_LOST = "JOINTS_LOST"
    JOINTS_INVALID = "JOINTS_INVALID"
    MODEL_LATE = "MODEL_LATE"
    MODEL_LOST = "MODEL_LOST"
    CLOCK_JUMP = "CLOCK_JUMP"


class Severity(str, Enum):
    """How much an event asks of the operator."""

    INFO = "INFO"
    WARN = "WARN"
    ERROR = "ERROR"


class Event(Record):
    """Something the operator should know, from its onset to its end."""

    event_id: int = Field(ge=0, description="counts up within the episode; kept when it escalates or clears")
    episode_id: str
    kind: EventKind
    severity: Severity
    onset_ns: int = Field(description="when it began")
    detected_ns: int = Field(description="when it was certain enough to raise, stream time")
    cleared_ns: int | None = Field(default=None, description="when it ended; None while it lasts")
    subject: str = Field(default="", description="the camera, joint or arm state it is about")
    values: dict[str, float] = Field(default_factory=dict, description="the figures that made it")
    reason: str = Field(description="one line an operator can read")
    evidence: str | None = Field(default=None, description="file name of the frame at onset, beside the report")


class EpisodeState(str, Enum):
    """Life cycle of an episode."""

    IDLE = "IDLE"
    RUNNING = "RUNNING"
    ENDED = "ENDED"
    INTERRUPTED = "INTERRUPTED"


class OpdMetrics(Record):
    """Outcome, Process, Diagnosis metrics of one progress curve (PRM-as-a-Judge 1.5)."""

    convention: Literal["paper", "toolkit", "toolkit-1.0"] = "paper"
    samples: int = Field(ge=1)
    success: bool
    success_from: Literal["label", "outcome", "progress"] = Field(
        description="a given label; the monitor's own decided outcome; or maximum progress against the threshold"
    )
    mp: float = Field(description="maximum progress")
    mc25: bool
    mc50: bool
    mc75: bool
    mc100: bool
    tv: float = Field(description="total variation")
    ppl: float = Field(description="progress path length efficiency")
    cra: float = Field(description="cumulative regret area; lower is better")
    str_: float = Field(alias="str", description="stagnation ratio; lower is better")
    max_drawdown: float
    max_drawdown_index: int = Field(description="t*, the first sample with the largest drawdown")
    drr: float | None = Field(default=None, description="drawdown recovery ratio; None where progress never fell")
    fns: float | None = Field(default=None, description="failure near-success; None for a success")
    sqs: float | None = Field(default=None, description="success quality score; None for a failure")

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, serialize_by_alias=True)


class MonitorStatus(Record):
    """The one line an operator reads: where the attempt stands now."""

    stamp_ns: int
    episode_id: str = ""
    state: EpisodeState
    task: str = ""
    elapsed_s: float = Field(default=0.0, ge=0.0)
    progress: UnitInterval | None = Field(default=None, description="causally smoothed")
    progress_raw: UnitInterval | None = None
    lower: UnitInterval | None = None
    upper: UnitInterval | None = None
    mp: UnitInterval | None = None
    drawdown: UnitInterval | None = Field(default=None, description="current d_t = max so far - now")
    max_drawdown: UnitInterval | None = None
    success_probability: UnitInterval | None = None
    smoothness: float | None = Field(default=None, description="SPARC over the sliding window, nearer 0 is smoother")
    rms_jerk: float | None = Field(default=None, description="rad/s^3 over the sliding window")
    moving: bool | None = None
    active_events: list[Event] = Field(default_factory=list)
    estimates: int = Field(default=0, ge=0)
    dropped: int = Field(default=0, ge=0)
    estimate_age_s: float | None = Field(default=None, description="stream time minus the newest estimate's stamp")
    model: str = ""


class Outcome(str, Enum):
    """How the attempt went, as decided at its end."""

    SUCCESS = "success"
    FAILURE = "failure"
    UNDECIDED = "undecided"


class OutcomeDecision(Record):
    """The outcome and what decided it."""

    outcome: Outcome
    decided_by: Literal["label", "model", "progress", "none"]
    probability: UnitInterval | None = Field(default=None, description="of success")
    calibrated: bool = False
    reason: str


class CurvePoint(Record):
    """One sample of the progress curve."""

    stamp_ns: int
    raw: UnitInterval
    live: UnitInterval = Field(description="causally smoothed, as the operator saw it")
    final: UnitInterval = Field(description="smoothed with the whole curve at hand")
    lower: UnitInterval | None = None
    upper: UnitInterval | None = None
    success_probability: UnitInterval | None = None
    subtask: Subtask = None


class LiveFinalGap(Record):
    """The largest difference between the metrics as last seen live and the final ones."""

    metric: str
    live: float
    final: float


class KeyFrame(Record):
    """A picture kept beside the report."""

    stamp_ns: int
    camera: str
    file: str = Field(description="file name beside the report")
    why: str = Field(description="start, end, peak, event kind and id")


class Drawdown(Record):
    """One fall of the final curve below its best so far, however small the fall that raises an event."""

    peak_ns: int = Field(description="the last sample at the best value before the fall")
    peak: UnitInterval
    trough_ns: int = Field(description="the lowest sample before that value was reached again")
    trough: UnitInterval
    depth: UnitInterval
    recovery: UnitInterval = Field(description="share of the depth that was regained afterwards, at best")
    recovered_ns: int | None = Field(default=None, description="first sample at the peak's value again; None: never")
    event_id: int | None = Field(default=None, description="the DRAWDOWN event that told of it, if one did")
    before: str | None = Field(default=None, description="file name of the frame at the peak")
    after: str | None = Field(default=None, description="file name of the frame at the trough")
    regained: str | None = Field(default=None, description="file name of the frame when it was made good")


class MotionStretch(Record):
    """A stretch in which the arm moved, or stood."""

    start_ns: int
    end_ns: int
    moving: bool


class Stall(Record):
    """A STALL event, split by whether the arm moved without effect or stood still."""

    event_id: int
    onset_ns: int
    end_ns: int = Field(description="when it cleared; the episode's end where it lasted")
    moving_s: float = Field(ge=0.0)
    still_s: float = Field(ge=0.0)
    unseen_s: float = Field(ge=0.0, description="without joint states to tell")
    stretches: list[MotionStretch] = Field(default_factory=list)


class FailurePoint(Record):
    """Where an attempt that was no success came no further."""

    stamp_ns: int = Field(
        description="the last time that the final curve stood at its best, or the onset of a stall to the end"
    )
    progress: UnitInterval
    event_id: int | None = Field(default=None, description="the first event that was never made good")
    picture: str | None = Field(default=None, description="file name of the frame there")
    reason: str = Field(description="one line an operator can read")


class JointTrace(Record):
    """Motion of one joint, as (lowest, highest) of each column of `MotionTraces`."""

    joint: str
    velocity: list[tuple[float, float]] = Field(description="rad/s")
    jerk: list[tuple[float, float] | None] = Field(description="rad/s^3; None in columns with too few rows")


class MotionTraces(Record):
    """Velocity and jerk of every joint on the joint grid, thinned to columns of equal width that keep the extremes."""

    stamps_ns: list[int] = Field(description="first grid row in each column that has any")
    joints: list[JointTrace] = Field(default_factory=list)


class UsualRange(Record):
    """How a metric came out in earlier successes of the same task, judged by the same model."""

    metric: str = Field(description="name as in OpdMetrics")
    low: float = Field(description="10th percentile")
    high: float = Field(description="90th percentile")
    n: int = Field(ge=1, description="episodes to which the metric applies")


class EpisodeReport(Record):
    """Everything the monitor knows about one ended attempt."""

    episode_id: str
    task: str
    state: EpisodeState
    start_ns: int
    end_ns: int
    duration_s: float = Field(ge=0.0)
    source: str = ""
    robot: str = ""
    label: Label | None = None
    ended_by: str = Field(default="", description="who ended the attempt, and gave the label where there is one")
    outcome: OutcomeDecision
    failed_at: FailurePoint | None = Field(default=None, description="None for a success and without a curve")
    metrics_final: OpdMetrics | None = Field(default=None, description="None where no estimate came")
    metrics_live: OpdMetrics | None = None
    largest_live_final_gap: LiveFinalGap | None = None
    usual: list[UsualRange] = Field(
        default_factory=list, description="from what was in the store when the report was kept; empty: too few"
    )
    drawdowns: list[Drawdown] = Field(default_factory=list, description="of the final curve, in their order")
    stalls: list[Stall] = Field(default_factory=list)
    curve: list[CurvePoint] = Field(default_factory=list)
    estimates: int = 0
    missing_estimates: int = 0
    motion: MotionFigures | None = None
    joint_names: list[str] = Field(default_factory=list)
    i_phys: str | None = Field(default=None, description="text form of the kinematic summary")
    speed: list[tuple[int, float]] = Field(
        default_factory=list, description="(stamp_ns, joint-speed norm in rad/s) on the joint grid, for the page"
    )
    traces: MotionTraces | None = None
    events: list[Event] = Field(default_factory=list)
    cameras: list[CameraHealth] = Field(default_factory=list)
    joints: JointHealth | None = None
    key_frames: list[KeyFrame] = Field(default_factory=list)
    settings: dict[str, float | int | str | bool | None] = Field(
        default_factory=dict, description="every threshold and weight that made a figure"
    )
    calibration: str | None = Field(default=None, description="file of the calibration used; None: documented defaults")
    model: str = ""
    model_hash: str = ""
    versions: dict[str, str] = Field(default_factory=dict, description="of the programs that made the figures")
    dropped: int = Field(default=0, description="frame sets skipped because the model was busy")
    latency_p50_s: float | None = None
    latency_p99_s: float | None = None
    bag: str | None = Field(default=None, description="name of the recording this report belongs to")
    notes: list[str] = Field(default_factory=list, description="what a reader must know before trusting a figure")
