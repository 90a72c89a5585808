"""Fits text encoder and head on cached features: fixed seed, one thread; a stopped run goes on from its checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from rollout_monitor.prm.text import Vocabulary
from rollout_monitor.train import checkpoint as checkpoints
from rollout_monitor.train.features import Rollout
from rollout_monitor.train.head import BINS, Head, HeadSize, TextEncoder
from rollout_monitor.train.sequences import Batch, Labels, make_batch

BIN_WIDTH = 1.0 / BINS
SOFTNESS = 0.012
"""Standard deviation of the target distribution around the true progress."""


@dataclass(frozen=True)
class FitSettings:
    """How long and how: steps of ``batch`` sequences of ``length`` frames."""

    steps: int = 2800
    batch: int = 10
    length: int = 48
    learning_rate: float = 1.5e-3
    weight_decay: float = 0.02
    seed: int = 0
    checkpoint_every: int = 100


class Network(nn.Module):  # type: ignore[misc]
    """Text encoder and head as one trainable whole."""

    def __init__(self, vocabulary: int, size: HeadSize) -> None:
        super().__init__()
        self.text = TextEncoder(vocabulary, size)
        self.head = Head(size)


def fit(
    rollouts: list[Rollout],
    vocabulary: Vocabulary,
    settings: FitSettings,
    size: HeadSize,
    checkpoint: Path,
    report: Callable[[int, float], None] = lambda _step, _loss: None,
) -> tuple[Network, list[float]]:
    """Train from scratch, or go on from ``checkpoint`` if it belongs to the same settings.

    Args:
        rollouts: training rollouts.
        vocabulary: the words.
        settings: how long and how.
        size: widths of the network.
        checkpoint: file written every ``checkpoint_every`` steps.
        report: called after each step with its number (from 1) and loss.

    Returns:
        The network in evaluation mode and the loss of every step.
    """
    torch.manual_seed(settings.seed)
    network = Network(len(vocabulary.words), size)
    optimiser = torch.optim.AdamW(network.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, settings.learning_rate, settings.steps, pct_start=0.1)
    key = {**asdict(settings), "size": asdict(size), "rollouts": len(rollouts), "words": len(vocabulary.words)}
    parts: dict[str, Any] = {"network": network, "optimiser": optimiser, "schedule": schedule}
    losses = checkpoints.resume(checkpoint, key, parts)
    labels = Labels()
    network.train()
    for step in range(len(losses), settings.steps):
        rng = np.random.default_rng([settings.seed, step])
        torch.manual_seed(settings.seed * 1_000_003 + step)
        chosen = rng.choice(len(rollouts), size=settings.batch, replace=len(rollouts) < settings.batch)
        batch = make_batch(rng, [rollouts[int(i)] for i in chosen], labels, vocabulary, settings.length)
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
    """Cross-entropy of the progress distribution, success and direction, over the valid steps."""
    task = network.text.encode_padded(torch.from_numpy(batch.words), torch.from_numpy(batch.lengths))
    bins, success, direction = network.head.over_time(
        torch.from_numpy(batch.pooled), torch.from_numpy(batch.grid), torch.from_numpy(batch.present), task
    )
    valid = torch.from_numpy(batch.valid)
    log_bins = bins.log_softmax(-1)
    spread = -(soft_targets(torch.from_numpy(batch.progress)) * log_bins).sum(-1)
    # Distributions do not know that bins have an order: the mean's error says so.
    centres = (torch.arange(BINS) + 0.5) * BIN_WIDTH
    distance = ((log_bins.exp() * centres).sum(-1) - torch.from_numpy(batch.progress)).abs()
    finished = nn.functional.binary_cross_entropy_with_logits(success, torch.from_numpy(batch.done), reduction="none")
    moving = nn.functional.cross_entropy(
        direction.flatten(0, 1), torch.from_numpy(batch.direction).flatten(), reduction="none"
    ).view_as(valid)
    each = spread + 4.0 * distance + 0.7 * finished + 0.5 * moving
    return (each * valid).sum() / valid.sum()


def soft_targets(progress: torch.Tensor) -> torch.Tensor:
    """True progress (...) as a narrow distribution over the bins (..., 50)."""
    centres = (torch.arange(BINS) + 0.5) * BIN_WIDTH
    near = -0.5 * ((centres - progress[..., None]) / SOFTNESS) ** 2
    return near.softmax(-1)


def run_head(
    network: Network, rollout: Rollout, words: npt.NDArray[np.int64], *, wrist: bool = True
) -> dict[str, npt.NDArray[np.float32]]:
    """Answers for a whole rollout: ``bins`` (n, 50) probabilities, ``success`` (n,), ``direction`` (n, 3)."""
    present = np.ones((1, len(rollout.states), 2), dtype=np.float32)
    present[..., 1] = float(wrist)
    with torch.no_grad():
        bins, success, direction = network.head.over_time(
            torch.from_numpy(rollout.pooled.astype(np.float32))[None],
            torch.from_numpy(rollout.grid.astype(np.float32))[None],
            torch.from_numpy(present),
            network.text(torch.from_numpy(words)[None]),
        )
    return {
        "bins": bins[0].softmax(-1).numpy(),
        "success": success[0].sigmoid().numpy(),
        "direction": direction[0].softmax(-1).numpy(),
    }
