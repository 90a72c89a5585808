"""Velocity and jerk of each joint over a whole episode, thinned for the eye: every extreme is kept.

The same differences as in `figures`: unit steps on the grid times the rate, never across two segments.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from rollout_monitor.records import JointTrace, MotionTraces

COLUMNS = 400
"""An hour at 30 Hz has 108,000 rows; a plot on a page has some hundred pixels."""
_DIGITS = 4

Floats = npt.NDArray[np.float64]


def traces(
    segments: Sequence[tuple[npt.NDArray[np.int64], Floats]], rate_hz: float, joint_names: Sequence[str]
) -> MotionTraces:
    """Lowest and highest velocity and jerk of each joint in each of `COLUMNS` columns of equal width.

    Args:
        segments: at least one (stamps in ns, shape (T,), positions in rad, shape (T, J)), T at least 2, in time order.
        rate_hz: the grid's rate.
        joint_names: J names.
    """
    stamps = np.concatenate([stamps for stamps, _ in segments])
    velocity = np.concatenate([_difference(positions, 1, rate_hz) for _, positions in segments])
    jerk = np.concatenate([_difference(positions, 3, rate_hz) for _, positions in segments])
    span_ns = max(int(stamps[-1] - stamps[0]), 1)
    column = np.minimum((stamps - stamps[0]) * COLUMNS // (span_ns + 1), COLUMNS - 1)
    starts = np.flatnonzero(np.diff(column, prepend=-1))
    low_v, high_v = _extremes(velocity, starts)
    low_j, high_j = _extremes(jerk, starts)
    seen = np.isfinite(low_v).all(axis=1)
    return MotionTraces(
        stamps_ns=stamps[starts][seen].tolist(),
        joints=[
            JointTrace(
                joint=joint,
                velocity=_pairs(low_v[seen, index], high_v[seen, index]),
                jerk=[
                    pair if np.isfinite(pair[0]) else None for pair in _pairs(low_j[seen, index], high_j[seen, index])
                ],
            )
            for index, joint in enumerate(joint_names)
        ],
    )


def _difference(positions: Floats, order: int, rate_hz: float) -> Floats:
    """The difference of an order at the later row, NaN where there are too few rows before it."""
    steps = np.diff(positions, n=order, axis=0) * rate_hz**order
    missing = np.full((min(order, len(positions)), positions.shape[1]), np.nan)
    return np.concatenate([missing, steps])


def _extremes(values: Floats, starts: npt.NDArray[np.intp]) -> tuple[Floats, Floats]:
    """Lowest and highest of each column, NaN in a column without any."""
    return np.fmin.reduceat(values, starts, axis=0), np.fmax.reduceat(values, starts, axis=0)


def _pairs(low: Floats, high: Floats) -> list[tuple[float, float]]:
    def short(value: float) -> float:
        return float(f"{value:.{_DIGITS}g}")

    return [(short(a), short(b)) for a, b in zip(low.tolist(), high.tolist(), strict=True)]
