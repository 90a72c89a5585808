"""Asks a trained network about cached takes and turns what it says into figures; nothing here trains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch

from rollout_monitor.judges import measures
from rollout_monitor.judges.measures import Answers
from rollout_monitor.judges.robopulse import context_dependent
from rollout_monitor.prm.embedded import summarise
from rollout_monitor.prm.text import Vocabulary
from rollout_monitor.sim.tabletop.files import Truth
from rollout_monitor.train.examples import Example
from rollout_monitor.train.network import Answer, Network
from rollout_monitor.train.remembering import told_of
from rollout_monitor.trends import trends

SPEED_UNIT = 0.05
"""Tool speeds of so many metres a second apart count as different motions when context is looked for."""

SEE_ALL = (True, True, True)


def ask(
    network: Network,
    vocabulary: Vocabulary,
    example: Example,
    *,
    task: str | None = None,
    text: str | None = None,
    look: int = 0,
    present: tuple[bool, bool, bool] = SEE_ALL,
    threshold: float = measures.SUCCESS_PROGRESS,
) -> Answers:
    """The network's answers on one take.

    Args:
        network: trained.
        vocabulary: its words.
        example: the take.
        task: another instruction of its scene than its own.
        text: the words of the instruction; needed with ``task``.
        look: which of the cached looks.
        present: whether front camera, wrist camera and joints are there.
        threshold: end progress that counts as success.
    """
    said = hear(network, vocabulary, example, text=text, look=look, present=present)
    return judged_answers(said, example, task=task, threshold=threshold)


def hear(
    network: Network,
    vocabulary: Vocabulary,
    example: Example,
    *,
    text: str | None = None,
    look: int = 0,
    present: tuple[bool, bool, bool] = SEE_ALL,
) -> Answer:
    """The network's logits on one take, shapes (1, t, ...); arguments as of `ask`."""
    words, _ = vocabulary.encode(text or example.row.text)
    there = np.array(present, dtype=np.float32)
    there[2] *= example.has_joints
    return run_on(network, example.grid(look, np.arange(example.frames)), example.joints, there, words)


def judged_answers(
    said: Answer, example: Example, *, task: str | None = None, threshold: float = measures.SUCCESS_PROGRESS
) -> Answers:
    """Logits on one take beside the truth under its own task or another."""
    judged = example.judge(task or example.row.task, np.arange(example.frames))
    return answers_of(
        said,
        example.row.id,
        judged.progress,
        succeeded=bool(judged.done[-2:].all()),
        drops=falls(example.truth),
        group=kinds(example.row.task),
        threshold=threshold,
    )


def run_on(
    network: Network,
    grid: npt.NDArray[np.float32],
    joints: npt.NDArray[np.float32],
    present: npt.NDArray[np.float32],
    words: npt.NDArray[np.int64],
) -> Answer:
    """The network's logits over a sequence.

    Args:
        network: in evaluation mode.
        grid: features, (t, 2, channels, 14, 14).
        joints: joint features, (t, 32).
        present: which views and whether joints are there all the time, (3,).
        words: word ids, (n,).

    Returns:
        Shapes (1, t, ...).
    """
    told = told_of(network, grid, joints, words, [(int(present[0]), int(present[1]), int(present[2]))])
    with torch.no_grad():
        return network.head.remember(torch.from_numpy(told.astype(np.float32)))


def answers_of(
    said: Answer,
    rollout: str,
    truth: npt.NDArray[np.float64],
    *,
    succeeded: bool,
    drops: list[tuple[int, int]] | None = None,
    group: str = "",
    threshold: float = measures.SUCCESS_PROGRESS,
) -> Answers:
    """Logits over one sequence, (1, t, ...), as answers beside the truth."""
    rows = np.array([summarise(bins) for bins in said.progress[0].softmax(-1).numpy()])
    return Answers(
        rollout=rollout,
        value=rows[:, 0],
        lower=rows[:, 1],
        upper=rows[:, 2],
        success=said.success[0].sigmoid().numpy().astype(np.float64),
        direction=said.direction[0].argmax(-1).numpy().astype(np.int64) - 1,
        truth=truth,
        succeeded=succeeded,
        drops=drops or [],
        group=group,
        threshold=threshold,
    )


def kinds(task: str) -> str:
    """The kinds of a task's goals, for example ``in>on``: what success rates are compared within."""
    return ">".join(goal.split(":")[0] for goal in task.split(">"))


def falls(truth: Truth) -> list[tuple[int, int]]:
    """Frame intervals in which something fell."""
    last = len(truth.stamps_ns) - 1
    return [
        (
            int(np.searchsorted(truth.stamps_ns, event.begin_ns)),
            min(last, int(np.searchsorted(truth.stamps_ns, event.end_ns))),
        )
        for event in truth.events
        if event.kind == "drop"
    ]


def local_motion(truth: Truth) -> npt.NDArray[np.float64]:
    """A moment without history or instruction: tool velocity and whether something is held, shape (n, 4)."""
    tools = truth.states.tools.mean(axis=1)
    seconds = 2.0 / truth.row.frame_rate_hz
    padded = np.concatenate([tools[:1], tools[:1], tools])
    velocity = (padded[2:] - padded[:-2]) / seconds / SPEED_UNIT
    held = np.asarray((truth.states.held > 0).any(axis=1), dtype=np.float64)
    return np.concatenate([velocity, 10.0 * held[:, None]], axis=1)


def with_context(answers: Sequence[Answers], truths: Sequence[Truth]) -> list[Answers]:
    """The same answers with the context-dependent moments marked, see `robopulse.context_dependent`."""
    masks = context_dependent([local_motion(t) for t in truths], [trends(a.truth) for a in answers])
    return [replace(answer, context=mask) for answer, mask in zip(answers, masks, strict=True)]
