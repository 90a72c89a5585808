"""One sqlite3 file of a rosbag2, every schema version from the first."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from pathlib import Path

from rollout_monitor.errors import InputError
from rollout_monitor.store.mcap_file import StoredTopic
from rollout_monitor.store.messages import BagMessage, Definition

MAGIC = b"SQLite format 3\0"


class SqliteFile:
    """Messages of one ``.db3`` file in log order.

    A write-ahead log left beside the file by a killed recorder is merged in a temporary copy: the bag is not touched.

    Attributes:
        topics: what is in the file.
        start_ns: log time of the first message, None where there is none.
        end_ns: log time of the last message.
        damage: always None: sqlite either reads a file or does not.

    Raises:
        InputError: no sqlite file, a damaged one, or one without rosbag2's tables.
    """

    damage: str | None = None

    def __init__(self, path: Path) -> None:
        self.path = path
        self._copy: tempfile.TemporaryDirectory[str] | None = None
        self._source = path
        log = path.with_name(path.name + "-wal")
        if log.is_file() and log.stat().st_size:
            self._merge_log(log)
        try:
            with closing(self._connect()) as connection:
                self._take_contents(connection)
        except sqlite3.Error as error:
            raise InputError(f"{path}: expected a rosbag2 sqlite3 file: {error}") from error

    def messages(
        self,
        topics: Collection[str] | None = None,
        on_damage: Callable[[str], None] | None = None,  # noqa: ARG002 - sqlite cannot leave a damaged page out
    ) -> Iterator[BagMessage]:
        """Messages in log order, of ``topics`` only where given.

        Raises:
            InputError: damaged pages.
        """
        wanted = {number: topic for number, topic in self._numbers.items() if topics is None or topic.name in topics}
        read = 0
        try:
            with closing(self._connect()) as connection:
                for number, log_ns, raw in connection.execute(
                    "SELECT topic_id, timestamp, data FROM messages ORDER BY timestamp, id"
                ):
                    if number in wanted:
                        yield BagMessage(wanted[number].name, wanted[number].type, log_ns, bytes(raw))
                        read += 1
        except sqlite3.Error as error:
            raise InputError(f"{self.path}: damaged after {read} messages: {error}") from error

    def close(self) -> None:
        """Remove the temporary copy, if there is one."""
        if self._copy is not None:
            self._copy.cleanup()

    def _connect(self) -> sqlite3.Connection:
        # immutable: no lock and no -shm file, so a bag on a read-only medium opens too
        return sqlite3.connect(self._source.resolve().as_uri() + "?mode=ro&immutable=1", uri=True)

    def _merge_log(self, log: Path) -> None:
        self._copy = tempfile.TemporaryDirectory(prefix="rollout-monitor-bag-")
        self._source = Path(self._copy.name) / self.path.name
        shutil.copyfile(self.path, self._source)
        shutil.copyfile(log, self._source.with_name(log.name))
        try:
            with closing(sqlite3.connect(self._source)) as connection:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.Error as error:
            raise InputError(f"{self.path}: its write-ahead log {log.name} cannot be merged: {error}") from error

    def _take_contents(self, connection: sqlite3.Connection) -> None:
        columns = {row[1] for row in connection.execute("PRAGMA table_info(topics)")}
        qos = "offered_qos_profiles" if "offered_qos_profiles" in columns else "''"
        definitions = _definitions(connection)
        counts = dict(connection.execute("SELECT topic_id, COUNT(*) FROM messages GROUP BY topic_id"))
        self._numbers = {
            number: StoredTopic(name, type_name, counts.get(number, 0), fmt, definitions.get(type_name), profiles)
            for number, name, type_name, fmt, profiles in connection.execute(
                f"SELECT id, name, type, serialization_format, {qos} FROM topics ORDER BY id"  # noqa: S608 - one of two constants
            )
        }
        self.topics = list(self._numbers.values())
        self.start_ns, self.end_ns = connection.execute(
            "SELECT MIN(timestamp), MAX(timestamp) FROM messages"
        ).fetchone()


def _definitions(connection: sqlite3.Connection) -> dict[str, Definition]:
    """Message definitions, where the file has them (rosbag2 from Iron on)."""
    columns = {row[1] for row in connection.execute("PRAGMA table_info(message_definitions)")}
    if "encoded_message_definition" not in columns:
        return {}
    rows = connection.execute("SELECT topic_type, encoding, encoded_message_definition FROM message_definitions")
    return {name: Definition(text, encoding) for name, encoding, text in rows if text}
