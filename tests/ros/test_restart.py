"""A monitor that is killed or started again: no attempt is lost, and none that is over begins anew."""

from __future__ import annotations

import json
import math
import signal
from pathlib import Path
from typing import Any

import pytest
from graph import Graph, Process
from rollout_monitor_nodes.common.conversions import marker_to_msg, progress_to_msg, time_to_msg
from rollout_monitor_nodes.unfinished import Unfinished, UnfinishedFile
from stack import NAMESPACE, Stack
from synthetic import NS, START_NS, TASK

from rollout_monitor.records import (
    Boundary,
    EpisodeMarker,
    EpisodeState,
    EstimateStatus,
    EventKind,
    Label,
    Outcome,
    ProgressEstimate,
)

START, END = f"{NAMESPACE}/rollout/start_episode", f"{NAMESPACE}/rollout/end_episode"
SRV = "rollout_monitor_msgs/srv"


def marker(boundary: Boundary, stamp_ns: int, name: str = "take", **fields: Any) -> EpisodeMarker:
    return EpisodeMarker(boundary=boundary, stamp_ns=stamp_ns, episode_id=name, task=TASK, **fields)


class Streams:
    """Estimates of the test's own: all that a monitor needs to know the streams' time and to go on.

    They come while the test waits for anything, and their progress goes to and fro, far enough that it never stands and
    not so far that something is lost: whatever the time that the streams show meanwhile, nothing happens in them.
    """

    def __init__(self, graph: Graph) -> None:
        self.stamp_ns = START_NS
        self._publisher = graph.publisher(
            f"{NAMESPACE}/rollout/progress", "rollout_monitor_msgs/msg/Progress", "RECORDS"
        )
        graph.meanwhile = self.advance

    def advance(self) -> None:
        """Go on by a little."""
        self.stamp_ns += NS // 50
        progress = 0.5 + 0.05 * math.sin(math.pi * (self.stamp_ns - START_NS) / NS)
        estimate = ProgressEstimate(
            stamp_ns=self.stamp_ns, episode_id="take", status=EstimateStatus.OK, progress=progress, model="test"
        )
        self._publisher.publish(progress_to_msg(estimate, "front"))


def unfinished_file(stack: Stack) -> Path:
    return stack.episodes / ".unfinished.ur5e.monitor_node.json"


def end_by(process: Process, number: signal.Signals) -> None:
    process.signal(number)
    process.wait()


def test_a_killed_monitor_takes_its_attempt_up_again(graph: Graph) -> None:
    """The START was its own service's: nobody else could tell it."""
    stack, streams = Stack(graph), Streams(graph)
    waits = {"end_wait_s": 0.5, "quiet_s": 10.0}  # a stamp, not a pause of this machine, says that something is missing
    monitor = stack.start_monitor(**waits)
    graph.until("a status", lambda: stack.statuses.messages)
    graph.until("answers", graph.answers_of(START))  # first, for the streams go on and leave a stamp behind
    begin_ns = streams.stamp_ns
    begin = time_to_msg(begin_ns)
    assert graph.call(START, f"{SRV}/StartEpisode", task=TASK, episode_id="take", stamp=begin).success
    graph.until("the attempt", lambda: stack.status.episode_id == "take" and stack.status.elapsed_s > 1.0)
    end_by(monitor, signal.SIGKILL)
    assert unfinished_file(stack).exists()

    again, before = stack.start_monitor(**waits), streams.stamp_ns
    graph.until("the attempt again", lambda: "episode take is taken up again" in again.text)
    graph.until("estimates", lambda: stack.status.stamp_ns > before and stack.status.estimates > 5)
    graph.until("answers", graph.answers_of(END))
    assert graph.call(END, f"{SRV}/EndEpisode", stamp=time_to_msg(streams.stamp_ns)).success
    report = stack.report("take")
    assert (report.state, report.start_ns) == (EpisodeState.ENDED, begin_ns)
    assert report.end_ns > before
    happened = [event.kind for event in report.events]
    assert happened == [EventKind.FAILURE], "nothing that was missing before the kill is blamed on the robot"
    assert [note for note in report.notes if "killed" in note and "figures from before that are missing" in note]
    graph.until("nothing left", lambda: not unfinished_file(stack).exists())


@pytest.mark.parametrize("ended", [False, True])
def test_an_attempt_that_was_over_when_the_monitor_came_back_is_reported(graph: Graph, ended: bool) -> None:
    stack = Stack(graph)
    Streams(graph)
    stack.episodes.mkdir()
    start = marker(Boundary.START, START_NS - 3600 * NS)
    end = marker(Boundary.END, START_NS - 3500 * NS, label=Label.SUCCESS) if ended else None
    unfinished_file(stack).write_text(Unfinished(start=start, end=end).model_dump_json())
    stack.start_monitor(end_wait_s=0.5)
    graph.until("its report", lambda: stack.reports.messages)
    report = stack.report("take")
    expected = (EpisodeState.ENDED, Outcome.SUCCESS) if ended else (EpisodeState.INTERRUPTED, Outcome.UNDECIDED)
    assert (report.state, report.outcome.outcome, report.start_ns) == (*expected, start.stamp_ns)
    assert [note for note in report.notes if "killed" in note]
    graph.until("a status", lambda: stack.statuses.messages)
    assert stack.status.state is EpisodeState.IDLE
    graph.until("nothing left", lambda: not unfinished_file(stack).exists())


def test_an_attempt_that_is_over_does_not_begin_anew(graph: Graph) -> None:
    """Its publisher was never told and still says START to whoever comes."""
    stack, streams = Stack(graph), Streams(graph)
    robot = graph.publisher(f"{NAMESPACE}/rollout/episode", "rollout_monitor_msgs/msg/Episode", "MARKERS")
    monitor = stack.start_monitor(end_wait_s=0.5)
    graph.until("both listeners", lambda: robot.get_subscription_count() == 2 and stack.statuses.messages)
    robot.publish(marker_to_msg(marker(Boundary.START, streams.stamp_ns)))
    graph.until("the attempt", lambda: stack.status.episode_id == "take")
    end_by(monitor, signal.SIGINT)
    assert json.loads((stack.episodes / "take" / "report.json").read_text())["state"] == "INTERRUPTED"

    monitor, recorder = stack.start_monitor(end_wait_s=0.5), stack.start_recorder()
    curve = graph.folder / "curve.csv"
    curve.write_text("progress\n0.1\n")
    prm = stack.start_prm(curve, episodes=stack.episodes)
    for node in (monitor, recorder, prm):
        node.said("START of episode take ignored")
    assert not (stack.recordings / "take").exists()
    robot.publish(marker_to_msg(marker(Boundary.START, streams.stamp_ns, "next")))
    graph.until("the next attempt", lambda: stack.status.episode_id == "next")
    recorder.said("recording episode next")
    prm.said("episode next: start")
    assert "episode take: start" not in monitor.text + prm.text


def test_what_is_written_of_a_later_attempt_stays(tmp_path: Path) -> None:
    troubles: list[str] = []
    file = UnfinishedFile.of_node(tmp_path, "/ur5e/monitor_node", troubles.append)
    assert file.read() is None and not troubles
    later = Unfinished(start=marker(Boundary.START, 2 * NS))
    file.write(later)
    file.clear("take", NS)
    assert file.read() == later
    file.clear("take", 2 * NS)
    assert not list(tmp_path.iterdir())
    file.path.write_text("{")
    assert file.read() is None and "cannot be read" in troubles[0]
    UnfinishedFile.of_node(tmp_path / "gone", "/monitor_node", troubles.append).write(later)
    assert "would be lost" in troubles[1]
