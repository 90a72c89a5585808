"""Services, the life cycle of a managed node, and starting late."""

from __future__ import annotations

import json
from pathlib import Path

from graph import Graph
from rollout_monitor_msgs.msg import CameraHealth
from rollout_monitor_msgs.srv import EndEpisode, StartEpisode
from rollout_monitor_nodes.common.conversions import marker_to_msg, time_from_msg, time_to_msg
from stack import NAMESPACE, Stack
from synthetic import NS, TASK

from rollout_monitor.records import Boundary, EpisodeMarker, EpisodeState, Outcome

START, END = f"{NAMESPACE}/rollout/start_episode", f"{NAMESPACE}/rollout/end_episode"
LABEL, QUERY = f"{NAMESPACE}/rollout/label_episode", f"{NAMESPACE}/rollout/query_progress"
SRV = "rollout_monitor_msgs/srv"


def test_an_operator_runs_an_attempt_by_services(graph: Graph) -> None:
    stack = Stack(graph)
    stack.start_monitor(end_wait_s=0.5)
    (stack.episodes / "take_1").mkdir(parents=True)  # the name is taken
    markers = stack.listen("rollout/episode", "Episode", "MARKERS")
    assert "empty" in graph.call(START, f"{SRV}/StartEpisode", task=" ").message
    assert "no episode is running" in graph.call(END, f"{SRV}/EndEpisode").message
    assert not graph.call(QUERY, f"{SRV}/QueryProgress").running

    started = graph.call(START, f"{SRV}/StartEpisode", task=TASK, episode_id="take_1", source="pilot")
    assert (started.success, started.episode_id) == (True, "take_1")
    assert "take_1 is running" in graph.call(START, f"{SRV}/StartEpisode", task=TASK).message
    asked = graph.call(QUERY, f"{SRV}/QueryProgress")
    assert (asked.running, asked.status.episode_id, asked.status.task) == (True, "take_1", TASK)
    assert "take_1 is running, not other" in graph.call(END, f"{SRV}/EndEpisode", episode_id="other").message

    ended = graph.call(END, f"{SRV}/EndEpisode", label=1)
    assert ended.success and Path(ended.report_path) == stack.episodes / "take_1-2"
    assert stack.report_message("take_1").report_path == ended.report_path
    report = stack.report("take_1")
    assert (report.state, report.outcome.outcome, report.source) == (EpisodeState.ENDED, Outcome.SUCCESS, "pilot")
    graph.until("both markers", lambda: len(markers.messages) >= 2)
    assert [(m.boundary, m.episode_id, m.label) for m in markers.messages] == [(0, "take_1", 0), (1, "take_1", 1)]

    assert "who" in graph.call(LABEL, f"{SRV}/LabelEpisode", episode_id="take_1", label=2).message
    assert "no episode 'other'" in graph.call(LABEL, f"{SRV}/LabelEpisode", episode_id="other", who="me").message
    assert graph.call(LABEL, f"{SRV}/LabelEpisode", label=2, who="me", note="cube upside down").success
    facts = [json.loads(line) for line in (stack.episodes / "labels.jsonl").read_text().splitlines()]
    assert [(f["episode_id"], f["label"], f["who"]) for f in facts] == [("take_1-2", "failure", "me")]
    folder = Path(ended.report_path)
    graph.until("a page that tells of the label", lambda: "cube upside down" in (folder / "report.html").read_text())
    assert "cube upside down" in (folder / "report.md").read_text()


def test_the_stamp_of_a_service_boundary_is_stream_time(graph: Graph) -> None:
    """Streams may carry years-old stamps; the boundary must lie among them."""
    stack = Stack(graph)
    stack.start_monitor(end_wait_s=0.5)
    health = graph.publisher(f"{NAMESPACE}/rollout/cameras", "rollout_monitor_msgs/msg/CameraHealth", "RECORDS")
    graph.until("the monitor listens", lambda: health.get_subscription_count() == 1)
    message = CameraHealth(camera="front")
    message.header.stamp.sec = 1_700_000_000
    markers = stack.listen("rollout/episode", "Episode", "MARKERS")

    def started_in_stream_time() -> bool:
        health.publish(message)
        answer = graph.call(START, f"{SRV}/StartEpisode", task=TASK)
        graph.until("the marker", lambda: markers.messages)
        stamp_ns = time_from_msg(markers.messages[-1].header.stamp)
        if answer.success and 0 <= stamp_ns - 1_700_000_000 * NS < 60 * NS:
            return True
        graph.call(END, f"{SRV}/EndEpisode")
        stack.report(markers.messages[-1].episode_id)
        return False

    graph.until("a start in stream time", started_in_stream_time)
    off = graph.call(END, f"{SRV}/EndEpisode", stamp=time_to_msg(1_800_000_000 * NS + 5_000_000))
    assert not off.success
    assert "the stamp 1800000000.005 s is too far from the streams' time, 17000000" in off.message


def test_start_and_end_never_contradict_each_other(graph: Graph) -> None:
    """An attempt that waits for its last records makes way for the next, and is closed without them in the end."""
    stack = Stack(graph)
    stack.start_monitor(end_wait_s=120.0)
    markers = stack.listen("rollout/episode", "Episode", "MARKERS")

    def start(**fields: object) -> StartEpisode.Response:
        return graph.call(START, f"{SRV}/StartEpisode", task=TASK, **fields)

    def end(**fields: object) -> EndEpisode.Response:
        return graph.call(END, f"{SRV}/EndEpisode", **fields)

    assert start(episode_id="a b").message == "episode_id: String should match pattern '^[A-Za-z0-9][A-Za-z0-9_.-]*$'"
    first = start(episode_id="first")
    assert first.success
    graph.until("its marker", lambda: markers.messages)
    early = end(stamp=time_to_msg(time_from_msg(markers.messages[-1].header.stamp) - 1))
    assert not early.success and "is before the start" in early.message
    assert end().success
    assert end().message == "no episode is running"
    assert stack.status.state is EpisodeState.RUNNING  # it is being closed
    assert start(episode_id="second").success
    assert start().message == "episode second is running; end it first"
    assert end(episode_id="second").success
    assert start(episode_id="third").success
    assert [stack.report(name).state for name in ("first", "second")] == [EpisodeState.ENDED] * 2
    assert stack.status.episode_id == "third"


def test_an_end_that_the_streams_never_reach_closes_the_episode(graph: Graph) -> None:
    """Boundaries on the wall clock, streams on a clock of years ago: the operator gets a report all the same."""
    stack = Stack(graph)
    monitor = stack.start_monitor(end_wait_s=0.5)
    health = graph.publisher(f"{NAMESPACE}/rollout/cameras", "rollout_monitor_msgs/msg/CameraHealth", "RECORDS")
    markers = graph.publisher(f"{NAMESPACE}/rollout/episode", "rollout_monitor_msgs/msg/Episode", "MARKERS")
    graph.until(
        "the monitor listens", lambda: health.get_subscription_count() and markers.get_subscription_count() == 2
    )
    for boundary in Boundary:
        stamp_ns = 1_800_000_000 * NS + (boundary is Boundary.END)
        markers.publish(
            marker_to_msg(EpisodeMarker(boundary=boundary, stamp_ns=stamp_ns, episode_id="wall", task=TASK))
        )
        monitor.said("episode wall: start")
    message = CameraHealth(camera="front", received=1, has_last_frame=True)
    message.header.stamp.sec = message.last_frame.sec = 1_700_000_000

    def reported() -> bool:
        health.publish(message)
        return any(report.episode_id == "wall" for report in stack.reports.messages)

    graph.until("the report", reported)
    monitor.said("are the clocks the same?")


def test_a_monitor_that_starts_late_learns_what_runs(graph: Graph) -> None:
    """Boundaries are latched: of their history only the attempt that still runs counts."""
    stack = Stack(graph)
    publisher = graph.publisher(f"{NAMESPACE}/rollout/episode", "rollout_monitor_msgs/msg/Episode", "MARKERS")
    for episode_id, boundaries in (("over", (Boundary.START, Boundary.END)), ("running", (Boundary.START,))):
        for boundary in boundaries:
            marker = EpisodeMarker(boundary=boundary, stamp_ns=NS, episode_id=episode_id, task=TASK)
            publisher.publish(marker_to_msg(marker))
    stack.start_monitor()
    graph.until("the running attempt", lambda: stack.statuses.messages and stack.status.episode_id == "running")
    assert {msg.episode_id for msg in stack.statuses.messages} == {"", "running"}
    assert not (stack.episodes / "over").exists()


def test_a_marker_from_a_volatile_publisher_is_heard(graph: Graph) -> None:
    """`ros2 topic pub --once` is not latched."""
    stack = Stack(graph)
    stack.start_monitor()
    graph.until("the monitor", lambda: stack.statuses.messages)
    publisher = graph.publisher(f"{NAMESPACE}/rollout/episode", "rollout_monitor_msgs/msg/Episode", "MARKERS_VOLATILE")
    graph.until("a volatile match", lambda: publisher.get_subscription_count() >= 1)
    marker = EpisodeMarker(boundary=Boundary.START, stamp_ns=NS, episode_id="by_hand", task=TASK)
    publisher.publish(marker_to_msg(marker))
    graph.until("the attempt", lambda: stack.status.episode_id == "by_hand")


def test_a_managed_node_goes_through_its_states(graph: Graph) -> None:
    """An impossible transition is refused and does not end the node (rclpy issue 1209)."""
    from lifecycle_msgs.msg import Transition  # noqa: PLC0415

    monitor = graph.start("monitor_node", namespace=NAMESPACE, autostart=False, episodes=graph.folder / "episodes")
    change, state = f"{NAMESPACE}/monitor_node/change_state", f"{NAMESPACE}/monitor_node/get_state"

    def to(number: int) -> bool:
        return bool(graph.call(change, "lifecycle_msgs/srv/ChangeState", transition=Transition(id=number)).success)

    def label() -> str:
        return str(graph.call(state, "lifecycle_msgs/srv/GetState").current_state.label)

    assert label() == "unconfigured"
    assert not to(Transition.TRANSITION_ACTIVATE)
    assert label() == "unconfigured"
    for _ in range(2):
        assert to(Transition.TRANSITION_CONFIGURE) and label() == "inactive"
        assert to(Transition.TRANSITION_ACTIVATE) and label() == "active"
        assert graph.call(QUERY, f"{SRV}/QueryProgress").status.state == 0
        assert to(Transition.TRANSITION_DEACTIVATE) and label() == "inactive"
        assert to(Transition.TRANSITION_CLEANUP) and label() == "unconfigured"
    assert monitor.popen.poll() is None
    assert to(Transition.TRANSITION_UNCONFIGURED_SHUTDOWN)
    assert monitor.wait() == 0
