"""What every node publishes, subscribes to and serves: the nodes are built from these tables, and so are their pages.

Topics are relative to the robot's namespace, so that several arms run side by side and all can be remapped. No ROS is
needed to read this.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from rollout_monitor.events.settings import Settings
from rollout_monitor_nodes import settings


@dataclass(frozen=True)
class Topic:
    """One topic of a node. ``qos`` names a profile of `common.qos`; ADAPT means what the publishers offer."""

    name: str
    type: str
    qos: str
    about: str


@dataclass(frozen=True)
class Service:
    """One service of a node."""

    name: str
    type: str
    about: str


@dataclass(frozen=True)
class NodeInterface:
    """A node seen from outside."""

    name: str
    managed: bool
    about: str
    settings: type[Settings]
    publishes: tuple[Topic, ...] = ()
    subscribes: tuple[Topic, ...] = ()
    services: tuple[Service, ...] = ()
    notes: tuple[str, ...] = field(default=())


_MSGS = "rollout_monitor_msgs"
IMAGE = "sensor_msgs/msg/Image"
COMPRESSED = "sensor_msgs/msg/CompressedImage"
JOINT_STATE = "sensor_msgs/msg/JointState"

EPISODE = Topic("rollout/episode", f"{_MSGS}/msg/Episode", "MARKERS", "start and end of each attempt")
PROGRESS = Topic("rollout/progress", f"{_MSGS}/msg/Progress", "RECORDS", "one estimate per frame set")
KINEMATICS = Topic("rollout/kinematics", f"{_MSGS}/msg/Kinematics", "RECORDS", "joint grid and smoothness")
CAMERAS = Topic("rollout/cameras", f"{_MSGS}/msg/CameraHealth", "RECORDS", "health of each camera stream")
STATUS = Topic("rollout/status", f"{_MSGS}/msg/MonitorStatus", "LATCHED", "the one line an operator reads")
EVENTS = Topic("rollout/events", f"{_MSGS}/msg/MonitorEvent", "RECORDS", "events as they are raised, grow and clear")
REPORTS = Topic(
    "rollout/reports", f"{_MSGS}/msg/EpisodeReport", "REPORTS", "one report per episode, once it is on disk"
)
OVERLAY = Topic(
    "rollout/overlay", IMAGE, "VIEWS", "the camera's picture with the attempt drawn on it; rgb8, tight rows"
)
MARKERS = Topic("rollout/markers", "visualization_msgs/msg/MarkerArray", "VIEWS", "progress bar, state and alarm in 3D")
OVERLAY_TEXT = Topic(
    "rollout/overlay_text",
    "rviz_2d_overlay_msgs/msg/OverlayText",
    "VIEWS",
    "the attempt in words, where that package is installed",
)
DIAGNOSTICS = Topic("/diagnostics", "diagnostic_msgs/msg/DiagnosticArray", "DIAGNOSTICS", "state of streams and parts")
CLOCK = Topic("/clock", "rosgraph_msgs/msg/Clock", "CLOCK", "the recording's time, where parameter clock is set")
JOINTS = Topic("joint_states", JOINT_STATE, "ADAPT", "any order, partial messages, any rate up to 1000 Hz")
CAMERA_RAW = Topic("camera_topics[i]", IMAGE, "ADAPT", "each camera, where its transport is raw")
CAMERA_COMPRESSED = Topic("camera_topics[i]/compressed", COMPRESSED, "ADAPT", "each camera, where it is compressed")
OF_THE_MONITOR = (PROGRESS, KINEMATICS, CAMERAS, STATUS, EVENTS, REPORTS)

PRM_NODE = NodeInterface(
    name="prm_node",
    managed=True,
    about="Watches the cameras and the joints, asks the progress model, and publishes estimates, kinematics and camera "
    "health. The model runs in a thread of its own: when it is slow the newest frames win and the dropped ones are "
    "counted.",
    settings=settings.PrmNodeSettings,
    publishes=(PROGRESS, KINEMATICS, CAMERAS, DIAGNOSTICS),
    subscribes=(EPISODE, JOINTS, CAMERA_RAW, CAMERA_COMPRESSED),
    notes=(
        "After an END marker it finishes the frames up to the marker's stamp, then publishes one Progress with "
        "STATUS_END_OF_EPISODE and one Kinematics with end_of_episode.",
        "A START that a latched publisher says again of an attempt whose report is stored is ignored.",
    ),
)
MONITOR_NODE = NodeInterface(
    name="monitor_node",
    managed=True,
    about="Merges estimates and kinematics by stamp, raises events, keeps the status, and writes the report at an "
    "episode's end. When prm_node is gone it goes on with the joint states alone and says so (MODEL_LOST).",
    settings=settings.MonitorNodeSettings,
    publishes=(EPISODE, STATUS, EVENTS, REPORTS, DIAGNOSTICS),
    subscribes=(
        EPISODE,
        PROGRESS,
        KINEMATICS,
        CAMERAS,
        JOINTS,
        Topic("camera_topic", IMAGE, "ADAPT", "pictures for the report, two a second"),
        Topic("camera_topic/compressed", COMPRESSED, "ADAPT", "the same, compressed"),
    ),
    services=(
        Service("rollout/start_episode", f"{_MSGS}/srv/StartEpisode", "begin an attempt"),
        Service("rollout/end_episode", f"{_MSGS}/srv/EndEpisode", "end the running attempt"),
        Service("rollout/label_episode", f"{_MSGS}/srv/LabelEpisode", "say afterwards how an attempt went"),
        Service("rollout/query_progress", f"{_MSGS}/srv/QueryProgress", "the newest status, for one call"),
    ),
    notes=(
        "On SIGINT or SIGTERM in mid-episode it writes the report, marked INTERRUPTED, publishes it and ends with exit "
        "code 0. Any node leaves at most a second after a second signal, finished or not.",
        "Where the store cannot be written a report goes to `$XDG_STATE_HOME/rollout-monitor/rescued` "
        "(`~/.local/state/...`) or the system's folder for temporary files; the log says which. Exit code 1: one could "
        "be kept nowhere.",
        "Killed in mid-episode, it takes the attempt up again when it is started again while the attempt still runs "
        "(begun less than 15 minutes ago in stream time), else reports it as INTERRUPTED; the report's notes say so. "
        "The running attempt is written down in `.unfinished.NODE.json` in the store.",
        "A START that a latched publisher says again of an attempt whose report is stored is ignored.",
    ),
)
RECORDER = NodeInterface(
    name="recorder",
    managed=False,
    about="Records each episode as a rosbag2 (MCAP) from the messages' own bytes, from before its START marker until "
    "its report has come.",
    settings=settings.RecorderSettings,
    publishes=(DIAGNOSTICS,),
    subscribes=(
        EPISODE,
        CAMERA_RAW,
        CAMERA_COMPRESSED,
        JOINTS,
        *OF_THE_MONITOR,
        Topic("also[i]", "any", "ADAPT", "whatever parameter also names"),
    ),
    notes=(
        "While an episode runs its file is readable at any moment. A killed recorder loses less than a second; a power "
        "cut what came after the last sync to the disk, every two seconds, as well.",
        "While it records it holds back 8 MiB of the disk. When the disk is full a recording ends early: what there is "
        "becomes a whole bag, whose custom data say why (`ended_early`), what is left of the 8 MiB is for the report, "
        "whose notes say it too. The next episode is recorded again if there is room. A recorder that could not record "
        "everything says so at its end, with exit code 1.",
        "Asked to stop in mid-episode it waits for the report, `stop_wait_s` at most; a second signal ends the wait.",
    ),
)
OVERLAY_NODE = NodeInterface(
    name="overlay_node",
    managed=True,
    about="Shows the running attempt in RViz, Foxglove or Rerun: the camera's picture with progress, curve, "
    "smoothness, state and alarms drawn on it, and a progress bar beside the arm.",
    settings=settings.OverlayNodeSettings,
    publishes=(OVERLAY, MARKERS, OVERLAY_TEXT, DIAGNOSTICS),
    subscribes=(
        PROGRESS,
        KINEMATICS,
        STATUS,
        EVENTS,
        Topic("camera_topic", IMAGE, "ADAPT", "the picture to draw on; only while somebody looks"),
        Topic("camera_topic/compressed", COMPRESSED, "ADAPT", "the same, compressed"),
    ),
    notes=(
        "Nothing is drawn, and the camera is not even subscribed to, while nobody subscribes to the result; "
        "`/diagnostics` says how many pictures were drawn and for how many.",
        "A picture carries the stamp of the camera's frame, markers that of the status. Markers keep their ids and are "
        "deleted when the node is stopped. Texts are ASCII: letters of other scripts show as `?`.",
        "How to look at it: [docs/rviz.md](../rviz.md).",
    ),
)
REPLAY_NODE = NodeInterface(
    name="replay_node",
    managed=False,
    about="Plays a rosbag2 (MCAP or sqlite3) with its original timing, byte for byte. Waits for subscribers first and "
    "exits with code 0 when done.",
    settings=settings.ReplaySettings,
    publishes=(
        Topic(
            "every topic of the bag",
            "as recorded",
            "REPLAY",
            "reliable, so that nothing is lost on those who ask for it",
        ),
        CLOCK,
    ),
    notes=("Of messages with equal times, episode markers go first.",),
)
SIM_ROBOT_NODE = NodeInterface(
    name="sim_robot_node",
    managed=False,
    about="Simulates attempts at the table of docs/simulation.md (extra [sim]) in real time and publishes what a real "
    "robot would, with stamps from the node's clock.",
    settings=settings.SimRobotSettings,
    publishes=(
        EPISODE,
        Topic("joint_states", JOINT_STATE, "REPLAY", "100 Hz, named as the arm's driver names them"),
        Topic("camera_CAMERA/color/image_raw/compressed", COMPRESSED, "REPLAY_IMAGES", "front and wrist, JPEG, 10 Hz"),
    ),
)

WATCH = NodeInterface(
    name="watch",
    managed=False,
    about="Shows the running episode in a terminal: one live line, each event, the outcome and where the report lies.",
    settings=settings.WatchSettings,
    subscribes=(STATUS, EVENTS, REPORTS),
    notes=("Without a terminal (in a log) it prints a line every `line_every_s` instead of one that moves.",),
)

DASHBOARD_NODE = NodeInterface(
    name="dashboard_node",
    managed=False,
    about="Serves the live dashboard to browsers: a card per robot that is heard, whatever its namespace.",
    settings=settings.DashboardSettings,
    subscribes=(
        replace(STATUS, name="NAMESPACE/rollout/status"),
        replace(EVENTS, name="NAMESPACE/rollout/events"),
        replace(REPORTS, name="NAMESPACE/rollout/reports"),
        replace(PROGRESS, name="NAMESPACE/rollout/progress", qos="SENSOR"),
        replace(KINEMATICS, name="NAMESPACE/rollout/kinematics", qos="SENSOR"),
        replace(CAMERAS, name="NAMESPACE/rollout/cameras", qos="SENSOR"),
        Topic("camera_topics[i] of prm_node", IMAGE, "ADAPT", "while some page shows the camera"),
        Topic("camera_topics[i]/compressed", COMPRESSED, "ADAPT", "the same, compressed"),
        DIAGNOSTICS,
    ),
    notes=(
        "Each robot is found by its `rollout/status`; which cameras it has is asked of its `prm_node`. Buttons call "
        "the services of its `monitor_node`, and `rollout/arm_reset` and `rollout/disarm_reset` where they are served.",
        "What pages may do and who may open them: [docs/dashboard.md](../dashboard.md).",
    ),
)

NODES = (PRM_NODE, MONITOR_NODE, RECORDER, OVERLAY_NODE, REPLAY_NODE, SIM_ROBOT_NODE, WATCH, DASHBOARD_NODE)
