"""The pages of the nodes are those of the code."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def generator(root: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_node_docs", root / "scripts" / "generate_node_docs.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_page_is_up_to_date(generator: ModuleType, root: Path) -> None:
    found = {page.name: page.read_text(encoding="utf-8") for page in (root / "docs" / "nodes").glob("*.md")}
    assert found == generator.pages(), "run scripts/generate_node_docs.py"


def test_every_executable_has_its_page(generator: ModuleType, root: Path) -> None:
    """A node that nobody documented must fail here."""
    setup = (root / "ros2_ws" / "src" / "rollout_monitor_nodes" / "setup.py").read_text(encoding="utf-8")
    listed = re.search(r"^NODES = \((.*?)\)", setup, re.MULTILINE | re.DOTALL)
    assert listed is not None
    assert {f"{name}.md" for name in re.findall(r'"(\w+)"', listed[1])} | {"README.md"} == set(generator.pages())


def test_the_words_for_quality_of_service_are_those_of_the_profiles(generator: ModuleType) -> None:
    pytest.importorskip("rclpy", reason="needs ROS 2: run through scripts/ros_run")
    from rclpy.qos import DurabilityPolicy, ReliabilityPolicy  # noqa: PLC0415
    from rollout_monitor_nodes.common.qos import PROFILES  # noqa: PLC0415

    for name, words in generator.QOS.items():
        if name == "ADAPT":
            continue
        profile = PROFILES[name]
        assert words.startswith("reliable") == (profile.reliability == ReliabilityPolicy.RELIABLE)
        assert ("latched" in words) == (profile.durability == DurabilityPolicy.TRANSIENT_LOCAL)
        assert str(profile.depth) in words.split()
