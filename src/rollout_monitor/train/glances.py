"""What seeing is trained on: single moments of many takes, each looked at under several instructions at once.

Reading a picture's grid costs most of a step, and none of it depends on the instruction: so each picture is asked for
the goals of its own task and of others of its scene.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from rollout_monitor.prm.backbone import CELLS, CHANNELS
from rollout_monitor.prm.posture import FEATURES
from rollout_monitor.prm.text import Vocabulary
from rollout_monitor.train.batches import Mix, add_noise, lose, pad, worn
from rollout_monitor.train.labels import DETAILS, GOALS, TaskLabels

MOMENTS, TASKS = 2, 3
"""Moments of each source, and instructions that each of them is looked at under."""

SAME_WORDS = "do it"
"""What a network without language is told, whatever the task."""

LOOKED_FOR = 4
"""Most goals of them that are looked for."""

FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Asked:
    """Some moments of a scene and what is asked about them.

    Attributes:
        look: which of the scene's looks.
        path: the moments, int64 (t,).
        tasks: instructions in their written form.
        texts: the same in words.
        labels: what the words can teach of each instruction's goals.
    """

    look: int
    path: npt.NDArray[np.int64]
    tasks: list[str]
    texts: list[str]
    labels: list[TaskLabels]


class Scene(Protocol):
    """Where moments come from; `rollout_monitor.train.examples.Example` is one."""

    joints: FloatArray
    has_joints: bool

    def ask(self, rng: np.random.Generator, moments: int, tasks: int) -> Asked:
        """Draw moments, and the scene's own and other instructions for them."""
        ...

    def grid(self, look: int, path: npt.NDArray[np.int64]) -> FloatArray:
        """Features of some moments, (t, 2, 76, 14, 14)."""
        ...

    def details(self, task: str, path: npt.NDArray[np.int64]) -> FloatArray:
        """What progress is made of, (t, 3 goals, details), NaN where it is not known."""
        ...

    def shown(self, look: int, task: str, path: npt.NDArray[np.int64]) -> FloatArray:
        """Where the things of the goals and the tool are, (t, 2 views, places, (x, y, seen))."""
        ...


@dataclass(frozen=True)
class Glances:
    """n moments, k texts, and for each moment up to g goals of its texts.

    Attributes:
        views: features, float32 (n, 2, 76, 14, 14).
        present: which views, and whether joints, are there, float32 (n, 3).
        joints: float32 (n, 32).
        words, lengths: of all texts, padded word ids (k, longest) and how many are true (k,).
        texts: what the goals of each text are, k of them.
        chosen: which goals are looked for, counted through the `GOALS` of all texts; -1 for none; int64 (n, g).
        details: see `goals.details`, NaN where not known, float32 (n, g, details).
        shown: where object and target of each goal, then the tool, are in each view: float32 (n, 2, 2 g + 1, 3), x, y
            and 1 where that can be seen.
    """

    views: FloatArray
    present: FloatArray
    joints: FloatArray
    words: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    texts: list[TaskLabels]
    chosen: npt.NDArray[np.int64]
    details: FloatArray
    shown: FloatArray


def make_glances(rng: np.random.Generator, sources: Sequence[Scene], vocabulary: Vocabulary, mix: Mix) -> Glances:
    """Moments of each source, see `MOMENTS`."""
    count = MOMENTS * len(sources)
    glances = Glances(
        views=np.zeros((count, 2, CHANNELS, CELLS, CELLS), dtype=np.float32),
        present=np.ones((count, 3), dtype=np.float32),
        joints=np.zeros((count, FEATURES), dtype=np.float32),
        words=np.zeros((0, 0), dtype=np.int64),
        lengths=np.zeros(0, dtype=np.int64),
        texts=[],
        chosen=np.full((count, LOOKED_FOR), -1, dtype=np.int64),
        details=np.full((count, LOOKED_FOR, DETAILS), np.nan, dtype=np.float32),
        shown=np.zeros((count, 2, 2 * LOOKED_FOR + 1, 3), dtype=np.float32),
    )
    texts: list[npt.NDArray[np.int64]] = []
    for number, source in enumerate(sources):
        asked = source.ask(rng, MOMENTS, TASKS if mix.language else 1)
        first = len(texts)
        for text, labels in zip(asked.texts, asked.labels, strict=True):
            words = vocabulary.encode(text if mix.language else SAME_WORDS)[0]
            texts.append(worn(rng, words, mix.lost_words))
            glances.texts.append(labels)
        rows = slice(MOMENTS * number, MOMENTS * (number + 1))
        glances.views[rows] = source.grid(asked.look, asked.path)
        glances.joints[rows] = source.joints[asked.path]
        for row in range(rows.start, rows.stop):
            lose(rng, glances.present[row : row + 1], mix)
        glances.present[rows, 2] *= source.has_joints
        _look_for(rng, glances, rows, first, source, asked)
    add_noise(rng, glances.views, mix.noise)
    words, lengths = pad(texts)
    return replace(glances, words=words, lengths=lengths)


def _look_for(
    rng: np.random.Generator,
    glances: Glances,
    rows: slice,
    first: int,
    source: Scene,
    asked: Asked,
) -> None:
    """Choose goals of the tasks, whose texts begin at ``first``, and say what is true of them at some moments."""
    there = [(n, goal) for n, labels in enumerate(asked.labels) for goal in np.flatnonzero(labels.kind >= 0)]
    for place, pick in enumerate(rng.permutation(len(there))[:LOOKED_FOR]):
        number, goal = there[int(pick)]
        task, path = asked.tasks[number], asked.path
        shown = source.shown(asked.look, task, path)
        glances.chosen[rows, place] = (first + number) * GOALS + goal
        glances.details[rows, place] = source.details(task, path)[:, goal]
        glances.shown[rows, :, 2 * place : 2 * place + 2] = shown[:, :, 2 * goal : 2 * goal + 2]
        glances.shown[rows, :, -1] = shown[:, :, -1]
