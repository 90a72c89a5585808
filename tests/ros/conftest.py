"""Everything here needs a ROS 2 environment: run through scripts/ros_run, as `make test` does."""

from __future__ import annotations

import importlib.util
import itertools
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from graph import Graph

sys.path.insert(0, str(Path(__file__).parent))

NEEDED = ("rclpy", "rollout_monitor_msgs", "rollout_monitor_nodes")
MISSING = [name for name in NEEDED if not importlib.util.find_spec(name)]
collect_ignore_glob = ["test_*.py"] if MISSING else []

FIRST_DOMAIN, DOMAINS = 60, 40
_counter = itertools.count()


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


def next_domain() -> int:
    """A domain that no other test of this run uses, and hardly another run on this machine."""
    return FIRST_DOMAIN + (os.getpid() * 7 + next(_counter)) % DOMAINS


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    """An empty graph for one test."""
    yield from open_graph(tmp_path)


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

    graph = Graph(folder, next_domain())
    try:
        yield graph
    finally:
        graph.close()
