"""Many rollouts through the embedded model at once, for scoring recordings: the numbers of `observe`, faster.

Rollouts go side by side in lanes, one step of all in one call of the head; where one ends the next takes its lane.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from rollout_monitor.errors import InputError
from rollout_monitor.frames import RgbImage
from rollout_monitor.prm.embedded import EmbeddedModel, choose_views, observation
from rollout_monitor.prm.network import FloatArray, empty_step
from rollout_monitor.prm.protocol import Observation

Key = TypeVar("Key")
Pictures = Iterator[tuple[int, RgbImage]]
"""Stamps, nanoseconds, and pictures of the primary camera, in order."""


class Scored(NamedTuple, Generic[Key]):
    """A model's answer to one picture of one rollout."""

    rollout: Key
    stamp_ns: int
    observation: Observation


class _Lane(Generic[Key]):
    def __init__(self, key: Key, pictures: Pictures, state: FloatArray) -> None:
        self.key, self.pictures, self.state = key, pictures, state


def score(
    model: EmbeddedModel, task: str, rollouts: Iterable[tuple[Key, Pictures]], lanes: int = 8
) -> Iterator[Scored[Key]]:
    """Answers for every picture of every rollout, those of one rollout in its order.

    Several threads may score with one model: it is only read from.

    Args:
        model: of any state; it is not reset and remembers nothing of this.
        task: instruction of all rollouts.
        rollouts: a key and the pictures of each; taken one by one, as lanes get free.
        lanes: rollouts at a time.

    Raises:
        InputError: the task has no word, or a picture's shape or dtype is wrong.
        ModelError: the network failed.
    """
    if lanes < 1:
        raise InputError(f"{lanes} rollouts at a time: expected at least one")
    vector, _ = model.read(task)
    waiting = iter(rollouts)
    busy: list[_Lane[Key]] = []
    while True:
        shown: list[tuple[_Lane[Key], int, RgbImage]] = []
        kept: list[_Lane[Key]] = []
        while len(kept) < lanes:
            lane = busy.pop(0) if busy else _next_lane(model, waiting)
            if lane is None:
                break
            found = next(lane.pictures, None)
            if found is not None:
                kept.append(lane)
                shown.append((lane, *found))
        if not shown:
            return
        busy = kept
        yield from _step(model, vector, shown)


def _next_lane(model: EmbeddedModel, waiting: Iterator[tuple[Key, Pictures]]) -> _Lane[Key] | None:
    found = next(waiting, None)
    if found is None:
        return None
    return _Lane(*found, np.zeros(model.network.state_size, dtype=np.float32))


def _step(
    model: EmbeddedModel, vector: FloatArray, shown: list[tuple[_Lane[Key], int, RgbImage]]
) -> Iterator[Scored[Key]]:
    count = len(shown)
    step = empty_step(model.network, count)
    for row, (_, _, picture) in enumerate(shown):
        choose_views({"primary": picture})  # refuses what is no picture
        step.show(row, 0, model.network.see([picture]))
    state = np.stack([lane.state for lane, _, _ in shown])
    said = model.network.step(step, np.repeat(vector, count, axis=0), state)
    for row, (lane, stamp_ns, _) in enumerate(shown):
        lane.state = said.state[row]
        yield Scored(lane.key, stamp_ns, observation(said, row))
