"""From what a model or a file says to a progress curve in [0, 1].

Models answer absolute values or changes, as fractions or percent; files come as JSON or CSV. What cannot be read is
an error that names the sample, never a number.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from rollout_monitor.curve.checks import Floats, as_curve
from rollout_monitor.errors import InputError
from rollout_monitor.records import Label

PERCENT_FROM = 1.5  # a series that somewhere exceeds this in magnitude is in percent

Unit = Literal["auto", "fraction", "percent"]
How = Literal["sum", "incremental", "forward", "backward"]

PROGRESS_COLUMNS = ("stepprogress", "progress", "raw", "p")
SECONDS_COLUMNS = ("t", "time", "timestamp", "time_s", "t_s")
LABEL_COLUMNS = ("episodesuccess", "label")
LABELS = {
    "1": Label.SUCCESS,
    "success": Label.SUCCESS,
    "true": Label.SUCCESS,
    "0": Label.FAILURE,
    "failure": Label.FAILURE,
    "false": Label.FAILURE,
}

_LAST_STAMP_S = 9.2e9  # int64 nanoseconds, the year 2261


# --- model output ------------------------------------------------------------------------------------------------


def normalise(values: Iterable[float], unit: Unit = "auto") -> Floats:
    """Bring a series to fractions: percent is divided by 100, nothing is clipped.

    With ``auto`` the whole series is percent if any value exceeds 1.5 in magnitude; a series decides as one, so that
    a curve in percent which starts at 0.5 % is not misread.

    Raises:
        InputError: a value that is missing or not finite, named by its sample.
    """
    series = [_finite(value, f"sample {index}") for index, value in enumerate(values)]
    array = np.array(series, dtype=np.float64)
    if unit == "percent" or (unit == "auto" and any(abs(value) > PERCENT_FROM for value in series)):
        array /= 100.0
    return array


def from_progress(values: Iterable[float], unit: Unit = "auto") -> Floats:
    """A model's absolute answers as a curve: normalised, clipped to [0, 1].

    Raises:
        InputError: empty, or a value that is missing or not finite.
    """
    return as_curve(np.clip(normalise(values, unit), 0.0, 1.0))


class DeltaAccumulator:
    """Turns a stream of changes into progress; O(1) per change.

    How a change h (a fraction in [-1, 1]) moves the progress p:

    - ``sum``: changes are added up; only what is handed out is clipped.
    - ``incremental``: a gain is a share of what remained, a loss a share of what was reached (Robo-Dopamine): first
      p = h, then p + (1 - p) h for h >= 0 and p + p h for h < 0.
    - ``forward``: the change is against the first frame: p = h.
    - ``backward``: the change is against the goal: p = 1 + h.
    """

    def __init__(self, how: How = "incremental", unit: Literal["fraction", "percent"] = "fraction") -> None:
        self._how = how
        self._scale = 0.01 if unit == "percent" else 1.0
        self._progress: float | None = None

    def update(self, delta: float | None) -> float | None:
        """Take the next change; None (an answer that could not be read) gives None and changes nothing.

        After a missing answer the next change must be against the last frame that had one, or it is lost.

        Raises:
            InputError: not finite, or outside [-1, 1] (``sum`` alone takes any size).
        """
        if delta is None:
            return None
        h = _finite(delta, "the change") * self._scale
        if self._how != "sum" and abs(h) > 1.0:
            raise InputError(f"a change of {delta:g} is outside [-1, 1] (or [-100, 100] in percent)")
        before = self._progress
        if self._how == "sum":
            self._progress = h if before is None else before + h
        elif self._how == "backward":
            self._progress = _clip(1.0 + h)
        elif self._how == "forward" or before is None:
            self._progress = _clip(h)
        else:
            self._progress = _clip(before + ((1.0 - before) * h if h >= 0.0 else before * h))
        return _clip(self._progress)


def accumulate(deltas: Iterable[float], how: How = "incremental", unit: Unit = "auto") -> Floats:
    """A complete series of changes as a curve; see `DeltaAccumulator` for ``how``.

    With unit ``auto``, ``sum`` looks for percent in the summed series (as the published toolkit does), the others in
    the changes themselves.

    Raises:
        InputError: empty, or a change that is missing, not finite or too large, named by its sample.
    """
    series = [_finite(value, f"sample {index}") for index, value in enumerate(deltas)]
    if how == "sum":
        return from_progress(np.cumsum(series).tolist(), unit)
    accumulator = DeltaAccumulator(how)
    curve = []
    for index, h in enumerate(normalise(series, unit).tolist()):
        try:
            curve.append(accumulator.update(h))
        except InputError as error:
            raise InputError(f"sample {index}: {error}") from error
    return as_curve(curve)


def fuse(curves: Sequence[Floats]) -> Floats:
    """The mean of several views of one rollout (incremental, forward, backward), sample by sample.

    Raises:
        InputError: none given, or of different lengths.
    """
    checked = [as_curve(curve, f"curve {index}") for index, curve in enumerate(curves)]
    if not checked or len({len(curve) for curve in checked}) != 1:
        raise InputError("curves to be fused must be at least one and of the same length")
    return as_curve(np.clip(np.mean(checked, axis=0), 0.0, 1.0))


def _clip(value: float) -> float:
    return min(1.0, max(0.0, value))


def _finite(value: Any, what: str) -> float:
    if value is None:
        raise InputError(f"{what} is missing (null); leave it out, a missing value is never a number")
    if isinstance(value, bool | str):
        raise InputError(f"{what} is {value!r}, not a number")
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise InputError(f"{what} is {value!r}, not a number") from error
    except OverflowError as error:
        raise InputError(f"{what} is too large to be a number of this kind") from error
    if not math.isfinite(number):
        raise InputError(f"{what} is {number}; a missing value must be left out, it cannot be measured")
    return number


# --- files -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CurveFile:
    """A curve read from a file.

    Attributes:
        progress: float64 of shape (T+1,), in [0, 1].
        stamps_ns: int64 of shape (T+1,), nanoseconds, where the file has them.
        label: the rollout's outcome, where the file has it.
    """

    progress: Floats
    stamps_ns: np.ndarray[Any, np.dtype[np.int64]] | None = None
    label: Label | None = None


def read_curve(path: Path, *, clip: bool = False, unit: Unit = "auto") -> CurveFile:
    """Read a progress curve from ``.json`` or ``.csv``.

    JSON: a list of numbers; a list of objects with ``progress``; an object with ``progress`` (or ``deltas``, which are
    summed and clipped) and optionally ``stamps_ns`` and ``label``; an episode report (its raw curve is read).
    CSV: a column ``StepProgress``, ``progress``, ``raw`` or ``p``, or a single column; optionally ``stamp_ns`` or a
    time in seconds (``t``, ``time``, ``timestamp``), and ``EpisodeSuccess`` or ``label``.

    Args:
        path: the file; its suffix decides how it is read.
        clip: pull values outside [0, 1] in; without it they are an error, as a curve should hold none.
        unit: see `normalise`.

    Raises:
        InputError: the file, line and sample that cannot be used, and why.
    """
    suffix = path.suffix.lower()
    if suffix not in (".json", ".csv"):
        raise InputError(f"{path}: a curve is read from .json or .csv, not {suffix or 'a file without a suffix'}")
    try:
        text = path.read_text(encoding="utf-8-sig")  # every kind of line end becomes "\n"
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8 text (byte {error.start})") from error
    try:
        raw = _from_json(text) if suffix == ".json" else _from_csv(text)
        return _finish(raw, clip, unit)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


@dataclass
class _Raw:
    values: list[Any]
    stamps_ns: list[int] | None = None
    label: Label | None = None
    deltas: bool = False


def _finish(raw: _Raw, clip: bool, unit: Unit) -> CurveFile:
    if not raw.values:
        raise InputError("the progress curve is empty; at least one sample is needed")
    if raw.deltas:
        progress = accumulate(raw.values, "sum", unit)
    else:
        fractions = normalise(raw.values, unit)
        progress = as_curve(np.clip(fractions, 0.0, 1.0) if clip else fractions)
    stamps = None
    if raw.stamps_ns is not None:
        stamps = np.array(raw.stamps_ns, dtype=np.int64)
        if len(stamps) != len(progress):
            raise InputError(f"{len(progress)} samples but {len(stamps)} stamps")
        if (np.diff(stamps) <= 0).any():
            index = int(np.argmax(np.diff(stamps) <= 0)) + 1
            raise InputError(f"the stamp of sample {index} does not come after the one before")
    return CurveFile(progress, stamps, raw.label)


def _from_json(text: str) -> _Raw:
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"is not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from error
    except (RecursionError, ValueError) as error:  # nested without end, or a whole number of thousands of digits
        raise InputError(f"is no JSON that can be read: {error}") from error
    if isinstance(data, dict):
        label = _label(data.get("label"))
        if isinstance(data.get("curve"), list):
            return _from_objects(data["curve"], "raw", label)
        for key in ("progress", "deltas"):
            if isinstance(data.get(key), list):
                stamps = data.get("stamps_ns")
                whole = None if stamps is None else _stamps(stamps)
                return _Raw(data[key], whole, label, deltas=key == "deltas")
        raise InputError('holds an object without a list "progress", "deltas" or "curve"')
    if not isinstance(data, list):
        raise InputError(f"holds {type(data).__name__}; a list of numbers or an object is needed")
    if data and isinstance(data[0], dict):
        return _from_objects(data, "progress", None)
    return _Raw(data)


def _from_objects(items: list[Any], key: str, label: Label | None) -> _Raw:
    for index, item in enumerate(items):
        if not isinstance(item, dict) or key not in item:
            raise InputError(f'sample {index} has no "{key}"')
    stamps = [item.get("stamp_ns") for item in items]
    return _Raw([item[key] for item in items], None if None in stamps else _stamps(stamps), label)


def _stamps(values: Any) -> list[int]:
    if not isinstance(values, list):
        raise InputError("stamps_ns must be a list of integers, nanoseconds")
    for index, value in enumerate(values):
        if not isinstance(value, int) or isinstance(value, bool):
            raise InputError(f"the stamp of sample {index} is {value!r}; an integer number of nanoseconds is needed")
    return values


def _label(value: Any) -> Label | None:
    if value is None or value == "":
        return None
    label = LABELS.get(str(int(value) if isinstance(value, bool) else value).strip().lower())
    if label is None:
        raise InputError(f"the label is {value!r}; success or failure is needed")
    return label


def _from_csv(text: str) -> _Raw:
    reader = csv.reader(io.StringIO(text))
    try:
        rows = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise InputError(f"line {reader.line_num + 1}: is no CSV that can be read: {error}") from error
    if not rows:
        raise InputError("the progress curve is empty; at least one sample is needed")
    header = [cell.strip().lower() for cell in rows[0][1]]
    if len(header) == 1 and _is_number(header[0]):  # one bare column
        return _Raw([_cell(row, 0, line, index) for index, (line, row) in enumerate(rows)])
    body = rows[1:]
    column = _find(header, PROGRESS_COLUMNS)
    if column is None:
        if len(header) != 1:
            raise InputError(f"has no progress column (one of {', '.join(PROGRESS_COLUMNS)}) among {', '.join(header)}")
        column = 0
    values = [_cell(row, column, line, index) for index, (line, row) in enumerate(body)]
    return _Raw(values, _csv_stamps(header, body), _csv_label(header, body))


def _csv_stamps(header: list[str], body: list[tuple[int, list[str]]]) -> list[int] | None:
    if "stamp_ns" in header:
        column = header.index("stamp_ns")
        try:
            return [int(row[column]) for _, row in body]
        except (ValueError, IndexError) as error:
            raise InputError(f"a stamp_ns is not an integer: {error}") from error
    seconds = _find(header, SECONDS_COLUMNS)
    if seconds is None:
        return None
    return [_stamp(_cell(row, seconds, line, index), line) for index, (line, row) in enumerate(body)]


def _stamp(seconds: float, line: int) -> int:
    if abs(seconds) > _LAST_STAMP_S:
        raise InputError(f"line {line}: the time {seconds:g} s does not fit 64-bit nanoseconds")
    return round(seconds * 1e9)


def _csv_label(header: list[str], body: list[tuple[int, list[str]]]) -> Label | None:
    column = _find(header, LABEL_COLUMNS)
    if column is None:
        return None
    labels = {_label(row[column].strip()) if column < len(row) else None for _, row in body}
    if len(labels) > 1:
        raise InputError(f"the column {header[column]} changes within the file; one rollout has one outcome")
    return labels.pop() if labels else None


def _find(header: list[str], names: tuple[str, ...]) -> int | None:
    return next((header.index(name) for name in names if name in header), None)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _cell(row: list[str], column: int, line: int, index: int) -> float:
    text = row[column].strip() if column < len(row) else ""
    try:
        value = float(text)
    except ValueError as error:
        what = f"is {text!r}, not a number" if text else "is missing"
        raise InputError(f"line {line}: sample {index} {what}") from error
    if not math.isfinite(value):
        raise InputError(f"line {line}: sample {index} is {value}; a missing value must be left out")
    return value
