"""What is wrong with answers: the parts of the loss, each over the steps that count."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from rollout_monitor.train.batches import Batch
from rollout_monitor.train.network import BINS, SHOWN, Answer, Glance

BIN_WIDTH = 1.0 / BINS
SOFTNESS = 0.012
"""Standard deviation of the target distribution around the true progress."""

DISTANCE, SUCCESS, DIRECTION, SUBTASK, DETAILS, PLACES = 4.0, 0.7, 0.5, 0.25, 0.5, 1.0
"""Weights of the parts of the loss beside the progress distribution's."""

DETAIL_UNIT_M, DETAIL_MOST_M = 0.2, 0.6


def answer_loss(said: Answer, batch: Batch) -> torch.Tensor:
    """Progress, success, direction and subtask of a sequence's answers."""
    each = _common(said.progress, said.success, said.subtask, batch) + DIRECTION * _classes(
        said.direction, batch.direction
    )
    return _mean(each, batch)


def glance_loss(glance: Glance, batch: Batch) -> torch.Tensor:
    """Progress, success, subtask and details of single moments."""
    each = _common(glance.progress, glance.success, glance.subtask, batch)
    return _mean(each + DETAILS * _details(glance.details, torch.from_numpy(batch.details)), batch)


def places_loss(places: torch.Tensor, batch: Batch) -> torch.Tensor:
    """Mean squared distance between where the first queries look and where the things are, where they can be seen.

    Args:
        places: shape (b, t, 2, queries, 2), pictures from -1 to 1.
        batch: tells the places.
    """
    wanted, seen = torch.from_numpy(batch.shown), torch.from_numpy(batch.shown_valid)
    present, valid = torch.from_numpy(batch.present), torch.from_numpy(batch.valid)
    counts = seen * present[..., :2, None] * valid[:, :, None, None]
    squared = ((places[..., :SHOWN, :] - wanted) ** 2).sum(-1)
    return PLACES * (squared * counts).sum() / counts.sum().clamp(min=1.0)


def soft_targets(progress: torch.Tensor) -> torch.Tensor:
    """True progress (...) as a narrow distribution over the bins (..., 50)."""
    centres = (torch.arange(BINS) + 0.5) * BIN_WIDTH
    near = -0.5 * ((centres - progress[..., None]) / SOFTNESS) ** 2
    return near.softmax(-1)


def _common(progress: torch.Tensor, success: torch.Tensor, subtask: torch.Tensor, batch: Batch) -> torch.Tensor:
    log_bins = progress.log_softmax(-1)
    known = torch.isfinite(torch.from_numpy(batch.progress)).float()
    wanted = torch.nan_to_num(torch.from_numpy(batch.progress), nan=0.0)
    spread = -(soft_targets(wanted) * log_bins).sum(-1)
    # Distributions do not know that bins have an order: the mean's error says so.
    centres = (torch.arange(BINS) + 0.5) * BIN_WIDTH
    distance = ((log_bins.exp() * centres).sum(-1) - wanted).abs()
    done = torch.from_numpy(batch.done)
    finished = nn.functional.binary_cross_entropy_with_logits(success, done, reduction="none")
    return known * (spread + DISTANCE * distance) + SUCCESS * finished + SUBTASK * _classes(subtask, batch.subtask)


def _details(said: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    known = torch.isfinite(wanted).float()
    true = torch.nan_to_num(wanted, nan=0.0)
    flags = nn.functional.binary_cross_entropy_with_logits(said[..., :2], true[..., :2], reduction="none")
    metres = true[..., 2:].clamp(-DETAIL_MOST_M, DETAIL_MOST_M) / DETAIL_UNIT_M
    gaps = nn.functional.smooth_l1_loss(said[..., 2:], metres, beta=0.1, reduction="none")
    return (torch.cat([flags, gaps], dim=-1) * known).sum(-1)


def _classes(logits: torch.Tensor, wanted: np.ndarray[Any, np.dtype[np.int64]]) -> torch.Tensor:
    """Cross-entropy of classes, shape (b, t); a wanted class of -1 is not known and counts 0."""
    target = torch.from_numpy(wanted)
    return nn.functional.cross_entropy(
        logits.flatten(0, 1), target.flatten(), reduction="none", ignore_index=-1
    ).view_as(target)


def _mean(each: torch.Tensor, batch: Batch) -> torch.Tensor:
    weights = torch.from_numpy(batch.valid)
    return (each * weights).sum() / weights.sum().clamp(min=1.0)
