"""The index of a store: one row per episode with its headline figures, in SQLite. It holds nothing that the episode
folders and ``labels.jsonl`` do not: it can be rebuilt from them at any time.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from rollout_monitor.records import EpisodeReport, Label, Severity
from rollout_monitor.store.labels import LabelFact

LOCK_TIMEOUT_S = 5.0
SCHEMA_VERSION = 1


@dataclass(frozen=True)
class EpisodeRow:
    """What the index knows of one episode. Figures are the final ones; None where they do not apply."""

    folder: str
    """Name of the folder in the store, unique."""
    episode_id: str
    task: str
    robot: str
    state: str
    outcome: str
    decided_by: str
    label: str | None
    """As given when the episode ended."""
    start_ns: int
    duration_s: float
    mp: float | None
    ppl: float | None
    cra: float | None
    str_: float | None
    max_drawdown: float | None
    drr: float | None
    fns: float | None
    sqs: float | None
    warnings: int
    errors: int
    model: str
    model_hash: str
    calibrated: bool
    bag: str | None


_COLUMNS = tuple(field.name for field in fields(EpisodeRow))
_EPISODES = f"""
CREATE TABLE IF NOT EXISTS episodes (
    folder TEXT PRIMARY KEY, episode_id TEXT NOT NULL, task TEXT NOT NULL, robot TEXT NOT NULL, state TEXT NOT NULL,
    outcome TEXT NOT NULL, decided_by TEXT NOT NULL, label TEXT, start_ns INTEGER NOT NULL, duration_s REAL NOT NULL,
    mp REAL, ppl REAL, cra REAL, str_ REAL, max_drawdown REAL, drr REAL, fns REAL, sqs REAL,
    warnings INTEGER NOT NULL, errors INTEGER NOT NULL, model TEXT NOT NULL, model_hash TEXT NOT NULL,
    calibrated INTEGER NOT NULL, bag TEXT
);
CREATE INDEX IF NOT EXISTS episodes_by_start ON episodes (start_ns);
CREATE TABLE IF NOT EXISTS labels (
    id INTEGER PRIMARY KEY, episode_id TEXT NOT NULL, label TEXT NOT NULL, who TEXT NOT NULL, note TEXT NOT NULL,
    stamp_ns INTEGER NOT NULL, UNIQUE (episode_id, label, who, note, stamp_ns)
);
CREATE TRIGGER IF NOT EXISTS labels_are_kept BEFORE DELETE ON labels
BEGIN SELECT RAISE(ABORT, 'labels are never removed'); END;
CREATE TRIGGER IF NOT EXISTS labels_stay BEFORE UPDATE ON labels
BEGIN SELECT RAISE(ABORT, 'labels are never changed'); END;
PRAGMA user_version = {SCHEMA_VERSION};
"""


class EpisodeIndex:
    """The SQLite file. Each call opens and closes it, so that several processes may share it.

    Every method raises ``sqlite3.Error`` where the file is locked for longer than ``LOCK_TIMEOUT_S`` or damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, row: EpisodeRow) -> None:
        """Add one episode, or bring its row up to date."""
        with self._transaction() as connection:
            _insert(connection, [row])

    def add_label(self, fact: LabelFact) -> None:
        """Add one label; the same fact twice is one."""
        with self._transaction() as connection:
            _insert_labels(connection, [fact])

    def rows(self) -> list[EpisodeRow]:
        """All episodes, the newest first."""
        with self._transaction() as connection:
            found = connection.execute(
                f"SELECT {', '.join(_COLUMNS)} FROM episodes ORDER BY start_ns DESC, folder"  # noqa: S608 - constants
            ).fetchall()
        return [EpisodeRow(**{**dict(zip(_COLUMNS, row, strict=True)), "calibrated": bool(row[-2])}) for row in found]

    def labels(self) -> list[LabelFact]:
        """All labels, in the order they were said."""
        with self._transaction() as connection:
            found = connection.execute(
                "SELECT episode_id, label, who, note, stamp_ns FROM labels ORDER BY stamp_ns, id"
            ).fetchall()
        return [
            LabelFact(episode_id=episode, label=Label(label) if label else None, who=who, note=note, stamp_ns=stamp)
            for episode, label, who, note, stamp in found
        ]

    def rebuild(
        self, rows: Iterable[EpisodeRow], labels: Iterable[LabelFact], is_stored: Callable[[str], bool]
    ) -> None:
        """Bring the index in step with the store, in one transaction: readers see all of it or nothing of it.

        Rows of folders that are gone are removed; those that other processes added meanwhile stay. Labels are kept.
        """
        with self._transaction() as connection:
            indexed = [row[0] for row in connection.execute("SELECT folder FROM episodes")]
            gone = [(folder,) for folder in indexed if not is_stored(folder)]
            connection.executemany("DELETE FROM episodes WHERE folder = ?", gone)
            _insert(connection, rows)
            _insert_labels(connection, labels)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.path, timeout=LOCK_TIMEOUT_S)) as connection:
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version not in (0, SCHEMA_VERSION):
                raise sqlite3.DatabaseError(f"schema version {version}, this program knows {SCHEMA_VERSION}")
            if version == 0:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.executescript(_EPISODES)
            with connection:
                yield connection


def row_of(folder: str, report: EpisodeReport) -> EpisodeRow:
    """The index row of a report."""
    metrics = report.metrics_final
    severities = [event.severity for event in report.events]
    return EpisodeRow(
        folder=folder,
        episode_id=report.episode_id,
        task=report.task,
        robot=report.robot,
        state=report.state.value,
        outcome=report.outcome.outcome.value,
        decided_by=report.outcome.decided_by,
        label=report.label.value if report.label else None,
        start_ns=report.start_ns,
        duration_s=report.duration_s,
        mp=metrics.mp if metrics else None,
        ppl=metrics.ppl if metrics else None,
        cra=metrics.cra if metrics else None,
        str_=metrics.str_ if metrics else None,
        max_drawdown=metrics.max_drawdown if metrics else None,
        drr=metrics.drr if metrics else None,
        fns=metrics.fns if metrics else None,
        sqs=metrics.sqs if metrics else None,
        warnings=severities.count(Severity.WARN),
        errors=severities.count(Severity.ERROR),
        model=report.model,
        model_hash=report.model_hash,
        calibrated=report.outcome.calibrated,
        bag=report.bag,
    )


def _insert(connection: sqlite3.Connection, rows: Iterable[EpisodeRow]) -> None:
    marks = ", ".join("?" * len(_COLUMNS))
    connection.executemany(
        f"INSERT OR REPLACE INTO episodes ({', '.join(_COLUMNS)}) VALUES ({marks})",  # noqa: S608 - constants
        [astuple(row) for row in rows],
    )


def _insert_labels(connection: sqlite3.Connection, facts: Iterable[LabelFact]) -> None:
    connection.executemany(
        "INSERT OR IGNORE INTO labels (episode_id, label, who, note, stamp_ns) VALUES (?, ?, ?, ?, ?)",
        [
            (fact.episode_id, fact.label.value if fact.label else "", fact.who, fact.note, fact.stamp_ns)
            for fact in facts
        ],
    )
