"""Reads recorded episodes without ROS: a rosbag2 folder, or a bare .mcap or .db3 file.

Folders without metadata.yaml and files that were cut short are read as far as they go, and say so. Of a damaged MCAP
file all that can be read is given, and then `DamagedBagError` says what was not.
"""

from __future__ import annotations

import heapq
import re
import tempfile
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any

import yaml
import zstandard

from rollout_monitor.errors import InputError
from rollout_monitor.store import mcap_file, sqlite_file
from rollout_monitor.store.mcap_file import McapFile, StoredTopic
from rollout_monitor.store.messages import (
    DECODED_TYPES,
    BagMessage,
    Codec,
    Definition,
    ImageItem,
    JointItem,
    MarkerItem,
    StreamItem,
)
from rollout_monitor.store.qos import dump_qos, parse_qos
from rollout_monitor.store.sqlite_file import SqliteFile

__all__ = [
    "BagMessage",
    "BagReader",
    "BagTopic",
    "DamagedBagError",
    "ImageItem",
    "JointItem",
    "MarkerItem",
    "StreamItem",
    "open_bag",
]

METADATA = "metadata.yaml"
NEWEST_METADATA = 9
_FILES = re.compile(r"\.(mcap|mcap\.active|db3)(\.zstd)?$")
_ROS1_MAGIC = b"#ROSBAG"
_NS = 1e9


class DamagedBagError(InputError):
    """Raised behind the last message where some could not be read: what was given is right, but not all there was."""


@dataclass(frozen=True)
class BagTopic:
    """One topic of a bag."""

    name: str
    type: str
    count: int
    """Messages."""
    rate_hz: float | None
    """Mean over the whole bag; None with fewer than two messages."""
    qos_yaml: str = field(default="", repr=False)
    """Offered QoS profiles as recorded, YAML in the words of metadata version 9; empty where the bag has none."""
    definition: Definition | None = field(default=None, repr=False)


@dataclass(frozen=True)
class _Layout:
    """Which files make a bag, and how they are packed."""

    files: list[Path]
    compression: str = ""
    """``file``, ``message`` or nothing."""
    custom: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


class BagReader:
    """An opened bag; see :func:`open_bag`. Use it as a context manager, or call :meth:`close`.

    Attributes:
        path: as given.
        topics: name, type, count and rate of each topic, by name.
        start_ns: log time of the first message; None in an empty bag.
        end_ns: log time of the last message; None in an empty bag.
        notes: what a reader must know, for instance that a file is cut short and how much was read.
        damage: those of the notes that tell of messages that are missing.
        custom: the bag's own ``custom_data``.
    """

    def __init__(self, path: Path, layout: _Layout) -> None:
        self.path = path
        self.custom = layout.custom
        self.notes = list(layout.notes)
        self._message_zstd = layout.compression == "message"
        self._stack = ExitStack()
        try:
            self._files = [self._open(file, unpack=layout.compression == "file") for file in layout.files]
        except BaseException:
            self._stack.close()
            raise
        self.damage = [file.damage for file in self._files if file.damage]
        self.notes.extend(self.damage)
        self.start_ns = min((f.start_ns for f in self._files if f.start_ns is not None), default=None)
        self.end_ns = max((f.end_ns for f in self._files if f.end_ns is not None), default=None)
        self.topics = self._merged_topics()
        self._codec = Codec({topic.type: topic.definition for topic in self.topics if topic.definition})

    @property
    def duration_s(self) -> float:
        """Seconds from the first to the last message, by log time."""
        return 0.0 if self.start_ns is None or self.end_ns is None else (self.end_ns - self.start_ns) / _NS

    def messages(self, topics: Collection[str] | None = None) -> Iterator[BagMessage]:
        """Messages in log order, of ``topics`` only where given.

        Raises:
            DamagedBagError: at the end, where chunks of an MCAP file could not be read: names each with its time span.
            InputError: a topic that is not in the bag, or a damaged sqlite file.
        """
        self._refuse_unknown(topics)
        damage: list[str] = []
        merged = heapq.merge(
            *(file.messages(topics, damage.append) for file in self._files), key=lambda message: message.log_ns
        )
        whole = self._until_damage(merged, damage, topics)
        return map(self._unpacked, whole) if self._message_zstd else whole

    def decoded(self, topics: Collection[str] | None = None) -> Iterator[StreamItem]:
        """Joint states, camera frames and episode markers in log order; messages of other types are left out.

        Args:
            topics: only these; every topic of a known type where None.

        Raises:
            DamagedBagError: at the end, see :meth:`messages`.
            InputError: an unknown topic, a topic of another type, a message that does not fit its type.
        """
        self._refuse_unknown(topics)
        known = {topic.name for topic in self.topics if topic.type in DECODED_TYPES}
        if topics is not None and (other := sorted(set(topics) - known)):
            raise InputError(f"{self.path}: topic {other[0]} is {self._type(other[0])}, which is not decoded here")
        return map(self._codec.item, self.messages(known if topics is None else topics))

    def decode(self, message: BagMessage) -> Any:
        """Any message of this bag as an object with its fields as attributes.

        Raises:
            InputError: a type nobody defined, or bytes that do not fit it.
        """
        return self._codec.fields(message)

    def close(self) -> None:
        """Let go of temporary files."""
        self._stack.close()

    def __enter__(self) -> BagReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _until_damage(
        self, messages: Iterable[BagMessage], damage: list[str], topics: Collection[str] | None
    ) -> Iterator[BagMessage]:
        read = 0
        for message in messages:
            yield message
            read += 1
        if damage:
            there = sum(topic.count for topic in self.topics if topics is None or topic.name in topics)
            raise DamagedBagError(f"{'; '.join(damage)}; {there - read} of {there} messages could not be read")

    def _open(self, path: Path, *, unpack: bool) -> McapFile | SqliteFile:
        if unpack:
            path = self._unpacked_file(path)
        file = _open_file(path)
        self._stack.callback(file.close)
        for topic in file.topics:
            if topic.serialization != "cdr":
                raise InputError(f"{path}: topic {topic.name} is serialised as {topic.serialization!r}, expected cdr")
        return file

    def _unpacked_file(self, path: Path) -> Path:
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="rollout-monitor-bag-"))
        target = Path(folder) / path.name.removesuffix(".zstd")
        try:
            with path.open("rb") as packed, target.open("wb") as plain:
                zstandard.ZstdDecompressor().copy_stream(packed, plain)
        except zstandard.ZstdError as error:
            raise InputError(f"{path}: expected a zstd compressed bag file: {error}") from error
        return target

    def _unpacked(self, message: BagMessage) -> BagMessage:
        try:
            return replace(message, raw=zstandard.ZstdDecompressor().decompress(message.raw))
        except zstandard.ZstdError as error:
            raise InputError(f"{self.path}: {message.topic} at log time {message.log_ns} ns: {error}") from error

    def _merged_topics(self) -> list[BagTopic]:
        merged: dict[str, StoredTopic] = {}
        for stored in (topic for file in self._files for topic in file.topics):
            seen = merged.get(stored.name)
            if seen is not None and seen.type != stored.type:
                raise InputError(f"{self.path}: topic {stored.name} is both {seen.type} and {stored.type}")
            merged[stored.name] = replace(stored, count=stored.count + (seen.count if seen else 0))
        return [self._topic(merged[name]) for name in sorted(merged)]

    def _topic(self, stored: StoredTopic) -> BagTopic:
        duration = self.duration_s
        rate = (stored.count - 1) / duration if stored.count > 1 and duration > 0 else None
        try:
            qos = dump_qos(parse_qos(stored.qos_yaml)) if stored.qos_yaml else ""
        except InputError as error:  # the messages are worth more than their publishers' profiles
            self.notes.append(f"{stored.name}: {error}")
            qos = ""
        return BagTopic(stored.name, stored.type, stored.count, rate, qos, stored.definition)

    def _type(self, name: str) -> str:
        return next(topic.type for topic in self.topics if topic.name == name)

    def _refuse_unknown(self, topics: Collection[str] | None) -> None:
        known = [topic.name for topic in self.topics]
        if topics is not None and (unknown := sorted(set(topics) - set(known))):
            raise InputError(f"{self.path}: no topic {unknown[0]}; it has {', '.join(known) or 'none'}")


def open_bag(path: Path | str) -> BagReader:
    """Open a rosbag2 folder or a bare ``.mcap`` / ``.db3`` file.

    A folder without ``metadata.yaml`` (its recorder was killed) is read from the files in it, an MCAP file without
    its end up to the break; ``notes`` says so.

    Raises:
        InputError: nothing there, not a bag, or so damaged that nothing can be read: names the file and what was
            expected.
    """
    path = Path(path)
    if path.is_dir():
        return BagReader(path, _folder_layout(path))
    if not path.exists():
        raise InputError(f"{path}: no such file or folder; expected a rosbag2 folder, an .mcap or a .db3 file")
    return BagReader(path, _Layout([path], "file" if path.suffix == ".zstd" else ""))


def _open_file(path: Path) -> McapFile | SqliteFile:
    """Open one storage file by its first bytes, whatever it is called."""
    try:
        with path.open("rb") as stream:
            head = stream.read(16)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    if head.startswith(mcap_file.MAGIC):
        return McapFile(path)
    if head == sqlite_file.MAGIC:
        return SqliteFile(path)
    if head.startswith(_ROS1_MAGIC):
        raise InputError(f"{path}: a ROS 1 bag; `rosbags-convert` makes a ROS 2 bag of it")
    found = "is empty" if not head else f"starts with {head[:8].hex(' ')}"
    raise InputError(f"{path}: expected an MCAP or rosbag2 sqlite3 file, but it {found}")


def _folder_layout(folder: Path) -> _Layout:
    description = folder / METADATA
    if not description.is_file():
        return _layout_by_listing(folder, f"{folder.name} has no {METADATA}: read from the files in it")
    try:
        information = yaml.safe_load(description.read_text(encoding="utf-8"))["rosbag2_bagfile_information"]
        version, names = int(information["version"]), [str(name) for name in information["relative_file_paths"]]
        compression = str(information.get("compression_mode") or "").lower()
        custom = {str(key): str(value) for key, value in (information.get("custom_data") or {}).items()}
    except (yaml.YAMLError, UnicodeDecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
        reason = f"{METADATA} cannot be read ({type(error).__name__})"
        return _layout_by_listing(folder, f"{folder.name}: {reason}: read from the files in it")
    if version > NEWEST_METADATA:
        raise InputError(f"{description}: version {version} is newer than {NEWEST_METADATA}, the newest known")
    # only the names: rosbag2 before version 4 wrote paths relative to somewhere else
    files = [folder / Path(name).name for name in names]
    if missing := [file for file in files if not file.is_file()]:
        raise InputError(f"{description} lists {missing[0].name}, which is not there")
    if not files:
        raise InputError(f"{description} lists no files")
    return _Layout(files, "" if compression == "none" else compression, custom)


def _layout_by_listing(folder: Path, note: str) -> _Layout:
    files = _in_number_order(file for file in folder.iterdir() if file.is_file() and _FILES.search(file.name))
    if not files:
        raise InputError(f"{folder}: expected a rosbag2 folder, but it has neither {METADATA} nor .mcap or .db3 files")
    packed = {file.suffix == ".zstd" for file in files}
    if len(packed) > 1:
        raise InputError(f"{folder}: some files are compressed and some are not, and there is no {METADATA}")
    return _Layout(files, "file" if packed == {True} else "", notes=[note])


def _in_number_order(files: Iterable[Path]) -> list[Path]:
    def key(file: Path) -> list[tuple[bool, int, str]]:
        return [
            (part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in re.split(r"(\d+)", file.name)
        ]

    return sorted(files, key=key)
