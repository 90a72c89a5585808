"""Whether a JPEG or PNG file is whole, and a JPEG decoder that keeps silent: what cameras send gets cut and damaged.

Decoders paint over damage: libjpeg fills what is missing with gray and says so on the process's stderr only, one line
for each picture. Here damage is an error of the caller's.
"""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Iterator

import av
import numpy as np
from av.error import FFmpegError, InvalidDataError
from av.video.codeccontext import VideoCodecContext
from PIL import Image

from rollout_monitor.errors import InputError
from rollout_monitor.frames import RgbImage

JPEG_MAGIC, PNG_MAGIC = b"\xff\xd8", b"\x89PNG\r\n\x1a\n"

_MARKER = re.compile(rb"\xff([^\x00\xd0-\xd7\xff])")
"""A marker that begins a segment; zeros stuffed behind 0xFF and restart markers belong to the coded picture."""

_SOI, _EOI, _COM = 0xD8, 0xD9, 0xFE
_APPLICATION = range(0xE0, 0xF0)
_CHECK = {"err_detect": "explode", "lowres": "3"}
"""FFmpeg's decoder raises on damage, and with an eighth of the resolution there is little to do but read the codes."""


def check_jpeg(data: bytes) -> None:
    """Refuse a JPEG whose segments do not lead to its end mark; what stands behind that is ignored.

    This walks over the markers (ITU-T T.81, annex B), 0.1 ms for a picture of 640x480.

    Raises:
        InputError: it is cut short, or another picture begins inside.
    """
    for _ in _jpeg_segments(data):
        pass


def decode_jpeg(data: bytes) -> RgbImage:
    """Decode a JPEG to (height, width, 3) uint8 RGB, orientation tags ignored, once it is seen to be whole.

    All codes of the picture are read by FFmpeg first, 0.5 to 1 ms for 640x480. That finds a picture that ends before
    its last block, also with an end mark put there, and codes that do not exist: of holes of 1000, 100 and 10 bytes
    98, 95 and 77 in a hundred. Damage that leaves codes for every block is not found, JPEG has no checksum: a
    piece missing in the last block (16x16 pixels at most), most changed bits, surplus bytes, a hole behind which the
    codes, out of step, last to the end. Kinds of JPEG that FFmpeg does not read go unchecked.

    Raises:
        InputError: it is cut short, damaged, or does not decode.
    """
    _refuse_damage(data)
    try:
        with Image.open(io.BytesIO(data), formats=("JPEG",)) as picture:
            return np.array(picture.convert("RGB"), dtype=np.uint8)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise InputError(f"does not decode: {error}") from error


def check_png(data: bytes) -> None:
    """Refuse a PNG with a damaged chunk (each has a checksum) or without its end; what stands behind that is ignored.

    Raises:
        InputError: it is cut short or damaged.
    """
    at = len(PNG_MAGIC)
    while len(data) >= at + 12:
        end = at + 8 + int.from_bytes(data[at : at + 4], "big")
        kind = data[at + 4 : at + 8]
        if len(data) < end + 4:
            break
        if zlib.crc32(memoryview(data)[at + 4 : end]) != int.from_bytes(data[end : end + 4], "big"):
            raise InputError(f"is damaged: the checksum of a chunk at byte {at} is wrong")
        if kind == b"IEND":
            return
        at = end + 4
    raise InputError("is cut short: it has no end mark")


def _refuse_damage(data: bytes) -> None:
    # FFmpeg would raise on a damaged thumbnail or Exif tag, too, which does no harm to the picture
    plain = JPEG_MAGIC + b"".join(
        data[begin:end] for code, begin, end in _jpeg_segments(data) if code not in _APPLICATION and code != _COM
    )
    context = av.CodecContext.create("mjpeg", "r")
    assert isinstance(context, VideoCodecContext)  # noqa: S101 - for the type checker
    context.options = _CHECK
    context.thread_count = 1
    try:
        context.decode(av.Packet(plain))
    except InvalidDataError as error:
        raise InputError("is damaged: a part of the picture is missing or wrong") from error
    except FFmpegError:
        return


def _jpeg_segments(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Marker code, begin and end of each segment behind the start mark, coded data with the segment before it."""
    found = _MARKER.search(data, len(JPEG_MAGIC))
    while found is not None:
        code, begin = found[1][0], found.start()
        if code == _EOI:
            yield code, begin, found.end()
            return
        if code == _SOI:
            raise InputError(f"is damaged: at byte {begin} another picture begins")
        length = int.from_bytes(data[found.end() : found.end() + 2], "big")
        found = _MARKER.search(data, found.end() + length)
        yield code, begin, found.start() if found else len(data)
    raise InputError("is cut short: it has no end mark")
