"""What a network is told of each take, worked out once: sequences for what remembers cost almost nothing then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from rollout_monitor.prm.text import Vocabulary
from rollout_monitor.sim.tabletop.goals import Judgement
from rollout_monitor.train.batches import Mix
from rollout_monitor.train.examples import Example
from rollout_monitor.train.glances import SAME_WORDS
from rollout_monitor.train.labels import TaskLabels, labels_of
from rollout_monitor.train.network import Network

FloatArray = npt.NDArray[np.float32]
BLOCK = 64
PRESENT = ((1, 1, 1), (1, 1, 0), (1, 0, 1), (1, 0, 0), (0, 1, 1), (0, 1, 0))
"""Which views, and whether joints, are there: what a network is told is worked out for each."""


@dataclass(frozen=True)
class Told:
    """What a network is told of a take under one instruction; see `rollout_monitor.train.batches.Drawn`.

    Attributes:
        task: the instruction.
        words: its words.
        told: by `PRESENT`, float16 (6, frames, told).
        now, later, turn: the places in `PRESENT` before and after the frame ``turn``: a camera may stop in the middle.
    """

    task: str
    words: npt.NDArray[np.int64]
    told: npt.NDArray[np.float16]
    now: int = 0
    later: int = 0
    turn: int = 0

    @property
    def goals(self) -> TaskLabels:
        """What its goals are."""
        return labels_of(self.task)

    def views(self, path: npt.NDArray[np.int64]) -> FloatArray:
        """What is told along a path, float32, (t, told)."""
        states = np.where(np.arange(len(path)) < self.turn, self.now, self.later)
        out: FloatArray = self.told[states, path].astype(np.float32)
        return out

    def shown(self, path: npt.NDArray[np.int64]) -> FloatArray | None:  # noqa: ARG002
        """Not asked for any more."""
        return None


class ToldTake:
    """A take with what a network is told of it under its own instruction and some others.

    Args:
        example: the take.
        own: under its own instruction, in several wordings.
        others: under other instructions.
    """

    def __init__(self, example: Example, own: Sequence[Told], others: Sequence[Told]) -> None:
        self.example, self.own, self.others = example, own, others
        self.joints, self.has_joints = example.joints, example.has_joints

    @property
    def frames(self) -> int:
        """How many frames."""
        return self.example.frames

    def draw(self, rng: np.random.Generator, mix: Mix, vocabulary: Vocabulary) -> Told:  # noqa: ARG002
        """One of the instructions, with cameras and joints that are there, are not, or stop."""
        options = self.others if self.others and rng.random() < mix.other_task else self.own
        one = options[int(rng.integers(len(options)))]
        felt = self.has_joints and mix.joints and rng.random() >= mix.no_joints
        chance = rng.random()
        wrist = mix.wrist and chance >= mix.no_wrist
        front = not wrist or chance <= 1.0 - mix.no_front
        lost = wrist and front and chance < mix.no_wrist + mix.wrist_lost
        now = PRESENT.index((int(front), int(wrist), int(felt)))
        later = PRESENT.index((1, 0, int(felt))) if lost else now
        return Told(one.task, one.words, one.told, now, later, int(rng.integers(1, 40)))

    def judge(self, task: str, path: npt.NDArray[np.int64]) -> Judgement:
        """True progress along a path of frames."""
        return self.example.judge(task, path)

    def details(self, task: str, path: npt.NDArray[np.int64]) -> None:  # noqa: ARG002
        """Not asked for any more."""
        return


def tell_all(
    network: Network,
    vocabulary: Vocabulary,
    example: Example,
    *,
    wordings: int = 2,
    others: int = 3,
    seed: int = 0,
    language: bool = True,
) -> ToldTake:
    """Work out what a network is told of a take.

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
    told = []
    for task in asked:
        words, _ = vocabulary.encode(example.draw_text(rng, task) if language else SAME_WORDS)
        grid = example.grid(int(rng.integers(example.looks)), np.arange(example.frames))
        told.append(Told(task, words, told_of(network, grid, example.joints, words, PRESENT)))
    return ToldTake(example, told[:wordings], told[wordings:])


def told_of(
    network: Network,
    grid: FloatArray,
    joints: FloatArray,
    words: npt.NDArray[np.int64],
    present: Sequence[tuple[int, int, int]],
) -> npt.NDArray[np.float16]:
    """What a network is told of a sequence under one instruction.

    Args:
        network: in evaluation mode.
        grid: features, (t, 2, channels, 14, 14).
        joints: joint features, (t, 32).
        words: word ids, (n,).
        present: which views, and whether joints, are there all the time.

    Returns:
        Float16, (len(present), t, told).
    """
    head = network.head
    with torch.no_grad():
        task = network.text(torch.from_numpy(words)[None])
        parts = []
        for at in range(0, len(grid), BLOCK):
            block, felt = torch.from_numpy(grid[at : at + BLOCK]), torch.from_numpy(joints[at : at + BLOCK])
            tasks = task.expand(len(block), -1)
            seen, _ = head.see(block, tasks)
            each = [torch.tensor([state], dtype=torch.float32).expand(len(block), -1) for state in present]
            parts.append(torch.stack([head.tell(head.glance(seen, there, felt, tasks), tasks) for there in each]))
    out: npt.NDArray[np.float16] = torch.cat(parts, dim=1).numpy().astype(np.float16)
    return out
