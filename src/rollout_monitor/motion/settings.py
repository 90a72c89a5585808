"""Settings of the joint stream: what counts as a gap, as idle, as a spike; every default says why.

Fixed properties of the method (the anti-alias kernel, the smoothness measures' constants) are not settings: they live
with their code, in `grid` and `smoothness`.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, model_validator

DEFAULT_RATE_HZ = 30.0  # the paper's figures are per step of such a grid (Eval-Actions records at 30 Hz)
DEFAULT_IDLE_SPEED = 0.02  # rad/s, 1.1 deg/s: over ten times encoder noise differenced at 30 Hz, far below any reach


class MotionSettings(BaseModel):
    """How joint messages become figures; frozen, validated, flat.

    Raises:
        pydantic.ValidationError: a value out of range, or settings that contradict each other.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    grid_rate_hz: float = Field(
        default=DEFAULT_RATE_HZ, ge=1.0, le=500.0, description="rate of the uniform grid; the paper's figures need 30"
    )
    window_s: float = Field(
        default=2.0, gt=0.0, le=60.0, description="sliding window of the live figures: about one reach or retry"
    )
    summary_period_s: float = Field(
        default=0.1, gt=0.0, le=10.0, description="stream time between summaries: 10 Hz is as fast as a reader follows"
    )
    gap_limit_s: float = Field(
        default=0.2, gt=0.0, le=10.0, description="a longer hole is left open: an arm changes course within 0.2 s"
    )
    clock_back_s: float = Field(
        default=0.5,
        ge=0.0,
        le=60.0,
        description="stamps back by more start a new segment; by less they are late, unless three in a row agree",
    )
    max_speed: float = Field(
        default=50.0,
        gt=0.0,
        description="rad/s; a joint cannot jump faster and come back: several times what arms and grippers do",
    )
    learn_s: float = Field(
        default=0.5, ge=0.0, le=10.0, description="how long joint names are learned where none are given in `joints`"
    )
    keep_s: float = Field(
        default=2.0, ge=0.0, le=60.0, description="rows kept for an episode whose start or end is learned late"
    )
    idle_speed: float = Field(
        default=DEFAULT_IDLE_SPEED, gt=0.0, le=10.0, description="rad/s; a joint below it counts as standing still"
    )
    joints: tuple[str, ...] = Field(
        default=(), description="the joints of the grid, in this order; empty: all that are published, sorted by name"
    )
    gripper_joints: tuple[str, ...] = Field(default=(), description="joints kept out of the grid and of smoothness")
    effort_mean_tau_s: float = Field(
        default=0.05,
        gt=0.0,
        le=60.0,
        description="time constant of the effort baseline: slower than a contact's edge (20 ms), faster than motion",
    )
    effort_deviation_tau_s: float = Field(
        default=5.0, gt=0.0, le=600.0, description="time constant of the deviation: several reaches, so motion is usual"
    )
    effort_deviations: float = Field(
        default=8.0, gt=0.0, description="a spike is further from the baseline than this many running deviations"
    )
    effort_min_change: float = Field(
        default=1.0, gt=0.0, description="and further than this (N m, or A on UR), below which contacts are not told"
    )
    effort_confirm: int = Field(
        default=3, ge=1, le=1000, description="consecutive samples beyond, against lone outliers"
    )
    effort_settle_s: float = Field(
        default=2.0, ge=0.0, le=600.0, description="no spike before the baseline has seen this long"
    )
    effort_refractory_s: float = Field(default=0.5, ge=0.0, le=600.0, description="least time between a joint's spikes")

    @model_validator(mode="after")
    def _consistent(self) -> MotionSettings:
        if self.window_s * self.grid_rate_hz < 4.0:
            raise ValueError(
                f"window_s = {self.window_s:g} holds fewer than 4 rows at grid_rate_hz = {self.grid_rate_hz:g}; "
                "jerk needs 4"
            )
        for name, joints in (("joints", self.joints), ("gripper_joints", self.gripper_joints)):
            if len(set(joints)) != len(joints) or "" in joints:
                raise ValueError(f"{name} must name every joint once: {', '.join(joints)}")
        if self.joints and set(self.joints) <= set(self.gripper_joints):
            raise ValueError("every joint of `joints` is also in `gripper_joints`; no joint is left for the grid")
        return self

    @property
    def grid_joints(self) -> tuple[str, ...]:
        """The expected joints of the grid, in order; empty where they are learned from the stream."""
        return tuple(name for name in self.joints if name not in self.gripper_joints)
