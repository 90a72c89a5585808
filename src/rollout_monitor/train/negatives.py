"""Instructions that a user's takes do not carry out, although they look like it: they keep language read in a cell.

A user gives one instruction. The network takes it apart into goals; from these come the ones that differ in a role, a
side, a thing or the order, in words.
"""

from __future__ import annotations

import numpy as np
import torch

from rollout_monitor.prm.text import Vocabulary
from rollout_monitor.sim.tabletop.alternatives import similar
from rollout_monitor.sim.tabletop.catalogue import FIXTURES, OBJECTS
from rollout_monitor.sim.tabletop.goals import KINDS, TARGETED, Goal, Task
from rollout_monitor.sim.tabletop.phrases import HELD_OUT_THINGS, draw_phrase
from rollout_monitor.train.network import Network

THINGS = (*OBJECTS, *FIXTURES)
COUNT = 6


def read_task(network: Network, vocabulary: Vocabulary, text: str) -> Task | None:
    """The task that a network reads from a text; None where it reads none."""
    words, _ = vocabulary.encode(text)
    with torch.no_grad():
        parsed = network.text.parse(torch.from_numpy(words)[None], torch.tensor([len(words)]))
    goals = []
    for place in torch.nonzero(parsed.exists[0] > 0).flatten().tolist():
        kind = KINDS[int(parsed.kind[0, place].argmax())]
        what, target = (THINGS[int(logits[0, place].argmax())] for logits in (parsed.what, parsed.target))
        goals.append(Goal(kind, what, target if kind in TARGETED else None))
    return Task(tuple(goals)) if goals else None


def other_texts(network: Network, vocabulary: Vocabulary, text: str, seed: int = 0) -> tuple[str, ...]:
    """Up to `COUNT` instructions that a take of ``text`` does not carry out; swapped roles and orders come first."""
    task = read_task(network, vocabulary, text)
    if task is None:
        return ()
    known = frozenset(THINGS) - set(HELD_OUT_THINGS) | task.things
    # A part of the task is done when the task is: only whole tasks of as many goals count.
    others = [other for other in similar(task, known) if len(other.goals) == len(task.goals) and other != task]
    turned = [other for other in others if sorted(other.things) == sorted(task.things)]
    rng = np.random.default_rng(seed)
    rest = [other for other in others if other not in turned]
    chosen = [*turned[:COUNT], *(rest[int(place)] for place in rng.permutation(len(rest)))][:COUNT]
    return tuple(draw_phrase(rng, other) for other in chosen)
