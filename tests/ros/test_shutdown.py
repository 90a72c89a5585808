"""Signals: all is kept within three seconds, alone and under `up`; asked twice, faster; at last the deaf are killed."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from pathlib import Path

import pytest
import yaml
from graph import Graph, Process, Within, segments_of
from lifecycle_msgs.msg import Transition
from rollout_monitor_nodes.common import leaving, signals
from rollout_monitor_nodes.common.spin import EXIT_FAILED
from rollout_monitor_nodes.settings import RecorderSettings
from rosbags.highlevel import AnyReader
from stack import NAMESPACE, STACK_NODES, Stack
from synthetic import Rollout

from rollout_monitor.bringup.supervisor import Patience
from rollout_monitor.records import EpisodeState
from rollout_monitor.store.bags import open_bag

WITHIN_S = 3.0
"""From the signal to a report marked INTERRUPTED and a whole recording on the disk."""

UP = [sys.executable, "-m", "rollout_monitor", "up", "--namespace", NAMESPACE]


class Up:
    """The whole stack as `rollout-monitor up` runs it."""

    def __init__(self, graph: Graph, curve: Path, **monitor: float) -> None:
        self.stack = Stack(graph)
        self.stack.episodes = graph.folder / "store"
        self.stack.recordings = self.stack.episodes / "recordings"
        params = graph.folder / "params.yaml"
        nodes = {"prm_node": {"model": "recorded", "model_path": str(curve)}, "monitor_node": monitor}
        nodes["recorder"] = {"stop_wait_s": 60.0}  # for a report that comes
        params.write_text(yaml.safe_dump({f"/**/{name}": {"ros__parameters": given} for name, given in nodes.items()}))
        options = ["--params-file", str(params), "--episodes", str(self.stack.episodes)]
        self.process = graph.start_command("up", [*UP, *options])
        self.stack.nodes = dict.fromkeys(STACK_NODES, self.process)
        self.stack.wait_until_connected()

    def pid(self, node: str) -> int:
        """The newest process of a node."""
        lines = [line for line in self.process.text.splitlines() if f"| {node} started (pid " in line]
        return int(lines[-1].split("(pid ")[1].rstrip(")"))

    def alone(self, node: str) -> bool:
        """All other nodes have ended."""
        started = re.findall(r"\| (\S+) started \(pid ", self.process.text)
        return not any(is_alive(self.pid(other)) for other in set(started) - {node})


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def until_estimates(stack: Stack, count: int = 5) -> None:
    stack.graph.until("estimates", lambda: stack.statuses.messages and stack.statuses.messages[-1].estimates >= count)


def is_kept(stack: Stack) -> bool:
    """Both on the disk: an interrupted report, and the recording as a whole bag."""
    report = stack.episodes / "endless" / "report.json"
    interrupted = report.exists() and json.loads(report.read_bytes())["state"] == "INTERRUPTED"
    return interrupted and (stack.recordings / "endless" / "metadata.yaml").exists()


def count_joints(folder: Path) -> int:
    with AnyReader([folder]) as reader:
        return sum(connection.msgcount for connection in reader.connections if "joint_states" in connection.topic)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_up_keeps_everything_within_three_seconds(graph: Graph, endless: Rollout, number: signal.Signals) -> None:
    """metadata.yaml too (ros2/rosbag2#791), and what is done at shutdown is done (ros2/rclpy#532, ros2/rclpy#1287)."""
    up = Up(graph, endless.curve)
    up.stack.play(endless.folder, rate=1.0)
    until_estimates(up.stack)
    within = Within(WITHIN_S)
    up.process.signal(number)
    graph.until("report and recording", lambda: is_kept(up.stack))
    assert within.kept()
    assert up.process.wait() == 0, up.process.text
    assert "still running" not in up.process.text and "Traceback" not in up.process.text
    assert count_joints(up.stack.recordings / "endless") > 400
    assert number.name in up.process.text
    assert up.stack.report("endless").state is EpisodeState.INTERRUPTED


def test_a_deaf_node_is_killed_in_the_end_and_what_it_had_written_is_kept(graph: Graph, endless: Rollout) -> None:
    """SIGINT, SIGTERM, SIGKILL, as ``ros2 launch`` (SMACC2#640); asked again, without the five seconds in between."""
    up = Up(graph, endless.curve)
    up.stack.play(endless.folder, rate=1.0)
    until_estimates(up.stack, 10)
    recorder = up.pid("recorder")
    os.kill(recorder, signal.SIGSTOP)
    for expected in ("stopping (SIGINT)", "recorder still running: SIGTERM", "recorder still running: SIGKILL"):
        if "SIGTERM" in expected:
            graph.until("the others' end", lambda: is_reported(up.stack) and up.alone("recorder"))
        up.process.signal(signal.SIGINT)
        up.process.said(expected)
    assert up.process.wait() == 1
    assert "recorder did not stop cleanly: it was ended by SIGKILL" in up.process.text
    with open_bag(up.stack.recordings / "endless") as bag:
        assert bag.notes and {topic.name: topic.count for topic in bag.topics}[f"{NAMESPACE}/joint_states"] > 400


def is_reported(stack: Stack) -> bool:
    return (stack.episodes / "endless" / "report.json").exists()


def test_our_nodes_need_less_time_than_launch_and_up_give_them() -> None:
    """SMACC2#640: SIGTERM comes 5 s after SIGINT, SIGKILL 5 s after that."""
    assert Patience().stop == 5.0
    assert RecorderSettings().stop_wait_s + 1.0 < WITHIN_S
    assert Patience().stop > signals.HURRY_S


def test_prm_node_killed_under_up_comes_back(graph: Graph, endless: Rollout) -> None:
    """MODEL_LOST comes and goes, progress flows again; the killed node's shared memory is given back."""
    up = Up(graph, endless.curve, **{"events.inputs.model_late_s": 0.7, "events.inputs.model_lost_s": 1.5})
    stack = up.stack
    stack.play(endless.folder, rate=1.0)
    until_estimates(stack)
    segments = segments_of(up.pid("prm_node"))
    os.kill(up.pid("prm_node"), signal.SIGKILL)
    up.process.said("prm_node was ended by SIGKILL; starting it again")
    graph.until("MODEL_LOST", lambda: "MODEL_LOST" in {event.kind.value for event in stack.status.active_events})
    estimates = stack.status.estimates
    graph.until("more estimates", lambda: stack.status.estimates >= estimates + 5)
    graph.until("recovery", lambda: not any(event.kind.value == "MODEL_LOST" for event in stack.status.active_events))
    assert not any(segment.exists() for segment in segments)
    up.process.signal(signal.SIGINT)
    report = stack.report("endless")
    lost = next(event for event in report.events if event.kind.value == "MODEL_LOST")
    assert lost.cleared_ns is not None and report.estimates >= estimates + 5
    assert up.process.wait() == 0


def test_asked_twice_the_recorder_waits_for_nobody_and_closes_its_bag(graph: Graph, endless: Rollout) -> None:
    """No monitor writes the report it waits for: the second signal ends the wait (ros2/rosbag2#791)."""
    stack = Stack(graph)
    recorder = stack.start_recorder(stop_wait_s=60.0)
    stack.play(endless.folder, rate=2.0)
    recorder.said("recording episode endless")
    folder = stack.recordings / "endless"
    graph.until("a megabyte", lambda: sum(file.stat().st_size for file in folder.iterdir()) > 1_000_000)
    recorder.signal(signal.SIGINT)
    recorder.said("stopping (SIGINT); waiting for the report of episode endless")
    recorder.signal(signal.SIGTERM)
    recorder.said("SIGTERM again: leaving at once")
    assert recorder.wait() == 0, recorder.text
    assert "recording of episode endless closed (stopped twice)" in recorder.text
    assert count_joints(folder) > 400


def test_a_reader_that_hangs_does_not_hold_the_monitor_up(graph: Graph) -> None:
    """It waits for those who have not got the report yet, but not for ever."""
    stack = Stack(graph)
    monitor, watch = stack.start_monitor(), graph.start("watch", namespace=NAMESPACE)
    stack.wait_until_connected()
    graph.until("the viewer", lambda: "watch" in graph.subscribers(f"{NAMESPACE}/rollout/reports"))
    start = (f"{NAMESPACE}/rollout/start_episode", "rollout_monitor_msgs/srv/StartEpisode")
    assert graph.call(*start, task="lift the red cube", episode_id="endless").success
    watch.signal(signal.SIGSTOP)
    try:
        within = Within(WITHIN_S)
        monitor.signal(signal.SIGINT)
        assert monitor.wait() == 0 and within.kept()
    finally:
        watch.signal(signal.SIGCONT)
    assert is_reported(stack)


DEAF = """
import sys
from rclpy.node import Node
from rclpy.task import Future
from rollout_monitor_nodes.common import spin


class Deaf(Node):
    def __init__(self):
        super().__init__("deaf")
        self.exit = Future()

    def begin(self):
        print("begun", flush=True)

    def stop(self, reason):
        print("asked", flush=True)

    def close(self):
        pass


sys.exit(spin.run("deaf", Deaf, []))
"""


def test_who_does_not_finish_leaves_a_second_after_the_second_signal(graph: Graph) -> None:
    """And leaves nothing in shared memory, though no destructor ran."""
    script = graph.folder / "deaf.py"
    script.write_text(DEAF)
    deaf = graph.start_command("deaf", [sys.executable, str(script)])
    graph.until("the node", lambda: "deaf" in graph.node.get_node_names())
    segments = segments_of(deaf.popen.pid)
    deaf.signal(signal.SIGINT)
    deaf.said("asked")
    deaf.signal(signal.SIGINT)
    assert deaf.wait() == signals.EXIT_HURRIED
    assert deaf.text.count("asked") == 2
    assert "leaving without finishing" in deaf.text
    assert not any(segment.exists() for segment in segments)


STUCK = """
import ctypes
from rollout_monitor_nodes import recorder


class Stuck(recorder.Recorder):
    def destroy_node(self):
        ctypes.PyDLL(None).sleep(600)  # in C, holding the interpreter, as a participant that cannot be destroyed


recorder.Recorder = Stuck
recorder.main()
"""


def test_who_hangs_while_it_leaves_is_gone_and_its_recording_is_whole(graph: Graph, endless: Rollout) -> None:
    """eProsima/Fast-DDS#6513: where a destructor spins, no signal but SIGKILL is heard."""
    script = graph.folder / "stuck.py"
    script.write_text(STUCK)
    stack = Stack(graph)
    options = ["-p", f"recordings:={stack.recordings}", "-p", "stop_wait_s:=0.0", "-r", f"__ns:={NAMESPACE}"]
    recorder = graph.start_command("recorder", [sys.executable, str(script), "--ros-args", *options])
    stack.nodes["recorder"] = recorder
    stack.play(endless.folder, rate=2.0)
    recorder.said("recording episode endless")
    recorder.signal(signal.SIGINT)
    assert recorder.wait() == EXIT_FAILED, recorder.text
    assert f"Timeout (0:00:{leaving.LEAVE_S:02.0f})!" in recorder.text and "in destroy_node" in recorder.text
    with open_bag(stack.recordings / "endless") as bag:
        assert not bag.notes and (stack.recordings / "endless" / "metadata.yaml").exists()


def test_a_lifecycle_shutdown_in_mid_episode_keeps_the_report(graph: Graph, endless: Rollout) -> None:
    """What is to be done at shutdown is done, by whichever way it comes (ros2/rclpy#532, py_trees_ros#185)."""
    stack = Stack(graph)
    monitor: Process = stack.start_monitor()
    stack.wait_until_connected()
    stack.play(endless.folder, rate=1.0)
    graph.until("the attempt", lambda: stack.status.episode_id == "endless" and stack.status.elapsed_s > 1.0)
    change = f"{NAMESPACE}/monitor_node/change_state"
    shutdown = Transition(id=Transition.TRANSITION_ACTIVE_SHUTDOWN)
    assert graph.call(change, "lifecycle_msgs/srv/ChangeState", transition=shutdown).success
    report = stack.report("endless")
    assert report.state is EpisodeState.INTERRUPTED and "shutdown was requested" in report.outcome.reason
    assert (stack.episodes / "endless" / "report.json").exists()
    assert monitor.wait() == 0
