"""Everything here needs a ROS 2 environment: run through scripts/ros_run, as `make test` does."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from domains import domain_of_our_own

if TYPE_CHECKING:
    from graph import Graph
    from synthetic import Rollout

sys.path.insert(0, str(Path(__file__).parent))

NEEDED = ("rclpy", "rollout_monitor_msgs", "rollout_monitor_nodes")
MISSING = [name for name in NEEDED if not importlib.util.find_spec(name)]
collect_ignore_glob = ["test_*.py"] if MISSING else []


def pytest_report_header() -> str | None:
    """Say why nothing of this folder runs, where that is so."""
    if MISSING:
        return f"tests/ros is left out: {', '.join(MISSING)} cannot be imported; run it through scripts/ros_run"
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what starts processes of its own."""
    for item in items:
        if {"graph", "stack"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.ros)


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    """An empty graph for one test."""
    yield from open_graph(tmp_path)


@pytest.fixture
def other_graph(tmp_path: Path) -> Iterator[Graph]:
    """A second one, on a domain of its own."""
    folder = tmp_path / "other"
    folder.mkdir()
    yield from open_graph(folder)


@pytest.fixture(scope="session")
def endless(tmp_path_factory: pytest.TempPathFactory) -> Rollout:
    """Two minutes of an attempt that is still running when the recording ends; it is only read."""
    from synthetic import make_rollout  # noqa: PLC0415 - imports messages

    folder = tmp_path_factory.mktemp("bag") / "endless"
    return make_rollout(folder, episode_id="endless", seconds=120.0, camera_hz=10, with_end=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Attach the logs of the started nodes to a failed test."""
    report = yield
    graphs = [value for value in getattr(item, "funcargs", {}).values() if hasattr(value, "logs")]
    if report.failed and graphs:
        report.sections += [("logs of the nodes", one.logs()) for one in graphs]
    return report


def open_graph(folder: Path) -> Iterator[Graph]:
    """A graph that is closed when its fixture ends."""
    from graph import Graph  # noqa: PLC0415 - imports rclpy

    with domain_of_our_own() as domain:
        graph = Graph(folder, domain)
        try:
            yield graph
        finally:
            graph.close()
