"""Thresholds learned from a task's own successes by split conformal prediction.

With n successful rollouts and a score per rollout (its largest drawdown, its longest stall, ...), the threshold at
level alpha is the ceil((n+1)(1-alpha))-th smallest score: a further success passes it with probability at most alpha
(Vovk et al. 2005; Angelopoulos and Bates 2021). The file keeps n, alpha and the model it holds for.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from rollout_monitor.errors import InputError
from rollout_monitor.events.settings import EventSettings
from rollout_monitor.records import Record


class Calibration(Record):
    """Calibrated thresholds of one task under one model."""

    task: str
    model: str
    model_hash: str
    alpha: float = Field(gt=0.0, lt=1.0)
    n: int = Field(ge=1, description="successful rollouts used")
    thresholds: dict[str, float] = Field(description="by dotted setting, for example drawdown.warn")


def conformal_quantile(scores: Sequence[float], alpha: float) -> float:
    """The finite-sample quantile of split conformal prediction.

    Raises:
        InputError: alpha outside (0, 1), a score that is not finite, or too few scores for this alpha
            (n must be at least ceil(1/alpha) - 1, else the quantile is infinite).
    """
    if not 0.0 < alpha < 1.0:
        raise InputError(f"alpha is {alpha}: it must lie between 0 and 1")
    for index, score in enumerate(scores):
        if not math.isfinite(score):
            raise InputError(f"score {index} is {score}: calibration needs finite scores")
    rank = math.ceil(round((len(scores) + 1) * (1.0 - alpha), 9))
    if rank > len(scores):
        need = math.ceil(round(1.0 / alpha, 9)) - 1
        raise InputError(f"{len(scores)} successes are too few for alpha {alpha}: at least {need} are needed")
    return sorted(scores)[rank - 1]


def apply(calibration: Calibration, settings: EventSettings) -> EventSettings:
    """The settings with the calibrated thresholds in place.

    Raises:
        InputError: a threshold names no setting, or its value is out of that setting's range.
    """
    tree: dict[str, Any] = settings.model_dump()
    for dotted, value in calibration.thresholds.items():
        *groups, leaf = dotted.split(".")
        node: Any = tree
        for group in groups:
            node = node.get(group) if isinstance(node, Mapping) else None
        if not isinstance(node, dict) or leaf not in node or isinstance(node[leaf], dict):
            raise InputError(f"calibration for {calibration.task!r}: {dotted!r} is not a threshold of the monitor")
        node[leaf] = value
    try:
        return EventSettings.model_validate(tree)
    except ValidationError as error:
        raise InputError(f"calibration for {calibration.task!r}: {error.errors()[0]['msg']}") from error


def load(path: Path) -> Calibration:
    """Read a calibration file.

    Raises:
        InputError: the file is missing, is not JSON, or does not fit the schema.
    """
    try:
        return Calibration.model_validate(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise InputError(f"calibration file {path} cannot be read: {error.strerror}") from error
    except (json.JSONDecodeError, ValidationError, UnicodeDecodeError) as error:
        raise InputError(f"calibration file {path} is not a calibration: {error}") from error


def save(calibration: Calibration, path: Path) -> None:
    """Write a calibration file, whole or not at all."""
    temporary = path.with_suffix(path.suffix + ".tmp")
    temporary.write_text(calibration.model_dump_json(indent=2) + "\n", encoding="utf-8")
    temporary.replace(path)
