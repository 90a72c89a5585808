"""The one description of what runs: which nodes, in which namespace, with which parameters and remappings.

`rollout-monitor up` and ``launch/monitor.launch.py`` both start exactly what `describe` returns. No ROS is needed here.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rollout_monitor.bringup.parameters import (
    ParameterValue,
    check_engine,
    read_parameters,
    read_yaml,
    refuse_unmatched,
    resolve,
)
from rollout_monitor.errors import InputError

BRINGUP_PACKAGE = "rollout_monitor_bringup"
LOG_LEVELS = ("debug", "info", "warn", "error", "fatal")
RESPAWN_LIMIT = 5
"""Restarts in a row after which a node is given up."""

_NAME = r"[A-Za-z][A-Za-z0-9_]*"
_WATCHING_CAMERAS = ("prm_node", "recorder")
_WATCHING_PRIMARY = ("monitor_node", "overlay_node")


class NodeEntry(BaseModel):
    """One node of the stack file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    package: str = Field(pattern=rf"^{_NAME}$")
    executable: str = Field(min_length=1)
    respawn: bool = False
    required: bool = True
    remappings: dict[str, str] = Field(default_factory=dict)


class StackFile(BaseModel):
    """The stack file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    nodes: dict[str, NodeEntry] = Field(min_length=1)


@dataclass(frozen=True)
class Options:
    """What may be said when the stack is started; None leaves what the files say.

    Attributes:
        config: parameter file of all nodes; None takes the installed ``config/monitor.yaml``.
        params_file: a second parameter file with only what differs; its values win.
        stack: stack file; None takes the installed ``config/stack.yaml``.
        namespace: of the robot, for example ``/ur5e``; empty for none.
        cameras: image topic by camera name, the primary camera first.
        joint_states: joint state topic, where it is not ``joint_states`` in the namespace.
        model: progress model.
        episodes: folder for reports and recordings.
        use_sim_time: take the time from ``/clock``.
        record: run the recorder.
        log_level: of every node.
    """

    config: Path | None = None
    params_file: Path | None = None
    stack: Path | None = None
    namespace: str = ""
    cameras: Mapping[str, str] = field(default_factory=dict)
    joint_states: str | None = None
    model: str | None = None
    episodes: str | None = None
    use_sim_time: bool | None = None
    record: bool = True
    log_level: str = "info"


@dataclass(frozen=True)
class Process:
    """One node as it will be started."""

    name: str
    package: str
    executable: str
    namespace: str
    parameters: Mapping[str, ParameterValue]
    remappings: tuple[tuple[str, str], ...]
    respawn: bool
    required: bool
    log_level: str

    @property
    def node(self) -> str:
        """Fully qualified name of the node."""
        return f"{self.namespace}/{self.name}"

    def ros_arguments(self, params_file: Path) -> list[str]:
        """Command line after the executable, the parameters being in a file made by `parameter_file_text`."""
        arguments = ["--ros-args", "-r", f"__node:={self.name}", "-r", f"__ns:={self.namespace or '/'}"]
        for old, new in self.remappings:
            arguments += ["-r", f"{old}:={new}"]
        return [*arguments, "--params-file", str(params_file), "--log-level", self.log_level]

    def parameter_file_text(self) -> str:
        """A parameter file that holds exactly this process's parameters."""
        return yaml.safe_dump({"/**": {"ros__parameters": dict(self.parameters)}}, sort_keys=False)


def describe(options: Options) -> tuple[Process, ...]:
    """All processes of the stack, in the order in which they start.

    Raises:
        InputError: a file or a value that does not fit; one line that names the file and the parameter.
    """
    namespace = checked_namespace(options.namespace)
    if options.log_level not in LOG_LEVELS:
        raise InputError(f"log level '{options.log_level}' is none of {', '.join(LOG_LEVELS)}")
    entries = _read_stack(options.stack or shared_file("config/stack.yaml"))
    files = [options.config or shared_file("config/monitor.yaml"), *filter(None, [options.params_file])]
    sections = [section for file in files for section in read_parameters(file)]
    refuse_unmatched(sections, [f"{namespace}/{name}" for name in entries])

    running = {name: entry for name, entry in entries.items() if options.record or entry.executable != "recorder"}
    parameters = {name: {**resolve(sections, f"{namespace}/{name}"), **_overrides(options, name)} for name in running}
    where = ", ".join(str(file) for file in files)
    check_engine(parameters.get("prm_node", {}), parameters.get("monitor_node", {}), where)
    _check_agreement(parameters, where)
    joints = {"joint_states": options.joint_states} if options.joint_states else {}
    return tuple(
        Process(
            name=name,
            package=entry.package,
            executable=entry.executable,
            namespace=namespace,
            parameters=parameters[name],
            remappings=tuple({**entry.remappings, **joints}.items()),
            respawn=entry.respawn,
            required=entry.required,
            log_level=options.log_level,
        )
        for name, entry in running.items()
    )


def checked_namespace(namespace: str) -> str:
    """The namespace with a leading slash and without a trailing one; empty for the root.

    Raises:
        InputError: not a ROS 2 namespace.
    """
    namespace = namespace.strip("/")
    if not namespace:
        return ""
    if not re.fullmatch(rf"{_NAME}(/{_NAME})*", namespace):
        raise InputError(
            f"namespace '{namespace}' must be letters, digits and '_', beginning with a letter, such as /ur5e"
        )
    return f"/{namespace}"


def parse_cameras(texts: Iterable[str]) -> dict[str, str]:
    """Camera topics from ``NAME=TOPIC`` texts, in their order.

    Raises:
        InputError: a text of another form, or a name given twice.
    """
    cameras: dict[str, str] = {}
    for text in texts:
        name, _, topic = text.partition("=")
        if not re.fullmatch(_NAME, name) or not topic:
            raise InputError(f"camera '{text}': expected NAME=TOPIC, for example front=/camera/color/image_raw")
        if name in cameras:
            raise InputError(f"camera '{name}' is given twice")
        cameras[name] = topic
    return cameras


def shared_file(relative: str) -> Path:
    """A file of the installed bring-up package, found as ROS 2 finds it: first prefix on AMENT_PREFIX_PATH wins.

    Raises:
        InputError: the workspace is not built, or its environment is not there.
    """
    return _in_prefixes(f"share/{BRINGUP_PACKAGE}/{relative}")


def find_executable(process: Process) -> Path:
    """The file that ``ros2 run PACKAGE EXECUTABLE`` would start.

    Raises:
        InputError: the package is not built, or its environment is not there.
    """
    return _in_prefixes(f"lib/{process.package}/{process.executable}")


def _in_prefixes(relative: str) -> Path:
    prefixes = [Path(prefix) for prefix in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep) if prefix]
    for prefix in prefixes:
        if (prefix / relative).is_file():
            return prefix / relative
    raise InputError(
        f"{relative} is in no ROS 2 prefix ({len(prefixes)} on AMENT_PREFIX_PATH): build the workspace with "
        "'make setup' and start through scripts/ros_run"
    )


def _read_stack(file: Path) -> dict[str, NodeEntry]:
    try:
        nodes = StackFile.model_validate(read_yaml(file)).nodes
    except ValidationError as error:
        finding = error.errors()[0]
        place = ".".join(str(part) for part in finding["loc"]) or "the file"
        raise InputError(f"{file}: '{place}': {finding['msg']}") from error
    for name in nodes:
        if not re.fullmatch(_NAME, name):
            raise InputError(f"{file}: 'nodes.{name}': '{name}' cannot be a node's name")
    return nodes


def _overrides(options: Options, node: str) -> dict[str, ParameterValue]:
    """Parameters that the options set for one node."""
    values: dict[str, ParameterValue] = {}
    names, topics = list(options.cameras), list(options.cameras.values())
    if names and node in _WATCHING_CAMERAS:
        values.update(cameras=names, camera_topics=topics)
    if names and node in _WATCHING_PRIMARY:
        values.update(camera=names[0], camera_topic=topics[0])
    if options.model is not None and node == "prm_node":
        values["model"] = options.model
    if options.episodes is not None and node in ("prm_node", "monitor_node", "recorder"):
        values["episodes"] = options.episodes
    if options.episodes is not None and node in ("monitor_node", "recorder"):
        values["recordings"] = f"{options.episodes}/recordings"
    if options.use_sim_time is not None:
        values["use_sim_time"] = options.use_sim_time
    return values


_SHARED_FOLDERS = {
    "recordings": "reports would name recordings that are elsewhere",
    "episodes": "the recorder could not know which attempts have their report",
}
"""Folders that monitor_node and recorder must agree on, and what happens where they do not."""


def _check_agreement(parameters: Mapping[str, Mapping[str, ParameterValue]], where: str) -> None:
    """Parameters that several nodes have must mean the same cameras and folders.

    Raises:
        InputError: they do not; names the parameters.
    """
    monitor, recorder = parameters.get("monitor_node", {}), parameters.get("recorder", {})
    watched, recorded = _cameras_of(parameters.get("prm_node", {})), _cameras_of(recorder)
    if watched and recorded and not set(watched) <= set(recorded):
        missing = ", ".join(f"{name} on {topic}" for name, topic in watched if (name, topic) not in recorded)
        raise InputError(f"{where}: prm_node watches {missing}, but recorder's 'cameras' and 'camera_topics' lack it")
    for name in _WATCHING_PRIMARY:
        values = parameters.get(name, {})
        shown = (values.get("camera"), values.get("camera_topic"))
        if watched and None not in shown and shown != watched[0]:
            raise InputError(
                f"{where}: {name}'s 'camera' and 'camera_topic' are {shown[0]} on {shown[1]}, but prm_node's primary "
                f"camera is {watched[0][0]} on {watched[0][1]}"
            )
    for folder, harm in _SHARED_FOLDERS.items():
        if recorder and monitor and recorder.get(folder) != monitor.get(folder):
            raise InputError(
                f"{where}: recorder's '{folder}' is {recorder.get(folder)} and monitor_node's is "
                f"{monitor.get(folder)}: {harm}"
            )


def _cameras_of(values: Mapping[str, ParameterValue]) -> list[tuple[Any, Any]]:
    names, topics = values.get("cameras"), values.get("camera_topics")
    return list(zip(names, topics, strict=False)) if isinstance(names, list) and isinstance(topics, list) else []


def as_json(processes: Sequence[Process]) -> str:
    """The description as JSON, for people and tools that want to look before anything starts."""
    return json.dumps(
        [{**process.__dict__, "remappings": [list(pair) for pair in process.remappings]} for process in processes],
        indent=2,
    )
