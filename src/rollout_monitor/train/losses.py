"""What is wrong with answers: the parts of the loss, each over the steps that count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from rollout_monitor.prm.backbone import CELLS
from rollout_monitor.train.batches import Batch
from rollout_monitor.train.labels import FLAGS, TaskLabels
from rollout_monitor.train.network import BINS, Answer, Parsed

BIN_WIDTH = 1.0 / BINS
SOFTNESS = 0.012
"""Standard deviation of the target distribution around the true progress."""

DISTANCE, CHANGE, SUCCESS, DIRECTION, SUBTASK, LOOKING = 4.0, 8.0, 0.7, 0.5, 0.25, 0.5
"""Weights of the parts of the loss beside the progress distribution's."""

CHANGE_STEPS = 5
"""A second: over so many steps the direction of progress is judged."""

DETAIL_UNIT_M, DETAIL_MOST_M = 0.2, 0.6
NEARNESS = 0.11
"""Deviation of the target around a thing's place, in pictures from -1 to 1: two thirds of a cell."""


def answer_loss(said: Answer, batch: Batch) -> torch.Tensor:
    """Progress, success, direction and subtask of a sequence's answers."""
    log_bins = said.progress.log_softmax(-1)
    known = torch.isfinite(torch.from_numpy(batch.progress)).float()
    wanted = torch.nan_to_num(torch.from_numpy(batch.progress), nan=0.0)
    spread = -(soft_targets(wanted) * log_bins).sum(-1)
    # Distributions do not know that bins have an order: the mean's error says so.
    centres = (torch.arange(BINS) + 0.5) * BIN_WIDTH
    error = (log_bins.exp() * centres).sum(-1) - wanted
    # What rises has to rise: an error that stays the same costs less than one that comes and goes.
    change = nn.functional.pad(error[:, CHANGE_STEPS:] - error[:, :-CHANGE_STEPS], (CHANGE_STEPS, 0)).abs()
    done = torch.from_numpy(batch.done)
    finished = nn.functional.binary_cross_entropy_with_logits(said.success, done, reduction="none")
    each = known * (spread + DISTANCE * error.abs() + CHANGE * change) + SUCCESS * finished
    each = (
        each + DIRECTION * _classes(said.direction, batch.direction) + SUBTASK * _classes(said.subtask, batch.subtask)
    )
    return _mean(each, torch.from_numpy(batch.valid))


def details_loss(said: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """Details of goals, (..., details): flags as classes, distances in metres; summed over a goal's details.

    What is NaN in ``wanted`` is not known.
    """
    known = torch.isfinite(wanted).float()
    true = torch.nan_to_num(wanted, nan=0.0)
    flags = nn.functional.binary_cross_entropy_with_logits(said[..., :FLAGS], true[..., :FLAGS], reduction="none")
    metres = true[..., FLAGS:].clamp(-DETAIL_MOST_M, DETAIL_MOST_M) / DETAIL_UNIT_M
    gaps = nn.functional.smooth_l1_loss(said[..., FLAGS:], metres, beta=0.1, reduction="none")
    there = known.amax(-1)
    return _mean((torch.cat([flags, gaps], dim=-1) * known).sum(-1), there)


def places_loss(matches: torch.Tensor, wanted: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of where the taught queries look, where the things can be seen.

    Args:
        matches: logits over cells, shape (..., places, 196).
        wanted: x and y of the places, -1 to 1, shape (..., places, 2).
        counts: weights, (..., places).
    """
    line = torch.linspace(-1.0, 1.0, CELLS)
    cells = torch.stack([line.repeat(CELLS), line.repeat_interleave(CELLS)], dim=1)
    near = -0.5 * ((wanted[..., None, :] - cells) / NEARNESS).square().sum(-1)
    missed = -(near.softmax(-1) * matches.log_softmax(-1)).sum(-1)
    return LOOKING * _mean(missed, counts)


def text_loss(parsed: Parsed, texts: Sequence[TaskLabels]) -> torch.Tensor:
    """Whether there is a goal, its kind, its object and its target; texts that nobody has taken apart count 0."""
    kind, what, target = (
        torch.from_numpy(np.stack([getattr(goals, name) for goals in texts])) for name in ("kind", "what", "target")
    )
    there = (kind >= 0).float()
    known = there.amax(-1, keepdim=True).expand_as(there)
    exists = nn.functional.binary_cross_entropy_with_logits(parsed.exists, there, reduction="none")
    total = _mean(exists, known)
    for logits, wanted in ((parsed.kind, kind), (parsed.what, what), (parsed.target, target)):
        total = total + _mean(_cross_entropy(logits, wanted), there)
    return total


def soft_targets(progress: torch.Tensor) -> torch.Tensor:
    """True progress (...) as a narrow distribution over the bins (..., 50)."""
    centres = (torch.arange(BINS) + 0.5) * BIN_WIDTH
    near = -0.5 * ((centres - progress[..., None]) / SOFTNESS) ** 2
    return near.softmax(-1)


def _classes(logits: torch.Tensor, wanted: np.ndarray[Any, np.dtype[np.int64]]) -> torch.Tensor:
    """Cross-entropy of classes, shape (b, t); a wanted class of -1 is not known and counts 0."""
    return _cross_entropy(logits, torch.from_numpy(wanted))


def _cross_entropy(logits: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(
        logits.flatten(0, 1), wanted.flatten(), reduction="none", ignore_index=-1
    ).view_as(wanted)


def _mean(each: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    return (each * weights).sum() / weights.sum().clamp(min=1.0)
