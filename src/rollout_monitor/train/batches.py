"""Training sequences: a take seen at another speed, with pauses, rewinds and cuts, under this or another instruction.

What a state is worth follows from the states alone, so a sequence played backwards has true labels too: what was gained
is lost again. That is what teaches falling progress, which is rare in ordinary takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rollout_monitor.judges.robopulse import trends
from rollout_monitor.prm.backbone import CELLS, CHANNELS
from rollout_monitor.prm.text import Vocabulary
from rollout_monitor.train.examples import Example

FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Mix:
    """How sequences are made. Each share is a probability.

    Attributes:
        other_task: another instruction than the take's own.
        plain: played forwards as it was recorded.
        no_wrist, no_front: a camera that is not there at all.
        wrist_lost: a wrist camera that stops in the middle.
        no_joints: joint states that are not there.
        noise: deviation of the noise on features, in their own scale.
        rewinds: speeds below zero and cuts occur at all; without them only recorded falls teach falling.
        language: the instruction is given; without it every task has the same words.
        wrist: the wrist camera is used at all.
        joints: joint states are used at all.
    """

    other_task: float = 0.42
    plain: float = 0.35
    no_wrist: float = 0.25
    no_front: float = 0.03
    wrist_lost: float = 0.05
    no_joints: float = 0.5
    noise: float = 0.05
    rewinds: bool = True
    language: bool = True
    wrist: bool = True
    joints: bool = True


@dataclass(frozen=True)
class Batch:
    """b sequences of t steps; see `rollout_monitor.train.network.Head.over_time` for the inputs' shapes.

    Attributes:
        words, lengths: padded word ids (b, longest) and how many are true (b,).
        progress, done: labels, float32, shape (b, t).
        direction: 0 falling, 1 flat, 2 rising, int64, shape (b, t).
        subtask: goal in turn, int64, shape (b, t).
        shown: where object, target and tool are in each view, (b, t, 2, 3, 2), and whether they can be seen in
            ``shown_valid`` (b, t, 2, 3).
        valid: 1 where the step counts, shape (b, t).
    """

    grid: FloatArray
    present: FloatArray
    joints: FloatArray
    words: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    progress: FloatArray
    done: FloatArray
    direction: npt.NDArray[np.int64]
    subtask: npt.NDArray[np.int64]
    shown: FloatArray
    shown_valid: FloatArray
    valid: FloatArray


def playback(rng: np.random.Generator, frames: int, steps: int, mix: Mix) -> npt.NDArray[np.int64]:
    """Which frame each step shows: forwards, faster and slower, pausing, rewinding, cutting.

    Args:
        rng: seeded generator.
        frames: frames of the take.
        steps: length of the sequence.
        mix: how often what.

    Returns:
        Frame indices, int64, at most ``steps`` of them: a plain playback ends with the take.
    """
    if rng.random() < mix.plain or not mix.rewinds:
        # A take longer than the sequence: its end matters as much as its beginning.
        stride = int(rng.choice(3, p=(0.7, 0.2, 0.1))) + 1
        length = (frames + stride - 1) // stride
        first = int(rng.integers(0, length - steps + 1)) if length > steps and rng.random() < 0.6 else 0
        return np.arange(first * stride, frames, stride, dtype=np.int64)[:steps]
    at = float(rng.uniform(0, 0.5 * frames)) if rng.random() < 0.5 else 0.0
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
    rng: np.random.Generator, examples: Sequence[Example], vocabulary: Vocabulary, steps: int, mix: Mix
) -> Batch:
    """One augmented sequence from each example."""
    size, features = len(examples), examples[0].joints.shape[1]
    batch = Batch(
        grid=np.zeros((size, steps, 2, CHANNELS, CELLS, CELLS), dtype=np.float32),
        present=np.ones((size, steps, 3), dtype=np.float32),
        joints=np.zeros((size, steps, features), dtype=np.float32),
        words=np.zeros((size, 1), dtype=np.int64),
        lengths=np.zeros(size, dtype=np.int64),
        progress=np.zeros((size, steps), dtype=np.float32),
        done=np.zeros((size, steps), dtype=np.float32),
        direction=np.zeros((size, steps), dtype=np.int64),
        subtask=np.zeros((size, steps), dtype=np.int64),
        shown=np.zeros((size, steps, 2, 3, 2), dtype=np.float32),
        shown_valid=np.zeros((size, steps, 2, 3), dtype=np.float32),
        valid=np.zeros((size, steps), dtype=np.float32),
    )
    texts = []
    for row, example in enumerate(examples):
        task = example.draw_task(rng, mix.other_task if mix.language else 0.0)
        texts.append(vocabulary.encode(example.draw_text(rng, task) if mix.language else "do it")[0])
        path = playback(rng, example.frames, steps, mix)
        _fill(rng, batch, row, example, task, path)
        _lose(rng, batch.present[row], mix)
    batch.grid[...] += mix.noise * rng.standard_normal(batch.grid.shape, dtype=np.float32)
    words, lengths = pad(texts)
    return Batch(**{**vars(batch), "words": words, "lengths": lengths})


def _fill(
    rng: np.random.Generator, batch: Batch, row: int, example: Example, task: str, path: npt.NDArray[np.int64]
) -> None:
    count = len(path)
    judged = example.judge(task, path)
    look = int(rng.integers(example.looks))
    batch.grid[row, :count] = example.grid(look, path)
    batch.joints[row, :count] = example.joints[path]
    batch.progress[row, :count] = judged.progress
    batch.done[row, :count] = judged.done
    batch.direction[row, :count] = trends(judged.progress) + 1
    batch.subtask[row, :count] = judged.subtask
    shown = example.shown(look, task, path, judged.subtask)
    batch.shown[row, :count], batch.shown_valid[row, :count] = shown[..., :2], shown[..., 2]
    batch.valid[row, :count] = 1.0
    if not example.has_joints:
        batch.present[row, :, 2] = 0.0


def _lose(rng: np.random.Generator, present: FloatArray, mix: Mix) -> None:
    """Take cameras and joints away from a sequence, present (t, 3)."""
    chance = rng.random()
    if not mix.wrist or chance < mix.no_wrist:
        present[:, 1] = 0.0
    elif chance < mix.no_wrist + mix.wrist_lost:
        present[int(rng.integers(len(present))) :, 1] = 0.0
    elif chance > 1.0 - mix.no_front:
        present[:, 0] = 0.0
    if not mix.joints or rng.random() < mix.no_joints:
        present[:, 2] = 0.0


def pad(texts: Sequence[npt.NDArray[np.int64]]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Word ids padded on the right to one array (n, longest), and the true lengths (n,)."""
    lengths = np.array([len(text) for text in texts], dtype=np.int64)
    words = np.zeros((len(texts), int(lengths.max())), dtype=np.int64)
    for row, text in enumerate(texts):
        words[row, : len(text)] = text
    return words, lengths
