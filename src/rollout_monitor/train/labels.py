"""What simulated truth teaches beside progress: the goals of a task, their details and where their things are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from rollout_monitor.sim.tabletop.catalogue import FIXTURE_INDEX, FIXTURES, OBJECT_INDEX, OBJECTS
from rollout_monitor.sim.tabletop.goals import DETAILS as DETAIL_NAMES
from rollout_monitor.sim.tabletop.goals import FLAGS as FLAG_NAMES
from rollout_monitor.sim.tabletop.goals import KINDS as KIND_NAMES
from rollout_monitor.sim.tabletop.goals import parse

GOALS = 3
"""Most goals of a task."""

DETAILS, FLAGS, KINDS = len(DETAIL_NAMES), len(FLAG_NAMES), len(KIND_NAMES)
THINGS = len(OBJECTS) + len(FIXTURES)
TOOL = THINGS
PLACES = 2 * GOALS + 1
"""Object and target of each goal, then the tool."""


@dataclass(frozen=True)
class TaskLabels:
    """The goals of a task in their order, -1 where there is none; int64, shape (3,) each."""

    kind: npt.NDArray[np.int64]
    what: npt.NDArray[np.int64]
    target: npt.NDArray[np.int64]

    @property
    def things(self) -> npt.NDArray[np.int64]:
        """What the taught queries shall look at, by `place_of`, -1 where there is nothing: shape (`PLACES`,)."""
        pairs = np.stack([self.what, self.target], axis=1).ravel()
        return np.concatenate([pairs, [TOOL]])


NO_TASK = TaskLabels(*(np.full(GOALS, -1, dtype=np.int64) for _ in range(3)))
"""Of a task that nobody has taken apart."""


@lru_cache(maxsize=4096)
def labels_of(task: str) -> TaskLabels:
    """A task's goals; a goal without a target has its object for one."""
    rows = np.full((3, GOALS), -1, dtype=np.int64)
    for number, goal in enumerate(parse(task).goals[:GOALS]):
        rows[:, number] = KIND_NAMES.index(goal.kind), place_of(goal.what), place_of(goal.target or goal.what)
    return TaskLabels(*rows)


def place_of(name: str) -> int:
    """The number of an object or a fixture."""
    return OBJECT_INDEX[name] if name in OBJECT_INDEX else len(OBJECTS) + FIXTURE_INDEX[name]
