"""The files for RViz2 and Foxglove name only what those programs and this project have.

The tables are what the sources of RViz2 define (rviz_common, rviz_default_plugins): class names of the plugin
descriptions, names of the properties that each class makes, the words of its QoS property. RViz takes a name that it
does not know without a word, and uses the default.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

OF_ALL_DISPLAYS = {"Class", "Name", "Enabled", "Value"}
DISPLAYS = {
    "rviz_default_plugins/Grid": {
        *("Reference Frame", "Plane Cell Count", "Normal Cell Count", "Cell Size", "Line Style", "Color", "Alpha"),
        *("Plane", "Offset"),
    },
    "rviz_default_plugins/Image": {"Topic", "Normalize Range", "Min Value", "Max Value", "Median window"},
    "rviz_default_plugins/MarkerArray": {"Topic", "Namespaces"},
    "rviz_default_plugins/RobotModel": {
        *("Description Topic", "Description Source", "Description File", "TF Prefix", "Visual Enabled", "Alpha"),
        *("Collision Enabled", "Mass Properties", "Update Interval", "Links"),
    },
}
QOS = {
    "Depth": set(range(1, 100)),
    "History Policy": {"System Default", "Keep Last", "Keep All"},
    "Reliability Policy": {"System Default", "Reliable", "Best Effort"},
    "Durability Policy": {"System Default", "Transient Local", "Volatile"},
}
PANELS = {"rviz_common/Displays", "rviz_common/Selection", "rviz_common/Time", "rviz_common/Views"}
TOOLS = {f"rviz_default_plugins/{name}" for name in ("Interact", "MoveCamera", "Select", "FocusCamera", "Measure")}
ORBIT = {
    *("Class", "Name", "Value", "Target Frame", "Near Clip Distance", "Invert Z Axis", "Enable Stereo Rendering"),
    *("Distance", "Focal Shape Size", "Focal Shape Fixed Size", "Yaw", "Pitch", "Focal Point"),
}
GLOBAL_OPTIONS = {"Fixed Frame", "Background Color", "Frame Rate"}
FILES = {
    "rollout_monitor.rviz": ["/ur5e"],
    "rollout_monitor_dual.rviz": ["/arx_left", "/arx_right"],
}


@pytest.fixture(params=FILES)
def rviz(request: pytest.FixtureRequest, root: Path) -> tuple[list[str], dict[str, Any]]:
    """Namespaces of a file, and the file."""
    text = (root / "config" / request.param).read_text(encoding="utf-8")
    return FILES[request.param], yaml.safe_load(text)


@pytest.fixture
def interfaces(root: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(sys, "path", [str(root / "ros2_ws" / "src" / "rollout_monitor_nodes"), *sys.path])
    from rollout_monitor_nodes import interfaces  # noqa: PLC0415 - needs the path

    return interfaces


def displays(file: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    found = file["Visualization Manager"]["Displays"]
    return [one for one in found if one["Class"] == f"rviz_default_plugins/{kind}"]


def test_every_class_and_property_exists_in_rviz(rviz: tuple[list[str], dict[str, Any]]) -> None:
    _, file = rviz
    assert {panel["Class"] for panel in file["Panels"]} <= PANELS
    manager = file["Visualization Manager"]
    assert set(manager) <= {"Class", "Displays", "Enabled", "Global Options", "Name", "Tools", "Value", "Views"}
    for display in manager["Displays"]:
        assert set(display) <= OF_ALL_DISPLAYS | DISPLAYS[display["Class"]], display["Name"]
        assert display["Enabled"] is display["Value"] is True
    names = [display["Name"] for display in manager["Displays"]]
    assert len(set(names)) == len(names)
    assert {tool["Class"] for tool in manager["Tools"]} <= TOOLS
    assert set(manager["Views"]["Current"]) <= ORBIT
    assert set(manager["Global Options"]) <= GLOBAL_OPTIONS


def test_every_topic_is_published_and_asked_for_as_it_is_offered(
    rviz: tuple[list[str], dict[str, Any]], interfaces: ModuleType
) -> None:
    namespaces, file = rviz
    topics = {
        "Image": (interfaces.OVERLAY, "Topic", "Best Effort", "Volatile"),
        "MarkerArray": (interfaces.MARKERS, "Topic", "Reliable", "Volatile"),
        "RobotModel": (None, "Description Topic", "Reliable", "Transient Local"),
    }
    for kind, (topic, key, reliability, durability) in topics.items():
        shown = displays(file, kind)
        assert len(shown) == len(namespaces)
        for display, namespace in zip(shown, namespaces, strict=True):
            asked = dict(display[key])
            name = asked.pop("Value")
            assert set(asked) == set(QOS)
            assert all(value in QOS[policy] for policy, value in asked.items())
            assert (asked["Reliability Policy"], asked["Durability Policy"]) == (reliability, durability)
            if topic is not None:
                assert name == f"{namespace}/{topic.name}"
                assert topic in interfaces.OVERLAY_NODE.publishes
            else:
                assert name in (f"{namespace}/robot_description", "/robot_description")


def test_the_single_arms_frame_is_that_of_the_markers(root: Path, interfaces: ModuleType) -> None:
    file = yaml.safe_load((root / "config" / "rollout_monitor.rviz").read_text(encoding="utf-8"))
    default = interfaces.OVERLAY_NODE.settings().markers.frame
    assert file["Visualization Manager"]["Global Options"]["Fixed Frame"] == default


def test_the_window_has_a_place_for_every_picture(rviz: tuple[list[str], dict[str, Any]]) -> None:
    """Qt finds a docked panel by its name; one that its state does not name would float in a window of its own."""
    _, file = rviz
    state = file["Window Geometry"]["QMainWindow State"]
    assert isinstance(state, str)
    raw = bytes.fromhex(state)
    for name in ["Displays", *(display["Name"] for display in displays(file, "Image"))]:
        assert name.encode("utf-16-be") in raw


# --- Foxglove ----------------------------------------------------------------------------------------------------


def leaves(layout: str | dict[str, Any]) -> Iterator[str]:
    """Panels of the layout tree."""
    if isinstance(layout, str):
        yield layout
        return
    assert set(layout) <= {"direction", "first", "second", "splitPercentage"}
    assert layout["direction"] in ("row", "column")
    yield from leaves(layout["first"])
    yield from leaves(layout["second"])


def strings(value: Any) -> Iterator[str]:
    """Every text in a JSON value, keys included."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)
    elif isinstance(value, str):
        yield value


def test_foxgloves_layout_shows_topics_and_fields_that_there_are(root: Path, interfaces: ModuleType) -> None:
    layout = json.loads((root / "config" / "foxglove_layout.json").read_text(encoding="utf-8"))
    panels = layout["configById"]
    assert sorted(leaves(layout["layout"])) == sorted(panels)
    kinds = {"Image", "3D", "Plot", "StateTransitions", "RawMessages", "DiagnosticSummary"}
    assert {name.split("!")[0] for name in panels} == kinds
    published = {topic.name: topic.type for node in interfaces.NODES for topic in node.publishes}
    named = {text for text in strings(panels) if text.startswith("/ur5e/")}
    assert named
    for path in named:
        topic, _, field = path.removeprefix("/ur5e/").partition(".")
        package, _, message = published[topic].split("/")
        if field:
            text = (root / "ros2_ws" / "src" / package / "msg" / f"{message}.msg").read_text(encoding="utf-8")
            assert re.search(rf"^\S+ {field}\b", text, re.MULTILINE), f"{message} has no {field}"
    for panel, config in panels.items():
        for plotted in config.get("paths", []):
            assert plotted["enabled"] is True, f"{panel}: Foxglove draws nothing for a path that does not say so"
