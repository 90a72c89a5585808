"""A recorded progress curve played back as a model: for tests, and for judging with curves that others published.

CSV needs a header with ``progress`` and, if the samples have times, ``stamp_ns`` or ``stamp_s``; other columns may be
``lower``, ``upper``, ``success_probability``. JSON is a list of numbers, a list of objects with those keys, or an
object that holds such a list under ``progress`` or ``curve``. Stamps are absolute or count from the rollout's start.
"""

from __future__ import annotations

import bisect
import csv
import itertools
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rollout_monitor.errors import InputError, ModelError
from rollout_monitor.frames import FrameSet, RgbImage
from rollout_monitor.prm.files import sha256_of
from rollout_monitor.prm.protocol import ModelCard, Observation, ResetNotes, Style

_OPTIONAL = ("lower", "upper", "success_probability")
_NS = 1_000_000_000
_ABSOLUTE_NS = 10**17  # stamps later than 1973 are absolute times, smaller ones count from the start


@dataclass(frozen=True)
class Sample:
    """One row of a recorded curve; ``stamp_ns`` is None where rows are counted instead."""

    progress: float
    stamp_ns: int | None = None
    lower: float | None = None
    upper: float | None = None
    success_probability: float | None = None


class RecordedModel:
    """Plays a curve back: by stamp (the newest row not newer than the frame), or one row per frame set.

    Args:
        path: CSV or JSON file.
        rate_hz: rate of frame sets to ask for.

    Raises:
        InputError: the file cannot be used; the message names the row.
    """

    def __init__(self, path: Path | str, rate_hz: float = 5.0) -> None:
        self._samples = read_curve(Path(path))
        self._stamps = [s.stamp_ns for s in self._samples if s.stamp_ns is not None]
        self._absolute = bool(self._stamps) and self._stamps[0] >= _ABSOLUTE_NS
        self._card = ModelCard(
            name=f"recorded:{Path(path).name}", style=Style.DIRECT, rate_hz=rate_hz, sha256=sha256_of(Path(path))
        )
        self._count = 0
        self._first_ns: int | None = None

    @property
    def card(self) -> ModelCard:
        """What the model is and needs."""
        return self._card

    def reset(self, task: str, goal: RgbImage | None = None) -> ResetNotes:  # noqa: ARG002 - the curve is what it is
        """Start the curve from its beginning; the task text is not used."""
        self._count = 0
        self._first_ns = None
        return ResetNotes()

    def observe(self, frames: FrameSet) -> Observation:
        """The row that belongs to this frame set.

        Raises:
            ModelError: the curve has no row for it.
        """
        if self._first_ns is None:
            self._first_ns = frames.stamp_ns
        index = self._index_at(frames.stamp_ns) if self._stamps else self._count
        self._count += 1
        if not 0 <= index < len(self._samples):
            raise ModelError(f"{self._card.name} has no row for frame set {self._count} (stamp {frames.stamp_ns} ns)")
        row = self._samples[index]
        return Observation(row.progress, row.lower, row.upper, row.success_probability)

    def _index_at(self, stamp_ns: int) -> int:
        assert self._first_ns is not None  # noqa: S101 - observe() has set it
        when = stamp_ns if self._absolute else stamp_ns - self._first_ns
        return bisect.bisect_right(self._stamps, when) - 1


def read_curve(path: Path) -> list[Sample]:
    """Read a recorded curve.

    Raises:
        InputError: the file is missing, empty, or a row is no progress in 0..1; stamps do not rise.
    """
    try:
        text = path.read_text(encoding="utf-8")
        rows = (
            _json_rows(json.loads(text)) if path.suffix.lower() == ".json" else list(csv.DictReader(text.splitlines()))
        )
    except (OSError, ValueError) as error:
        raise InputError(f"recorded curve {path} cannot be read: {error}") from error
    if not rows:
        raise InputError(f"recorded curve {path} holds no sample")
    samples = [_sample(path, number, row) for number, row in enumerate(rows, start=1)]
    stamps = [s.stamp_ns for s in samples if s.stamp_ns is not None]
    if stamps and len(stamps) != len(samples):
        raise InputError(f"recorded curve {path}: some rows have a stamp and some have none")
    if any(b <= a for a, b in itertools.pairwise(stamps)):
        raise InputError(f"recorded curve {path}: the stamps do not rise")
    return samples


def _json_rows(data: Any) -> list[Mapping[str, Any]]:
    if isinstance(data, dict):
        data = next((data[key] for key in ("progress", "curve") if key in data), None)
    if not isinstance(data, list):
        raise ValueError("expected a list, or an object with a list under 'progress' or 'curve'")
    return [row if isinstance(row, dict) else {"progress": row} for row in data]


def _sample(path: Path, number: int, row: Mapping[str, Any]) -> Sample:
    values = {key: _unit(path, number, key, row.get(key)) for key in ("progress", *_OPTIONAL)}
    progress = values.pop("progress")
    if progress is None:
        raise InputError(f"recorded curve {path}, row {number}: no value under 'progress'")
    return Sample(progress, _stamp(path, number, row), **values)


def _unit(path: Path, number: int, key: str, given: Any) -> float | None:
    if given is None or given == "":
        return None
    value = _number(path, number, key, given)
    if not 0.0 <= value <= 1.0:
        raise InputError(f"recorded curve {path}, row {number}: {key} is {value}, outside 0..1")
    return value


def _stamp(path: Path, number: int, row: Mapping[str, Any]) -> int | None:
    for key, scale in (("stamp_ns", 1), ("stamp_s", _NS)):
        given = row.get(key)
        if given not in (None, ""):
            value = _number(path, number, key, given)
            return int(given) if scale == 1 else round(value * scale)
    return None


def _number(path: Path, number: int, key: str, given: Any) -> float:
    try:
        value = math.nan if isinstance(given, bool) else float(given)
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise InputError(f"recorded curve {path}, row {number}: {key} is {given!r}, not a number")
    return value
