"""Every fall of a whole curve below its best so far, and what was made good of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rollout_monitor.curve.checks import Floats
from rollout_monitor.records import Drawdown

LEAST_DEPTH = 0.05
"""Smaller falls are the noise of a judge: a third of what raises a DRAWDOWN by default."""


def find_drawdowns(stamps_ns: Sequence[int], values: Floats, least: float = LEAST_DEPTH) -> list[Drawdown]:
    """Falls of a curve, in their order.

    A fall lasts from the last sample at the best value so far until that value is reached again, or to the end.

    Args:
        stamps_ns: stamp of each sample, nanoseconds.
        values: progress, shape (n,), each in [0, 1].
        least: depth from which a fall is told of.
    """
    if not len(values):
        return []
    best = np.maximum.accumulate(values)
    below = np.concatenate([[False], values < best, [False]])
    edges = np.flatnonzero(below[1:] != below[:-1]).reshape(-1, 2)
    found = []
    for first, stop in edges.tolist():
        peak = float(best[first])
        trough = first + int(np.argmax((best - values)[first:stop]))
        lowest = float(values[trough])
        if peak - lowest < least:
            continue
        found.append(
            Drawdown(
                peak_ns=stamps_ns[first - 1],
                peak=peak,
                trough_ns=stamps_ns[trough],
                trough=lowest,
                depth=peak - lowest,
                recovery=min(1.0, (float(values[trough:].max()) - lowest) / (peak - lowest)),
                recovered_ns=stamps_ns[stop] if stop < len(values) else None,
            )
        )
    return found
