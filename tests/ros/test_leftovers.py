"""What nodes leave in shared memory: nothing when they end by themselves, and what a kill leaves is removed."""

from __future__ import annotations

import signal
from contextlib import suppress
from pathlib import Path

import pytest
from graph import Graph, Process, segments_of

from rollout_monitor.bringup import shared_memory


def start_with_segments(graph: Graph, node: str) -> tuple[Process, list[Path]]:
    process = graph.start(node, recordings=graph.folder / "r", episodes=graph.folder / "e")
    graph.until(f"{node} on the graph", lambda: node in graph.node.get_node_names())
    segments = segments_of(process.popen.pid)
    if not segments:
        pytest.skip("this middleware keeps no segments in /dev/shm here")
    return process, segments


def test_a_killed_nodes_segment_is_removed_and_a_living_ones_is_not(graph: Graph) -> None:
    """64 MB each: they filled the memory of machines on which nodes were killed for days."""
    killed, left = start_with_segments(graph, "recorder")
    living, kept = start_with_segments(graph, "monitor_node")
    killed.signal(signal.SIGKILL)
    killed.wait()
    assert all(segment.exists() for segment in left), "otherwise nothing needs to be removed"

    def swept() -> bool:
        """A sweep leaves what has just been made, and may find another's: it is repeated until these are gone."""
        shared_memory.remove_dead()
        return not any(segment.exists() for segment in left)

    graph.until("the sweep", swept)
    assert all(segment.exists() for segment in kept)
    assert living.popen.poll() is None and "monitor_node" in graph.node.get_node_names()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_node_that_ends_by_itself_leaves_none(graph: Graph, number: signal.Signals) -> None:
    process, segments = start_with_segments(graph, "recorder")
    process.signal(number)
    assert process.wait() == 0
    assert not any(segment.exists() for segment in segments)


def test_a_node_with_a_wrong_parameter_leaves_none(graph: Graph) -> None:
    process = graph.start("recorder", recordings="/proc/x")
    seen: set[Path] = set()

    def ended() -> bool:
        with suppress(OSError):
            seen.update(segments_of(process.popen.pid))
        return process.popen.poll() is not None

    graph.until("its end", ended)
    assert process.wait() == 2
    assert not [segment for segment in seen if segment.exists()]
