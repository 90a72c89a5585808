"""Names of policies and tasks as pages show and link them: cut where they are long, numbered as in the explorer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rollout_monitor.report.site.attempts import Attempt
from rollout_monitor.report.site.figures import policy_of, task_of

LONGEST = 160
"""Longer names are cut on pages; groups are made of whole ones."""


@dataclass(frozen=True)
class Listed:
    """Names of one kind, sorted.

    Attributes:
        number: place of each whole name in the list.
        shown: each as it is shown, in the same order; names that are cut to the same are numbered.
    """

    number: dict[str, int]
    shown: list[str]

    def show(self, name: str) -> str:
        """One name as it is shown."""
        return self.shown[self.number[name]]


@dataclass(frozen=True)
class Names:
    """All policies and tasks of a site."""

    policy: Listed
    task: Listed


def names_of(attempts: Sequence[Attempt]) -> Names:
    """Names of everything that was read, what takes no part in figures included."""
    return Names(_listed(map(policy_of, attempts)), _listed(map(task_of, attempts)))


def shorten(name: str) -> str:
    """A name from outside, cut."""
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"


def _listed(names: Iterable[str]) -> Listed:
    number = {name: index for index, name in enumerate(sorted(set(names)))}
    times: dict[str, int] = {}
    shown = []
    for name in number:
        short = shorten(name)
        times[short] = times.get(short, 0) + 1
        shown.append(short if times[short] == 1 else f"{short} [{times[short]}]")
    return Listed(number, shown)
