"""One MCAP file, whole, cut short or damaged.

A file with its footer is read through its index; a chunk whose checksum is wrong is left out, and told. A file without
footer (the recorder was killed, the copy broke off) is scanned record by record up to the break, and says how much that
was.
"""

from __future__ import annotations

import heapq
import struct
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from mcap.data_stream import ReadDataStream
from mcap.opcode import Opcode
from mcap.reader import SeekingReader
from mcap.records import Channel, Chunk, McapRecord, Message, Schema
from mcap.stream_reader import breakup_chunk
from mcap.summary import Summary

from rollout_monitor.errors import InputError
from rollout_monitor.store.messages import BagMessage, Definition

MAGIC = b"\x89MCAP0\r\n"
_RECORD_HEAD = struct.Struct("<BQ")  # opcode, length
_MESSAGE_HEAD = struct.Struct("<HIQQ")  # channel, sequence, log time, publish time


@dataclass(frozen=True)
class StoredTopic:
    """A topic as one file describes it."""

    name: str
    type: str
    count: int
    serialization: str
    definition: Definition | None
    qos_yaml: str = ""


@dataclass(frozen=True, order=True)
class _Block:
    """A chunk, or a message outside of any chunk."""

    start_ns: int
    offset: int
    """Of the record's content."""
    length: int
    is_chunk: bool
    end_ns: int = field(default=0, compare=False)
    """Log time of the last message in a chunk of an indexed file."""
    channels: frozenset[int] | None = field(default=None, compare=False)
    """Which channels a chunk of an indexed file has; None where nobody wrote it down."""


@dataclass
class _Contents:
    """What a scan found."""

    schemas: dict[int, Schema] = field(default_factory=dict)
    channels: dict[int, Channel] = field(default_factory=dict)
    counts: Counter[int] = field(default_factory=Counter)
    blocks: list[_Block] = field(default_factory=list)
    start_ns: int | None = None
    end_ns: int | None = None
    damage: str | None = None
    left_out: list[str] = field(default_factory=list)
    """Chunks that are damaged though the records behind them are not."""
    good_bytes: int = len(MAGIC)

    def saw(self, record: McapRecord) -> None:
        """Take note of one record."""
        if isinstance(record, Schema):
            self.schemas.setdefault(record.id, record)
        elif isinstance(record, Channel):
            self.channels.setdefault(record.id, record)
        elif isinstance(record, Message):
            if record.channel_id not in self.channels:
                raise ValueError(f"a message of channel {record.channel_id}, which was not announced")
            self.counts[record.channel_id] += 1
            self.start_ns = record.log_time if self.start_ns is None else min(self.start_ns, record.log_time)
            self.end_ns = record.log_time if self.end_ns is None else max(self.end_ns, record.log_time)


class McapFile:
    """Messages of one MCAP file in log order.

    Attributes:
        topics: what is in the file, by channel.
        start_ns: log time of the first message, None where there is none.
        end_ns: log time of the last message.
        damage: what is wrong with the file and how much of it could be read; None where it is whole.

    Raises:
        InputError: no MCAP file, or one so damaged that nothing can be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._blocks: list[_Block] = []
        self.damage: str | None = None
        with path.open("rb") as stream:
            if stream.read(len(MAGIC)) != MAGIC:
                raise InputError(f"{path}: expected an MCAP file, its first bytes are something else")
            summary = _read_summary(stream)
            if summary is None:
                self._take_scan(_scan(stream, path.stat().st_size))
            else:
                self._take_summary(summary)

    def messages(
        self, topics: Collection[str] | None = None, on_damage: Callable[[str], None] | None = None
    ) -> Iterator[BagMessage]:
        """Messages in log order, of ``topics`` only where given.

        Args:
            topics: only these.
            on_damage: told of each chunk that cannot be read and is left out; without it such a chunk is an error.

        Raises:
            InputError: a damaged chunk, without ``on_damage``.
        """

        def left_out(block: _Block, error: Exception) -> None:
            said = (
                f"{self.path}: the chunk at byte {block.offset}, log time {block.start_ns} to {block.end_ns} ns, is "
                f"damaged ({error or type(error).__name__})"
            )
            if on_damage is None:
                raise InputError(said) from error
            on_damage(said)

        wanted = {number for number, channel in self._channels.items() if topics is None or channel.topic in topics}
        blocks = [block for block in self._blocks if block.channels is None or block.channels & wanted]
        with self.path.open("rb") as stream:
            for message in _in_log_order(blocks, stream, set(self._channels), left_out):
                if message.channel_id in wanted:
                    channel = self._channels[message.channel_id]
                    yield BagMessage(channel.topic, self._types[channel.schema_id], message.log_time, message.data)

    def close(self) -> None:
        """Nothing is held between calls."""

    def _take_summary(self, summary: Summary) -> None:
        statistics = summary.statistics
        assert statistics is not None  # _read_summary  # noqa: S101
        empty = statistics.message_count == 0
        self.start_ns = None if empty else statistics.message_start_time
        self.end_ns = None if empty else statistics.message_end_time
        self._blocks = [
            _Block(
                start_ns=index.message_start_time,
                offset=index.chunk_start_offset + _RECORD_HEAD.size,
                length=index.chunk_length - _RECORD_HEAD.size,
                is_chunk=True,
                end_ns=index.message_end_time,
                channels=frozenset(index.message_index_offsets) or None,
            )
            for index in summary.chunk_indexes
        ]
        self._take_channels(summary.schemas, summary.channels, statistics.channel_message_counts)

    def _take_scan(self, found: _Contents) -> None:
        self.start_ns, self.end_ns = found.start_ns, found.end_ns
        self._blocks = found.blocks
        total = sum(found.counts.values())
        if not total and (found.damage or found.left_out):
            raise InputError(f"{self.path}: nothing can be read: {'; '.join([*found.left_out, found.damage or ''])}")
        if found.damage is not None:
            self.damage = (
                f"{self.path.name} is cut short: {found.damage}; {total} messages up to log time {self.end_ns} ns "
                f"were read ({found.good_bytes} of {self.path.stat().st_size} bytes), anything later is lost"
            )
        if found.left_out:
            self.damage = "; ".join([*found.left_out, self.damage or f"{total} messages of {self.path.name} were read"])
        self._take_channels(found.schemas, found.channels, found.counts)

    def _take_channels(
        self, schemas: dict[int, Schema], channels: dict[int, Channel], counts: dict[int, int] | Counter[int]
    ) -> None:
        self._channels = channels
        self._types = {0: "", **{number: schema.name for number, schema in schemas.items()}}
        self.topics = [
            StoredTopic(
                name=channel.topic,
                type=self._types.get(channel.schema_id, ""),
                count=counts.get(number, 0),
                serialization=channel.message_encoding,
                definition=_definition(schemas.get(channel.schema_id)),
                qos_yaml=channel.metadata.get("offered_qos_profiles", ""),
            )
            for number, channel in sorted(channels.items())
        ]


_READ_ERRORS = (Exception,)
"""Damaged bytes surface as whatever the decompressor, struct or the reader raises; all mean the same to a caller."""


def _definition(schema: Schema | None) -> Definition | None:
    if schema is None or not schema.data:
        return None
    return Definition(schema.data.decode("utf-8", errors="replace"), schema.encoding)


def _read_summary(stream: BinaryIO) -> Summary | None:
    """The file's own index, or None where it has none that can be used."""
    stream.seek(-len(MAGIC), 2)
    if stream.read(len(MAGIC)) != MAGIC:
        return None
    try:
        summary = SeekingReader(_rewound(stream)).get_summary()
    except _READ_ERRORS:
        return None
    if summary is None or summary.statistics is None or not (summary.chunk_indexes and summary.channels):
        return None
    return summary


def _rewound(stream: BinaryIO) -> BinaryIO:
    stream.seek(0)
    return stream


def _scan(stream: BinaryIO, size: int) -> _Contents:
    """Walk through the records up to the end of the data or to the first one behind which nothing makes sense."""
    found = _Contents()
    while found.good_bytes < size:
        stream.seek(found.good_bytes)
        head = stream.read(_RECORD_HEAD.size)
        if len(head) < _RECORD_HEAD.size:
            found.damage = f"the file ends inside a record's head at byte {found.good_bytes}"
            return found
        opcode, length = _RECORD_HEAD.unpack(head)
        content = found.good_bytes + _RECORD_HEAD.size
        if content + length > size:
            found.damage = f"the file ends inside a record of {length} bytes that starts at byte {found.good_bytes}"
            return found
        if opcode in (Opcode.DATA_END, Opcode.FOOTER):
            return found
        try:
            _look_at(found, opcode, stream, content, length)
        except _READ_ERRORS as error:
            said = f"at byte {found.good_bytes} is damaged ({error or type(error).__name__})"
            if opcode != Opcode.CHUNK:
                found.damage = f"the record {said}"
                return found
            found.left_out.append(f"the chunk {said} and left out")
        found.good_bytes = content + length
    found.damage = f"the file ends at byte {size} without a footer"
    return found


def _look_at(found: _Contents, opcode: int, stream: BinaryIO, content: int, length: int) -> None:
    if opcode == Opcode.CHUNK:
        records = _chunk_records(stream.read(length))
        times = [record.log_time for record in records if isinstance(record, Message)]
        for record in records:
            found.saw(record)
        if times:
            found.blocks.append(_Block(min(times), content, length, is_chunk=True))
    elif opcode == Opcode.MESSAGE:
        message = _message(stream.read(length))
        found.saw(message)
        found.blocks.append(_Block(message.log_time, content, length, is_chunk=False))
    elif opcode == Opcode.SCHEMA:
        found.saw(Schema.read(ReadDataStream(BytesIO(stream.read(length)))))
    elif opcode == Opcode.CHANNEL:
        found.saw(Channel.read(ReadDataStream(BytesIO(stream.read(length)))))


def _chunk_records(content: bytes) -> list[McapRecord]:
    return breakup_chunk(Chunk.read(ReadDataStream(BytesIO(content))), validate_crc=True)


def _message(content: bytes) -> Message:
    channel, sequence, log_time, publish_time = _MESSAGE_HEAD.unpack_from(content)
    return Message(
        channel_id=channel,
        sequence=sequence,
        log_time=log_time,
        publish_time=publish_time,
        data=content[_MESSAGE_HEAD.size :],
    )


def _in_log_order(
    blocks: Iterable[_Block], stream: BinaryIO, known: set[int], left_out: Callable[[_Block, Exception], None]
) -> Iterator[Message]:
    """Messages by log time, holding only the blocks that overlap in time; blocks that cannot be read are told."""
    waiting: list[tuple[int, int, int, Message]] = []
    for block in sorted(blocks):
        while waiting and waiting[0][0] < block.start_ns:
            yield heapq.heappop(waiting)[3]
        try:
            messages = _block_messages(block, stream, known)
        except _READ_ERRORS as error:
            left_out(block, error)
            continue
        for index, message in enumerate(messages):
            heapq.heappush(waiting, (message.log_time, block.offset, index, message))
    while waiting:
        yield heapq.heappop(waiting)[3]


def _block_messages(block: _Block, stream: BinaryIO, known: set[int]) -> list[Message]:
    """All messages of a block, whole or not at all."""
    stream.seek(block.offset)
    content = stream.read(block.length)
    records = _chunk_records(content) if block.is_chunk else [_message(content)]
    messages = [record for record in records if isinstance(record, Message)]
    if strange := {message.channel_id for message in messages} - known:
        raise ValueError(f"a message of channel {min(strange)}, which was not announced")
    return messages
