"""Bad input to real nodes: model files, parameters, topic types. One clear line each, and nothing else suffers."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path

import pytest
import yaml
from graph import Graph, Process
from shape_msgs.msg import Plane
from stack import NAMESPACE, Stack
from synthetic import Rollout, make_rollout

from rollout_monitor.store.bags import open_bag


def truncate(folder: Path) -> Path:
    with (folder / "backbone.onnx").open("r+b") as file:
        file.truncate(10_000)
    return folder


def remove(folder: Path) -> Path:
    (folder / "head.onnx").unlink()
    return folder


def garble(folder: Path) -> Path:
    (folder / "model.json").write_text('{"name": "embed')
    return folder


def leave_nothing(folder: Path) -> Path:
    shutil.rmtree(folder)
    return folder


MODEL_FILES = [
    (truncate, "backbone.onnx is damaged"),
    (remove, "head.onnx is missing"),
    (garble, "model.json cannot be read"),
    (leave_nothing, "not the folder of an embedded model"),
]

PARAMETERS = [
    ("prm_node", {"model": "embeded"}, "unknown progress model 'embeded'; known models: embedded, recorded"),
    ("prm_node", {"queue": "many"}, "parameter 'queue' is 'many', but must be an integer with value >= 1"),
    ("prm_node", {"queue": 0}, "parameter 'queue' is 0, but must be an integer with value >= 1 and <= 1000"),
    ("monitor_node", {"quiet_s": 0}, "parameter 'quiet_s' is 0, but must be a double with value > 0"),
    ("monitor_node", {"quiet_s": True}, "parameter 'quiet_s' is true, but must be a double"),
    ("monitor_node", {"quite_s": 1.0}, "parameter 'quite_s' is not one of monitor_node's; did you mean 'quiet_s'?"),
    ("recorder", {"compression": "zip"}, "parameter 'compression' is 'zip', but must be a string of zstd, lz4, none"),
    ("recorder", {"cameras": "front"}, "parameter 'cameras' is 'front', but must be a string array"),
]


def start_with_file(graph: Graph, node: str, given: dict[str, object], number: int = 0) -> Process:
    """A node with a parameter file, as a user writes it."""
    file = graph.folder / f"{node}{number}.yaml"
    file.write_text(yaml.safe_dump({"/**": {"ros__parameters": given}}))
    command = [sys.executable, "-m", f"rollout_monitor_nodes.{node}", "--ros-args", "--params-file", str(file)]
    return graph.start_command(f"{node}{number}", command)


def assert_refused(process: Process, node: str, said: str) -> None:
    assert process.wait(60.0) == 2, process.text
    lines = [line for line in process.text.splitlines() if f"{node}: error:" in line]
    assert len(lines) == 1 and said in lines[0], process.text
    assert "Traceback" not in process.text


def test_a_missing_or_damaged_model_file_is_named(graph: Graph, root: Path) -> None:
    """All at once, in processes of their own."""
    started = []
    for number, (spoil, _) in enumerate(MODEL_FILES):
        folder = shutil.copytree(root / "models" / "embedded", graph.folder / f"model{number}")
        started.append(graph.start("prm_node", name=f"prm{number}", model_path=spoil(folder)))
    for process, (_, said) in zip(started, MODEL_FILES, strict=True):
        assert_refused(process, "prm_node", said)


def test_a_wrong_parameter_in_a_file_is_named_with_its_range(graph: Graph) -> None:
    started = [start_with_file(graph, node, given, number) for number, (node, given, _) in enumerate(PARAMETERS)]
    for process, (node, _, said) in zip(started, PARAMETERS, strict=True):
        assert_refused(process, node, said)


def test_an_integer_in_a_file_does_for_a_double(graph: Graph) -> None:
    """And a text for neither (ros2/rclcpp#979, ros2_controllers#136, ros2_control_demos PR 600)."""
    given = {"quiet_s": 1, "events": {"settle_s": 2}, "episodes": str(graph.folder / "episodes")}
    monitor = start_with_file(graph, "monitor_node", given)
    graph.until("the node", lambda: "monitor_node" in graph.node.get_node_names())
    client = "rcl_interfaces/srv/GetParameters"
    answer = graph.call("/monitor_node/get_parameters", client, names=["quiet_s", "events.settle_s"])
    assert [value.double_value for value in answer.values] == [1.0, 2.0]
    monitor.signal(signal.SIGINT)
    assert monitor.wait() == 0
    assert_refused(start_with_file(graph, "monitor_node", {"quiet_s": "1"}, 1), "monitor_node", "'quiet_s' is '1'")


# --- topic types --------------------------------------------------------------------------------------------------

HIDDEN = "raise ImportError('not installed on this machine')\n"
UNDEFINED = """
from rollout_monitor.errors import InputError
from rollout_monitor_nodes import recorder

given = recorder.schema_text_from_share


def without_plane(type_name, prefixes):
    if type_name == "shape_msgs/msg/Plane":
        raise InputError("no definition of shape_msgs/msg/Plane")
    return given(type_name, prefixes)


recorder.schema_text_from_share = without_plane
recorder.main()
"""


@pytest.fixture(scope="module")
def rollout(tmp_path_factory: pytest.TempPathFactory) -> Rollout:
    return make_rollout(tmp_path_factory.mktemp("bag") / "odd", episode_id="odd", seconds=2.0, camera_hz=10)


def record_beside_an_odd_topic(graph: Graph, rollout: Rollout, recorder: Process, complaint: str) -> set[str]:
    """Play an attempt while a message of the odd type is published again and again; return the recorded topics."""
    stack = Stack(graph)
    stack.nodes["recorder"] = recorder
    odd = graph.publisher(f"{NAMESPACE}/odd", "shape_msgs/msg/Plane", "REPLAY")
    player = stack.play(rollout.folder)

    def ended() -> bool:
        odd.publish(Plane())
        return player.popen.poll() is not None

    graph.until("the end of the attempt", ended, 60.0)
    recorder.said(complaint)
    assert recorder.text.count(complaint) == 1
    recorder.signal(signal.SIGINT)
    assert recorder.wait() == 0, recorder.text
    with open_bag(stack.recordings / "odd") as bag:
        assert not bag.notes
        counts = {topic.name: topic.count for topic in bag.topics}
    assert counts[f"{NAMESPACE}/joint_states"] > 500
    return set(counts)


def test_a_topic_of_an_unknown_type_is_named_and_the_rest_is_recorded(
    graph: Graph, rollout: Rollout, monkeypatch: pytest.MonkeyPatch
) -> None:
    shadow = graph.folder / "shadow" / "shape_msgs"
    shadow.mkdir(parents=True)
    (shadow / "__init__.py").write_text(HIDDEN)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(shadow.parent), os.environ.get("PYTHONPATH", "")]))
    recorder = Stack(graph).start_recorder(also=["odd"])
    monkeypatch.undo()
    complaint = "test_probe publishes shape_msgs/msg/Plane, expected a type that is installed here"
    assert f"{NAMESPACE}/odd" not in record_beside_an_odd_topic(graph, rollout, recorder, complaint)


def test_a_type_without_a_definition_costs_its_own_topic_only(graph: Graph, rollout: Rollout) -> None:
    script = graph.folder / "undefined.py"
    script.write_text(UNDEFINED)
    options = ["-p", "also:=[odd]", "-p", f"recordings:={graph.folder}/recordings", "-r", f"__ns:={NAMESPACE}"]
    recorder = graph.start_command("recorder", [sys.executable, str(script), "--ros-args", *options])
    complaint = f"{NAMESPACE}/odd is not recorded: no definition of shape_msgs/msg/Plane"
    assert f"{NAMESPACE}/odd" not in record_beside_an_odd_topic(graph, rollout, recorder, complaint)
