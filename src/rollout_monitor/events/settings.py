"""Every threshold of the detectors, with its unit, range and documented default.

A calibration file (see `calibration`) replaces a default by a figure learned from the task's own successes; the report
says which of the two was used.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator


class Settings(BaseModel):
    """Base of all settings: frozen, closed, every field described and bounded."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Debounce(Settings):
    """Raise after k of the last n samples, clear after m good ones in a row."""

    raise_k: int = Field(default=2, ge=1, le=100, description="samples out of raise_n that must show the condition")
    raise_n: int = Field(default=3, ge=1, le=100, description="samples looked back on")
    clear_m: int = Field(default=2, ge=1, le=100, description="samples in a row without the condition before it clears")

    @model_validator(mode="after")
    def _k_fits_n(self) -> Debounce:
        if self.raise_k > self.raise_n:
            raise ValueError(f"raise_k ({self.raise_k}) must not exceed raise_n ({self.raise_n})")
        return self


class StallSettings(Settings):
    """STALL: progress does not move while the task is not finished."""

    window_s: float = Field(default=3.0, gt=0.0, le=600.0, description="how long progress must have stood, s")
    eps: float = Field(
        default=0.03, gt=0.0, le=1.0, description="progress range over the window that counts as standing"
    )
    error_after_s: float = Field(default=10.0, gt=0.0, le=3600.0, description="standing this long is an ERROR, s")
    finished_at: float = Field(default=0.9, gt=0.0, le=1.0, description="progress from which standing is being done")


class DrawdownSettings(Settings):
    """DRAWDOWN: progress fell below its best so far."""

    warn: float = Field(default=0.15, gt=0.0, le=1.0, description="d_t that raises a WARN")
    error: float = Field(default=0.35, gt=0.0, le=1.0, description="d_t that raises an ERROR")
    clear_ratio: float = Field(default=0.5, gt=0.0, lt=1.0, description="clears when d_t is under this share of warn")

    @model_validator(mode="after")
    def _ordered(self) -> DrawdownSettings:
        if self.error < self.warn:
            raise ValueError(f"error ({self.error}) must not be below warn ({self.warn})")
        return self


class PlateauSettings(Settings):
    """PLATEAU_DONE: progress is high and flat, a candidate for success."""

    level: float = Field(default=0.9, gt=0.0, le=1.0, description="progress that counts as high")
    eps: float = Field(default=0.05, gt=0.0, le=1.0, description="progress range over the window that counts as flat")
    window_s: float = Field(default=1.0, gt=0.0, le=600.0, description="how long it must hold, s")


class OutcomeSettings(Settings):
    """SUCCESS / FAILURE: how the end is judged when nobody labelled it."""

    decide_by: Literal["progress", "probability"] = Field(
        default="progress", description="what decides: progress, or the model's success probability where it gives one"
    )
    progress_threshold: float = Field(
        default=0.9, gt=0.0, le=1.0, description="median progress over the last window_s that counts as success"
    )
    probability_threshold: float = Field(
        default=0.5, gt=0.0, lt=1.0, description="median success probability over the last window_s that counts"
    )
    window_s: float = Field(default=1.0, gt=0.0, le=60.0, description="stretch before the end that decides, s")


class TimeoutSettings(Settings):
    """TIMEOUT: running longer than the task's budget."""

    budget_s: float = Field(default=0.0, ge=0.0, le=86400.0, description="longest run, s; 0: from history, else none")
    history_quantile: float = Field(default=0.95, gt=0.0, le=1.0, description="quantile of successful durations")
    history_factor: float = Field(default=1.5, ge=1.0, le=10.0, description="slack on that quantile")
    history_min_n: int = Field(default=10, ge=2, le=100000, description="successes needed before history is used")


class RoughSettings(Settings):
    """ROUGH_MOTION: the arm shakes or jerks. Defaults are generous: calibrate per task."""

    rms_jerk: float = Field(default=150.0, gt=0.0, description="RMS jerk over the motion window, rad/s^3")
    u_a_si: float = Field(default=25.0, gt=0.0, description="largest joint acceleration variance, (rad/s^2)^2")
    reversals_per_s: float = Field(default=15.0, gt=0.0, description="direction reversals per second, all joints")


class ContactSettings(Settings):
    """CONTACT: effort left its running baseline (spikes are found in the motion room)."""

    quiet_s: float = Field(default=0.5, gt=0.0, le=60.0, description="no spike for this long ends the event, s")


class InputSettings(Settings):
    """CAMERA_*, JOINTS_*, MODEL_*: streams that stop, freeze, darken or carry rubbish."""

    camera_lost_s: float = Field(default=1.0, gt=0.0, le=600.0, description="no frame for this long, s")
    camera_frozen_s: float = Field(default=1.0, gt=0.0, le=600.0, description="identical frames for this long, s")
    camera_dark_s: float = Field(default=0.5, gt=0.0, le=600.0, description="dark frames for this long, s")
    joints_lost_s: float = Field(default=0.5, gt=0.0, le=600.0, description="no joint state for this long, s")
    joints_invalid_share: float = Field(
        default=0.1, gt=0.0, le=1.0, description="share of non-finite or malformed messages between two summaries"
    )
    model_late_s: float = Field(default=1.0, gt=0.0, le=600.0, description="newest estimate older than this, s")
    model_lost_s: float = Field(default=3.0, gt=0.0, le=600.0, description="newest estimate older than this, s")

    @model_validator(mode="after")
    def _ordered(self) -> InputSettings:
        if self.model_lost_s <= self.model_late_s:
            raise ValueError(f"model_lost_s ({self.model_lost_s}) must exceed model_late_s ({self.model_late_s})")
        return self


class EventSettings(Settings):
    """All detectors."""

    settle_s: float = Field(default=1.0, ge=0.0, le=60.0, description="no event on progress or motion before this, s")
    debounce: Debounce = Debounce()
    stall: StallSettings = StallSettings()
    drawdown: DrawdownSettings = DrawdownSettings()
    plateau: PlateauSettings = PlateauSettings()
    outcome: OutcomeSettings = OutcomeSettings()
    timeout: TimeoutSettings = TimeoutSettings()
    rough: RoughSettings = RoughSettings()
    contact: ContactSettings = ContactSettings()
    inputs: InputSettings = InputSettings()
