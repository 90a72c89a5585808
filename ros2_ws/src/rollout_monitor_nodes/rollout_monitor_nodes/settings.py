"""The parameters of every node: names, types, ranges, defaults and what they are for. No ROS is needed to read them."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from rollout_monitor.episode.settings import GateSettings, MonitorSettings
from rollout_monitor.events.settings import Settings
from rollout_monitor.motion.settings import MotionSettings
from rollout_monitor.prm.protocol import ModelCard

Transport = Literal["auto", "raw", "compressed"]
_AUTOSTART = "configure and activate at once; false: wait for a lifecycle manager"
_CAMERAS = "names of the cameras; the first is the primary one, from which progress is judged"
_CAMERA_TOPICS = "image topic of each camera, in the same order, without /compressed, but with /compressedDepth"
_EPISODES = "folder that keeps reports, pages and the index"
_RECORDINGS = "folder in which the recorder gives each episode a folder of its name"
_TRANSPORT = "raw takes Image, compressed takes CompressedImage on TOPIC/compressed, auto takes what is published"


class CameraSettings(Settings):
    """Which cameras there are, the same for every node that looks at them."""

    cameras: tuple[str, ...] = Field(default=("front", "wrist"), min_length=1, max_length=16, description=_CAMERAS)
    camera_topics: tuple[str, ...] = Field(
        default=("camera_front/color/image_raw", "camera_wrist/color/image_raw"),
        min_length=1,
        max_length=16,
        description=_CAMERA_TOPICS,
    )
    camera_transport: Transport = Field(default="auto", description=_TRANSPORT)

    @model_validator(mode="after")
    def _a_topic_each(self) -> CameraSettings:
        if len(self.cameras) != len(self.camera_topics):
            raise ValueError(
                f"'cameras' names {len(self.cameras)} cameras, 'camera_topics' {len(self.camera_topics)} topics: "
                "each camera needs its topic"
            )
        return self


class PrmNodeSettings(CameraSettings):
    """prm_node."""

    UNEXPOSED: ClassVar[frozenset[str]] = frozenset({"gate.cameras", "gate.rate_hz", "gate.joints"})
    """Follow from ``cameras`` and from what the model needs."""

    autostart: bool = Field(default=True, description=_AUTOSTART)
    model: str = Field(
        default="embedded", min_length=1, description="progress model; `rollout-monitor models` lists them"
    )
    model_path: str | None = Field(
        default=None, description="folder of the embedded model, or file of the curve that `recorded` replays"
    )
    episodes: str = Field(
        default="episodes", min_length=1, description="folder of the reports, to leave attempts alone that are over"
    )
    queue: int = Field(
        default=4,
        ge=1,
        le=1000,
        description="frame sets that may wait for a busy model; older ones are dropped, counted",
    )
    end_wait_s: float = Field(
        default=1.0,
        gt=0.0,
        le=30.0,
        description="silence after an END marker that ends the wait for its last frames, s",
    )
    gate: GateSettings = GateSettings()
    motion: MotionSettings = MotionSettings()

    def gate_for(self, model: ModelCard) -> GateSettings:
        """The gate for these cameras and what a model needs."""
        needs = {"cameras": self.cameras, "rate_hz": model.rate_hz, "joints": model.joints}
        return GateSettings(**{**self.gate.model_dump(), **needs})


class MonitorNodeSettings(MonitorSettings):
    """monitor_node: the monitor's own settings, and where reports and pictures come from and go."""

    autostart: bool = Field(default=True, description=_AUTOSTART)
    episodes: str = Field(default="episodes", min_length=1, description=_EPISODES)
    recordings: str = Field(default="episodes/recordings", min_length=1, description=_RECORDINGS)
    camera: str = Field(
        default="front", min_length=1, description="camera whose pictures go into reports; the primary one"
    )
    camera_topic: str = Field(
        default="camera_front/color/image_raw", min_length=1, description="its image topic, without /compressed"
    )
    camera_transport: Transport = Field(default="auto", description=_TRANSPORT)
    quiet_s: float = Field(
        default=0.3, gt=0.0, le=10.0, description="no estimate or kinematics for this long is judged as silence, s"
    )
    fallback_s: float = Field(
        default=0.5,
        gt=0.0,
        le=30.0,
        description="kinematics missing for this long while joint states come: make them here, s",
    )
    motion: MotionSettings = MotionSettings()

    def monitor(self) -> MonitorSettings:
        """The part that the core understands."""
        return MonitorSettings(**{name: getattr(self, name) for name in MonitorSettings.model_fields})


class RecorderSettings(CameraSettings):
    """recorder."""

    episodes: str = Field(
        default="episodes", min_length=1, description="folder of the reports, to know which attempts are over"
    )
    recordings: str = Field(default="episodes/recordings", min_length=1, description=_RECORDINGS)
    compression: Literal["zstd", "lz4", "none"] = Field(
        default="zstd", description="of the recording; none saves time where the cameras send JPEG anyway"
    )
    also: tuple[str, ...] = Field(default=(), description="further topics to record, of any installed type")
    preroll_s: float = Field(
        default=2.0, ge=0.0, le=60.0, description="messages kept from before the START marker is heard, s of arrival"
    )
    report_wait_s: float = Field(
        default=10.0, gt=0.0, le=600.0, description="longest wait for the report after an END marker, s"
    )
    stop_wait_s: float = Field(
        default=1.5, ge=0.0, le=60.0, description="longest wait for the report after a stop signal in mid-episode, s"
    )


class MarkerSettings(Settings):
    """Where the bar stands beside the arm, and how often it is sent."""

    frame: str = Field(default="base_link", min_length=1, description="frame of the arm's base or tool")
    x: float = Field(default=0.0, ge=-10.0, le=10.0, description="foot of the bar in that frame, m")
    y: float = Field(default=0.5, ge=-10.0, le=10.0, description="foot of the bar in that frame, m")
    z: float = Field(default=0.0, ge=-10.0, le=10.0, description="foot of the bar in that frame, m")
    height_m: float = Field(default=0.6, gt=0.0, le=10.0, description="height of the full bar, m")
    hoop_radius_m: float = Field(
        default=0.35, gt=0.0, le=10.0, description="radius of the hoop around the frame's origin on an ERROR, m"
    )
    rate_hz: float = Field(default=5.0, gt=0.0, le=30.0, description="most messages per second")
    lifetime_s: float = Field(
        default=2.0,
        gt=0.1,
        le=60.0,
        description="RViz forgets the markers of a node that is gone after this long, s; by RViz's clock",
    )


class OverlayNodeSettings(Settings):
    """overlay_node."""

    autostart: bool = Field(default=True, description=_AUTOSTART)
    camera: str = Field(default="front", min_length=1, description="camera whose picture is drawn on; the primary one")
    camera_topic: str = Field(
        default="camera_front/color/image_raw", min_length=1, description="its image topic, without /compressed"
    )
    camera_transport: Transport = Field(default="auto", description=_TRANSPORT)
    width: int = Field(
        default=640, ge=320, le=1920, description="columns of the drawn picture; rows follow from the camera's"
    )
    rate_hz: float = Field(default=10.0, gt=0.0, le=30.0, description="most pictures per second")
    stale_s: float = Field(
        default=2.0, gt=0.0, le=60.0, description="data older than this is said to be old, s of passing time"
    )
    rerun: str | None = Field(
        default=None,
        description="file (.rrd) or viewer URL (rerun+http://127.0.0.1:9876/proxy) of a Rerun stream; extra [rerun]",
    )
    markers: MarkerSettings = MarkerSettings()


class ReplaySettings(Settings):
    """replay_node."""

    bag: str = Field(default="", description="rosbag2 folder, .mcap or .db3 file; needed")
    then: tuple[str, ...] = Field(default=(), description="further recordings, played one after the other")
    pause_s: float = Field(default=2.0, ge=0.0, le=600.0, description="pause before each further recording, s")
    rate: float = Field(default=1.0, gt=0.0, le=1000.0, description="factor on the original timing")
    loop: bool = Field(
        default=False, description="begin again at the end, with header stamps moved on so that they advance"
    )
    restamp: bool = Field(default=False, description="move header stamps so that the recording begins now")
    clock: bool = Field(default=False, description="publish /clock from the recording's time")
    clock_hz: float = Field(default=100.0, gt=0.0, le=1000.0, description="rate of /clock in recording time, Hz")
    prefix: str = Field(default="", description="namespace put before every topic of the bag, for example /ur5e")
    topics: tuple[str, ...] = Field(default=(), description="play only these topics of the bag; empty: all")
    outputs: bool = Field(default=False, description="play also what a monitor had published when the bag was made")
    wait_for: tuple[str, ...] = Field(
        default=(), description="TOPIC or TOPIC=N that must have 1 or N subscribers first; empty: every topic one"
    )
    wait_for_subscribers_s: float = Field(
        default=10.0,
        ge=0.0,
        le=600.0,
        description="longest wait for subscribers, s; then it starts all the same, and says so",
    )
    settle_s: float = Field(
        default=2.0,
        ge=0.0,
        le=60.0,
        description="how long the subscribers must have stayed the same before it starts, s",
    )
    linger_s: float = Field(
        default=0.5,
        ge=0.0,
        le=60.0,
        description="stay this long after the last message, so that slow subscribers get it, s",
    )


class SimRobotSettings(Settings):
    """sim_robot_node."""

    task: str = Field(
        default="lift:red", min_length=1, description="task at the simulated table, as in on:red:green or in:red:bin"
    )
    mode: str = Field(default="success", min_length=1, description="how the attempt goes: success, drop, stall, ...")
    arm: str = Field(default="ur5e", min_length=1, description="arm; tasks of two arms have their own two UR5e")
    plan: str = Field(
        default="test",
        min_length=1,
        description="plan that wording, look and scene are drawn from; test shares no take with training",
    )
    seed: int = Field(default=0, ge=0, le=2**31 - 1, description="seed of the first attempt; each further one adds 1")
    attempts: int = Field(default=1, ge=0, le=1000000, description="attempts to make; 0: until stopped")
    pause_s: float = Field(default=2.0, ge=0.0, le=600.0, description="pause between two attempts, s")
    rate: float = Field(
        default=1.0, gt=0.0, le=100.0, description="factor on real time; the stamps keep the attempt's own pace"
    )
    label: bool = Field(default=False, description="give the END marker the attempt's true outcome as its label")
    jpeg_quality: int = Field(default=85, ge=10, le=100, description="quality of the published JPEG pictures")
    wait_for_subscribers_s: float = Field(
        default=10.0, ge=0.0, le=600.0, description="longest wait for subscribers before the first attempt, s"
    )


class WatchSettings(Settings):
    """watch."""

    reports: int = Field(default=0, ge=0, le=100000, description="end after this many episode reports; 0: never")
    line_every_s: float = Field(
        default=1.0, gt=0.0, le=600.0, description="without a terminal: a line every so often of stream time, s"
    )


class DashboardSettings(Settings):
    """dashboard_node."""

    host: str = Field(
        default="127.0.0.1", min_length=1, description="address to bind to; one that others can reach brings a token"
    )
    port: int = Field(default=8642, ge=0, le=65535, description="port; 0: any that is free")
    names: tuple[str, ...] = Field(
        default=(), description="host names that it is reached under, besides addresses and localhost"
    )
    token_file: str = Field(
        default="",
        description="file of the token, readable by its owner alone; empty: none where host is this machine alone, "
        "else a random one in a file of its own, which is named",
    )
    episodes: tuple[str, ...] = Field(
        default=("episodes",), max_length=16, description="folders of reports: past episodes, and bands behind curves"
    )
    namespaces: tuple[str, ...] = Field(
        default=(), description="robots to show, by namespace; empty: every robot that is heard"
    )
