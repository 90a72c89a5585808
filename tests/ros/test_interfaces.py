"""What the tables (and so the documentation) say about a node is what a running one shows on the graph."""

from __future__ import annotations

from graph import Graph
from rollout_monitor_nodes import interfaces
from rollout_monitor_nodes.common.qos import PROFILES
from rollout_monitor_nodes.common.types import is_installed

OWN_OF_ROS = ("/parameter_events", "/rosout")
NS = "/arm"


def names(topics: tuple[interfaces.Topic, ...], *, adaptive: bool) -> set[tuple[str, str]]:
    return {
        (topic.name if topic.name.startswith("/") else f"{NS}/{topic.name}", topic.type)
        for topic in topics
        if (adaptive or topic.qos != "ADAPT") and is_installed(topic.type)
    }


def test_running_nodes_are_as_their_tables_say(graph: Graph) -> None:
    """Adaptive subscriptions are left out: nothing is published here for them to find."""
    folder = graph.folder / "episodes"
    curve = graph.folder / "curve.csv"
    curve.write_text("progress\n0.1\n0.2\n")
    node = graph.node
    for interface, parameters in (
        (interfaces.PRM_NODE, {"model": "recorded", "model_path": curve}),
        (interfaces.MONITOR_NODE, {"episodes": folder}),
        (interfaces.OVERLAY_NODE, {}),
    ):
        graph.start(interface.name, namespace=NS, **parameters)

        def shown(ask: object, name: str = interface.name) -> set[tuple[str, str]]:
            pairs = ask(name, NS)  # type: ignore[operator]
            return {
                (topic, kinds[0])
                for topic, kinds in pairs
                if topic not in OWN_OF_ROS and not topic.startswith(f"{NS}/{name}/")
            }

        there = f"{interface.name} as in its table"
        graph.until(f"{interface.name} on the graph", lambda n=interface.name: n in node.get_node_names())
        wanted = names(interface.publishes, adaptive=True)
        graph.until(there, lambda w=wanted, s=shown: s(node.get_publisher_names_and_types_by_node) == w)
        hears = names(interface.subscribes, adaptive=False)
        graph.until(there, lambda w=hears, s=shown: w <= s(node.get_subscriber_names_and_types_by_node))
        serves = {(f"{NS}/{service.name}", service.type) for service in interface.services}
        graph.until(there, lambda w=serves, s=shown: s(node.get_service_names_and_types_by_node) == w)


def test_every_profile_in_the_tables_exists() -> None:
    used = {topic.qos for node in interfaces.NODES for topic in (*node.publishes, *node.subscribes)}
    assert used - {"ADAPT"} <= set(PROFILES)
