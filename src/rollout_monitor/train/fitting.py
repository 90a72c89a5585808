"""Fits the network in stages: fixed seed, one thread; a stopped run goes on from its checkpoint.

`GLANCE`: text encoder, views and what a single moment tells, on moments of many takes at once.
`MEMORY`: what remembers, on sequences of what the first stage sees in each take, worked out beforehand.
`WHOLE`: everything together, on sequences of features. A user's cell is learned so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from rollout_monitor.prm.text import Vocabulary
from rollout_monitor.train import checkpoint as checkpoints
from rollout_monitor.train.batches import Batch, Mix, Source, make_batch, playback, scattered
from rollout_monitor.train.losses import answer_loss, glance_loss, places_loss
from rollout_monitor.train.network import Network

GLANCE, MEMORY, WHOLE = "glance", "memory", "whole"
GLANCE_SHARE = 0.3
"""Weight of the glance's own loss where the answers are trained as well."""


@dataclass(frozen=True)
class FitSettings:
    """How long and how: steps of ``batch`` sequences of ``length`` frames."""

    stage: str
    steps: int
    batch: int
    length: int
    learning_rate: float
    weight_decay: float = 0.02
    seed: int = 0
    checkpoint_every: int = 100
    anchor: float = 0.0
    """Pull of every weight to where it began, times its squared distance."""


def fit(
    network: Network,
    sources: Sequence[Source],
    vocabulary: Vocabulary,
    settings: FitSettings,
    checkpoint: Path | None = None,
    *,
    mix: Mix | None = None,
    shares: Sequence[float] | None = None,
    report: Callable[[int, float], None] = lambda _step, _loss: None,
) -> list[float]:
    """Train ``network`` in place, or go on from ``checkpoint`` if it belongs to the same settings.

    Args:
        network: changed in place, in evaluation mode afterwards.
        sources: training takes; in the stage `MEMORY` their views are what the network saw in them.
        vocabulary: the words.
        settings: stage, how long and how.
        checkpoint: file written every ``checkpoint_every`` steps and at the end; None: no file.
        mix: how sequences are made.
        shares: how often each source is drawn, adding up to 1; None: evenly.
        report: called after each step with its number (from 1) and loss.

    Returns:
        The loss of every step.
    """
    mix = mix or Mix()
    torch.manual_seed(settings.seed)
    trained = list(_trained(network, settings.stage))
    began = [parameter.detach().clone() for parameter in trained] if settings.anchor else []
    optimiser = torch.optim.AdamW(trained, lr=settings.learning_rate, weight_decay=settings.weight_decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, settings.learning_rate, settings.steps, pct_start=0.1)
    key = {**asdict(settings), "mix": asdict(mix), "sources": len(sources), "words": len(vocabulary.words)}
    parts: dict[str, Any] = {"network": network, "optimiser": optimiser, "schedule": schedule}
    losses = checkpoints.resume(checkpoint, key, parts) if checkpoint else []
    path_of = scattered if settings.stage == GLANCE else playback
    network.train()
    for step in range(len(losses), settings.steps):
        rng = np.random.default_rng([settings.seed, step])
        torch.manual_seed(settings.seed * 1_000_003 + step)
        few = len(sources) < settings.batch or shares is not None
        chosen = rng.choice(len(sources), size=settings.batch, replace=few, p=shares)
        batch = make_batch(rng, [sources[int(i)] for i in chosen], vocabulary, settings.length, mix, path_of)
        loss = loss_of(network, batch, settings.stage)
        if settings.anchor:
            strayed = torch.stack([((now - then) ** 2).sum() for now, then in zip(trained, began, strict=True)])
            loss = loss + settings.anchor * strayed.sum()
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(trained, 1.0)
        optimiser.step()
        schedule.step()
        losses.append(float(loss.detach()))
        report(step + 1, losses[-1])
        if checkpoint and ((step + 1) % settings.checkpoint_every == 0 or step + 1 == settings.steps):
            checkpoints.save(checkpoint, key, parts, losses)
    network.eval()
    return losses


def _trained(network: Network, stage: str) -> Iterable[nn.Parameter]:
    head = network.head
    memory: list[nn.Parameter] = [*head.rnn.parameters(), *head.trunk.parameters()]
    for part in (head.progress, head.success, head.direction, head.subtask):
        memory += part.parameters()
    if stage == MEMORY:
        return memory
    whole: list[nn.Parameter] = list(network.parameters())
    if stage == WHOLE:
        return whole
    later = {id(parameter) for parameter in memory}
    return [parameter for parameter in whole if id(parameter) not in later]


def loss_of(network: Network, batch: Batch, stage: str) -> torch.Tensor:
    """The loss of a stage on a batch."""
    head = network.head
    task = network.text.encode_padded(torch.from_numpy(batch.words), torch.from_numpy(batch.lengths))
    present, joints = torch.from_numpy(batch.present), torch.from_numpy(batch.joints)
    views = torch.from_numpy(batch.views)
    if stage == MEMORY:
        said, _ = head.over_time(views, present, joints, task.detach())
        return answer_loss(said, batch)
    tasks = task[:, None].expand(-1, views.shape[1], -1)
    # Most of the arithmetic is here; bfloat16 makes it faster where the processor knows it. The export is float32.
    with torch.autocast("cpu", torch.bfloat16):
        seen, places = head.see(views.flatten(0, 1), tasks.flatten(0, 1))
    seen, places = seen.float().view(*views.shape[:2], *seen.shape[1:]), places.float()
    looked = places_loss(places.view(*views.shape[:2], *places.shape[1:]), batch)
    if stage == GLANCE:
        return glance_loss(head.moment(head.join(seen, present, joints), tasks), batch) + looked
    said, glance = head.over_time(seen, present, joints, task)
    return answer_loss(said, batch) + GLANCE_SHARE * glance_loss(glance, batch) + looked
