"""Fits text encoder and head on cached features: fixed seed, one thread; a stopped run goes on from its checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from rollout_monitor.prm.text import Vocabulary
from rollout_monitor.train import checkpoint as checkpoints
from rollout_monitor.train.batches import Batch, Mix, make_batch
from rollout_monitor.train.examples import Example
from rollout_monitor.train.network import BINS, SHOWN, Network, Size

BIN_WIDTH = 1.0 / BINS
SOFTNESS = 0.012
"""Standard deviation of the target distribution around the true progress."""

DISTANCE, SUCCESS, DIRECTION, SUBTASK, PLACES = 4.0, 0.7, 0.5, 0.25, 1.0
"""Weights of the parts of the loss beside the progress distribution's."""


@dataclass(frozen=True)
class FitSettings:
    """How long and how: steps of ``batch`` sequences of ``length`` frames."""

    steps: int = 4000
    batch: int = 12
    length: int = 40
    learning_rate: float = 1.5e-3
    weight_decay: float = 0.02
    seed: int = 0
    checkpoint_every: int = 100


def fit(
    examples: Sequence[Example],
    vocabulary: Vocabulary,
    settings: FitSettings,
    size: Size,
    checkpoint: Path,
    *,
    mix: Mix | None = None,
    report: Callable[[int, float], None] = lambda _step, _loss: None,
) -> tuple[Network, list[float]]:
    """Train from scratch, or go on from ``checkpoint`` if it belongs to the same settings.

    Args:
        examples: training takes.
        vocabulary: the words.
        settings: how long and how.
        size: widths of the network.
        checkpoint: file written every ``checkpoint_every`` steps.
        mix: how sequences are made.
        report: called after each step with its number (from 1) and loss.

    Returns:
        The network in evaluation mode and the loss of every step.
    """
    mix = mix or Mix()
    torch.manual_seed(settings.seed)
    network = Network(len(vocabulary.words), size)
    optimiser = torch.optim.AdamW(network.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, settings.learning_rate, settings.steps, pct_start=0.1)
    key = {
        **asdict(settings),
        "size": asdict(size),
        "mix": asdict(mix),
        "examples": len(examples),
        "words": len(vocabulary.words),
    }
    parts: dict[str, Any] = {"network": network, "optimiser": optimiser, "schedule": schedule}
    losses = checkpoints.resume(checkpoint, key, parts)
    network.train()
    for step in range(len(losses), settings.steps):
        rng = np.random.default_rng([settings.seed, step])
        torch.manual_seed(settings.seed * 1_000_003 + step)
        chosen = rng.choice(len(examples), size=settings.batch, replace=len(examples) < settings.batch)
        batch = make_batch(rng, [examples[int(i)] for i in chosen], vocabulary, settings.length, mix)
        loss = loss_of(network, batch)
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        losses.append(float(loss.detach()))
        report(step + 1, losses[-1])
        if (step + 1) % settings.checkpoint_every == 0:
            checkpoints.save(checkpoint, key, parts, losses)
    network.eval()
    return network, losses


def loss_of(network: Network, batch: Batch) -> torch.Tensor:
    """What is wrong with progress, success, direction, subtask and places, over the valid steps."""
    task = network.text.encode_padded(torch.from_numpy(batch.words), torch.from_numpy(batch.lengths))
    present = torch.from_numpy(batch.present)
    said, places = network.head.over_time(torch.from_numpy(batch.grid), present, torch.from_numpy(batch.joints), task)
    valid = torch.from_numpy(batch.valid)
    log_bins = said.progress.log_softmax(-1)
    progress = torch.from_numpy(batch.progress)
    spread = -(soft_targets(progress) * log_bins).sum(-1)
    # Distributions do not know that bins have an order: the mean's error says so.
    centres = (torch.arange(BINS) + 0.5) * BIN_WIDTH
    distance = ((log_bins.exp() * centres).sum(-1) - progress).abs()
    finished = nn.functional.binary_cross_entropy_with_logits(
        said.success, torch.from_numpy(batch.done), reduction="none"
    )
    each = spread + DISTANCE * distance + SUCCESS * finished
    each = (
        each + DIRECTION * _classes(said.direction, batch.direction) + SUBTASK * _classes(said.subtask, batch.subtask)
    )
    total = (each * valid).sum() / valid.sum()
    return total + PLACES * _misplaced(places, batch, present)


def _classes(logits: torch.Tensor, wanted: np.ndarray[Any, np.dtype[np.int64]]) -> torch.Tensor:
    """Cross-entropy of classes, shape (b, t); a wanted class that the network does not have (-1 and less) counts 0."""
    target = torch.from_numpy(wanted)
    return nn.functional.cross_entropy(
        logits.flatten(0, 1), target.flatten(), reduction="none", ignore_index=-1
    ).view_as(target)


def _misplaced(places: torch.Tensor, batch: Batch, present: torch.Tensor) -> torch.Tensor:
    """Mean squared distance between where the first queries look and where the things are, where they can be seen."""
    wanted, seen = torch.from_numpy(batch.shown), torch.from_numpy(batch.shown_valid)
    counts = seen * present[..., :2, None] * torch.from_numpy(batch.valid)[:, :, None, None]
    squared = ((places[..., :SHOWN, :] - wanted) ** 2).sum(-1)
    return (squared * counts).sum() / counts.sum().clamp(min=1.0)


def soft_targets(progress: torch.Tensor) -> torch.Tensor:
    """True progress (...) as a narrow distribution over the bins (..., 50)."""
    centres = (torch.arange(BINS) + 0.5) * BIN_WIDTH
    near = -0.5 * ((centres - progress[..., None]) / SOFTNESS) ** 2
    return near.softmax(-1)
