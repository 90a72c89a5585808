"""The trained part of the embedded model: words to a task vector, features and task vector to progress, step by step.

The task steers where the model looks: queries made from the task vector attend over each view's grid and return what
is there and where. A GRU carries the past; three heads answer progress (a distribution over bins), success, direction.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from rollout_monitor.train.backbone import GRID_CHANNELS

BINS = 50
DIRECTIONS = 3


@dataclass(frozen=True)
class HeadSize:
    """Widths of the network; the defaults are the released model's."""

    word: int = 48
    task: int = 96
    key: int = 32
    queries: int = 6
    view: int = 128
    state: int = 192


class TextEncoder(nn.Module):  # type: ignore[misc]
    """Word ids (n, words) to task vectors (n, task). A GRU: the order of the words matters."""

    def __init__(self, vocabulary: int, size: HeadSize) -> None:
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


class ViewReader(nn.Module):  # type: ignore[misc]
    """Reads one view under a task: (n, 1280) and (n, channels, 14, 14) to (n, view)."""

    def __init__(self, size: HeadSize) -> None:
        super().__init__()
        self.local = nn.Sequential(
            nn.Linear(GRID_CHANNELS, 2 * size.key), nn.ReLU(), nn.Linear(2 * size.key, 2 * size.key)
        )
        self.query = nn.Linear(size.task, size.queries * size.key)
        self.whole = nn.Sequential(nn.LayerNorm(1280), nn.Linear(1280, size.view), nn.ReLU())
        width = size.queries * (size.key + 2) + size.view
        self.film = nn.Linear(size.task, 2 * width)
        self.out = nn.Sequential(
            nn.Linear(width, size.view), nn.ReLU(), nn.Dropout(0.1), nn.Linear(size.view, size.view)
        )
        self._queries, self._key = size.queries, size.key
        line = torch.linspace(-1.0, 1.0, 14)
        places = torch.stack([line.repeat(14), line.repeat_interleave(14)], dim=1)
        self.register_buffer("places", places)

    def forward(self, pooled: torch.Tensor, grid: torch.Tensor, task: torch.Tensor) -> torch.Tensor:
        """See the class; ``task`` is (n, task)."""
        cells = grid.flatten(2).transpose(1, 2).contiguous()
        # Nine tenths of the arithmetic is here; bfloat16 makes training several times faster, the export is float32.
        with torch.autocast("cpu", torch.bfloat16, enabled=self.training):
            local = self.local(cells)
        keys, values = local.float().split(self._key, dim=2)
        query = self.query(task).view(-1, self._queries, self._key)
        weights = torch.softmax(query @ keys.transpose(1, 2) / self._key**0.5, dim=2)
        what = (weights @ values).flatten(1)
        where = (weights @ self.places.expand(weights.shape[0], -1, -1)).flatten(1)
        joined = torch.cat([what, where, self.whole(pooled)], dim=1)
        scale, shift = self.film(task).chunk(2, dim=1)
        return self.out(joined * (1.0 + scale) + shift)


class Head(nn.Module):  # type: ignore[misc]
    """Two views and a task vector to answers, one step at a time or over a sequence."""

    def __init__(self, size: HeadSize) -> None:
        super().__init__()
        self.size = size
        self.readers = nn.ModuleList([ViewReader(size), ViewReader(size)])
        self.absent = nn.Parameter(torch.zeros(2, size.view))
        self.rnn = nn.GRU(2 * size.view + size.task, size.state, batch_first=True)
        width = size.state + 2 * size.view
        self.trunk = nn.Sequential(nn.Linear(width, size.state), nn.ReLU(), nn.Dropout(0.1))
        self.progress = nn.Linear(size.state, BINS)
        self.success = nn.Linear(size.state, 1)
        self.direction = nn.Linear(size.state, DIRECTIONS)
        self.register_buffer("temperature", torch.ones(()))

    def read(self, pooled: torch.Tensor, grid: torch.Tensor, present: torch.Tensor, task: torch.Tensor) -> torch.Tensor:
        """Views of single moments: (n, 2, 1280), (n, 2, channels, 14, 14), (n, 2), (n, task) to (n, 2 * view)."""
        parts = []
        for place, reader in enumerate(self.readers):
            seen = present[:, place : place + 1]
            parts.append(seen * reader(pooled[:, place], grid[:, place], task) + (1.0 - seen) * self.absent[place])
        return torch.cat(parts, dim=1)

    def answer(self, read: torch.Tensor, hidden: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Logits of progress bins, success and direction."""
        x = self.trunk(torch.cat([hidden, read], dim=-1))
        return self.progress(x) / self.temperature, self.success(x).squeeze(-1), self.direction(x)

    def over_time(
        self, pooled: torch.Tensor, grid: torch.Tensor, present: torch.Tensor, task: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Sequences: (b, t, 2, ...), (b, t, 2), (b, task) to logits (b, t, ...)."""
        batch, steps = pooled.shape[:2]
        tasks = task[:, None].expand(-1, steps, -1)
        read = self.read(pooled.flatten(0, 1), grid.flatten(0, 1), present.flatten(0, 1), tasks.flatten(0, 1))
        read = read.view(batch, steps, -1)
        hidden, _ = self.rnn(torch.cat([read, tasks], dim=2))
        return self.answer(read, hidden)

    def forward(
        self,
        pooled: torch.Tensor,
        grid: torch.Tensor,
        present: torch.Tensor,
        task: torch.Tensor,
        state: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """One step, as exported: probabilities of bins (n, 50), success (n,), direction (n, 3), the next state."""
        read = self.read(pooled, grid, present, task)
        hidden, following = self.rnn(torch.cat([read, task], dim=1)[:, None], state[None])
        bins, success, direction = self.answer(read, hidden[:, 0])
        return bins.softmax(-1), success.sigmoid(), direction.softmax(-1), following[0]
