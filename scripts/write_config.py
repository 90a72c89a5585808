"""Write config/monitor.yaml: every parameter of the nodes with its default, unit and range, from their own settings.

`make config` runs this; a test fails while the file is not what it would write. Values of your own belong into a second
file (`--params-file`), which then holds only what differs.
"""

from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "ros2_ws" / "src" / "rollout_monitor_nodes"))

from rollout_monitor_nodes.common.parameter_specs import ParameterSpec, specs  # noqa: E402
from rollout_monitor_nodes.interfaces import MONITOR_NODE, OVERLAY_NODE, PRM_NODE, RECORDER, NodeInterface  # noqa: E402

WIDTH = 118
HEAD = """\
# Every parameter of the monitor's nodes, with its default. This is a standard ROS 2 parameter file.
#
# It is written by `make config` from the nodes' settings: put values of your own into a second file with only what
# differs, and start with `rollout-monitor up --params-file FILE` or `ros2 launch ... params_file:=FILE`. A name that is
# not here, or a value out of its range, stops the node with one line that says so.
"""


def text() -> str:
    """The whole file."""
    return HEAD + "".join(_section(node) for node in (PRM_NODE, MONITOR_NODE, RECORDER, OVERLAY_NODE))


def _section(node: NodeInterface) -> str:
    lines = ["", *_comment(f"{node.name}: {node.about}", ""), f"/**/{node.name}:", "  ros__parameters:"]
    open_groups: list[str] = []
    for spec in specs(node.settings):
        *groups, leaf = spec.name.split(".")
        lines += [f"{_indent(depth)}{groups[depth]}:" for depth in range(_shared(open_groups, groups), len(groups))]
        open_groups = groups
        lines += [*_comment(_about(spec), _indent(len(groups))), f"{_indent(len(groups))}{leaf}: {_value(spec)}"]
    return "\n".join(lines) + "\n"


def _shared(one: list[str], other: list[str]) -> int:
    """How many leading groups two names have in common."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _indent(depth: int) -> str:
    return "  " * (depth + 2)


def _about(spec: ParameterSpec) -> str:
    allowed = f" ({'one of ' if spec.choices else ''}{spec.allowed})" if spec.allowed else ""
    return f"{spec.description}{allowed}"


def _comment(words: str, indent: str) -> list[str]:
    return textwrap.wrap(words, WIDTH, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# ")


def _value(spec: ParameterSpec) -> str:
    return json.dumps(spec.default)


if __name__ == "__main__":
    (ROOT / "config" / "monitor.yaml").write_text(text(), encoding="utf-8")
