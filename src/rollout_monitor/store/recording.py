"""Records one episode as a rosbag2 (MCAP, metadata version 9) from the messages' own bytes.

While it runs the file is called ``*.mcap.active`` and can be read at any moment, also after a kill: what the system has
not been given yet is less than one second. What the disk has not got yet is lost in a power cut; ``sync`` waits for it.
Closing writes the index, renames the file and writes ``metadata.yaml``.

Some room on the disk is held back while a recording runs. On a full disk it lets the recording end as a whole bag.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Literal

import yaml
from mcap.writer import CompressionType, Writer

from rollout_monitor import __version__
from rollout_monitor.errors import InputError, StoreError
from rollout_monitor.store.definitions import rihs01, schema_text_from_share
from rollout_monitor.store.files import free_name, sync_folder, write_whole
from rollout_monitor.store.qos import dump_qos, parse_qos

__all__ = ["ACTIVE_SUFFIX", "ENDED_EARLY", "EpisodeRecording", "schema_text_from_share"]

ACTIVE_SUFFIX = ".active"
METADATA_VERSION = 9
CHUNK_BYTES = 256 * 1024
CHUNK_NS = 500_000_000
"""A chunk is closed after half a second of log time, whatever is in it: that is what a crash can cost."""
RESERVE_BYTES = 8 * 1024 * 1024
"""Held back on the disk for the last chunk, the index, and then for the episode's report."""
ENDED_EARLY = "ended_early"
"""Key in a bag's custom data: why the recording ended before its episode."""
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_NEVER_NS = 2**63 - 1  # rosbag2's starting time of a bag without messages


class EpisodeRecording:
    """A bag being written. Not thread safe.

    Attributes:
        path: the bag's folder: ``folder``, or the same name with -2, -3 ... where that was there already.

    Args:
        folder: the rosbag2 folder to make; its parent is made too.
        ros_distro: for the bag's metadata, for instance ``jazzy``.
        custom_data: key-value pairs kept in the bag's metadata.
        compression: of the chunks. ``zstd`` halves raw pictures at 10 ms each (640x480); ``none`` suits cameras that
            send JPEG, or a machine without time to spare.

    Raises:
        StoreError: the folder cannot be made.
    """

    def __init__(
        self,
        folder: Path,
        *,
        ros_distro: str = "",
        custom_data: Mapping[str, str] | None = None,
        compression: Literal["zstd", "lz4", "none"] = "zstd",
    ) -> None:
        self._distro = ros_distro
        self._custom = dict(custom_data or {})
        self._topics: dict[str, dict[str, Any]] = {}
        self._channels: dict[str, int] = {}
        self._schemas: dict[str, tuple[int, str]] = {}
        self._counts: dict[str, int] = {}
        self._first_ns, self._last_ns = _NEVER_NS, 0
        self._chunk_since_ns: int | None = None
        self._failure: str | None = None
        self._closed = False
        try:
            self.path = _make_folder(folder)
        except OSError as error:
            raise _cannot_record(folder, error) from error
        try:
            self._file = self.path / f"{self.path.name}_0.mcap"
            self._active = self._file.with_name(self._file.name + ACTIVE_SUFFIX)
            self._sink = _Sink(self._active, RESERVE_BYTES)
            self._writer = _writer(self._sink, compression)
            self._writer.start(profile="ros2", library=f"rollout-monitor {__version__}")
            self._note_metadata()
            self._writer.flush()
            sync_folder(self.path)
            sync_folder(self.path.parent)
        except OSError as error:
            shutil.rmtree(self.path, ignore_errors=True)
            raise _cannot_record(folder, error) from error

    def add_topic(self, name: str, type: str, schema_text: str, qos_yaml: str = "") -> None:
        """Announce a topic. The same topic and type again is no error and changes nothing.

        Args:
            name: topic name.
            type: for instance ``sensor_msgs/msg/JointState``.
            schema_text: ``ros2msg`` definition, see :func:`schema_text_from_share`.
            qos_yaml: offered QoS profiles, YAML list in rosbag2's words; see :mod:`rollout_monitor.store.qos`.

        Raises:
            InputError: a definition or a profile that cannot be read, or the topic with another type.
            StoreError: the recording is closed or has failed, or the disk refuses now.
        """
        self._refuse_if_over()
        if name in self._topics:
            if self._topics[name]["type"] != type:
                raise InputError(f"{name} is recorded as {self._topics[name]['type']}, it cannot also be {type}")
            return
        profiles = parse_qos(qos_yaml)
        if type not in self._schemas:
            type_hash = rihs01(type, schema_text)
            self._schemas[type] = (self._writer.register_schema(type, "ros2msg", schema_text.encode()), type_hash)
        schema, type_hash = self._schemas[type]
        about = {"offered_qos_profiles": dump_qos(profiles), "topic_type_hash": type_hash}
        try:
            self._channels[name] = self._writer.register_channel(name, "cdr", schema, about)
        except OSError as error:  # it may have completed a chunk
            raise self._failed(error) from error
        self._counts[name] = 0
        self._topics[name] = {
            "name": name,
            "type": type,
            "serialization_format": "cdr",
            "offered_qos_profiles": profiles,
            "type_description_hash": type_hash,
        }

    def write(self, topic: str, log_ns: int, publish_ns: int, raw: bytes) -> None:
        """Append one message.

        Args:
            topic: one that :meth:`add_topic` announced.
            log_ns: when it was received, nanoseconds since the epoch of the stream.
            publish_ns: when it was published (its source stamp), nanoseconds.
            raw: the serialised message as it came, CDR header included.

        Raises:
            InputError: a topic nobody announced, or a negative time.
            StoreError: the disk is full: what there is, this message included, is kept as a whole bag; or the disk
                refused otherwise: everything written before is safe in the ``.active`` file.
        """
        self._refuse_if_over()
        if topic not in self._channels:
            raise InputError(f"{topic} was not announced to the recording at {self.path}")
        if log_ns < 0 or publish_ns < 0:
            raise InputError(f"{topic}: a bag cannot hold negative times (log {log_ns} ns, publish {publish_ns} ns)")
        count = self._counts[topic]
        try:
            self._writer.add_message(self._channels[topic], log_ns, bytes(raw), publish_ns, sequence=count)
            self._close_chunk_in_time(log_ns)
        except OSError as error:
            raise self._failed(error) from error
        self._counts[topic] = count + 1
        self._first_ns, self._last_ns = min(self._first_ns, log_ns), max(self._last_ns, log_ns)
        self._end_if_full()

    def flush(self) -> None:
        """Hand everything written so far to the system; for a timer, when messages stop coming.

        Raises:
            StoreError: as for :meth:`write`.
        """
        self._refuse_if_over()
        try:
            self._writer.flush()
        except OSError as error:
            raise self._failed(error) from error
        self._chunk_since_ns = None
        self._end_if_full()

    def sync(self) -> None:
        """Wait until the disk has what was flushed: what a power cut cannot take. From any thread.

        Raises:
            StoreError: the disk refused; the recording goes no further.
        """
        try:
            self._sink.sync()
        except OSError as error:
            raise self._failed(error) from error

    def close(self) -> Path:
        """Finish the bag and return its folder. Closing twice is no error; one that has failed stays as it is.

        Raises:
            StoreError: the disk refused; what was written before stays readable.
        """
        if self._closed:
            return self.path
        self._closed = True
        if self._failure is not None:
            self._sink.close()
            return self.path
        self._finish()
        return self.path

    def _finish(self) -> None:
        try:
            self._writer.flush()
            self._note_metadata()
            self._writer.finish()
            self._sink.sync()
            self._sink.close()
            self._active.rename(self._file)
            sync_folder(self.path)
            text = yaml.safe_dump({"rosbag2_bagfile_information": self._metadata()}, sort_keys=False)
            write_whole(self.path / "metadata.yaml", text.encode())
        except OSError as error:
            self._sink.close()
            raise self._failed(error) from error

    def _end_if_full(self) -> None:
        """The disk had no room but for what was held back: end as a whole bag while that lasts.

        Raises:
            StoreError: that was so; says what is kept.
        """
        if self._sink.full is None:
            return
        why = self._sink.full.strerror
        self._closed, self._custom[ENDED_EARLY] = True, f"{why}"
        self._finish()
        total = sum(self._counts.values())
        self._failure = (
            f"recording to {self.path} ended early: {why}; its {total} messages so far are safe in a whole bag, the "
            "rest of this episode is not recorded; make room before the next one"
        )
        raise StoreError(self._failure)

    def __enter__(self) -> EpisodeRecording:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _close_chunk_in_time(self, log_ns: int) -> None:
        if self._chunk_since_ns is None:
            self._chunk_since_ns = log_ns
        elif not 0 <= log_ns - self._chunk_since_ns < CHUNK_NS:
            self._writer.flush()
            self._chunk_since_ns = None

    def _note_metadata(self) -> None:
        # rosbag2 reads a bare .mcap by this record; without it, it takes the profiles for those of version 8
        text = yaml.safe_dump(self._metadata(), sort_keys=False)
        self._writer.add_metadata("rosbag2", {"serialized_metadata": text})

    def _metadata(self) -> dict[str, Any]:
        """``rosbag2_bagfile_information``, version 9, in rosbag2's order."""
        total = sum(self._counts.values())
        start = self._first_ns
        duration = self._last_ns - start if total else 0
        return {
            "version": METADATA_VERSION,
            "storage_identifier": "mcap",
            "duration": {"nanoseconds": duration},
            "starting_time": {"nanoseconds_since_epoch": start},
            "message_count": total,
            "topics_with_message_count": [
                {"topic_metadata": topic, "message_count": self._counts[name]} for name, topic in self._topics.items()
            ],
            "compression_format": "",
            "compression_mode": "",
            "relative_file_paths": [self._file.name],
            "files": [
                {
                    "path": self._file.name,
                    "starting_time": {"nanoseconds_since_epoch": start},
                    "duration": {"nanoseconds": duration},
                    "message_count": total,
                }
            ],
            "custom_data": dict(self._custom),
            "ros_distro": self._distro,
        }

    def _refuse_if_over(self) -> None:
        if self._failure is not None:
            raise StoreError(self._failure)
        if self._closed:
            raise StoreError(f"the recording at {self.path} is closed")

    def _failed(self, error: OSError) -> StoreError:
        total = sum(self._counts.values())
        self._failure = (
            f"recording to {self.path} stopped: {error.strerror or error}; of {total} messages those up to the last "
            f"half second are safe in {self._active.name}, which opens like a bag; make room and start a new episode"
        )
        return StoreError(self._failure)


class _Sink:
    """Unbuffered output in whole records: what the writer hands over is the system's at once, or not in the file.

    Attributes:
        full: the disk's complaint since which the room held back is in use; None while all is well.
    """

    def __init__(self, path: Path, reserve_bytes: int) -> None:
        self.full: OSError | None = None
        self._reserve = _hold_back(path.parent, reserve_bytes)
        self._stream = path.open("xb", buffering=0)
        self._position = 0
        self._closing = threading.Lock()

    def write(self, data: bytes) -> int:
        try:
            self._write(data)
        except OSError as error:
            if error.errno not in _NO_ROOM or self.full is not None:
                raise
            self.full = error
            self._reserve.close()
            self._write(data)
        return len(data)

    def _write(self, data: bytes) -> None:
        start, rest = self._position, memoryview(data)
        try:
            while rest:
                rest = rest[self._stream.write(rest) or 0 :]
        except OSError:
            self._stream.truncate(start)  # half a record would be in the way of whatever comes behind it
            self._stream.seek(start)
            raise
        self._position += len(data)

    def tell(self) -> int:
        return self._position

    def flush(self) -> None:
        """Nothing is buffered here."""

    def sync(self) -> None:
        with self._closing:
            if not self._stream.closed:
                os.fdatasync(self._stream.fileno())

    def close(self) -> None:
        with self._closing:
            self._stream.close()
            self._reserve.close()


def _hold_back(folder: Path, size: int) -> IO[bytes]:
    """A file without a name that takes up room until it is closed, or its process ends."""
    reserve = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - closed by the sink
    try:
        os.posix_fallocate(reserve.fileno(), 0, size)
    except OSError as error:
        if error.errno in _NO_ROOM:
            reserve.close()
            raise
    return reserve  # a file system that cannot hold back room has to do without


def _cannot_record(folder: Path, error: OSError) -> StoreError:
    return StoreError(f"cannot record to {folder}: {error.strerror}; nothing was written")


def _writer(output: Any, compression: str) -> Any:
    # Any: the library leaves finish and flush without annotations, and asks its stream for write and tell only
    return Writer(output, chunk_size=CHUNK_BYTES, compression=CompressionType[compression.upper()])


def _make_folder(folder: Path) -> Path:
    """Make ``folder``, or the next free name of it where another recording took that."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    while True:
        candidate = free_name(folder.parent, folder.name)
        try:
            candidate.mkdir()
        except FileExistsError:
            continue
        return candidate
