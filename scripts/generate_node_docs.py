"""Write docs/nodes/: a page per node with its topics, parameters and services, from the tables it is built from.

`make config` runs this; a test fails while a page is not what it would write. It needs no ROS.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs" / "nodes"
sys.path.insert(0, str(ROOT / "ros2_ws" / "src" / "rollout_monitor_nodes"))

from rollout_monitor_nodes.common.parameter_specs import ParameterSpec, Value, specs  # noqa: E402
from rollout_monitor_nodes.interfaces import NODES, NodeInterface, Topic  # noqa: E402

ADAPTS = "as offered"
QOS = {
    "ADAPT": ADAPTS,
    "SENSOR": "best effort, newest 5",
    "MARKERS": "reliable, latched 20",
    "LATCHED": "reliable, latched 1",
    "REPORTS": "reliable, latched 10",
    "RECORDS": "reliable, 500 deep",
    "VIEWS": "reliable, newest 1",
    "REPLAY": "reliable, 2000 deep",
    "REPLAY_IMAGES": "reliable, 60 deep",
    "CLOCK": "best effort, newest 1",
    "DIAGNOSTICS": "reliable, 20 deep",
}
"""Profiles of `rollout_monitor_nodes.common.qos` in words; a test compares."""

NOTE = "<!-- written by scripts/generate_node_docs.py; edit the node's code instead -->"


def pages() -> dict[str, str]:
    """Every page by file name."""
    return {"README.md": _index(), **{f"{node.name}.md": _page(node) for node in NODES}}


def _index() -> str:
    rows = [(f"[{node.name}]({node.name}.md)", node.about) for node in NODES]
    parts = [
        NOTE,
        "# Nodes",
        "All are executables of the package `rollout_monitor_nodes`. Topics are relative to the robot's namespace and "
        "can be remapped. A wrong parameter is one line that names it, and exit code 2; a stop signal is a clean end, "
        "and exit code 0.",
        _table(("Node", "What it does"), rows),
        "## Quality of service",
        f'"{ADAPTS}" means that the subscription is made when the first publisher is discovered, reliable and latched '
        "only where all publishers are, and made anew when one appears that offers less. A mismatch that remains is a "
        "diagnostic that names both sides.",
    ]
    return "\n\n".join(parts) + "\n"


def _page(node: NodeInterface) -> str:
    parts = [NOTE, f"# {node.name}", node.about]
    if node.managed:
        parts.append("A managed (lifecycle) node; with `autostart` it configures and activates itself.")
    parts += node.notes
    for title, topics in (("Subscribed topics", node.subscribes), ("Published topics", node.publishes)):
        if topics:
            parts += [f"## {title}", _table(("Topic", "Type", "QoS", "What"), map(_topic, topics))]
    if node.services:
        rows = [(f"`{one.name}`", f"`{one.type}`", one.about) for one in node.services]
        parts += ["## Services", _table(("Service", "Type", "What"), rows)]
    rows = [_parameter(spec) for spec in specs(node.settings)]
    parts += ["## Parameters", _table(("Parameter", "Type", "Default", "Allowed", "What"), rows)]
    return "\n\n".join(parts) + "\n"


def _topic(topic: Topic) -> Sequence[str]:
    return f"`{topic.name}`", f"`{topic.type}`" if "/" in topic.type else topic.type, QOS[topic.qos], topic.about


def _parameter(spec: ParameterSpec) -> Sequence[str]:
    return f"`{spec.name}`", spec.kind, f"`{_shown(spec.default)}`", spec.allowed, spec.description


def _shown(value: Value) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "[" + ", ".join(_shown(item) for item in value) + "]"
    return f'"{value}"' if isinstance(value, str) else f"{value}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def main() -> None:
    """Write all pages and remove those of nodes that are gone."""
    PAGES.mkdir(parents=True, exist_ok=True)
    wanted = pages()
    for page in PAGES.glob("*.md"):
        if page.name not in wanted:
            page.unlink()
    for name, text in wanted.items():
        (PAGES / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
