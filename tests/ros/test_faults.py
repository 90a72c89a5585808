"""What happens when something goes wrong: wrong parameters, stop signals in mid-episode, a killed prm_node."""

from __future__ import annotations

import json
import resource
import signal
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest
from graph import Graph, Process, Within
from rollout_monitor_nodes.common.cdr import header_stamp_ns
from rollout_monitor_nodes.common.conversions import time_to_msg
from sensor_msgs.msg import Image
from stack import NAMESPACE, PATIENT_PRM, Stack
from synthetic import NS, Rollout

from rollout_monitor.records import EpisodeReport, EpisodeState, EventKind
from rollout_monitor.store.bags import open_bag

WITHIN_S = 3.0
"""A stopped monitor has its report written and told within this."""

WRONG = [
    ("prm_node", {"queue": 2.5}, "parameter 'queue' is 2.5, but must be an integer"),
    ("prm_node", {"model": "recorded", "model_path": "/nowhere.csv"}, "/nowhere.csv"),
    ("prm_node", {"model_path": "/nowhere"}, "/nowhere: not the folder of an embedded model"),
    ("monitor_node", {"events__inputs__model_late_s": 9.0}, "model_lost_s (3.0) must exceed model_late_s (9.0)"),
    ("monitor_node", {"episodes": "/proc/x"}, "parameter 'episodes': /proc/x cannot be written"),
    ("recorder", {"recordings": "/proc/x"}, "parameter 'recordings': /proc/x cannot be written"),
    ("recorder", {"prerol_s": 1.0}, "parameter 'prerol_s' is not one of recorder's; did you mean 'preroll_s'?"),
]


def test_a_wrong_parameter_is_one_line_and_exit_code_2(graph: Graph) -> None:
    """All at once, in processes of their own. An integer for a double is right (rclcpp issue 979)."""
    started = [graph.start(node, name=f"{node}{index}", **given) for index, (node, given, _) in enumerate(WRONG)]
    for process, (node, given, said) in zip(started, WRONG, strict=True):
        assert process.wait(60.0) == 2, f"{node} with {given}:\n{process.text}"
        lines = [line for line in process.text.splitlines() if f"{node}: error:" in line]
        assert len(lines) == 1 and said in lines[0], process.text
        assert "Traceback" not in process.text


def test_an_integer_does_for_a_double(graph: Graph) -> None:
    monitor = graph.start("monitor_node", status_period_s=1, events__settle_s=2, episodes=graph.folder / "e")
    graph.until("the node", lambda: "monitor_node" in graph.node.get_node_names())
    monitor.signal(signal.SIGTERM)
    assert monitor.wait() == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_in_mid_episode_loses_nothing(graph: Graph, endless: Rollout, number: signal.Signals) -> None:
    """A readable recording and a report marked INTERRUPTED (rosbag2 issue 791, rclpy issue 532)."""
    stack = Stack(graph)
    stack.start_all(endless.curve)
    stack.play(endless.folder, rate=1.0)
    graph.until("estimates", lambda: stack.statuses.messages[-1].estimates >= 5)
    within = Within(WITHIN_S)
    for process in stack.nodes.values():
        process.signal(number)
    report = stack.report("endless")
    assert within.kept()
    assert {name: process.wait() for name, process in stack.nodes.items()} == dict.fromkeys(stack.nodes, 0)
    assert not [name for name, process in stack.nodes.items() if "Traceback" in process.text]
    assert report.state is EpisodeState.INTERRUPTED and number.name in report.outcome.reason
    assert report.estimates >= 5
    kept = json.loads((stack.episodes / "endless" / "report.json").read_text())
    assert EpisodeReport.model_validate(kept).state is EpisodeState.INTERRUPTED
    _assert_gapless(stack.recordings / "endless")


def test_a_stop_in_mid_episode_with_the_embedded_model(graph: Graph, endless: Rollout) -> None:
    """SIGTERM while a network runs in prm_node's thread: the same promise."""
    stack = Stack(graph)
    stack.start_all(None)
    stack.play(endless.folder, rate=1.0)
    graph.until("estimates", lambda: stack.statuses.messages[-1].estimates >= 3)
    within = Within(WITHIN_S)
    for process in stack.nodes.values():
        process.signal(signal.SIGTERM)
    report = stack.report("endless")
    assert within.kept()
    assert {name: process.wait() for name, process in stack.nodes.items()} == dict.fromkeys(stack.nodes, 0)
    assert report.state is EpisodeState.INTERRUPTED and report.estimates >= 3
    assert not [name for name, process in stack.nodes.items() if "Traceback" in process.text]


def _assert_gapless(folder: Path) -> None:
    with open_bag(folder) as bag:
        stamps = [header_stamp_ns(m.raw) for m in bag.messages({f"{NAMESPACE}/joint_states"})]
        topics = {topic.name: topic.count for topic in bag.topics}
    assert len(stamps) > 400
    assert {later - earlier for earlier, later in pairwise(stamps)} == {NS // 500}
    assert topics[f"{NAMESPACE}/rollout/episode"] == 1
    assert topics[f"{NAMESPACE}/rollout/reports"] == 1


def test_a_killed_recorder_leaves_a_readable_recording(graph: Graph, endless: Rollout) -> None:
    stack = Stack(graph)
    recorder = stack.start_recorder()
    stack.play(endless.folder, rate=2.0)
    recorder.said("recording episode endless")
    folder = stack.recordings / "endless"
    graph.until("a megabyte", lambda: sum(file.stat().st_size for file in folder.iterdir()) > 500_000)
    recorder.signal(signal.SIGKILL)
    recorder.wait()
    with open_bag(folder) as bag:
        counts = {topic.name: topic.count for topic in bag.topics}
        assert bag.notes
    assert counts[f"{NAMESPACE}/joint_states"] > 400
    assert counts[f"{NAMESPACE}/rollout/episode"] == 1


def test_a_full_disk_ends_the_recording_and_harms_nothing(graph: Graph, endless: Rollout) -> None:
    """A limit on the size of files stands in for it (rosbag2 issue 2477). The report is written all the same."""
    stack = Stack(graph)
    recorder = stack.start_recorder()
    stack.start_monitor(end_wait_s=0.5)
    stack.wait_until_connected()
    stack.play(endless.folder, rate=2.0)
    recorder.said("recording episode endless")
    resource.prlimit(recorder.popen.pid, resource.RLIMIT_FSIZE, (400_000, 400_000))
    recorder.said("[ERROR]")
    assert "safe in endless_0.mcap.active" in recorder.text
    assert recorder.popen.poll() is None
    assert graph.call(f"{NAMESPACE}/rollout/end_episode", "rollout_monitor_msgs/srv/EndEpisode").success
    assert stack.report("endless").state is EpisodeState.ENDED
    with open_bag(stack.recordings / "endless") as bag:
        assert {topic.name: topic.count for topic in bag.topics}[f"{NAMESPACE}/joint_states"] > 200
    recorder.signal(signal.SIGINT)
    assert recorder.wait() == 1
    assert "not recorded to the end" in recorder.text.splitlines()[-1]


def test_the_monitor_goes_on_without_prm_node_and_recovers(graph: Graph, endless: Rollout) -> None:
    """A killed prm_node: MODEL_LOST, the joints are still watched, and all is well when it is back."""
    stack = Stack(graph)
    stack.start_prm(endless.curve)
    limits = {"model_late_s": 0.7, "model_lost_s": 1.5}
    waits = {"quiet_s": 10.0, "end_wait_s": 5.0}  # stamps, not a pause of this machine, say that something is missing
    monitor = stack.start_monitor(**{f"events__inputs__{name}": s for name, s in limits.items()}, **waits)
    stack.wait_until_connected()
    stack.play(endless.folder, rate=1.0)
    graph.until("estimates", lambda: stack.statuses.messages[-1].estimates >= 5)
    _kill(stack.nodes["prm_node"])
    killed_s = stack.status.elapsed_s
    graph.until("the joints", lambda: stack.status.elapsed_s > killed_s + 0.5)
    gap_s = stack.status.elapsed_s - killed_s
    graph.until("MODEL_LOST", lambda: EventKind.MODEL_LOST in _active(stack))
    monitor.said("watching the joint states directly")
    estimates, elapsed = stack.status.estimates, stack.status.elapsed_s
    graph.until("joints go on", lambda: stack.status.elapsed_s > elapsed + 1.0 and stack.status.moving)
    assert stack.status.estimates == estimates and EventKind.JOINTS_LOST not in _active(stack)

    stack.start_prm(endless.curve)
    graph.until("more estimates", lambda: stack.status.estimates >= estimates + 5)
    graph.until("recovery", lambda: not {EventKind.MODEL_LOST, EventKind.MODEL_LATE} & _active(stack))
    answer = graph.call(f"{NAMESPACE}/rollout/end_episode", "rollout_monitor_msgs/srv/EndEpisode")
    assert answer.success, answer.message
    report = stack.report("endless")
    assert report.state is EpisodeState.ENDED
    lost = next(event for event in report.events if event.kind is EventKind.MODEL_LOST)
    assert lost.cleared_ns is not None and lost.cleared_ns > lost.detected_ns
    assert not [event for event in report.events if event.kind is EventKind.JOINTS_LOST]
    assert report.motion is not None and report.motion.duration_s > 0.8 * (report.duration_s - gap_s - 1.0)


def test_a_clock_that_goes_back_interrupts_the_episode(graph: Graph, endless: Rollout) -> None:
    """A bag played again with old stamps: CLOCK_JUMP, a report of what there was, then the second pass anew."""
    stack = Stack(graph)
    stack.start_prm(endless.curve, **PATIENT_PRM)
    stack.start_monitor()
    stack.wait_until_connected()
    first = stack.play(endless.folder, rate=3.0)
    graph.until("six seconds", lambda: stack.statuses.messages[-1].elapsed > 6.0)
    first.signal(signal.SIGINT)
    assert first.wait() == 0
    stack.play(endless.folder, rate=1.0)
    report = stack.report("endless")
    assert report.state is EpisodeState.INTERRUPTED
    assert report.events[-1].kind is EventKind.CLOCK_JUMP
    assert report.estimates >= 20 and report.motion is not None and report.motion.duration_s > 5.0
    graph.until("the second pass", lambda: stack.status.state is EpisodeState.RUNNING and stack.status.estimates >= 3)
    assert stack.status.episode_id == "endless"


DYING = """
from rollout_monitor.prm.protocol import ModelCard, ResetNotes, Style
from rollout_monitor.prm.registry import register
from rollout_monitor_nodes.prm_node import main


class Dying:
    card = ModelCard(name="dying", style=Style.DIRECT, rate_hz=5.0)

    def reset(self, task, goal=None):
        return ResetNotes()

    def observe(self, frames):
        raise SystemExit  # ends the thread without a word


register("dying", Dying)
main()
"""


def test_a_model_that_ends_its_thread_ends_the_node_for_a_respawn(graph: Graph, endless: Rollout) -> None:
    script = graph.folder / "dying.py"
    script.write_text(DYING)
    stack = Stack(graph)
    command = [sys.executable, str(script), "--ros-args", "-p", "model:=dying", "-r", f"__ns:={NAMESPACE}"]
    prm = stack.nodes["prm_node"] = graph.start_command("prm_node", command)
    stack.play(endless.folder, rate=4.0)
    prm.said("the model's thread has died")
    assert prm.wait() == 1


def test_large_best_effort_images_get_through(graph: Graph) -> None:
    """640x480 rgb8 as camera drivers send it: lost without the shared-memory profile. Broken frames in between."""
    curve = graph.folder / "curve.csv"
    curve.write_text("progress\n0.1\n")
    camera = graph.publisher("cam", "sensor_msgs/msg/Image", "SENSOR")
    prm = graph.start("prm_node", model="recorded", model_path=curve, cameras=["front"], camera_topics=["cam"])
    health = graph.listen("rollout/cameras", "rollout_monitor_msgs/msg/CameraHealth", "RECORDS")
    graph.until("prm_node", lambda: camera.get_subscription_count() == 1)
    graph.until("its publisher", lambda: health.subscription.get_publisher_count() == 1)
    message = Image(height=480, width=640, encoding="rgb8", step=1920, data=bytes(640 * 480 * 3))
    sent, sent_s, told, sent_then = 0, 0.0, 0, 0

    def received() -> int:
        """The count; sends on when the node has told of what came, or after a second: then it was lost."""
        nonlocal sent, sent_s, told, sent_then
        if len(health.messages) > told:
            told, sent_then = len(health.messages), sent
        if sent > sent_then + 5 and time.monotonic() < sent_s + 1.0:
            return health.messages[-1].received if health.messages else 0
        sent, sent_s = sent + 1, time.monotonic()
        message.header.stamp = time_to_msg(sent * NS // 10)
        camera.publish(message)
        if sent % 10 == 0:
            camera.publish(Image(height=480, width=640, encoding="foo8", step=1920, data=bytes(10)))
        return health.messages[-1].received if health.messages else 0

    graph.until("forty frames", lambda: received() >= 40)
    assert health.messages[-1].received > 0.5 * sent
    assert health.messages[-1].luminance == 0.0
    assert health.messages[-1].bad > 0  # the broken ones
    assert prm.popen.poll() is None


def _kill(process: Process) -> None:
    process.signal(signal.SIGKILL)
    process.wait()


def _active(stack: Stack) -> set[EventKind]:
    return {event.kind for event in stack.status.active_events}
