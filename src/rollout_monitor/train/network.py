"""The trained part of the embedded model: words, pictures' features and joints to progress, step by step.

The instruction steers where the model looks. Queries made from it attend over each view's 14 x 14 cells and bring back
what is there and where it is; a second round of queries, made from what the first found, looks at it in relation. A GRU
carries the past; heads answer progress (a distribution over bins), success, direction and the subtask in turn.
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


class Head(nn.Module):  # type: ignore[misc]
    """Views, joints and a task vector to answers, one step at a time or over a sequence."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.size = size
        self.readers = nn.ModuleList(ViewReader(size) for _ in range(VIEWS))
        self.absent = nn.Parameter(torch.zeros(VIEWS, size.view))
        self.posture = nn.Sequential(nn.Linear(size.joints, size.posture), nn.ReLU())
        self.no_joints = nn.Parameter(torch.zeros(size.posture))
        width = VIEWS * size.view + size.posture
        self.rnn = nn.GRU(width + size.task, size.state, batch_first=True)
        self.trunk = nn.Sequential(nn.Linear(size.state + width, size.state), nn.ReLU(), nn.Dropout(0.1))
        self.progress = nn.Linear(size.state, BINS)
        self.success = nn.Linear(size.state, 1)
        self.direction = nn.Linear(size.state, DIRECTIONS)
        self.subtask = nn.Linear(size.state, size.subtasks)
        self.register_buffer("temperature", torch.ones(()))

    def read(
        self, grid: torch.Tensor, present: torch.Tensor, joints: torch.Tensor, task: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Single moments: (n, 2, channels, 14, 14), (n, 3), (n, joints), (n, task) to (n, width), places (n, 2, q, 2).

        ``present`` says which of the views, and whether the joints, are there.
        """
        parts, places = [], []
        for number, reader in enumerate(self.readers):
            seen = present[:, number : number + 1]
            found, where = reader(grid[:, number], task)
            parts.append(seen * found + (1.0 - seen) * self.absent[number])
            places.append(where)
        felt = present[:, VIEWS : VIEWS + 1]
        parts.append(felt * self.posture(joints) + (1.0 - felt) * self.no_joints)
        return torch.cat(parts, dim=1), torch.stack(places, dim=1)

    def answer(self, read: torch.Tensor, hidden: torch.Tensor) -> Answer:
        """Answers from what is seen now and what the past left."""
        x = self.trunk(torch.cat([hidden, read], dim=-1))
        return Answer(
            self.progress(x) / self.temperature, self.success(x).squeeze(-1), self.direction(x), self.subtask(x)
        )

    def over_time(
        self, grid: torch.Tensor, present: torch.Tensor, joints: torch.Tensor, task: torch.Tensor
    ) -> tuple[Answer, torch.Tensor]:
        """Sequences (b, t, ...) and a task each, (b, task), to answers (b, t, ...) and places (b, t, 2, q, 2)."""
        batch, steps = grid.shape[:2]
        tasks = task[:, None].expand(-1, steps, -1)
        # Nine tenths of the arithmetic is in the cells; bfloat16 makes training faster, the export is float32.
        with torch.autocast("cpu", torch.bfloat16, enabled=self.training):
            read, places = self.read(
                grid.flatten(0, 1), present.flatten(0, 1), joints.flatten(0, 1), tasks.flatten(0, 1)
            )
        read = read.float().view(batch, steps, -1)
        hidden, _ = self.rnn(torch.cat([read, tasks], dim=2))
        return self.answer(read, hidden), places.float().view(batch, steps, *places.shape[1:])

    def forward(
        self,
        grid: torch.Tensor,
        present: torch.Tensor,
        joints: torch.Tensor,
        task: torch.Tensor,
        state: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """One step, as exported: probabilities of bins, success, direction, subtask, and the next state."""
        read, _ = self.read(grid, present, joints, task)
        hidden, following = self.rnn(torch.cat([read, task], dim=1)[:, None], state[None])
        said = self.answer(read, hidden[:, 0])
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
