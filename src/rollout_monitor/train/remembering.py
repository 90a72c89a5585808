"""What a network sees in each take, worked out once: sequences for what remembers cost a hundredth of the features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from rollout_monitor.prm.text import Vocabulary
from rollout_monitor.sim.tabletop.goals import Judgement
from rollout_monitor.train.batches import Mix
from rollout_monitor.train.examples import SAME_WORDS, Example
from rollout_monitor.train.network import Network

FloatArray = npt.NDArray[np.float32]
BLOCK = 64


@dataclass(frozen=True)
class Seen:
    """A take under one instruction, as a network sees it; see `rollout_monitor.train.batches.Drawn`."""

    task: str
    words: npt.NDArray[np.int64]
    seen: npt.NDArray[np.float16]

    def views(self, path: npt.NDArray[np.int64]) -> FloatArray:
        """What was seen, float32, (t, 2, view)."""
        return self.seen[path].astype(np.float32)

    def shown(self, path: npt.NDArray[np.int64], subtask: npt.NDArray[np.int64]) -> FloatArray | None:  # noqa: ARG002
        """Not asked for any more."""
        return None


class SeenTake:
    """A take with what a network sees in it under its own instruction and some others.

    Args:
        example: the take.
        own: under its own instruction, in several wordings.
        others: under other instructions.
    """

    def __init__(self, example: Example, own: Sequence[Seen], others: Sequence[Seen]) -> None:
        self.example, self.own, self.others = example, own, others
        self.joints, self.has_joints = example.joints, example.has_joints

    @property
    def frames(self) -> int:
        """How many frames."""
        return self.example.frames

    def draw(self, rng: np.random.Generator, mix: Mix, vocabulary: Vocabulary) -> Seen:  # noqa: ARG002
        """One of the instructions."""
        options = self.others if self.others and rng.random() < mix.other_task else self.own
        return options[int(rng.integers(len(options)))]

    def judge(self, task: str, path: npt.NDArray[np.int64]) -> Judgement:
        """True progress along a path of frames."""
        return self.example.judge(task, path)

    def details(self, task: str, path: npt.NDArray[np.int64], subtask: npt.NDArray[np.int64]) -> FloatArray:
        """See `Example.details`."""
        return self.example.details(task, path, subtask)


def look_at(
    network: Network,
    vocabulary: Vocabulary,
    example: Example,
    *,
    wordings: int = 2,
    others: int = 3,
    seed: int = 0,
    language: bool = True,
) -> SeenTake:
    """Work out what a network sees in a take.

    Args:
        network: in evaluation mode.
        vocabulary: the words.
        example: the take.
        wordings: of its own instruction.
        others: how many other instructions, drawn as in training.
        seed: draws wordings, instructions and looks; part of it is the take itself.
        language: False: every task has the same words.
    """
    rng = np.random.default_rng([seed, example.row.seed, 41])
    own = [example.row.task] * wordings
    drawn = dict.fromkeys(example.draw_task(rng, 1.0) for _ in range(4 * others)) if language else {}
    asked = own + [task for task in drawn if task != example.row.task][:others]
    seen = []
    for task in asked:
        words, _ = vocabulary.encode(example.draw_text(rng, task) if language else SAME_WORDS)
        look = int(rng.integers(example.looks))
        seen.append(Seen(task, words, see_all(network, example.grid(look, np.arange(example.frames)), words)))
    return SeenTake(example, seen[:wordings], seen[wordings:])


def see_all(network: Network, grid: FloatArray, words: npt.NDArray[np.int64]) -> npt.NDArray[np.float16]:
    """What a network sees in features (t, 2, channels, 14, 14) under one instruction: (t, 2, view), float16."""
    with torch.no_grad():
        task = network.text(torch.from_numpy(words)[None])
        parts = [
            network.head.see(torch.from_numpy(grid[at : at + BLOCK]), task.expand(len(grid[at : at + BLOCK]), -1))[0]
            for at in range(0, len(grid), BLOCK)
        ]
    out: npt.NDArray[np.float16] = torch.cat(parts).numpy().astype(np.float16)
    return out
