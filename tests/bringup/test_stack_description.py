"""The one description of what runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from rollout_monitor.bringup.stack import (
    Options,
    as_json,
    checked_namespace,
    describe,
    find_executable,
    parse_cameras,
)
from rollout_monitor.errors import InputError

pytestmark = pytest.mark.usefixtures("prefix")


def by_name(options: Options) -> dict:
    return {process.name: process for process in describe(options)}


def test_the_default_stack_is_the_installed_one_in_its_order(prefix: Path) -> None:
    processes = describe(Options())
    assert [process.node for process in processes] == ["/prm_node", "/monitor_node", "/recorder", "/overlay_node"]
    assert [process.required for process in processes] == [True, True, False, False]
    assert find_executable(processes[0]) == prefix / "lib" / "rollout_monitor_nodes" / "prm_node"


def test_namespace_reaches_every_node() -> None:
    assert [process.node for process in describe(Options(namespace="lab/ur5e/"))] == [
        "/lab/ur5e/prm_node",
        "/lab/ur5e/monitor_node",
        "/lab/ur5e/recorder",
        "/lab/ur5e/overlay_node",
    ]


def test_options_reach_the_nodes_that_they_concern() -> None:
    cameras = parse_cameras(["front=/cam/image_raw", "wrist=/w/image_raw"])
    nodes = by_name(Options(cameras=cameras, model="recorded", episodes="/data/kept", use_sim_time=True))
    for name in ("prm_node", "recorder"):
        assert nodes[name].parameters["cameras"] == ["front", "wrist"]
        assert nodes[name].parameters["camera_topics"] == ["/cam/image_raw", "/w/image_raw"]
    for name in ("monitor_node", "overlay_node"):
        assert nodes[name].parameters["camera"] == "front"
        assert nodes[name].parameters["camera_topic"] == "/cam/image_raw"
    assert nodes["prm_node"].parameters["model"] == "recorded"
    assert "model" not in nodes["recorder"].parameters
    assert {nodes[name].parameters["episodes"] for name in ("monitor_node", "recorder")} == {"/data/kept"}
    assert {nodes[name].parameters["recordings"] for name in ("monitor_node", "recorder")} == {"/data/kept/recordings"}
    assert all(process.parameters["use_sim_time"] is True for process in nodes.values())


def test_joint_states_are_remapped_and_the_recorder_can_be_left_out() -> None:
    nodes = by_name(Options(joint_states="/joint_states", record=False))
    assert set(nodes) == {"prm_node", "monitor_node", "overlay_node"}
    assert nodes["prm_node"].remappings == (("joint_states", "/joint_states"),)


def test_a_second_file_wins_over_the_first_and_an_option_over_both(tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text("/**/prm_node:\n  ros__parameters: {queue: 9, model: from_file}\n", encoding="utf-8")
    assert by_name(Options(params_file=mine))["prm_node"].parameters["queue"] == 9
    assert by_name(Options(params_file=mine))["prm_node"].parameters["model"] == "from_file"
    assert by_name(Options(params_file=mine, model="embedded"))["prm_node"].parameters["model"] == "embedded"


def test_command_line_and_parameter_file_carry_the_description() -> None:
    process = by_name(Options(namespace="/ur5e", joint_states="/js", log_level="debug"))["prm_node"]
    assert process.ros_arguments(Path("f.yaml")) == [
        "--ros-args", "-r", "__node:=prm_node", "-r", "__ns:=/ur5e", "-r", "joint_states:=/js",
        "--params-file", "f.yaml", "--log-level", "debug",
    ]  # fmt: skip
    assert yaml.safe_load(process.parameter_file_text()) == {"/**": {"ros__parameters": process.parameters}}


def test_the_description_can_be_printed() -> None:
    printed = json.loads(as_json(describe(Options(namespace="/ur5e"))))
    assert [entry["name"] for entry in printed] == ["prm_node", "monitor_node", "recorder", "overlay_node"]
    assert printed[0]["namespace"] == "/ur5e"


@pytest.mark.parametrize(("text", "expected"), [("", ""), ("/", ""), ("ur5e", "/ur5e"), ("/a/b_2/", "/a/b_2")])
def test_namespaces_are_written_one_way(text: str, expected: str) -> None:
    assert checked_namespace(text) == expected


@pytest.mark.parametrize("text", ["a b", "2arms", "a-b", "/a//b", "a;reboot", "ü"])
def test_what_is_no_namespace_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="namespace"):
        checked_namespace(text)


@pytest.mark.parametrize("texts", [["front"], ["=/topic"], ["front="], ["a b=/t"], ["front=/a", "front=/b"]])
def test_what_is_no_camera_is_refused(texts: list[str]) -> None:
    with pytest.raises(InputError, match="camera"):
        parse_cameras(texts)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("nodes: {}\n", "'nodes'"),
        ("nodes:\n  a: {package: p}\n", "'nodes.a.executable': Field required"),
        ("nodes:\n  a: {package: p, executable: e, respwan: true}\n", "'nodes.a.respwan': Extra inputs"),
        ("nodes:\n  'a b': {package: p, executable: e}\n", "'a b' cannot be a node's name"),
        ("nodes:\n  a: {package: ../p, executable: e}\n", "'nodes.a.package'"),
        ("[]\n", "the file"),
    ],
)
def test_a_wrong_stack_file_is_one_line_that_names_it(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "stack.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as raised:
        describe(Options(stack=path))
    assert str(path) in str(raised.value)
    assert complaint in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("/**/monitor_node:\n  ros__parameters: {camera: wrist}\n", "prm_node's primary camera is front"),
        ("/**/overlay_node:\n  ros__parameters: {camera: wrist}\n", "overlay_node's 'camera' and"),
        ("/**/recorder:\n  ros__parameters: {cameras: [wrist], camera_topics: [wrist/image_raw]}\n", "watches front"),
        ("/**/recorder:\n  ros__parameters: {recordings: elsewhere}\n", "'recordings' is elsewhere"),
        ("/**/monitor_node:\n  ros__parameters: {episodes: elsewhere}\n", "recorder's 'episodes' is episodes"),
        ("/**/monitor_node:\n  ros__parameters: {events.settle_s: -1.0}\n", "'events.settle_s'"),
        ("/prm_node:\n  ros__parameters: {queue: 1}\n", "does not match the node /ur5e/prm_node"),
    ],
)
def test_parameters_that_contradict_each_other_stop_the_start(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as raised:
        describe(Options(params_file=path, namespace="/ur5e"))
    assert str(path) in str(raised.value)
    assert complaint in str(raised.value)


def test_an_unknown_log_level_is_refused() -> None:
    with pytest.raises(InputError, match="log level 'loud'"):
        describe(Options(log_level="loud"))


def test_without_a_workspace_the_way_to_one_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AMENT_PREFIX_PATH")
    with pytest.raises(InputError, match="make setup"):
        describe(Options())
