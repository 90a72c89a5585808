"""Direction of progress, judged by the RoboPulse++ protocol (spec/judges.md).

Trajectories carry intervals in which progress truly rises or falls. A judge's answers are mapped to directions, the
first and last two samples of each interval are left out, and what remains is scored as two classes. The same is asked
of the context-dependent part: moments whose local motion alone does not tell which of the two they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rollout_monitor.trends import Trend, intervals

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

CAUSAL_MEAN = 5
"""Continuous answers are averaged over this many samples, the newest included, before their sign is taken."""

EDGE = 2
"""Samples left out at each end of an interval."""


def from_progress(values: FloatArray) -> IntArray:
    """Directions of absolute progress, shape (n,): differenced, averaged causally, signed."""
    return from_increments(np.diff(values, prepend=values[:1]))


def from_increments(changes: FloatArray) -> IntArray:
    """Directions of progress increments, shape (n,): averaged causally, signed."""
    padded = np.concatenate([np.zeros(CAUSAL_MEAN - 1), changes])
    mean = np.convolve(padded, np.ones(CAUSAL_MEAN) / CAUSAL_MEAN, mode="valid")
    # A sum that ought to be zero may come out as 1e-17: that is no direction.
    signs: IntArray = np.sign(np.where(np.abs(mean) < 1e-12, 0.0, mean)).astype(np.int64)
    return signs


@dataclass(frozen=True)
class Counted:
    """The samples that the protocol counts on one trajectory.

    Attributes:
        said: the judge's directions, -1, 0 or 1, shape (k,).
        true: the true ones, -1 or 1, shape (k,).
        index: the samples' places in the trajectory, shape (k,).
    """

    said: IntArray
    true: IntArray
    index: IntArray

    def at(self, mask: npt.NDArray[np.bool_]) -> Counted:
        """Only the samples where ``mask``, shape (n,) over the whole trajectory, holds."""
        kept = mask[self.index]
        return Counted(self.said[kept], self.true[kept], self.index[kept])

    def table(self) -> IntArray:
        """For the classes -1, 0, 1: hits, times said, times true; shape (3, 3)."""
        rows = [((self.said == k) & (self.true == k), self.said == k, self.true == k) for k in (-1, 0, 1)]
        return np.array([[int(mask.sum()) for mask in row] for row in rows], dtype=np.int64)


def count(said: IntArray, labels: IntArray) -> Counted:
    """Pick the samples that count.

    Args:
        said: the judge's directions, shape (n,).
        labels: true directions, values of `Trend`, shape (n,).
    """
    places = [
        np.arange(start + EDGE, stop - EDGE)
        for trend in (Trend.RISING, Trend.FALLING)
        for start, stop in intervals(labels, trend)
        if stop - start > 2 * EDGE
    ]
    index = np.concatenate(places).astype(np.int64) if places else np.zeros(0, dtype=np.int64)
    return Counted(said[index], labels[index], index)


def f1(tables: Sequence[IntArray], classes: Sequence[int] = (-1, 1)) -> float:
    """Mean F1 of some classes over trajectories whose `Counted.table` are given; NaN where one class never occurs."""
    hits, said, true = np.sum(tables, axis=0).T
    scores = [2.0 * hits[k + 1] / (said[k + 1] + true[k + 1]) if said[k + 1] + true[k + 1] else np.nan for k in classes]
    return float(np.mean(scores))


def accuracy(tables: Sequence[IntArray]) -> float:
    """Share of counted samples whose direction was said right; NaN where none counts."""
    hits, _, true = np.sum(tables, axis=0).T
    return float(hits.sum() / true.sum()) if true.sum() else float("nan")


def context_dependent(
    motions: Sequence[FloatArray], labels: Sequence[IntArray], neighbours: int = 30, share: float = 0.25
) -> list[npt.NDArray[np.bool_]]:
    """Which moments cannot be told from their local motion: similar motions elsewhere rise here and fall there.

    Every rising or falling moment looks up its nearest neighbours, by local motion, among the rising and falling
    moments of the OTHER trajectories. Where at least ``share`` of them have the other direction, only history and
    instruction can tell.

    Args:
        motions: local motion of each moment per trajectory, shape (n, d) each, in one scale.
        labels: true directions per trajectory, shape (n,) each.
        neighbours: how many are looked up.
        share: smallest share with the other direction, 0..0.5.

    Returns:
        A mask per trajectory, shape (n,).
    """
    from scipy.spatial import cKDTree  # noqa: PLC0415 - half a second of import that nothing else here needs

    masks: list[npt.NDArray[np.bool_]] = [np.zeros(len(own), dtype=np.bool_) for own in labels]
    owner = np.concatenate([np.full(len(own), k) for k, own in enumerate(labels)]) if labels else np.zeros(0)
    every = np.concatenate(list(labels)) if labels else np.zeros(0, dtype=np.int64)
    moving = np.flatnonzero(every != 0)
    if not len(moving):
        return masks
    points = np.concatenate(list(motions))[moving]
    groups, classes = owner[moving], every[moving]
    place = moving - np.concatenate([[0], np.cumsum([len(own) for own in labels])])[groups.astype(int)]
    asked = min(len(points), 4 * neighbours)  # some are of the same trajectory and do not count
    _, found = cKDTree(points).query(points, k=asked)
    for row, near in enumerate(np.atleast_2d(found)):
        other = near[groups[near] != groups[row]][:neighbours]
        if len(other) and np.mean(classes[other] != classes[row]) >= share:
            masks[int(groups[row])][int(place[row])] = True
    return masks
