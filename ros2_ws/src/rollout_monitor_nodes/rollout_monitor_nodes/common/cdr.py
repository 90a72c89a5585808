"""Reads what must be fast straight from serialized messages, without copying a picture to look at its stamp.

Covers CDR version 1 in both byte orders, as all ROS 2 middlewares write it; offsets follow the message definitions of
common_interfaces. Layout: 4 bytes of encapsulation, then the fields, each aligned to its own size from byte 4 on.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from rollout_monitor.errors import InputError

ENCAPSULATION_BYTES = 4
_NS = 1_000_000_000
_ORDERS = {0x00: ">", 0x01: "<"}
KNOWN_NAMES = 8
"""So many publishers' joint names are remembered by a `JointReader`."""


@dataclass(frozen=True)
class RawImage:
    """The fields of a sensor_msgs/Image; ``data`` is a view into the message."""

    stamp_ns: int
    frame_id: str
    height: int
    width: int
    encoding: str
    is_bigendian: int
    step: int
    data: memoryview


@dataclass(frozen=True)
class RawCompressedImage:
    """The fields of a sensor_msgs/CompressedImage; ``data`` is a view into the message."""

    stamp_ns: int
    frame_id: str
    format: str
    data: memoryview


@dataclass(frozen=True)
class RawJoints:
    """The fields of a sensor_msgs/JointState; what a message leaves out is empty."""

    stamp_ns: int
    names: Sequence[str]
    positions: Sequence[float]
    velocities: Sequence[float]
    efforts: Sequence[float]


class _Reader:
    """Walks over the fields of one message."""

    def __init__(self, raw: bytes) -> None:
        if len(raw) < ENCAPSULATION_BYTES or raw[0] != 0 or raw[1] not in _ORDERS:
            raise InputError(f"not a CDR message: {len(raw)} bytes that start with {bytes(raw[:4]).hex(' ')}")
        self._body = memoryview(raw)[ENCAPSULATION_BYTES:]
        self._order = _ORDERS[raw[1]]
        self._at = 0

    @property
    def at(self) -> int:
        """How many bytes of the body were read."""
        return self._at

    def number(self, code: str) -> int:
        size = struct.calcsize(code)
        self._at += -self._at % size
        try:
            value: int = struct.unpack_from(self._order + code, self._body, self._at)[0]
        except struct.error as error:
            raise InputError(f"message is cut short: no field at byte {self._at}") from error
        self._at += size
        return value

    def span(self, length: int) -> memoryview:
        piece = self._body[self._at : self._at + length]
        if len(piece) != length:
            raise InputError(f"message is cut short: {length} bytes announced, {len(piece)} there")
        self._at += length
        return piece

    def text(self) -> str:
        return bytes(self.span(self.number("I"))).rstrip(b"\0").decode("utf-8", errors="replace")

    def stamp(self) -> int:
        seconds = self.number("i")
        return seconds * _NS + self.number("I")


def header_stamp_ns(raw: bytes) -> int:
    """The header stamp of a serialized message whose type begins with std_msgs/Header, nanoseconds.

    Raises:
        InputError: too short or not CDR.
    """
    return _Reader(raw).stamp()


def with_header_stamp(raw: bytes, stamp_ns: int) -> bytes:
    """The same message with another header stamp; its type must begin with std_msgs/Header.

    Raises:
        InputError: too short, not CDR, or a stamp that does not fit.
    """
    reader = _Reader(raw)
    reader.stamp()  # is there room for one?
    seconds, nanoseconds = divmod(stamp_ns, _NS)
    try:
        stamp = struct.pack(_ORDERS[raw[1]] + "iI", seconds, nanoseconds)
    except struct.error as error:
        raise InputError(f"stamp {stamp_ns} ns does not fit a ROS time (32 bit seconds)") from error
    return raw[:ENCAPSULATION_BYTES] + stamp + raw[ENCAPSULATION_BYTES + len(stamp) :]


def read_image(raw: bytes) -> RawImage:
    """Take a serialized sensor_msgs/Image apart.

    Raises:
        InputError: cut short or not CDR.
    """
    reader = _Reader(raw)
    return RawImage(
        stamp_ns=reader.stamp(),
        frame_id=reader.text(),
        height=reader.number("I"),
        width=reader.number("I"),
        encoding=reader.text(),
        is_bigendian=reader.number("B"),
        step=reader.number("I"),
        data=reader.span(reader.number("I")),
    )


def read_compressed_image(raw: bytes) -> RawCompressedImage:
    """Take a serialized sensor_msgs/CompressedImage apart.

    Raises:
        InputError: cut short or not CDR.
    """
    reader = _Reader(raw)
    return RawCompressedImage(
        stamp_ns=reader.stamp(),
        frame_id=reader.text(),
        format=reader.text(),
        data=reader.span(reader.number("I")),
    )


class JointReader:
    """Takes serialized sensor_msgs/JointState messages apart, at half the cost of a full deserialisation.

    A publisher sends the same frame and names in every message: the bytes of those are remembered, and the strings are
    not made again.
    """

    _STAMP_END = ENCAPSULATION_BYTES + 8

    def __init__(self) -> None:
        self._known: deque[tuple[bytes, tuple[str, ...], str]] = deque(maxlen=KNOWN_NAMES)

    def read(self, raw: bytes) -> RawJoints:
        """Take one message apart.

        Raises:
            InputError: cut short or not CDR.
        """
        for known in self._known:
            block, names, order = known
            if raw.startswith(block, self._STAMP_END) and _ORDERS.get(raw[1]) == order and raw[0] == 0:
                break
        else:
            block, names, order = self._learn(raw)
        at = self._STAMP_END - ENCAPSULATION_BYTES + len(block)
        body = memoryview(raw)[ENCAPSULATION_BYTES:]
        try:
            seconds, nanoseconds = _stamp(order).unpack_from(body, 0)
            values = []
            for _ in range(3):
                at += -at % 4
                (count,) = _count(order).unpack_from(body, at)
                at += 4
                if count > len(body) // 8:
                    raise InputError(f"message is cut short: {count} numbers announced in {len(body)} bytes")
                if count:
                    at += -at % 8
                    values.append(_doubles(order, count).unpack_from(body, at))
                    at += 8 * count
                else:
                    values.append(())
        except struct.error as error:
            raise InputError(f"message is cut short: no field at byte {at}") from error
        return RawJoints(seconds * _NS + nanoseconds, names, *values)

    def _learn(self, raw: bytes) -> tuple[bytes, tuple[str, ...], str]:
        reader = _Reader(raw)
        reader.stamp()
        reader.text()
        count = reader.number("I")
        if count > len(raw):
            raise InputError(f"message is cut short: {count} names announced in {len(raw)} bytes")
        names = tuple(reader.text() for _ in range(count))
        found = (raw[self._STAMP_END : ENCAPSULATION_BYTES + reader.at], names, _ORDERS[raw[1]])
        self._known.append(found)
        return found


@lru_cache(maxsize=4)
def _stamp(order: str) -> struct.Struct:
    return struct.Struct(order + "iI")


@lru_cache(maxsize=4)
def _count(order: str) -> struct.Struct:
    return struct.Struct(order + "I")


@lru_cache(maxsize=256)
def _doubles(order: str, count: int) -> struct.Struct:
    return struct.Struct(f"{order}{count}d")
