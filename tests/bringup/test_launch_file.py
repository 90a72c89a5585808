"""The launch file builds what `describe` says. `launch` is not on the wheels, so small stand-ins record what it builds.

The stand-ins take exactly the arguments that the real classes take, and refuse others.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from rollout_monitor.bringup.stack import Options, describe
from rollout_monitor.cli.up import up
from rollout_monitor.errors import InputError


@dataclass
class LaunchContext:
    launch_configurations: dict[str, str] = field(default_factory=dict)


@dataclass
class LaunchDescription:
    entities: list[Any]


@dataclass
class DeclareLaunchArgument:
    name: str
    default_value: str | None = None
    description: str | None = None


@dataclass
class OpaqueFunction:
    function: Any


@dataclass
class Shutdown:
    reason: str


@dataclass
class LaunchConfiguration:
    variable_name: str

    def perform(self, context: LaunchContext) -> str:
        return context.launch_configurations[self.variable_name]


@dataclass
class ParameterValue:
    value: Any
    value_type: type


@dataclass
class Node:
    package: str
    executable: str
    name: str
    namespace: str
    parameters: list[dict[str, Any]]
    remappings: list[tuple[str, str]]
    arguments: list[str]
    output: str
    emulate_tty: bool
    respawn: bool
    respawn_delay: float
    respawn_max_retries: int
    on_exit: Shutdown | None


STAND_INS = {
    "launch": [LaunchContext, LaunchDescription],
    "launch.actions": [DeclareLaunchArgument, OpaqueFunction, Shutdown],
    "launch.substitutions": [LaunchConfiguration],
    "launch_ros": [],
    "launch_ros.actions": [Node],
    "launch_ros.parameter_descriptions": [ParameterValue],
}


@pytest.fixture
def launch_file(load_script: Callable[[str], ModuleType], prefix: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    for name, classes in STAND_INS.items():
        module = ModuleType(name)
        module.__dict__.update({entry.__name__: entry for entry in classes})
        monkeypatch.setitem(sys.modules, name, module)
    return load_script("launch/monitor.launch.py")


def started(launch_file: ModuleType, **given: str) -> list[Node]:
    """What the launch file starts for these arguments."""
    entities = launch_file.generate_launch_description().entities
    declared = {entry.name: entry.default_value for entry in entities if isinstance(entry, DeclareLaunchArgument)}
    assert set(given) <= set(declared)
    (function,) = [entry.function for entry in entities if isinstance(entry, OpaqueFunction)]
    return function(LaunchContext({**declared, **given}))


def test_launch_starts_what_the_description_says(launch_file: ModuleType) -> None:
    options = Options(
        namespace="/ur5e",
        cameras={"front": "/cam", "wrist": "/w"},
        joint_states="/joint_states",
        model="recorded",
        episodes="/data/1",
        use_sim_time=True,
        log_level="debug",
    )
    nodes = started(
        launch_file,
        namespace="/ur5e",
        cameras="front=/cam,wrist=/w",
        joint_states="/joint_states",
        model="recorded",
        episodes="/data/1",
        use_sim_time="true",
        log_level="debug",
    )
    processes = describe(options)
    assert len(nodes) == len(processes) == 4
    for node, process in zip(nodes, processes, strict=True):
        (parameters,) = node.parameters
        plain = {k: v.value if isinstance(v, ParameterValue) else v for k, v in parameters.items()}
        assert plain == {name: value for name, value in process.parameters.items() if value != []}
        assert (node.package, node.executable, node.name) == (process.package, process.executable, process.name)
        assert f"{node.namespace}/{node.name}" == process.node
        assert tuple(node.remappings) == process.remappings
        assert node.arguments == ["--ros-args", "--log-level", "debug"]
        assert node.respawn is process.respawn


def test_texts_stay_texts(launch_file: ModuleType) -> None:
    (parameters,) = started(launch_file, episodes="7")[1].parameters
    assert parameters["episodes"] == ParameterValue("7", str)


def test_defaults_are_those_of_the_command_line(launch_file: ModuleType) -> None:
    assert [node.name for node in started(launch_file)] == [process.name for process in describe(Options())]
    assert [node.name for node in started(launch_file, record="false")] == ["prm_node", "monitor_node", "overlay_node"]


def test_the_root_namespace_is_a_slash(launch_file: ModuleType) -> None:
    assert {node.namespace for node in started(launch_file)} == {"/"}


def test_a_required_node_without_restart_shuts_everything_down(launch_file: ModuleType, tmp_path: Path) -> None:
    stack = tmp_path / "stack.yaml"
    stack.write_text(
        "nodes: {prm_node: {package: p, executable: e, required: true, respawn: false}}\n", encoding="utf-8"
    )
    (node,) = started(launch_file, stack=str(stack))
    assert node.on_exit == Shutdown("prm_node is required")


def test_wrong_arguments_are_refused(launch_file: ModuleType) -> None:
    with pytest.raises(InputError, match="namespace"):
        started(launch_file, namespace="a b")
    with pytest.raises(ValueError, match="use_sim_time:=yes: expected true or false"):
        started(launch_file, use_sim_time="yes")


def test_both_ways_to_start_offer_the_same(launch_file: ModuleType) -> None:
    launch_names = {name for name, _, _ in launch_file.ARGUMENTS}
    command_names = set(inspect.signature(up).parameters) - {"dry_run"}
    assert launch_names == (command_names - {"camera"}) | {"cameras"}
    assert launch_names == set(Options.__dataclass_fields__)
