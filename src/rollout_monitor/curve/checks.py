"""What counts as a progress curve: finite values in [0, 1], at least one. Everything else is an error that names it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from rollout_monitor.errors import InputError

Floats = npt.NDArray[np.float64]


def as_curve(values: Any, where: str = "") -> Floats:
    """Check one progress curve.

    Args:
        values: T+1 numbers in [0, 1], any sequence.
        where: put in front of an error, for example the file or ``curve 3``.

    Returns:
        float64 array of shape (T+1,).

    Raises:
        InputError: empty, not one-dimensional, or a sample that is missing, not finite or outside [0, 1]; the message
            names the sample (counted from 0).
    """
    prefix = f"{where}: " if where else ""
    try:
        raw = np.asarray(values)
    except ValueError as error:  # rows of different lengths
        raise InputError(f"{prefix}{_first_non_number(values)}") from error
    if raw.dtype.kind not in "fiu":  # text, None and the like: numpy would make numbers of some of them
        raise InputError(f"{prefix}{_first_non_number(values)}")
    curve = raw.astype(np.float64, copy=False)
    if curve.ndim != 1:
        raise InputError(f"{prefix}a progress curve is one row of numbers, but the shape is {curve.shape}")
    if curve.size == 0:
        raise InputError(f"{prefix}the progress curve is empty; at least one sample is needed")
    bad = ~((curve >= 0.0) & (curve <= 1.0))  # true for NaN as well
    if bad.any():
        index = int(np.argmax(bad))
        raise InputError(prefix + bad_sample(index, float(curve[index])))
    return curve


def bad_sample(index: int, value: float) -> str:
    """What is wrong with a value outside [0, 1], and what to do."""
    if not math.isfinite(value):
        return f"sample {index} is {value}; a missing value must be left out, it cannot be measured"
    return f"sample {index} is {value:g}, outside [0, 1]; normalise or clip the curve first"


def _first_non_number(values: Any) -> str:
    if isinstance(values, Iterable) and not isinstance(values, str):
        for index, value in enumerate(values):
            if value is None:
                return f"sample {index} is missing (null); leave it out, a missing value is never a number"
            if isinstance(value, bool) or not isinstance(value, Real):
                return f"sample {index} is {value!r}, not a number"
    return f"a progress curve is a sequence of numbers, not {type(values).__name__}"
