"""Where reports live: one folder per episode, whole or not there, never overwritten; and an index over them.

Layout of a store::

    <root>/<episode>/report.json     the record, schema in docs/schema
    <root>/<episode>/report.html     the page, where one was drawn
    <root>/<episode>/report.md       the same in short, for a pull request
    <root>/<episode>/film.mp4        the cameras side by side, see `film`
    <root>/<episode>/frames/*.jpg    key frames and evidence
    <root>/labels.jsonl              who said what about an episode, append-only
    <root>/index.sqlite              headline figures; `rollout-monitor report reindex` makes it anew

Where the root cannot be written (full, read-only, gone) a report is kept in the first of these that can be:
``fallback`` where one is given, ``$XDG_STATE_HOME/rollout-monitor/rescued`` (``~/.local/state/...``), the system's
folder for temporary files.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from pydantic import ValidationError

from rollout_monitor.errors import InputError, StoreError
from rollout_monitor.frames import RgbImage
from rollout_monitor.images import encode_jpeg
from rollout_monitor.records import EpisodeReport, Label
from rollout_monitor.store.files import free_name, sync_folder, write_synced
from rollout_monitor.store.index import EpisodeIndex, EpisodeRow, row_of
from rollout_monitor.store.labels import LabelFact, append_fact, read_facts

__all__ = ["EpisodeRow", "EpisodeStore", "LabelFact", "Labels", "PartlyStoredError", "Reindexed"]

REPORT, PAGE, TEXT, FILM, FRAMES = "report.json", "report.html", "report.md", "film.mp4", "frames"
INDEX, LABELS = "index.sqlite", "labels.jsonl"
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")
_PICTURE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\.jpe?g")
_LONGEST_NAME = 128
_Lines: TypeAlias = list[str]

Picture: TypeAlias = bytes | RgbImage


class PartlyStoredError(StoreError):
    """What matters is safe, but not everything worked; the message says what to do.

    Attributes:
        path: where the episode (or the label) is.
    """

    def __init__(self, message: str, path: Path) -> None:
        super().__init__(message)
        self.path = path


@dataclass(frozen=True)
class Reindexed:
    """What a rebuild of the index found."""

    episodes: int
    labels: int
    problems: list[str]
    """Folders and lines that could not be read, unfinished folders of a crash, a damaged index put aside."""


class EpisodeStore:
    """Reports on disk; safe to use from several processes.

    Attributes:
        root: the store's folder; it is made with the first report.
        labels: what was said about the episodes.

    Args:
        root: the store's folder.
        fallback: where reports go when the root cannot be written; see the module's text for what comes after it.
    """

    def __init__(self, root: Path, *, fallback: Path | None = None) -> None:
        self.root = Path(root)
        self._fallback = fallback
        self._index = EpisodeIndex(self.root / INDEX)
        self.labels = Labels(self)

    def write(
        self,
        report: EpisodeReport,
        pictures: Mapping[str, Picture],
        page: str | None = None,
        *,
        text: str | None = None,
        film: bytes | None = None,
    ) -> Path:
        """Keep a report for good.

        Args:
            report: the record.
            pictures: JPEG bytes (kept as they are) or pictures (height, width, 3) uint8 RGB, by the file name that
                ``KeyFrame.file`` and ``Event.evidence`` give: ``*.jpg`` without folders.
            page: the HTML page, where one was drawn.
            text: its Markdown twin.
            film: an MP4, see `film`.

        Returns:
            The episode's folder. Its name is the episode's id, with -2, -3 ... where that was taken.

        Raises:
            InputError: a picture name that is no plain ``.jpg`` file name.
            PartlyStoredError: the report is safe in ``error.path``, but the root could not be written or the index is
                locked or damaged.
            StoreError: nothing could be kept anywhere; names each place tried and why.
        """
        files = _files(report, pictures, {PAGE: page, TEXT: text, FILM: film})
        name = _folder_name(report.episode_id)
        try:
            folder = _write_folder(self.root, name, files)
        except OSError as error:
            raise self._rescue(name, files, error) from error
        try:
            if self._index.path.exists():
                self._index.add(row_of(folder.name, report))
            else:
                self.reindex()
        except sqlite3.Error as error:
            raise PartlyStoredError(
                _index_trouble(self.root, error, f"the report is safe in {folder}"), folder
            ) from error
        return folder

    def load(self, episode: str) -> EpisodeReport:
        """Read a report back.

        Args:
            episode: name of its folder in the store.

        Raises:
            InputError: no such episode.
            StoreError: a report that cannot be read; names the file and the first thing wrong with it.
        """
        if _UNSAFE.search(episode) or not (self.root / episode / REPORT).is_file():
            raise InputError(f"no episode {episode!r} in {self.root}; `rollout-monitor report list` names them")
        return read_report(self.root / episode / REPORT)

    def list(self) -> Sequence[EpisodeRow]:
        """Index rows of all episodes, the newest first; an index that is missing is made.

        Raises:
            StoreError: the index is locked or damaged; the message says ``reindex``.
        """
        if not self.root.is_dir():
            return []
        try:
            if not self._index.path.exists():
                self.reindex()
            return self._index.rows()
        except sqlite3.Error as error:
            raise StoreError(_index_trouble(self.root, error, "all reports are safe in their folders")) from error

    def reindex(self) -> Reindexed:
        """Make the index anew from the episode folders and ``labels.jsonl``. A damaged index is put aside, not removed.

        Raises:
            StoreError: the index is locked by another process, or its folder cannot be written.
        """
        problems: _Lines = []
        rows = list(self._rows_from_folders(problems))
        facts, torn = read_facts(self.root / LABELS)
        problems.extend(torn)
        try:
            self._index.rebuild(rows, facts, self._is_stored)
        except sqlite3.OperationalError as error:
            raise StoreError(_index_trouble(self.root, error, "all reports are safe in their folders")) from error
        except sqlite3.DatabaseError as error:
            aside = self._put_aside()
            problems.append(f"the index was damaged ({error}) and is kept as {aside.name}")
            self._index.rebuild(rows, facts, self._is_stored)
        return Reindexed(len(rows), len(facts), problems)

    def _rows_from_folders(self, problems: _Lines) -> Iterator[EpisodeRow]:
        for folder in sorted(self.root.iterdir()):
            if folder.name.startswith(".") and folder.name.endswith(".partial"):
                problems.append(f"{folder.name} was left by a crash; what is in it is readable")
            elif (folder / REPORT).is_file() and not folder.name.startswith("."):
                try:
                    yield row_of(folder.name, read_report(folder / REPORT))
                except StoreError as error:
                    problems.append(str(error))

    def _is_stored(self, folder: str) -> bool:
        return (self.root / folder / REPORT).is_file()

    def _put_aside(self) -> Path:
        aside = free_name(self.root, f"{INDEX}.damaged")
        self._index.path.rename(aside)
        for ending in ("-wal", "-shm"):
            with suppress(FileNotFoundError):
                self._index.path.with_name(INDEX + ending).rename(aside.with_name(aside.name + ending))
        return aside

    def _rescue(self, name: str, files: Mapping[str, bytes], cause: OSError) -> StoreError:
        """Keep the report elsewhere: everything where there is room, else its figures alone."""
        tried = [f"{self.root} ({cause.strerror or cause})"]
        for content in (files, {REPORT: files[REPORT]}):
            for place in (*self._places(), self.root):
                try:
                    folder = _write_folder(place, name, content)
                except OSError as error:
                    tried.append(f"{place} ({error.strerror or error})")
                    continue
                what = "the report" if content is files else "the report's figures, without page and pictures,"
                message = (
                    f"{self.root} could not be written ({cause.strerror or cause}); {what} of {name} is safe in "
                    f"{folder}: make room, move it there and run `rollout-monitor report reindex --store {self.root}`"
                )
                return PartlyStoredError(message, folder)
        places = "; ".join(dict.fromkeys(tried))
        return StoreError(f"nothing of the report of {name} could be kept: {places}. Earlier episodes are untouched")

    def _places(self) -> Sequence[Path]:
        places = [self._fallback] if self._fallback is not None else []
        with suppress(RuntimeError):  # no home folder
            state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
            places.append(Path(state) / "rollout-monitor" / "rescued")
        return [*places, Path(tempfile.gettempdir()) / f"rollout-monitor-rescued-{os.getuid()}"]


class Labels:
    """What was said about the episodes of a store: facts that are added and never changed."""

    def __init__(self, store: EpisodeStore) -> None:
        self._store = store

    def add(self, episode: str, label: Label | None, who: str, note: str = "", *, stamp_ns: int) -> LabelFact:
        """Add a fact.

        Args:
            episode: name of the episode's folder.
            label: the outcome as ``who`` saw it, None for a note.
            who: person or program.
            note: free text.
            stamp_ns: when it was said, nanoseconds.

        Raises:
            InputError: no such episode, or a fact without an author.
            PartlyStoredError: the fact is safe in ``labels.jsonl``, the index is locked or damaged.
            StoreError: the fact could not be written.
        """
        root = self._store.root
        if _UNSAFE.search(episode) or not (root / episode / REPORT).is_file():
            raise InputError(f"no episode {episode!r} in {root}; `rollout-monitor report list` names them")
        try:
            fact = LabelFact(episode_id=episode, label=label, who=who, note=note, stamp_ns=stamp_ns)
        except ValidationError as error:
            raise InputError(f"label of {episode}: {_first_problem(error)}") from error
        try:
            append_fact(root / LABELS, fact)
        except OSError as error:
            raise StoreError(
                f"label of {episode} could not be kept in {root / LABELS}: {error.strerror or error}; "
                "the report and all earlier labels are untouched"
            ) from error
        try:
            self._store._index.add_label(fact)
        except sqlite3.Error as error:
            safe = f"the label is safe in {LABELS}"
            raise PartlyStoredError(_index_trouble(root, error, safe), root / LABELS) from error
        return fact

    def all(self) -> list[LabelFact]:
        """Every fact, in the order they were said, from ``labels.jsonl``.

        Raises:
            StoreError: the file cannot be opened.
        """
        return read_facts(self._store.root / LABELS)[0]

    def of(self, episode: str) -> list[LabelFact]:
        """Every fact about one episode, in the order they were said."""
        return [fact for fact in self.all() if fact.episode_id == episode]


def read_report(path: Path) -> EpisodeReport:
    """Read a ``report.json``.

    Raises:
        StoreError: missing, unreadable, or of another schema: names the file and the first thing wrong with it.
    """
    try:
        return EpisodeReport.model_validate_json(path.read_bytes())
    except OSError as error:
        raise StoreError(f"{path}: cannot be read: {error.strerror}") from error
    except ValidationError as error:
        raise StoreError(f"{path}: no episode report of this version: {_first_problem(error)}") from error


def _files(
    report: EpisodeReport, pictures: Mapping[str, Picture], views: Mapping[str, str | bytes | None]
) -> dict[str, bytes]:
    """Contents by path within the episode's folder, the report first."""
    files = {REPORT: report.model_dump_json(indent=1).encode()}
    files |= {
        name: view.encode() if isinstance(view, str) else view for name, view in views.items() if view is not None
    }
    for name, picture in pictures.items():
        if not _PICTURE.fullmatch(name):
            raise InputError(f"picture {name!r}: expected a plain file name that ends in .jpg")
        files[f"{FRAMES}/{name}"] = picture if isinstance(picture, bytes) else encode_jpeg(picture)
    return files


def _write_folder(root: Path, name: str, files: Mapping[str, bytes]) -> Path:
    """Write the files into a folder that appears as a whole under the first free name; on failure nothing is left."""
    root.mkdir(parents=True, exist_ok=True)
    temporary = root / f".{name}.{secrets.token_hex(4)}.partial"
    temporary.mkdir()
    try:
        for inside, content in files.items():
            path = temporary / inside
            path.parent.mkdir(exist_ok=True)
            write_synced(path, content)
        for folder in {(temporary / inside).parent for inside in files}:
            sync_folder(folder)
        target = _rename_to_free(temporary, name)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    sync_folder(root)
    return target


def _rename_to_free(temporary: Path, name: str) -> Path:
    while True:
        target = free_name(temporary.parent, name)
        try:
            temporary.rename(target)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            continue  # another process took the name in between
        return target


def _folder_name(episode_id: str) -> str:
    """A file name for an id from outside."""
    return _UNSAFE.sub("_", episode_id).lstrip(".")[:_LONGEST_NAME] or "episode"


def _index_trouble(root: Path, error: Exception, safe: str) -> str:
    return (
        f"the index of {root} could not be used ({error}); {safe}; run `rollout-monitor report reindex --store {root}`"
    )


def _first_problem(error: ValidationError) -> str:
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    return f"{place}: {first['msg']}" if place else str(first["msg"])
