"""Settings of the engine's two halves."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from rollout_monitor.curve.settings import OpdSettings
from rollout_monitor.events.settings import EventSettings, Settings
from rollout_monitor.motion.settings import MotionSettings

CameraName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]*$", max_length=64)]


class GateSettings(Settings):
    """Which frames a progress model gets, and when a camera counts as dark."""

    cameras: tuple[CameraName, ...] = Field(default=("front",), min_length=1, description="names; the first is primary")
    rate_hz: float = Field(default=5.0, gt=0.0, le=240.0, description="frame sets per second, on a grid of stamps")
    pair_wait_s: float = Field(
        default=0.2,
        ge=0.0,
        le=10.0,
        description="how far the primary may run ahead while another camera's frame is awaited",
    )
    pair_skew_s: float = Field(
        default=0.5, gt=0.0, le=10.0, description="oldest frame of another camera that still belongs to a frame set, s"
    )
    joints: bool = Field(default=False, description="whether the model uses joint states")
    joint_age_s: float = Field(
        default=0.1, gt=0.0, le=1.0, description="oldest joint state that still belongs to a frame set, s"
    )
    health_period_s: float = Field(
        default=0.5, gt=0.0, le=60.0, description="camera health every so often, stream time"
    )
    dark_luminance: float = Field(default=16.0, ge=0.0, le=255.0, description="mean luma below this is dark")
    dark_contrast: float = Field(default=4.0, ge=0.0, le=128.0, description="luma deviation below this is featureless")
    jump_s: float = Field(default=1.0, gt=0.0, le=3600.0, description="a stamp this far back is a clock jump")
    recall_s: float = Field(
        default=2.0, gt=0.0, le=60.0, description="frame sets kept for an episode whose start is learned late, s"
    )

    @model_validator(mode="after")
    def _distinct(self) -> GateSettings:
        if len(set(self.cameras)) != len(self.cameras):
            raise ValueError(f"cameras are named twice: {', '.join(self.cameras)}")
        return self


class MonitorSettings(Settings):
    """What the monitor half needs."""

    opd: OpdSettings = OpdSettings()
    events: EventSettings = EventSettings()
    motion: MotionSettings = MotionSettings()
    robot: str = Field(default="", max_length=200, description="name of the robot, for the report")
    status_period_s: float = Field(default=0.1, gt=0.0, le=10.0, description="a status every so often, stream time")
    merge_wait_s: float = Field(
        default=1.0, gt=0.0, le=30.0, description="how long one stream waits for another to reach the same stamp, s"
    )
    end_wait_s: float = Field(
        default=3.0, gt=0.0, le=120.0, description="how long an ended episode waits for the last estimates, s"
    )
    keep_pictures: int = Field(default=600, ge=10, le=100000, description="pictures held for the report at most")
    peak_pictures: int = Field(default=6, ge=0, le=100, description="evenly spaced key frames in the report")
    calibration: str | None = Field(default=None, description="file the thresholds come from; None: defaults")
