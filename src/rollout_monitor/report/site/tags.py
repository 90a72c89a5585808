"""Which policy, which task, simulated or real, and what else was said: from reports, label notes and a tags file.

The rules, the first that answers counts:

- policy: ``policy`` in the tags file; the report's ``source`` (who started the attempt).
- task: ``task`` in the tags file; the report's ``task``.
- simulated or real: ``where`` in the tags file; ``#sim`` or ``#real`` in the newest note that has one; the word
  *sim*, *simulated*, *simulation* or *simulator* in the report's ``robot`` or ``source``. Nothing is taken for real
  unless somebody said so.
- tags: ``tags`` in the tags file and every other ``#word`` in the notes of ``labels.jsonl``.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from rollout_monitor.errors import InputError
from rollout_monitor.store.labels import tags_of

Where = Literal["sim", "real"]

TAGS_FILE = "tags.csv"
COLUMNS = ("episode", "policy", "task", "where", "tags")
_WHERE: dict[str, Where] = {"sim": "sim", "simulation": "sim", "simulated": "sim", "real": "real"}
_SIMULATED = re.compile(r"(?<![a-z])(sim|simulated|simulation|simulator)(?![a-z])", re.IGNORECASE)


@dataclass(frozen=True)
class Said:
    """What the tags file says of one episode; empty where it says nothing."""

    policy: str = ""
    task: str = ""
    where: Where | None = None
    tags: tuple[str, ...] = ()
    line: int = 0


@dataclass(frozen=True)
class Tags:
    """A tags file.

    Attributes:
        rows: what is said, by the episode's path within the folder that is read.
        name: of the file, for messages.
    """

    rows: dict[str, Said] = field(default_factory=dict)
    name: str = TAGS_FILE

    def of(self, episode: str) -> Said:
        """What is said of an episode."""
        return self.rows.get(episode, Said())

    def unknown(self, episodes: Iterable[str]) -> list[str]:
        """A line about each row whose episode was not read."""
        known = set(episodes)
        return [
            one_line(f"{self.name} line {said.line}: no episode {episode!r} was read")
            for episode, said in self.rows.items()
            if episode not in known
        ]


def read_tags(path: Path) -> Tags:
    """Read a CSV file with the column ``episode`` and any of ``policy``, ``task``, ``where`` and ``tags``.

    Raises:
        InputError: names the line and what is wrong with it.
    """
    try:
        reader = csv.reader(io.StringIO(path.read_text(encoding="utf-8-sig")))
        lines = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: is no CSV in UTF-8: {error}") from error
    header = [cell.strip().lower() for cell in lines[0][1]] if lines else []
    if "episode" not in header or not set(header) <= set(COLUMNS) or len(set(header)) < len(header):
        raise InputError(
            f"{path}: the columns are {', '.join(header) or 'missing'}; episode is needed, "
            f"{', '.join(COLUMNS[1:])} may be there"
        )
    rows: dict[str, Said] = {}
    for number, cells in lines[1:]:
        if len(cells) != len(header):
            raise InputError(f"{path} line {number}: has {len(cells)} cells, the first line has {len(header)}")
        row = dict(zip(header, cells, strict=True))
        episode = row["episode"].strip().strip("/")
        if not episode or episode in rows:
            raise InputError(f"{path} line {number}: {f'{episode!r} comes twice' if episode else 'names no episode'}")
        rows[episode] = _said(row, f"{path} line {number}", number)
    return Tags(rows, path.name)


def _said(row: dict[str, str], place: str, line: int) -> Said:
    where = row.get("where", "").strip().lower()
    if where and where not in _WHERE:
        raise InputError(f"{place}: where is {where!r}; sim or real is needed, or nothing")
    return Said(
        policy=one_line(row.get("policy", "")),
        task=one_line(row.get("task", "")),
        where=_WHERE.get(where),
        tags=tuple(word.lstrip("#") for word in row.get("tags", "").split() if word.lstrip("#")),
        line=line,
    )


def hashtags(notes: Iterable[str]) -> tuple[str, ...]:
    """Every ``#word`` in notes, in their order."""
    return tuple(tag for note in notes for tag in tags_of(note))


def says_where(tag: str) -> bool:
    """Whether a hashtag says simulated or real."""
    return tag.lower() in _WHERE


def where_of(noted: Sequence[str], robot: str, source: str) -> Where | None:
    """Simulated or real: by the newest note that says so, else by the robot's or the source's name."""
    for tag in reversed(noted):
        if says_where(tag):
            return _WHERE[tag.lower()]
    return "sim" if _SIMULATED.search(robot) or _SIMULATED.search(source) else None


def one_line(text: str) -> str:
    """Text from outside on one line: line ends and runs of blanks become one blank."""
    return " ".join(text.split())
