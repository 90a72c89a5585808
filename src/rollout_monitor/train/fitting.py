"""Fits the network in stages: fixed seed, one thread; a stopped run goes on from its checkpoint.

`GLANCE`: text encoder, views and what a single moment tells, on moments of many takes at once.
`MEMORY`: what remembers, on sequences of what the first stage sees in each take, worked out beforehand.
`WHOLE`: everything together, on sequences of features. A user's cell is learned so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import nn

from rollout_monitor.prm.text import Vocabulary
from rollout_monitor.train import checkpoint as checkpoints
from rollout_monitor.train.batches import Batch, Mix, Source, make_batch
from rollout_monitor.train.glances import Glances, Scene, make_glances
from rollout_monitor.train.labels import DETAILS, FLAGS, GOALS
from rollout_monitor.train.losses import answer_loss, details_loss, places_loss, text_loss
from rollout_monitor.train.network import Network

GLANCE, MEMORY, WHOLE = "glance", "memory", "whole"
TAUGHT_SHARE = 0.3
"""Weight of what simulated truth teaches beside progress, where the answers are trained as well."""

FLAG_BLUR, GAP_BLUR = 0.5, 0.06
"""Deviations of the blur: of a flag's logit, and of a distance in units of 0.2 m."""


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
    sources: Sequence[Source] | Sequence[Scene],
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
        sources: training takes, in the stage `GLANCE` scenes; in `MEMORY` their views are what the network saw in them.
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
    trained = _trained(network, settings.stage)
    began = [parameter.detach().clone() for parameter in trained] if settings.anchor else []
    optimiser = torch.optim.AdamW(trained, lr=settings.learning_rate, weight_decay=settings.weight_decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, settings.learning_rate, settings.steps, pct_start=0.1)
    key = {**asdict(settings), "mix": asdict(mix), "sources": len(sources), "words": len(vocabulary.words)}
    parts: dict[str, Any] = {"network": network, "optimiser": optimiser, "schedule": schedule}
    losses = checkpoints.resume(checkpoint, key, parts) if checkpoint else []
    network.train()
    steps = range(len(losses), settings.steps)
    made = _ahead(lambda step: _make(sources, vocabulary, settings, mix, shares, step), steps)
    for step, batch in zip(steps, made, strict=True):
        torch.manual_seed(settings.seed * 1_000_003 + step)
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


def _trained(network: Network, stage: str) -> list[nn.Parameter]:
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


def _make(
    sources: Sequence[Source] | Sequence[Scene],
    vocabulary: Vocabulary,
    settings: FitSettings,
    mix: Mix,
    shares: Sequence[float] | None,
    step: int,
) -> Batch | Glances:
    rng = np.random.default_rng([settings.seed, step])
    few = len(sources) < settings.batch or shares is not None
    chosen = [sources[int(i)] for i in rng.choice(len(sources), size=settings.batch, replace=few, p=shares)]
    if settings.stage == GLANCE:
        return make_glances(rng, cast("list[Scene]", chosen), vocabulary, mix)
    return make_batch(rng, cast("list[Source]", chosen), vocabulary, settings.length, mix)


def _ahead(make: Callable[[int], Batch | Glances], steps: range) -> Iterator[Batch | Glances]:
    """Batches in order, each made while the network learns from the one before."""
    with ThreadPoolExecutor(max_workers=1) as thread:
        waiting = [thread.submit(make, step) for step in steps[:1]]
        for step in steps:
            batch = waiting.pop().result()
            if step + 1 in steps:
                waiting.append(thread.submit(make, step + 1))
            yield batch


def glance_loss(network: Network, glances: Glances) -> torch.Tensor:
    """What single moments teach: details, places and texts."""
    head = network.head
    parsed = network.text.parse(torch.from_numpy(glances.words), torch.from_numpy(glances.lengths))
    goals = parsed.goals.flatten(0, 1)[torch.from_numpy(np.maximum(glances.chosen, 0))]
    # Most of the arithmetic is here; bfloat16 makes it faster where the processor knows it. The export is float32.
    with torch.autocast("cpu", torch.bfloat16):
        seen, matches = head.look(torch.from_numpy(glances.views), goals)
    present, shown = torch.from_numpy(glances.present), torch.from_numpy(glances.shown)
    details = head.judge(seen.float(), present, torch.from_numpy(glances.joints), goals)
    places = places_loss(matches.float(), shown[..., :2], shown[..., 2] * present[:, :2, None])
    return details_loss(details, torch.from_numpy(glances.details)) + places + text_loss(parsed, glances.texts)


def loss_of(network: Network, batch: Batch | Glances, stage: str) -> torch.Tensor:
    """The loss of a stage on a batch."""
    if isinstance(batch, Glances):
        return glance_loss(network, batch)
    head = network.head
    views = torch.from_numpy(batch.views)
    if stage == MEMORY:
        return answer_loss(head.remember(_blur(views)), batch)
    parsed = network.text.parse(torch.from_numpy(batch.words), torch.from_numpy(batch.lengths))
    task = network.text.task(parsed)[:, None].expand(-1, views.shape[1], -1).flatten(0, 1)
    with torch.autocast("cpu", torch.bfloat16):
        seen, matches = head.see(views.flatten(0, 1), task)
    present, joints = torch.from_numpy(batch.present).flatten(0, 1), torch.from_numpy(batch.joints).flatten(0, 1)
    details = head.glance(seen.float(), present, joints, task)
    matches = matches.float().unflatten(0, views.shape[:2])
    valid = torch.from_numpy(batch.valid)[:, :, None, None]
    counts = torch.from_numpy(batch.shown_valid) * torch.from_numpy(batch.present)[..., :2, None] * valid
    taught = details_loss(details.unflatten(0, views.shape[:2]), torch.from_numpy(batch.details))
    taught = taught + places_loss(matches, torch.from_numpy(batch.shown), counts) + text_loss(parsed, batch.goals)
    told = head.tell(details, task).unflatten(0, views.shape[:2])
    return answer_loss(head.remember(told), batch) + TAUGHT_SHARE * taught


def _blur(told: torch.Tensor) -> torch.Tensor:
    """What was told of takes that seeing was trained on is too good: blur the details as those of new takes are."""
    parts = told.unflatten(-1, (GOALS, -1))
    details, about = parts[..., :DETAILS], parts[..., DETAILS:]
    there = about[..., :1]
    steady, moving = torch.randn_like(details[:, :1]), torch.randn_like(details)
    noise = 0.6 * steady + 0.4 * moving
    flags = (torch.logit(details[..., :FLAGS].clamp(1e-4, 1 - 1e-4)) + FLAG_BLUR * noise[..., :FLAGS]).sigmoid()
    gaps = details[..., FLAGS:] + GAP_BLUR * noise[..., FLAGS:]
    return torch.cat([torch.cat([flags, gaps], dim=-1) * there, about], dim=-1).flatten(-2)
