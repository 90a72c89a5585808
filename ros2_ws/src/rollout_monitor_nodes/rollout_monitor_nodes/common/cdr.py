"""Reads what must be fast straight from serialized messages, without copying a picture to look at its stamp.

Covers CDR version 1 in both byte orders, as all ROS 2 middlewares write it; offsets follow the message definitions of
common_interfaces. Layout: 4 bytes of encapsulation, then the fields, each aligned to its own size from byte 4 on.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from rollout_monitor.errors import InputError

ENCAPSULATION_BYTES = 4
_NS = 1_000_000_000
_ORDERS = {0x00: ">", 0x01: "<"}


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


class _Reader:
    """Walks over the fields of one message."""

    def __init__(self, raw: bytes) -> None:
        if len(raw) < ENCAPSULATION_BYTES or raw[0] != 0 or raw[1] not in _ORDERS:
            raise InputError(f"not a CDR message: {len(raw)} bytes that start with {bytes(raw[:4]).hex(' ')}")
        self._body = memoryview(raw)[ENCAPSULATION_BYTES:]
        self._order = _ORDERS[raw[1]]
        self._at = 0

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
