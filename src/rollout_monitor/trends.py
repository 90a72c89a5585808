"""Where a progress curve rises, falls or stays: what simulation stores as truth and judges are asked for."""

from __future__ import annotations

from enum import Enum

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

DIRECTION_STEP = 0.02
"""Change of true progress over `DIRECTION_SPAN` samples that counts as rising or falling."""

DIRECTION_SPAN = 2


class Trend(int, Enum):
    """Direction of the true progress."""

    FALLING = -1
    FLAT = 0
    RISING = 1


def trends(values: FloatArray, span: int = DIRECTION_SPAN, step: float = DIRECTION_STEP) -> IntArray:
    """Direction of each sample of a true progress curve.

    Args:
        values: progress, shape (n,).
        span: width of the causal difference in samples, at least 1.
        step: change over ``span`` samples beyond which it counts.

    Returns:
        Values of `Trend`, shape (n,), int64. The first ``span`` samples are compared with the first one.
    """
    padded = np.concatenate([np.full(span, values[0]), values])
    change = padded[span:] - padded[:-span]
    return np.where(change > step, 1, np.where(change < -step, -1, 0)).astype(np.int64)


def intervals(labels: IntArray, wanted: Trend) -> list[tuple[int, int]]:
    """Runs of one direction as half-open index ranges ``[start, stop)``."""
    hit = np.concatenate([[False], labels == int(wanted), [False]])
    edges = np.flatnonzero(hit[1:] != hit[:-1])
    return [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]
