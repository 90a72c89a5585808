"""Two graphs on one machine, each on a domain of its own, do not hear each other."""

from __future__ import annotations

from graph import Graph
from stack import NAMESPACE, Stack
from synthetic import TASK

from rollout_monitor.records import EpisodeState

START = f"{NAMESPACE}/rollout/start_episode"


def running(stack: Stack) -> bool:
    return bool(stack.statuses.messages) and stack.status.state is EpisodeState.RUNNING


def test_two_graphs_side_by_side_are_two_worlds(graph: Graph, other_graph: Graph) -> None:
    """The same names, topics and services in both (selfpatch/ros2_medkit#550, space_station_os#265, launch_ros#432)."""
    assert graph.domain != other_graph.domain
    here, there = Stack(graph), Stack(other_graph)
    for stack, name in ((here, "here"), (there, "there")):
        stack.start_monitor()
        stack.wait_until_connected()
        answer = stack.graph.call(START, "rollout_monitor_msgs/srv/StartEpisode", task=TASK, episode_id=name)
        assert answer.success, answer.message  # it would be refused where the other's episode is heard
        stack.graph.until(f"episode {name}", lambda stack=stack: running(stack))
    said = len(here.statuses.messages)
    graph.until("more of here", lambda: len(here.statuses.messages) > said + 5)
    for stack, name in ((here, "here"), (there, "there")):
        assert {message.episode_id for message in stack.statuses.messages} <= {"", name}
        names = [node for node, _ in stack.graph.node.get_node_names_and_namespaces()]
        assert sorted(names) == ["monitor_node", "test_probe"]
