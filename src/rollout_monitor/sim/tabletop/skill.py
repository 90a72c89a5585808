"""How well the scripted operator does each kind of goal with each arm: the table in docs/simulation.md.

    python -m rollout_monitor.sim.tabletop.skill --takes 10

Takes of mode ``success`` without pictures; colours and targets change from take to take. A pair under 70 % belongs into
`plans.LEFT_OUT`.
"""

from __future__ import annotations

import argparse
import sys

from rollout_monitor.sim.tabletop.arms import ARMS
from rollout_monitor.sim.tabletop.catalogue import CUBES
from rollout_monitor.sim.tabletop.phrases import plain
from rollout_monitor.sim.tabletop.takes import TakeSpec, run
from rollout_monitor.sim.tabletop.world import TWO_ARMS

ONE_ARM = (
    "lift:{a}",
    "on:{a}:{b}",
    "in:{a}:bin",
    "in:{a}:plate",
    "in:{a}:bowl",
    "zone:{a}:white_zone",
    "left:{a}:{b}",
    "right:{a}:{b}",
    "peg:ring:peg",
    "open:drawer",
    "close:drawer",
    "open:door",
    "close:door",
    "lift:can",
    "in:can:bin",
    "in:{a}:bin>on:{b}:{c}>zone:{d}:white_zone",
    "zone:{a}:black_zone>on:{b}:{c}>in:{d}:plate",
)
WITH_TWO = ("both:pot", "give:bar")


def successes(arms: str, template: str, takes: int) -> int:
    """How many of the takes end with the task done."""
    count = 0
    for seed in range(takes):
        a, b, c, d = (CUBES[(seed + shift) % len(CUBES)] for shift in range(4))
        key = template.format(a=a, b=b, c=c, d=d)
        spec = TakeSpec("skill", seed, arms, key, "success", plain(key), "known", "plain", rare=False)
        count += run(spec, pictures=False).outcome == "success"
    return count


def _written(template: str) -> str:
    return template.format(a="A", b="B", c="C", d="D")


def _chosen(templates: tuple[str, ...], wanted: list[str] | None) -> list[str]:
    return [template for template in templates if not wanted or _written(template) in wanted]


def main() -> int:
    """Print the table as Markdown, row by row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--takes", type=int, default=10, help="per pair of task and arm; default: %(default)s")
    parser.add_argument("--task", action="append", help="only this row, with colours A, B, C, D; repeatable")
    options = parser.parse_args()
    takes = options.takes
    print(f"| task, {takes} takes each | {' | '.join(ARMS)} |")
    print("| --- |" + " --- |" * len(ARMS), flush=True)
    for template in _chosen(ONE_ARM, options.task):
        print(f"| `{_written(template)}` |", end="", flush=True)
        for arm in ARMS:
            print(f" {successes(arm, template, takes)} |", end="", flush=True)
        print()
    for template in _chosen(WITH_TWO, options.task):
        count = successes(TWO_ARMS, template, takes)
        print(f"| `{template}` (two UR5e) | {count} |" + " |" * (len(ARMS) - 1), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
