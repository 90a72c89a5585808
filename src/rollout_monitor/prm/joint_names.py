"""Finds the joints that a model knows among those a robot publishes, whatever it puts before their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rollout_monitor.errors import ModelError
from rollout_monitor.frames import JointSample
from rollout_monitor.prm.posture import SLOTS, posture


@dataclass(frozen=True)
class _Known:
    """One entry of an order: the end of a joint's name, and whether the robot may lack it."""

    ending: str
    optional: bool


class JointOrders:
    """The orders of joints a model was trained with.

    Args:
        orders: endings of joint names by arm, for example ``{"ur5e": ["shoulder_pan_joint", ..., "finger_joint?"]}``.
            An entry that ends with ``?`` may be absent; it then counts as 0.

    Raises:
        ModelError: an order is empty, names a joint twice, or has more than `SLOTS` joints.
    """

    def __init__(self, orders: Mapping[str, Sequence[str]]) -> None:
        self._orders = [
            [_Known(entry.removesuffix("?"), entry.endswith("?")) for entry in entries] for entries in orders.values()
        ]
        for arm, order in zip(orders, self._orders, strict=True):
            endings = [known.ending for known in order]
            if not 0 < len(order) <= SLOTS or "" in endings or len(set(endings)) != len(endings):
                raise ModelError(f"joint order {arm!r} of the model: expected 1 to {SLOTS} names, each once")
        self._chosen: dict[tuple[str, ...], list[int | None] | None] = {}

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self._orders)

    def features(self, sample: JointSample) -> npt.NDArray[np.float32] | None:
        """Features of a sample as `posture` makes them, shape (32,); None where its names fit no order.

        Of several orders that fit the one that finds most joints is taken, the first of them where they find as many.
        """
        if sample.names not in self._chosen:
            self._chosen = {sample.names: self._choose(sample.names)}  # a robot publishes the same names all the time
        places = self._chosen[sample.names]
        if places is None:
            return None
        return posture(
            [0.0 if place is None else sample.positions[place] for place in places],
            [0.0 if place is None else sample.velocities[place] for place in places],
        )

    def _choose(self, names: Sequence[str]) -> list[int | None] | None:
        fitting = [places for order in self._orders if (places := _places(order, names)) is not None]
        return max(fitting, key=lambda places: sum(place is not None for place in places), default=None)


def _places(order: Sequence[_Known], names: Sequence[str]) -> list[int | None] | None:
    """The place of each of an order's joints among the names, None for an optional one that is not there.

    Where several names end alike (``panda_joint1`` and ``panda_finger_joint1``), the one with a prefix that another of
    the order's joints has beyond doubt is meant.
    """
    candidates = [[place for place, name in enumerate(names) if _ends(name, known.ending)] for known in order]
    prefixes = {
        names[places[0]].removesuffix(known.ending)
        for known, places in zip(order, candidates, strict=True)
        if len(places) == 1
    }
    chosen: list[int | None] = []
    for known, places in zip(order, candidates, strict=True):
        likely = places if len(places) == 1 else [p for p in places if names[p].removesuffix(known.ending) in prefixes]
        if len(likely) != 1 and not known.optional:
            return None
        chosen.append(likely[0] if len(likely) == 1 else None)
    found = [place for place in chosen if place is not None]
    return chosen if found and len(set(found)) == len(found) else None


def _ends(name: str, ending: str) -> bool:
    """Whether a name is this ending, alone or after a prefix that ends where a word does."""
    return name == ending or (name.endswith(ending) and not name[-len(ending) - 1].isalnum())
