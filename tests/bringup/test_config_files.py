"""config/ says exactly what the nodes take, and what it shows as defaults are the defaults."""

from __future__ import annotations

import itertools
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from rollout_monitor.bringup.parameters import load_settings, read_parameters, read_yaml


@pytest.fixture
def writer(load_script: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(sys, "path", list(sys.path))
    return load_script("scripts/write_config.py")


def test_the_parameter_file_is_what_the_settings_say(root: Path, writer: ModuleType) -> None:
    assert (root / "config" / "monitor.yaml").read_text(encoding="utf-8") == writer.text(), "run 'make config'"


def test_every_parameter_is_there_with_its_default_and_none_besides(root: Path, writer: ModuleType) -> None:
    sections = {section.pattern: section.values for section in read_parameters(root / "config" / "monitor.yaml")}
    nodes = (writer.PRM_NODE, writer.MONITOR_NODE, writer.RECORDER, writer.OVERLAY_NODE)
    assert sections == {f"/**/{n.name}": {s.name: s.default for s in writer.specs(n.settings)} for n in nodes}


def test_the_shown_values_are_the_engines_defaults(root: Path) -> None:
    assert load_settings(root / "config" / "monitor.yaml") == load_settings()


def test_every_parameter_is_explained_above_it(root: Path) -> None:
    lines = (root / "config" / "monitor.yaml").read_text(encoding="utf-8").splitlines()
    silent = [
        line
        for above, line in itertools.pairwise(lines)
        if ": " in line and not line.strip().startswith("#") and not above.strip().startswith("#")
    ]
    assert silent == []


def test_the_stack_file_names_executables_that_are_built(root: Path) -> None:
    setup = (root / "ros2_ws" / "src" / "rollout_monitor_nodes" / "setup.py").read_text(encoding="utf-8")
    for name, entry in read_yaml(root / "config" / "stack.yaml")["nodes"].items():
        assert f'"{entry["executable"]}"' in setup
        assert name == entry["executable"]


def test_images_fit_into_shared_memory(root: Path) -> None:
    """A 1920x1080 rgb8 image must fit into one message, and several into the segment."""
    space = {"f": "http://www.eprosima.com"}
    profiles = ET.parse(root / "config" / "fastdds_shm.xml").getroot()  # noqa: S314 - a file of this repository
    shm, udp = profiles.findall(".//f:transport_descriptor", space)
    assert shm.findtext("f:type", namespaces=space) == "SHM"
    assert udp.findtext("f:type", namespaces=space) == "UDPv4"
    image = 1920 * 1080 * 3
    assert int(shm.findtext("f:maxMessageSize", namespaces=space)) > image
    assert int(shm.findtext("f:segment_size", namespaces=space)) > 5 * image
    used = [entry.text for entry in profiles.findall(".//f:userTransports/f:transport_id", space)]
    assert used == [d.findtext("f:transport_id", namespaces=space) for d in (shm, udp)]
