"""Start the monitor where ROS 2 has `launch`: the same processes as `rollout-monitor up`, from the same description.

ros2 launch rollout_monitor_bringup monitor.launch.py namespace:=/ur5e cameras:=front=/cam/color/image_raw
"""

from __future__ import annotations

from pathlib import Path

from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction, Shutdown
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue

from rollout_monitor.bringup.stack import RESPAWN_LIMIT, Options, Process, describe, parse_cameras

# Name, default and description. An empty value leaves what the files say.
ARGUMENTS = (
    ("config", "", "parameter file of all nodes; empty: the installed config/monitor.yaml"),
    (
        "params_file",
        "",
        "a second parameter file with only what differs; its values win, any parameter can stand there",
    ),
    ("stack", "", "which nodes run; empty: the installed config/stack.yaml"),
    ("namespace", "", "namespace of the robot, for example /ur5e"),
    ("cameras", "", "NAME=TOPIC,NAME=TOPIC,...: image topic of each camera, the primary one first"),
    ("joint_states", "", "joint state topic, where it is not joint_states in the namespace"),
    ("model", "", "progress model; `rollout-monitor models` lists them"),
    ("episodes", "", "folder for reports and recordings"),
    ("use_sim_time", "", "true: take the time from /clock"),
    ("record", "true", "false: no recorder"),
    ("log_level", "info", "debug, info, warn, error or fatal"),
)
RESPAWN_DELAY_S = 2.0


def generate_launch_description() -> LaunchDescription:
    """All arguments, then the processes that follow from them."""
    declared = [
        DeclareLaunchArgument(name, default_value=default, description=about) for name, default, about in ARGUMENTS
    ]
    return LaunchDescription([*declared, OpaqueFunction(function=start)])


def start(context: LaunchContext) -> list[Node]:
    """One action per process of the description. The nodes configure and activate themselves (parameter autostart)."""
    given = {name: LaunchConfiguration(name).perform(context) for name, _, _ in ARGUMENTS}
    options = Options(
        config=_path(given["config"]),
        params_file=_path(given["params_file"]),
        stack=_path(given["stack"]),
        namespace=given["namespace"],
        cameras=parse_cameras(text for text in given["cameras"].split(",") if text),
        joint_states=given["joint_states"] or None,
        model=given["model"] or None,
        episodes=given["episodes"] or None,
        use_sim_time=_truth("use_sim_time", given["use_sim_time"]) if given["use_sim_time"] else None,
        record=_truth("record", given["record"]),
        log_level=given["log_level"],
    )
    return [_node(process) for process in describe(options)]


def _node(process: Process) -> Node:
    ending = Shutdown(reason=f"{process.name} is required") if process.required and not process.respawn else None
    return Node(
        package=process.package,
        executable=process.executable,
        name=process.name,
        namespace=process.namespace or "/",
        parameters=[{name: _as_is(value) for name, value in process.parameters.items() if value != []}],
        remappings=list(process.remappings),
        arguments=["--ros-args", "--log-level", process.log_level],
        output="screen",
        emulate_tty=True,
        respawn=process.respawn,
        respawn_delay=RESPAWN_DELAY_S,
        respawn_max_retries=RESPAWN_LIMIT,
        on_exit=ending,
    )


def _as_is(value: object) -> object:
    """A text that stays a text: launch would read "1" as a number."""
    return ParameterValue(value, value_type=str) if isinstance(value, str) else value


def _path(text: str) -> Path | None:
    return Path(text).expanduser() if text else None


def _truth(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"{name}:={text}: expected true or false")
    return text.lower() == "true"
