"""Training sequences: a rollout seen at another speed, with pauses, rewinds and cuts, under this or another task.

True progress is a function of the state alone, so a sequence played backwards has true labels too: what was gained is
lost again. That is what teaches falling progress, which is rare in ordinary rollouts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rollout_monitor.prm.text import Vocabulary
from rollout_monitor.sim.tasks import TASKS, Task, get_task
from rollout_monitor.train.batches import pad
from rollout_monitor.train.features import Rollout
from rollout_monitor.train.phrases import draw
from rollout_monitor.trends import trends

OTHER_TASK_SHARE = 0.45
OPPOSITE_SHARE = 0.75
"""Of the other tasks, how often the one with the roles swapped: only the order of the words tells that pair apart."""
NO_WRIST_SHARE = 0.25
WRIST_LOST_SHARE = 0.05
PLAIN_SHARE = 0.35
NOISE = 0.02


@dataclass(frozen=True)
class Batch:
    """b sequences of t steps; see `rollout_monitor.train.head.Head.over_time` for the shapes."""

    pooled: npt.NDArray[np.float32]
    grid: npt.NDArray[np.float32]
    present: npt.NDArray[np.float32]
    words: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    progress: npt.NDArray[np.float32]
    done: npt.NDArray[np.float32]
    direction: npt.NDArray[np.int64]
    valid: npt.NDArray[np.float32]


class Labels:
    """True labels of rollouts under any task, computed once each."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]] = {}

    def of(self, rollout: Rollout, task: Task) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
        """Progress and done of every frame."""
        key = (rollout.meta.id, task.name)
        if key not in self._known:
            self._known[key] = rollout.labels(task)
        return self._known[key]


def tasks_that_fit(rollout: Rollout) -> list[Task]:
    """The tasks whose objects are all in the scene, the rollout's own first."""
    own = get_task(rollout.meta.task)
    colours = set(rollout.start.state.cubes)
    return [own] + [t for t in TASKS.values() if t != own and {t.moving, t.base or t.moving} <= colours]


def playback(rng: np.random.Generator, frames: int, steps: int) -> npt.NDArray[np.int64]:
    """Which frame each step shows: forwards, faster and slower, pausing, rewinding, cutting.

    Args:
        rng: seeded generator.
        frames: frames of the rollout.
        steps: length of the sequence.

    Returns:
        Frame indices, int64, at most ``steps`` of them: a plain playback ends with the rollout.
    """
    if rng.random() < PLAIN_SHARE:
        # A rollout longer than the sequence: its end matters as much as its beginning.
        begin = int(rng.integers(0, frames - steps + 1)) if frames > steps and rng.random() < 0.6 else 0
        return np.arange(begin, min(frames, begin + steps))
    at = float(rng.uniform(0, 0.3 * frames)) if rng.random() < 0.5 else 0.0
    path: list[float] = []
    while len(path) < steps:
        kind = rng.choice(4, p=(0.52, 0.30, 0.10, 0.08))
        length = int(rng.integers(3, 20))
        if kind == 3:
            at = float(rng.uniform(0, frames - 1))
            continue
        speed = (rng.uniform(0.6, 2.0), -rng.uniform(0.6, 2.5), 0.0)[kind]
        for _ in range(length):
            path.append(at)
            at += speed
            if not 0 <= at <= frames - 1:
                at = min(max(at, 0.0), frames - 1.0)
                break
    return np.round(path[:steps]).astype(np.int64)


def make_batch(
    rng: np.random.Generator, rollouts: list[Rollout], labels: Labels, vocabulary: Vocabulary, steps: int
) -> Batch:
    """One augmented sequence from each rollout."""
    size = len(rollouts)
    channels = rollouts[0].grid.shape[2]
    pooled = np.zeros((size, steps, 2, 1280), dtype=np.float32)
    grid = np.zeros((size, steps, 2, channels, 14, 14), dtype=np.float32)
    present = np.ones((size, steps, 2), dtype=np.float32)
    progress = np.zeros((size, steps), dtype=np.float32)
    done = np.zeros((size, steps), dtype=np.float32)
    direction = np.zeros((size, steps), dtype=np.int64)
    valid = np.zeros((size, steps), dtype=np.float32)
    texts = []
    for row, rollout in enumerate(rollouts):
        tasks = tasks_that_fit(rollout)
        other = len(tasks) > 1 and rng.random() < OTHER_TASK_SHARE
        task = _other(rng, tasks) if other else tasks[0]
        texts.append(vocabulary.encode(draw(rng, task))[0])
        path = playback(rng, len(rollout.states), steps)
        count = len(path)
        true_progress, true_done = labels.of(rollout, task)
        pooled[row, :count] = rollout.pooled[path]
        grid[row, :count] = rollout.grid[path]
        progress[row, :count] = true_progress[path]
        done[row, :count] = true_done[path]
        direction[row, :count] = trends(true_progress[path]) + 1
        valid[row, :count] = 1.0
        _lose_wrist(rng, present[row])
    pooled *= 1.0 + NOISE * rng.standard_normal(pooled.shape, dtype=np.float32)
    words, lengths = pad(texts)
    return Batch(pooled, grid, present, words, lengths, progress, done, direction, valid)


def _other(rng: np.random.Generator, tasks: list[Task]) -> Task:
    own, *others = tasks
    opposite = [task for task in others if task.base is not None and task.base == own.moving]
    chosen = opposite if opposite and rng.random() < OPPOSITE_SHARE else others
    return chosen[int(rng.integers(len(chosen)))]


def _lose_wrist(rng: np.random.Generator, present: npt.NDArray[np.float32]) -> None:
    chance = rng.random()
    if chance < NO_WRIST_SHARE:
        present[:, 1] = 0.0
    elif chance < NO_WRIST_SHARE + WRIST_LOST_SHARE:
        present[int(rng.integers(len(present))) :, 1] = 0.0
