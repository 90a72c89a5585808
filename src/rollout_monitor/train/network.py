"""The trained part of the embedded model: words, pictures' features and joints to progress, step by step.

It works as the simulation's truth is made, so that each part can be taught what it is for:

1. The text gives up to three goals in their order, each a vector: what kind, which object, which target.
2. For each goal every view is looked at: queries made from the goal attend to the object, to its target, and, made from
   what these found, to what lies around. One more query looks at the tool.
3. A glance at one moment tells details of each goal (`rollout_monitor.sim.tabletop.goals.DETAILS`): whether its object
   is held, in its place or blocked, how far the hand and the place are. Nothing else is handed on: what is not a detail
   cannot be learned by heart.
4. A GRU remembers the details and answers progress (a distribution over bins), success, direction and the subtask.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import nn

from rollout_monitor.prm.backbone import CELLS, CHANNELS
from rollout_monitor.train.labels import DETAILS, FLAGS, GOALS, KINDS, THINGS

BINS = 50
DIRECTIONS = 3
VIEWS = 2
QUERIES = 4
"""Of each goal: its object, its target, and two that are free."""

TAUGHT = 2
"""The first queries of a goal are taught where to look."""


@dataclass(frozen=True)
class Size:
    """Widths of the network; the defaults are the released model's."""

    word: int = 64
    text: int = 80
    goal: int = 80
    cell: int = 80
    key: int = 40
    view: int = 144
    joints: int = 32
    posture: int = 48
    glance: int = 224
    state: int = 160
    subtasks: int = 5

    @property
    def task(self) -> int:
        """Width of a task's vector: each goal, whether there is one, and its kind."""
        return GOALS * (self.goal + 1 + KINDS)


class Parsed(NamedTuple):
    """Goals read from texts: vectors (n, 3, goal), and logits: exists (n, 3), kind, object, target (n, 3, ...)."""

    goals: torch.Tensor
    exists: torch.Tensor
    kind: torch.Tensor
    what: torch.Tensor
    target: torch.Tensor


class TextEncoder(nn.Module):  # type: ignore[misc]
    """Word ids (n, words) to task vectors (n, task). The order of the words matters."""

    def __init__(self, vocabulary: int, size: Size) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary + 1, size.word)
        self.rnn = nn.GRU(size.word, size.text, batch_first=True, bidirectional=True)
        self.slots = nn.Linear(2 * size.text, GOALS)
        self.goal = nn.Sequential(
            nn.Linear(4 * size.text + GOALS, 128), nn.ReLU(), nn.Linear(128, size.goal), nn.Tanh()
        )
        self.exists = nn.Linear(size.goal, 1)
        self.kind = nn.Linear(size.goal, KINDS)
        self.what = nn.Linear(size.goal, THINGS)
        self.target = nn.Linear(size.goal, THINGS)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """One text per row, all of the same number of words."""
        steps, _ = self.rnn(self.words(words))
        return self.task(self._parse(steps, steps.mean(dim=1), self.slots(steps)))

    def parse(self, words: torch.Tensor, lengths: torch.Tensor) -> Parsed:
        """Texts of different lengths, padded on the right; ``lengths`` (n,) counts the true words."""
        packed = nn.utils.rnn.pack_padded_sequence(self.words(words), lengths, batch_first=True, enforce_sorted=False)
        steps, _ = nn.utils.rnn.pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
        true = torch.arange(steps.shape[1])[None] < lengths[:, None]
        slots = self.slots(steps).masked_fill(~true[:, :, None], -1e4)
        return self._parse(steps, steps.sum(dim=1) / lengths[:, None], slots)

    def _parse(self, steps: torch.Tensor, whole: torch.Tensor, slots: torch.Tensor) -> Parsed:
        found = slots.softmax(dim=1).transpose(1, 2) @ steps
        count = steps.shape[0]
        number = torch.eye(GOALS).expand(count, -1, -1)
        goals = self.goal(torch.cat([found, whole[:, None].expand(-1, GOALS, -1), number], dim=2))
        return Parsed(goals, self.exists(goals).squeeze(-1), self.kind(goals), self.what(goals), self.target(goals))

    @staticmethod
    def task(parsed: Parsed) -> torch.Tensor:
        """Goals as one vector, (n, task)."""
        exists = parsed.exists.sigmoid().unsqueeze(-1)
        return torch.cat([parsed.goals, exists, parsed.kind.softmax(-1)], dim=2).flatten(1)


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
    """Reads one view for each of g goals: (n, channels, 14, 14) and (n, g, goal) to (n, g, view).

    Beside it comes how well each cell matches each query that is taught, (n, 2 g + 1, 196): object and target of each
    goal, then the tool.
    """

    def __init__(self, size: Size) -> None:
        super().__init__()
        self._key = size.key
        self.cells = Cells(size)
        self.first = nn.Linear(size.goal, QUERIES * size.key)
        self.tool = nn.Parameter(torch.randn(1, size.key))
        self.second = nn.Sequential(nn.Linear(2 * size.key + 2, 64), nn.ReLU(), nn.Linear(64, size.key))
        width = (2 * QUERIES + 1) * (size.key + 3) + size.cell
        self.film = nn.Linear(size.goal, 2 * width)
        self.out = nn.Sequential(
            nn.Linear(width, size.view), nn.ReLU(), nn.Dropout(0.1), nn.Linear(size.view, size.view)
        )

    def forward(self, grid: torch.Tensor, goals: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """See the class."""
        count, number = grid.shape[0], goals.shape[1]
        keys_values, mean = self.cells(grid)
        keys, values = keys_values.split(self._key, dim=2)
        query = torch.cat(
            [self.first(goals).view(count, number * QUERIES, self._key), self.tool.expand(count, 1, -1)], dim=1
        )
        found, match = self._look(query, keys, values)
        what_where = found[:, : number * QUERIES, : self._key + 2]
        again = self.second(torch.cat([query[:, : number * QUERIES], what_where], dim=2))
        further, _ = self._look(query[:, : number * QUERIES] + again, keys, values)
        of_goals = [part.reshape(count, number, -1) for part in (found[:, : number * QUERIES], further)]
        for_all = torch.cat([found[:, -1], mean], dim=1)[:, None].expand(-1, number, -1)
        joined = torch.cat([*of_goals, for_all], dim=2)
        scale, shift = self.film(goals).chunk(2, dim=2)
        matches = match[:, : number * QUERIES].view(count, number, QUERIES, -1)[:, :, :TAUGHT].flatten(1, 2)
        return self.out(joined * (1.0 + scale) + shift), torch.cat([matches, match[:, -1:]], dim=1)

    def _look(self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """What each query finds, where, how strongly anything answers it: (n, q, key + 2 + 1); matches (n, q, 196)."""
        match = query @ keys.transpose(1, 2) / self._key**0.5
        weights = torch.softmax(match, dim=2)
        where = weights @ self.cells.places.expand(weights.shape[0], -1, -1)
        return torch.cat([weights @ values, where, torch.logsumexp(match, dim=2, keepdim=True)], dim=2), match


class Answer(NamedTuple):
    """Logits of a step or a sequence: progress bins (..., 50), success (...), direction (..., 3), subtask (..., s)."""

    progress: torch.Tensor
    success: torch.Tensor
    direction: torch.Tensor
    subtask: torch.Tensor


class Head(nn.Module):  # type: ignore[misc]
    """Views, joints and a task vector to answers, one step at a time or over a sequence: `see`, `glance`, remember."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.size = size
        self.readers = nn.ModuleList(ViewReader(size) for _ in range(VIEWS))
        self.absent = nn.Parameter(torch.zeros(VIEWS, size.view))
        self.posture = nn.Sequential(nn.Linear(size.joints, size.posture), nn.ReLU())
        self.no_joints = nn.Parameter(torch.zeros(size.posture))
        width = VIEWS * size.view + size.posture + size.goal + VIEWS + 1
        self.moment = nn.Sequential(
            nn.Linear(width, size.glance),
            nn.ReLU(),
            nn.Dropout(0.1),
            nn.Linear(size.glance, size.glance),
            nn.ReLU(),
            nn.Linear(size.glance, DETAILS),
        )
        told = GOALS * (DETAILS + 1 + KINDS)
        self.rnn = nn.GRU(told, size.state, batch_first=True)
        self.trunk = nn.Sequential(nn.Linear(size.state + told, size.state), nn.ReLU(), nn.Dropout(0.1))
        self.progress = nn.Linear(size.state, BINS)
        self.success = nn.Linear(size.state, 1)
        self.direction = nn.Linear(size.state, DIRECTIONS)
        self.subtask = nn.Linear(size.state, size.subtasks)
        self.register_buffer("temperature", torch.ones(()))

    def see(self, grid: torch.Tensor, task: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Views (n, 2, channels, 14, 14) under tasks (n, task) to (n, 2, 3, view) and matches (n, 2, places, 196)."""
        return self.look(grid, self._goals(task)[..., : self.size.goal])

    def look(self, grid: torch.Tensor, goals: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Views (n, 2, channels, 14, 14) for goals (n, g, goal) to (n, 2, g, view) and matches (n, 2, 2 g + 1, 196)."""
        both = [reader(grid[:, number], goals) for number, reader in enumerate(self.readers)]
        return torch.stack([seen for seen, _ in both], dim=1), torch.stack([match for _, match in both], dim=1)

    def glance(
        self, seen: torch.Tensor, present: torch.Tensor, joints: torch.Tensor, task: torch.Tensor
    ) -> torch.Tensor:
        """Details of each goal, (n, 3, details): logits of flags, then distances in units of 0.2 m.

        Args:
            seen: (n, 2, 3, view).
            present: which views and whether joints are there, (n, 3).
            joints: (n, joints).
            task: (n, task).
        """
        return self.judge(seen, present, joints, self._goals(task)[..., : self.size.goal])

    def judge(
        self, seen: torch.Tensor, present: torch.Tensor, joints: torch.Tensor, goals: torch.Tensor
    ) -> torch.Tensor:
        """Details of g goals (n, g, goal), (n, g, details), from what was seen for them; otherwise as `glance`."""
        shown = present[:, :VIEWS, None, None]
        views = shown * seen + (1.0 - shown) * self.absent[:, None]
        felt = present[:, VIEWS:]
        posture = felt * self.posture(joints) + (1.0 - felt) * self.no_joints
        for_all = torch.cat([posture, present], dim=1)[:, None].expand(-1, goals.shape[1], -1)
        return self.moment(torch.cat([views[:, 0], views[:, 1], for_all, goals], dim=2))

    def tell(self, details: torch.Tensor, task: torch.Tensor) -> torch.Tensor:
        """What is remembered of a glance, (n, told): details of the goals that there are, and their kinds."""
        about = self._goals(task)[..., self.size.goal :]
        plain = torch.cat([details[..., :FLAGS].sigmoid(), details[..., FLAGS:]], dim=-1)
        return torch.cat([plain * about[..., :1], about], dim=-1).flatten(-2)

    def remember(self, told: torch.Tensor) -> Answer:
        """Answers over sequences of what was told, (b, t, told)."""
        hidden, _ = self.rnn(told)
        return self._answer(told, hidden)

    def _goals(self, task: torch.Tensor) -> torch.Tensor:
        return task.unflatten(-1, (GOALS, self.size.goal + 1 + KINDS))

    def _answer(self, told: torch.Tensor, hidden: torch.Tensor) -> Answer:
        x = self.trunk(torch.cat([hidden, told], dim=-1))
        return Answer(
            self.progress(x) / self.temperature, self.success(x).squeeze(-1), self.direction(x), self.subtask(x)
        )

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
        told = self.tell(self.glance(seen, present, joints, task), task)
        hidden, following = self.rnn(told[:, None], state[None])
        said = self._answer(told, hidden[:, 0])
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
