"""The trained part of the embedded model: words, pictures' features and joints to progress, step by step.

The instruction steers where the model looks. Queries made from it attend over each view's 14 x 14 cells and bring back
what is there and where it is; a second round of queries, made from what the first found, looks at it in relation. A
glance at one moment already says how far the task seems to be; a GRU carries the past and corrects it. The answers are
progress (a distribution over bins), success, direction and the subtask in turn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import nn

from rollout_monitor.prm.backbone import CELLS, CHANNELS

BINS = 50
DIRECTIONS = 3
VIEWS = 2
DETAILS = 5
SHOWN = 3
"""The first queries are taught where to look: at the object in turn, at its target, at the tool."""


@dataclass(frozen=True)
class Size:
    """Widths of the network; the defaults are the released model's."""

    word: int = 48
    task: int = 128
    cell: int = 64
    key: int = 32
    queries: int = 8
    view: int = 160
    joints: int = 32
    posture: int = 48
    glance: int = 192
    state: int = 256
    subtasks: int = 5


class TextEncoder(nn.Module):  # type: ignore[misc]
    """Word ids (n, words) to task vectors (n, task). A GRU: the order of the words matters."""

    def __init__(self, vocabulary: int, size: Size) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary + 1, size.word)
        self.rnn = nn.GRU(size.word, size.task, batch_first=True)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """One text per row, all of the same number of words."""
        _, last = self.rnn(self.words(words))
        return torch.tanh(last[0])

    def encode_padded(self, words: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Texts of different lengths, padded on the right; ``lengths`` (n,) counts the true words."""
        steps, _ = self.rnn(self.words(words))
        return torch.tanh(steps[torch.arange(len(words)), lengths - 1])


class Cells(nn.Module):  # type: ignore[misc]
    """The grid of one view, (n, channels, 14, 14), to keys and values of its cells, (n, 196, 2 key), and their mean."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.stem = nn.Linear(CHANNELS + 2, size.cell)
        self.around = nn.ModuleList(nn.Conv2d(size.cell, size.cell, 3, padding=1, groups=size.cell) for _ in range(2))
        self.mix = nn.ModuleList(nn.Linear(size.cell, size.cell) for _ in range(2))
        self.keys_values = nn.Linear(size.cell, 2 * size.key)
        line = torch.linspace(-1.0, 1.0, CELLS)
        self.register_buffer("places", torch.stack([line.repeat(CELLS), line.repeat_interleave(CELLS)], dim=1))

    def forward(self, grid: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """See the class."""
        count = grid.shape[0]
        cells = torch.cat([grid.flatten(2).transpose(1, 2), self.places.expand(count, -1, -1)], dim=2)
        cells = torch.relu(self.stem(cells))
        for around, mix in zip(self.around, self.mix, strict=True):
            near = around(cells.transpose(1, 2).reshape(count, -1, CELLS, CELLS))
            cells = cells + torch.relu(mix(near.flatten(2).transpose(1, 2)))
        return self.keys_values(cells), cells.mean(dim=1)


class ViewReader(nn.Module):  # type: ignore[misc]
    """Reads one view under a task: (n, channels, 14, 14) and (n, task) to (n, view), and where the first queries look.

    Places are (x, y) in the picture, -1 left or top to 1 right or bottom, shape (n, queries, 2).
    """

    def __init__(self, size: Size) -> None:
        super().__init__()
        self._queries, self._key = size.queries, size.key
        self.cells = Cells(size)
        self.first = nn.Linear(size.task, size.queries * size.key)
        self.second = nn.Sequential(nn.Linear(2 * size.key + 2, 64), nn.ReLU(), nn.Linear(64, size.key))
        width = 2 * size.queries * (size.key + 3) + size.cell
        self.film = nn.Linear(size.task, 2 * width)
        self.out = nn.Sequential(
            nn.Linear(width, size.view), nn.ReLU(), nn.Dropout(0.1), nn.Linear(size.view, size.view)
        )

    def forward(self, grid: torch.Tensor, task: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """See the class."""
        keys_values, mean = self.cells(grid)
        keys, values = keys_values.split(self._key, dim=2)
        query = self.first(task).view(-1, self._queries, self._key)
        what, where, strength = self._look(query, keys, values)
        again = query + self.second(torch.cat([query, what, where], dim=2))
        found = [what, where, strength, *self._look(again, keys, values)]
        joined = torch.cat([part.flatten(1) for part in found] + [mean], dim=1)
        scale, shift = self.film(task).chunk(2, dim=1)
        return self.out(joined * (1.0 + scale) + shift), where

    def _look(
        self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """What each query finds (n, q, key), where (n, q, 2), and how strongly anything answers it (n, q, 1)."""
        match = query @ keys.transpose(1, 2) / self._key**0.5
        weights = torch.softmax(match, dim=2)
        where = weights @ self.cells.places.expand(weights.shape[0], -1, -1)
        return weights @ values, where, torch.logsumexp(match, dim=2, keepdim=True)


class Answer(NamedTuple):
    """Logits of a step or a sequence: progress bins (..., 50), success (...), direction (..., 3), subtask (..., s)."""

    progress: torch.Tensor
    success: torch.Tensor
    direction: torch.Tensor
    subtask: torch.Tensor


class Glance(NamedTuple):
    """What a single moment tells without its past: features (..., glance), logits as in `Answer`, and details (..., 5).

    The details are those of `rollout_monitor.sim.tabletop.goals.DETAILS` of the goal in turn: two logits, three
    distances in units of 0.2 m.
    """

    features: torch.Tensor
    progress: torch.Tensor
    success: torch.Tensor
    subtask: torch.Tensor
    details: torch.Tensor


class Moment(nn.Module):  # type: ignore[misc]
    """Views, joints and task of one moment to a `Glance`. It is taught with true states; the past comes after it."""

    def __init__(self, width: int, size: Size) -> None:
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Linear(width + size.task, size.glance), nn.ReLU(), nn.Dropout(0.1), nn.Linear(size.glance, size.glance)
        )
        self.progress = nn.Linear(size.glance, BINS)
        self.success = nn.Linear(size.glance, 1)
        self.subtask = nn.Linear(size.glance, size.subtasks)
        self.details = nn.Linear(size.glance, DETAILS)
        self.register_buffer("centres", (torch.arange(BINS) + 0.5) / BINS)

    def forward(self, joined: torch.Tensor, task: torch.Tensor) -> Glance:
        """(n, width) and (n, task)."""
        features = torch.relu(self.trunk(torch.cat([joined, task], dim=-1)))
        return Glance(
            features,
            self.progress(features),
            self.success(features).squeeze(-1),
            self.subtask(features),
            self.details(features),
        )

    def told(self, glance: Glance) -> torch.Tensor:
        """What a glance says as inputs for what remembers, (..., glance + subtasks + 7)."""
        expected = (glance.progress.softmax(-1) * self.centres).sum(-1, keepdim=True)
        return torch.cat(
            [
                glance.features,
                expected,
                glance.success.sigmoid().unsqueeze(-1),
                glance.subtask.softmax(-1),
                glance.details[..., :2].sigmoid(),
                glance.details[..., 2:],
            ],
            dim=-1,
        )


class Head(nn.Module):  # type: ignore[misc]
    """Views, joints and a task vector to answers, one step at a time or over a sequence.

    It works in four steps: `see` each view, `join` what is there, glance at the `moment`, and remember.
    """

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.size = size
        self.readers = nn.ModuleList(ViewReader(size) for _ in range(VIEWS))
        self.absent = nn.Parameter(torch.zeros(VIEWS, size.view))
        self.posture = nn.Sequential(nn.Linear(size.joints, size.posture), nn.ReLU())
        self.no_joints = nn.Parameter(torch.zeros(size.posture))
        self.moment = Moment(VIEWS * size.view + size.posture, size)
        told = size.glance + size.subtasks + 2 + DETAILS
        self.rnn = nn.GRU(told + size.task, size.state, batch_first=True)
        self.trunk = nn.Sequential(nn.Linear(size.state + told, size.state), nn.ReLU(), nn.Dropout(0.1))
        self.progress = nn.Linear(size.state, BINS)
        self.success = nn.Linear(size.state, 1)
        self.direction = nn.Linear(size.state, DIRECTIONS)
        self.subtask = nn.Linear(size.state, size.subtasks)
        self.register_buffer("temperature", torch.ones(()))

    def see(self, grid: torch.Tensor, task: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Views (n, 2, channels, 14, 14) under tasks (n, task) to (n, 2, view) and places (n, 2, queries, 2)."""
        both = [reader(grid[:, number], task) for number, reader in enumerate(self.readers)]
        return torch.stack([seen for seen, _ in both], dim=1), torch.stack([where for _, where in both], dim=1)

    def join(self, seen: torch.Tensor, present: torch.Tensor, joints: torch.Tensor) -> torch.Tensor:
        """What is there of (..., 2, view) and (..., joints); ``present`` (..., 3): which views, and whether joints."""
        shown = present[..., :VIEWS, None]
        views = shown * seen + (1.0 - shown) * self.absent
        felt = present[..., VIEWS:]
        posture = felt * self.posture(joints) + (1.0 - felt) * self.no_joints
        return torch.cat([views.flatten(-2), posture], dim=-1)

    def answer(self, told: torch.Tensor, hidden: torch.Tensor, glance: Glance) -> Answer:
        """Answers from what is seen now and what the past left; without a past they are those of the glance."""
        x = self.trunk(torch.cat([hidden, told], dim=-1))
        return Answer(
            (glance.progress + self.progress(x)) / self.temperature,
            glance.success + self.success(x).squeeze(-1),
            self.direction(x),
            glance.subtask + self.subtask(x),
        )

    def over_time(
        self, seen: torch.Tensor, present: torch.Tensor, joints: torch.Tensor, task: torch.Tensor
    ) -> tuple[Answer, Glance]:
        """Sequences (b, t, ...) of seen views and a task each, (b, task), to answers and glances (b, t, ...)."""
        tasks = task[:, None].expand(-1, seen.shape[1], -1)
        glance = self.moment(self.join(seen, present, joints), tasks)
        told = self.moment.told(glance)
        hidden, _ = self.rnn(torch.cat([told, tasks], dim=2))
        return self.answer(told, hidden, glance), glance

    def forward(
        self,
        grid: torch.Tensor,
        present: torch.Tensor,
        joints: torch.Tensor,
        task: torch.Tensor,
        state: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """One step, as exported: probabilities of bins, success, direction, subtask, and the next state."""
        seen, _ = self.see(grid, task)
        glance = self.moment(self.join(seen, present, joints), task)
        told = self.moment.told(glance)
        hidden, following = self.rnn(torch.cat([told, task], dim=1)[:, None], state[None])
        said = self.answer(told, hidden[:, 0], glance)
        return (
            said.progress.softmax(-1),
            said.success.sigmoid(),
            said.direction.softmax(-1),
            said.subtask.softmax(-1),
            following[0],
        )


class Network(nn.Module):  # type: ignore[misc]
    """Text encoder and head as one trainable whole."""

    def __init__(self, vocabulary: int, size: Size) -> None:
        super().__init__()
        self.text = TextEncoder(vocabulary, size)
        self.head = Head(size)
