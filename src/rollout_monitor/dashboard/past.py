"""Past episodes for the page: searched, filtered, a page at a time; and the files of one that may be looked at."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from rollout_monitor.dashboard.band import last_said
from rollout_monitor.dashboard.cards import Card, rounded, short
from rollout_monitor.errors import InputError, StoreError
from rollout_monitor.records import Label
from rollout_monitor.store.episodes import INDEX, LABELS, PAGE, REPORT, EpisodeRow, EpisodeStore
from rollout_monitor.store.labels import LabelFact

MOST_ROWS = 100
MOST_TAGS = 8
FILES = {PAGE: "text/html; charset=utf-8", REPORT: "application/json"}
"""What of an episode's folder is served: its page and the page's twin."""

_WRITTEN = (LABELS, INDEX, f"{INDEX}-wal")
_FOLDER = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,200}")


class Query(BaseModel):
    """What a page asks for; an empty text filters nothing."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    words: str = Field(default="", max_length=200)
    """Each must be in the task, the name, the robot, the model, or what somebody said."""
    outcome: str = Field(default="", pattern=r"^(success|failure|undecided|)$")
    robot: str = Field(default="", max_length=200)
    task: str = Field(default="", max_length=1000)
    first: int = Field(default=0, ge=0, le=1_000_000)
    count: int = Field(default=20, ge=1, le=MOST_ROWS)


@dataclass(frozen=True)
class _Past:
    """One episode with all that was said about it."""

    store: int
    row: EpisodeRow
    facts: Sequence[LabelFact]
    said: Label | None

    @property
    def outcome(self) -> str:
        """What counts: what somebody said last, else what the monitor decided."""
        return self.said.value if self.said is not None else self.row.outcome

    @property
    def haystack(self) -> str:
        """Everything that words are looked for in."""
        row = self.row
        said = " ".join(f"{fact.who} {fact.note}" for fact in self.facts)
        return f"{row.task} {row.folder} {row.robot} {row.model} {self.outcome} {said}".casefold()


class PastEpisodes:
    """The episodes of several stores, the newest first. Safe to use from several threads."""

    def __init__(self, stores: Sequence[Path]) -> None:
        """Nothing is read before the first question, nor again before something was written.

        Args:
            stores: folders of reports; one that is not there yet is empty.
        """
        self._stores = [EpisodeStore(folder) for folder in stores]
        self._roots = [folder.resolve() for folder in stores]
        self._lock = threading.Lock()
        self._seen: object = None
        self._all: list[_Past] = []
        self._trouble: list[str] = []

    def find(self, query: Query) -> Card:
        """The rows that fit, ``count`` from number ``first`` on; how many fit; and what the filters can be set to."""
        everything, trouble = self._everything()
        words = query.words.casefold().split()
        found = [
            one
            for one in everything
            if query.outcome in ("", one.outcome)
            and query.robot in ("", one.row.robot)
            and query.task in ("", one.row.task)
            and (not words or all(word in one.haystack for word in words))
        ]
        return {
            "rows": [_row(one) for one in found[query.first : query.first + query.count]],
            "found": len(found),
            "all": len(everything),
            "robots": sorted({one.row.robot for one in everything if one.row.robot}),
            "tasks": list(dict.fromkeys(short(one.row.task) for one in everything))[:MOST_ROWS],
            "trouble": trouble,
        }

    def file(self, store: int, folder: str, name: str) -> Path:
        """A file of an episode that may be shown.

        Raises:
            InputError: no such episode or file, or one that is not to be shown.
        """
        if not 0 <= store < len(self._roots) or name not in FILES or not _FOLDER.fullmatch(folder):
            raise InputError("there is no such episode here")
        root = self._roots[store]
        path = (root / folder / name).resolve()
        if path.parent != root / folder or not path.is_file():  # a link that leads elsewhere is not followed
            raise InputError("there is no such episode here")
        return path

    def link(self, folder: Path) -> str | None:
        """Address of the page of an episode that was written to ``folder``; None where it is in none of the stores."""
        folder = folder.absolute()
        for store, root in enumerate(self._roots):
            if folder.parent.resolve() == root and (folder / PAGE).is_file():
                return _link(store, folder.name)
        return None

    def _everything(self) -> tuple[list[_Past], list[str]]:
        with self._lock:
            state = [_state(root / name) for root in self._roots for name in _WRITTEN]
            if state != self._seen or self._trouble:
                self._all, self._trouble = self._read()
                self._seen = state
            return self._all, self._trouble

    def _read(self) -> tuple[list[_Past], list[str]]:
        found: list[_Past] = []
        trouble: list[str] = []
        for number, store in enumerate(self._stores):
            if not store.root.is_dir():
                trouble.append(f"{store.root} is not there yet")
                continue
            try:
                rows, facts = store.list(), store.labels.all()
            except StoreError as error:
                trouble.append(str(error))
                continue
            said = last_said(facts)
            of: dict[str, list[LabelFact]] = {}
            for fact in facts:
                of.setdefault(fact.episode_id, []).append(fact)
            found += [_Past(number, row, of.get(row.folder, ()), said.get(row.folder)) for row in rows]
        return sorted(found, key=lambda one: one.row.start_ns, reverse=True), trouble


def _state(file: Path) -> tuple[int, int] | None:
    """What changes when a file is written."""
    try:
        stat = file.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size


def _row(one: _Past) -> Card:
    row = one.row
    return {
        "store": one.store,
        "folder": row.folder,
        "task": short(row.task),
        "robot": short(row.robot),
        "outcome": one.outcome,
        "said": one.said is not None,
        "interrupted": row.state == "INTERRUPTED",
        "start": row.start_ns // 1_000_000,
        "duration": rounded(row.duration_s, 1),
        "mp": rounded(row.mp, 3),
        "sqs": rounded(row.sqs, 3),
        "fns": rounded(row.fns, 3),
        "warnings": row.warnings,
        "errors": row.errors,
        "model": short(row.model),
        "tags": [
            {"label": fact.label.value if fact.label else None, "who": short(fact.who), "note": short(fact.note)}
            for fact in one.facts[-MOST_TAGS:]
        ],
        "link": _link(one.store, row.folder),
    }


def _link(store: int, folder: str) -> str:
    return f"/reports/{store}/{folder}/{PAGE}"
