"""Joint positions from CSV logs: a plain matrix, a log with a time column, a UR RTDE recording.

Any kind of line end (logs with carriage returns alone exist), comma, semicolon, tab or spaces between cells. What
cannot be read is an error that names line and column.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rollout_monitor.errors import InputError
from rollout_monitor.motion.grid import MAX_POSITION, GridResampler
from rollout_monitor.motion.settings import MotionSettings
from rollout_monitor.records import JointHealth

Floats = npt.NDArray[np.float64]

TIME_COLUMNS = ("t", "time", "timestamp", "time_s", "stamp", "stamp_ns", "time_ns", "timestamp_ns")
POSITION_PATTERNS = (r"^actual_q_\d+$", r"^(?!.*(?:vel|eff|torque|current|target)).*_?(?:pos|position)(?:_.*|\d*)$")
"""Names of measured positions, the first pattern that some column fits: UR RTDE, then ``position_3``, ``q1_pos``."""
NO_TIME = "none"
MAX_SECONDS = 1e11  # the year 5138; a "time" beyond is in another unit


@dataclass(frozen=True)
class JointLog:
    """Joint positions from a file.

    Attributes:
        joint_names: J column names.
        positions: float64 of shape (T, J), rad.
        stamps_ns: int64 of shape (T,), nanoseconds; None where the file has no time, so that its rows are the grid.
        time_column: its name, if any.
    """

    joint_names: list[str]
    positions: Floats
    stamps_ns: npt.NDArray[np.int64] | None
    time_column: str | None

    def without(self, names: Sequence[str]) -> JointLog:
        """The same log without some columns, a gripper's for example.

        Raises:
            InputError: no such column, or none left.
        """
        for name in names:
            if name not in self.joint_names:
                raise InputError(f"there is no joint column {name!r}; there are {', '.join(self.joint_names)}")
        kept = [index for index, name in enumerate(self.joint_names) if name not in names]
        if not kept:
            raise InputError("every joint column was excluded; none is left")
        return replace(self, joint_names=[self.joint_names[i] for i in kept], positions=self.positions[:, kept])


@dataclass(frozen=True)
class GriddedLog:
    """A log on the uniform grid: one float64 matrix of shape (T_i, J) per segment."""

    segments: list[Floats]
    health: JointHealth | None


def read_joints(path: Path, columns: str | None = None, time_column: str | None = None) -> JointLog:
    """Read a log.

    Args:
        path: the file; its first line is the header, or, where that is all numbers, the first row of nameless joints.
        columns: regular expression that chooses the joint columns by name (searched, case ignored); without it the
            measured positions are recognised by their names (`POSITION_PATTERNS`), or else every column but the time
            is a joint.
        time_column: name of the time column, ``none`` for no time; without it one of `TIME_COLUMNS` (case ignored).
            Nanoseconds where the name ends in ``_ns``, else seconds.

    Raises:
        InputError: unreadable, empty, no such column, or a cell that is not a finite number, with line and column.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")  # every kind of line end becomes "\n"
        return _parse(text, columns, time_column)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8 text (byte {error.start})") from error
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def to_grid(log: JointLog, settings: MotionSettings) -> GriddedLog:
    """Bring a log to the uniform grid, as the live stream would.

    Raises:
        InputError: the times leave nothing on the grid, with the reason that is most likely.
    """
    if log.stamps_ns is None:
        return GriddedLog([log.positions], None)
    resampler = GridResampler(settings.model_copy(update={"joints": tuple(log.joint_names), "gripper_joints": ()}))
    segments: dict[int, list[Floats]] = {}
    for stamp_ns, row in zip(log.stamps_ns.tolist(), log.positions.tolist(), strict=True):
        for out in resampler.add(stamp_ns, log.joint_names, row) or ():
            segments.setdefault(out.segment, []).append(out.positions)
    if not segments:
        raise InputError(_why_empty(log, settings))
    return GriddedLog([np.stack(rows) for rows in segments.values()], resampler.health())


def _why_empty(log: JointLog, settings: MotionSettings) -> str:
    assert log.stamps_ns is not None  # noqa: S101 - the caller has a time column
    steps = np.diff(log.stamps_ns) * 1e-9
    if len(steps) and float(np.median(steps)) > settings.gap_limit_s:
        return (
            f"the time column {log.time_column} steps by {np.median(steps):g} s, longer than the gap limit of "
            f"{settings.gap_limit_s:g} s; if it only counts rows, read the log with the time column 'none' and the "
            "rate of its rows"
        )
    return (
        f"the log spans {float(np.sum(steps)):g} s by its time column {log.time_column}, too short for a grid of "
        f"{settings.grid_rate_hz:g} Hz, which needs eight periods"
    )


def _parse(text: str, columns: str | None, time_column: str | None) -> JointLog:
    lines = _lines(text)
    if not lines:
        raise InputError("is empty")
    header = [cell.strip() for cell in lines[0][1]]
    if all(_is_number(cell) for cell in header):
        header = [f"joint_{index}" for index in range(len(header))]
        body = lines
    else:
        body = lines[1:]
    time = _find_time(header, time_column)
    chosen = _choose(header, columns, time)
    body = _without_empty_end(body, chosen)
    if not body:
        raise InputError(f"has no row with a value in {', '.join(header[index] for index in chosen)}")
    positions = np.array([[_position(row, index, header, line) for index in chosen] for line, row in body])
    stamps = None if time is None else _stamps(body, time, header)
    return JointLog([header[i] for i in chosen], positions, stamps, None if time is None else header[time])


def _lines(text: str) -> list[tuple[int, list[str]]]:
    """(line number, cells) of every line that holds anything."""
    first = next((line for line in text.split("\n") if line.strip()), "")
    delimiter = max(",;\t", key=first.count)
    if first.count(delimiter) == 0:
        split = [(number, line.split()) for number, line in enumerate(text.split("\n"), 1)]
        return [(number, cells) for number, cells in split if cells]
    reader = csv.reader(io.StringIO(text), delimiter=delimiter)
    try:
        return [(reader.line_num, cells) for cells in reader if any(cell.strip() for cell in cells)]
    except csv.Error as error:
        raise InputError(f"line {reader.line_num + 1}: is no CSV that can be read: {error}") from error


def _find_time(header: Sequence[str], asked: str | None) -> int | None:
    if asked is not None:
        if asked.lower() == NO_TIME:
            return None
        if asked not in header:
            raise InputError(f"has no column {asked!r}; there are {', '.join(header)}")
        return header.index(asked)
    lower = [name.lower() for name in header]
    return next((lower.index(name) for name in TIME_COLUMNS if name in lower), None)


def _choose(header: Sequence[str], columns: str | None, time: int | None) -> list[int]:
    others = [index for index, name in enumerate(header) if index != time and name.lower() not in TIME_COLUMNS]
    if columns is not None:
        try:
            pattern = re.compile(columns, re.IGNORECASE)
        except re.error as error:
            raise InputError(f"the column pattern {columns!r} is not a regular expression: {error}") from error
        chosen = [index for index in others if pattern.search(header[index])]
        if not chosen:
            raise InputError(f"no column fits {columns!r}; there are {', '.join(header)}")
    else:
        named = [[i for i in others if re.search(p, header[i], re.IGNORECASE)] for p in POSITION_PATTERNS]
        chosen = next((found for found in named if found), others)
    names = [header[index] for index in chosen]
    if not chosen or len(set(names)) != len(names) or "" in names:
        raise InputError(f"joint columns need names of their own, but they are {', '.join(map(repr, names)) or 'none'}")
    return chosen


def _without_empty_end(body: list[tuple[int, list[str]]], chosen: Sequence[int]) -> list[tuple[int, list[str]]]:
    """Logs of several runs side by side are as long as the longest: rows without any chosen value end the log."""
    end = len(body)
    while end and not any(index < len(body[end - 1][1]) and body[end - 1][1][index].strip() for index in chosen):
        end -= 1
    return body[:end]


def _stamps(body: list[tuple[int, list[str]]], time: int, header: Sequence[str]) -> npt.NDArray[np.int64]:
    if header[time].lower().endswith("_ns"):
        return np.array([_whole(row, time, header, line) for line, row in body], dtype=np.int64)
    seconds = np.array([_cell(row, time, header, line) for line, row in body])
    if float(np.abs(seconds).max()) > MAX_SECONDS:
        raise InputError(
            f"the time column {header[time]} reaches {np.abs(seconds).max():g}, too much for seconds; "
            "name a column of nanoseconds stamp_ns"
        )
    return np.round(seconds * 1e9).astype(np.int64)


def _whole(row: Sequence[str], index: int, header: Sequence[str], line: int) -> int:
    text = row[index].strip() if index < len(row) else ""
    try:
        return int(text)  # not by way of a float, which holds 53 bits only
    except ValueError as error:
        raise InputError(f"line {line}, column {header[index]}: {text!r} is not a whole number of ns") from error


def _position(row: Sequence[str], index: int, header: Sequence[str], line: int) -> float:
    value = _cell(row, index, header, line)
    if abs(value) > MAX_POSITION:
        raise InputError(f"line {line}, column {header[index]}: {value:g} is no joint position; expected rad or m")
    return value


def _cell(row: Sequence[str], index: int, header: Sequence[str], line: int) -> float:
    text = row[index].strip() if index < len(row) else ""
    try:
        value = float(text)
    except ValueError as error:
        what = f"{text!r} is not a number" if text else "is empty; choose columns of one length"
        raise InputError(f"line {line}, column {header[index]}: {what}") from error
    if not math.isfinite(value):
        raise InputError(f"line {line}, column {header[index]}: {text!r} is not finite")
    return value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
