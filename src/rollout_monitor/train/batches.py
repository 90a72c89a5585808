"""Training sequences: a take seen at another speed, with pauses, rewinds and cuts, under this or another instruction.

What a state is worth follows from the states alone, so a sequence played backwards has true labels too: what was gained
is lost again. That is what teaches falling progress, which is rare in ordinary takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from rollout_monitor.prm.text import Vocabulary
from rollout_monitor.train.labels import DETAILS, GOALS, PLACES, TaskLabels
from rollout_monitor.trends import trends

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
        lost_words: a word that the network does not know, or one more that it does not know before another.
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
    lost_words: float = 0.06
    noise: float = 0.05
    rewinds: bool = True
    language: bool = True
    wrist: bool = True
    joints: bool = True


class Source(Protocol):
    """A take that sequences are made from."""

    @property
    def joints(self) -> FloatArray:
        """Joint features of every frame, (frames, 32)."""
        ...

    @property
    def has_joints(self) -> bool:
        """Whether they are worth anything."""
        ...

    @property
    def frames(self) -> int:
        """How many frames."""
        ...

    def draw(self, rng: np.random.Generator, mix: Mix, vocabulary: Vocabulary) -> Drawn:
        """An instruction, its words and a look."""
        ...

    def judge(self, task: str, path: npt.NDArray[np.int64]) -> Labels:
        """True progress along a path of frames."""
        ...

    def details(self, task: str, path: npt.NDArray[np.int64]) -> FloatArray | None:
        """What progress is made of, (t, 3 goals, details), NaN where it is not known; None: not known."""
        ...


class Drawn(Protocol):
    """A take under one instruction, seen in one look."""

    @property
    def task(self) -> str:
        """The instruction, in whatever form its source judges it by."""
        ...

    @property
    def words(self) -> npt.NDArray[np.int64]:
        """Its words, (n,)."""
        ...

    @property
    def goals(self) -> TaskLabels:
        """What its goals are."""
        ...

    def views(self, path: npt.NDArray[np.int64]) -> FloatArray:
        """What the views show: features (t, 2, channels, 14, 14), or what a network was told of them, (t, told)."""
        ...

    def shown(self, path: npt.NDArray[np.int64]) -> FloatArray | None:
        """Where the things of the goals and the tool are, (t, 2 views, places, (x, y, seen)); None: not known."""
        ...


class Labels(Protocol):
    """Labels of t frames; `rollout_monitor.sim.tabletop.goals.Judgement` is one.

    Attributes:
        progress: NaN where it is not known.
        done: whether the task is done.
        subtask: goal in turn, -1 where it is not known.
    """

    @property
    def progress(self) -> npt.NDArray[np.float64]: ...  # noqa: D102

    @property
    def done(self) -> npt.NDArray[np.bool_]: ...  # noqa: D102

    @property
    def subtask(self) -> npt.NDArray[np.int64]: ...  # noqa: D102


@dataclass(frozen=True)
class Batch:
    """b sequences of t steps; see `rollout_monitor.train.network.Head` for the inputs' shapes.

    Attributes:
        views: features (b, t, 2, ...), or what a network was told of them (b, t, told), float32.
        present: which views, and whether joints, are there, float32 (b, t, 3).
        joints: float32 (b, t, joints).
        words, lengths: padded word ids (b, longest) and how many are true (b,).
        progress, done: labels, float32, shape (b, t); progress is NaN where it is not known.
        direction: 0 falling, 1 flat, 2 rising, -1 not known, int64, shape (b, t).
        subtask: goal in turn, -1 where it is not known, int64, shape (b, t).
        details: see `goals.details`, NaN where not known, float32 (b, t, 3 goals, details).
        goals: what the goals of each sequence are.
        shown: where the things of the goals and the tool are in each view, (b, t, 2, places, 2), and whether they can
            be seen in ``shown_valid`` (b, t, 2, places).
        valid: 1 where the step counts, shape (b, t).
    """

    views: FloatArray
    present: FloatArray
    joints: FloatArray
    words: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    progress: FloatArray
    done: FloatArray
    direction: npt.NDArray[np.int64]
    subtask: npt.NDArray[np.int64]
    details: FloatArray
    goals: list[TaskLabels]
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
    rng: np.random.Generator,
    sources: Sequence[Source],
    vocabulary: Vocabulary,
    steps: int,
    mix: Mix,
) -> Batch:
    """One augmented sequence from each source."""
    drawn = [source.draw(rng, mix, vocabulary) for source in sources]
    paths = [playback(rng, source.frames, steps, mix) for source in sources]
    views = [one.views(path) for one, path in zip(drawn, paths, strict=True)]
    size, features = len(sources), sources[0].joints.shape[1]
    words, lengths = pad([worn(rng, one.words, mix.lost_words) for one in drawn])
    batch = Batch(
        views=np.zeros((size, steps, *views[0].shape[1:]), dtype=np.float32),
        present=np.ones((size, steps, 3), dtype=np.float32),
        joints=np.zeros((size, steps, features), dtype=np.float32),
        words=words,
        lengths=lengths,
        progress=np.zeros((size, steps), dtype=np.float32),
        done=np.zeros((size, steps), dtype=np.float32),
        direction=np.zeros((size, steps), dtype=np.int64),
        subtask=np.zeros((size, steps), dtype=np.int64),
        details=np.full((size, steps, GOALS, DETAILS), np.nan, dtype=np.float32),
        goals=[one.goals for one in drawn],
        shown=np.zeros((size, steps, 2, PLACES, 2), dtype=np.float32),
        shown_valid=np.zeros((size, steps, 2, PLACES), dtype=np.float32),
        valid=np.zeros((size, steps), dtype=np.float32),
    )
    for row, (source, one, path) in enumerate(zip(sources, drawn, paths, strict=True)):
        batch.views[row, : len(path)] = views[row]
        _label(batch, row, source, one, path)
        lose(rng, batch.present[row], mix)
        if not source.has_joints:
            batch.present[row, :, 2] = 0.0
    add_noise(rng, batch.views, mix.noise)
    return batch


def worn(rng: np.random.Generator, words: npt.NDArray[np.int64], share: float) -> npt.NDArray[np.int64]:
    """A text with words that nobody knows, in the place of others and between them: people word things differently."""
    lost = np.where(rng.random(len(words)) < share, 0, words)
    between = np.flatnonzero(rng.random(len(words)) < share)
    return np.insert(lost, between, 0)


def add_noise(rng: np.random.Generator, values: FloatArray, deviation: float) -> None:
    """Add even noise of a deviation in place: from bytes, in a tenth of the time that normal noise takes."""
    steps = np.frombuffer(rng.bytes(values.size), dtype=np.int8).reshape(values.shape)
    values += steps * np.float32(deviation * 3**0.5 / 127.5)


def _label(batch: Batch, row: int, source: Source, one: Drawn, path: npt.NDArray[np.int64]) -> None:
    count, judged = len(path), source.judge(one.task, path)
    batch.joints[row, :count] = source.joints[path]
    batch.progress[row, :count], batch.done[row, :count] = judged.progress, judged.done
    batch.subtask[row, :count] = judged.subtask
    batch.direction[row, :count] = np.where(np.isfinite(judged.progress), trends(judged.progress) + 1, -1)
    details = source.details(one.task, path)
    if details is not None:
        batch.details[row, :count] = details
    shown = one.shown(path)
    if shown is not None:
        batch.shown[row, :count], batch.shown_valid[row, :count] = shown[..., :2], shown[..., 2]
    batch.valid[row, :count] = 1.0


def lose(rng: np.random.Generator, present: FloatArray, mix: Mix) -> None:
    """Take cameras and joints away from a sequence, present (t, 3), in place."""
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
