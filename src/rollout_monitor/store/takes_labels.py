"""The label file: a CSV with one line per take that says whether it succeeded."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from rollout_monitor.errors import InputError
from rollout_monitor.store.takes_types import NO, YES, Claim

WHO = "label file"


@dataclass(frozen=True)
class _Line:
    number: int
    take: str
    success: bool


def read_labels(path: Path, names: Mapping[str, str]) -> dict[str, Claim]:
    """Read a label file.

    Args:
        path: CSV in UTF-8 with the columns ``take`` and ``success``, in any order; other columns are not looked at.
            ``success`` is true/false, yes/no, 1/0, success/failure or succeeded/failed, in any case.
        names: id by every name that a take goes by.

    Returns:
        What the file says, by id.

    Raises:
        InputError: names the file, the line and what to do: no such file, another header, a take that is not there or
            has two lines, a value that is neither true nor false.
    """
    claims: dict[str, Claim] = {}
    for line in _lines(path):
        where = f"{path} line {line.number}"
        take = names.get(line.take)
        if take is None:
            near = get_close_matches(line.take, names, n=3) or sorted(names)[:3]
            raise InputError(f"{where}: there is no take {line.take!r}; names look like {', '.join(map(repr, near))}")
        if take in claims:
            raise InputError(f"{where}: take {line.take!r} has a line already ({claims[take].where}); keep one")
        claims[take] = Claim(line.success, WHO, where)
    return claims


def _lines(path: Path) -> Iterator[_Line]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: the label file cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: the label file is not UTF-8 (byte {error.start}); save it as UTF-8 CSV") from error
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = [cell.strip().lower() for cell in next(reader, [])]
        if header.count("take") != 1 or header.count("success") != 1:
            raise InputError(f"{path} line 1: expected the header `take,success`, got {','.join(header)[:80]!r}")
        columns = header.index("take"), header.index("success")
        for row in reader:
            if any(cell.strip() for cell in row):
                yield _line(path, reader.line_num, row, *columns)
    except csv.Error as error:
        raise InputError(f"{path} line {reader.line_num}: {error}") from error


def _line(path: Path, number: int, row: list[str], take: int, success: int) -> _Line:
    where = f"{path} line {number}"
    if len(row) <= max(take, success):
        raise InputError(f"{where}: expected a take and its success, got {','.join(row)[:80]!r}")
    name, word = row[take].strip(), row[success].strip().lower()
    if not name:
        raise InputError(f"{where}: names no take")
    if word not in YES | NO:
        said = f"success is {row[success].strip()[:40]!r}" if word else "success is empty"
        raise InputError(f"{where}: {said}; write true or false, or leave the line out for a take without a label")
    return _Line(number, name, word in YES)
