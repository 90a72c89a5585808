"""Compressed depth pictures, as ROS's ``compressed_depth_image_transport`` writes them, to metres.

A payload is a header of 12 bytes (an int32 that is not used, the quantisation's two float32) and a PNG of 16 bits or an
RVL stream (A. D. Wilson, Fast Lossless Depth Image Compression, ISS 2017).
"""

from __future__ import annotations

import struct

import cv2
import numpy as np
import numpy.typing as npt

from rollout_monitor.errors import InputError, quoted
from rollout_monitor.picture_files import PNG_MAGIC, check_png

Samples = npt.NDArray[np.uint16]

_HEADER = struct.Struct("<iff")
_RVL_HEAD = struct.Struct("<II")  # columns, rows
_PNG, _RVL = "png", "rvl"
_ENCODINGS = ("16uc1", "mono16", "32fc1")
_MOST_PIXELS = 1 << 26
"""A stream of a few bytes may claim any size; nothing larger than 8192x8192 is believed."""

_LONGEST_NUMBER = 11
"""Nibbles of three bits that make a number of 32 bits."""


def is_compressed_depth(format: str) -> bool:
    """Whether a ``CompressedImage.format`` names compressed depth: ``16UC1; compressedDepth png``, for instance."""
    return "compresseddepth" in format.lower().replace(" ", "")


def check_depth(format: str, payload: bytes) -> None:
    """Look at what can be seen without decoding.

    Raises:
        InputError: another encoding or codec, or a payload that is cut short.
    """
    _, codec = _encoding_and_codec(format)
    if len(payload) <= _HEADER.size:
        raise InputError(f"compressed depth of format {quoted(format)} is cut short: {len(payload)} bytes")
    body = payload[_HEADER.size :]
    if codec == _RVL:
        _rvl_size(format, body)
    elif not body.startswith(PNG_MAGIC):
        raise InputError(f"compressed depth of format {quoted(format)} holds no PNG: it starts {body[:4].hex(' ')}")
    else:
        try:
            check_png(body)
        except InputError as error:
            raise InputError(f"compressed depth of format {quoted(format)}, {len(payload)} bytes, {error}") from error


def decode_depth(format: str, payload: bytes) -> npt.NDArray[np.float32]:
    """Depth in metres, shape (height, width); NaN or 0 where there is none.

    Args:
        format: the encoding, 16UC1 (mm) or 32FC1 (m), then ``; compressedDepth``, then png (the default) or rvl.
        payload: the message's data. 32FC1 is stored as inverse depth, v = A / z + B with A and B from the header, and
            v = 0 where nothing was measured.

    Raises:
        InputError: another encoding or codec, or a payload that is cut short or damaged.
    """
    check_depth(format, payload)
    encoding, codec = _encoding_and_codec(format)
    body = payload[_HEADER.size :]
    samples = _rvl(format, body) if codec == _RVL else _png(format, body)
    if encoding != "32fc1":
        return samples.astype(np.float32) / np.float32(1000.0)
    _, a, b = _HEADER.unpack_from(payload)
    with np.errstate(divide="ignore", invalid="ignore"):
        metres = np.float32(a) / (samples.astype(np.float32) - np.float32(b))
    return np.where(samples == 0, np.float32(np.nan), metres)


def png_samples(payload: bytes) -> Samples | None:
    """A PNG of one channel of 16 bits, shape (height, width); None for any other file."""
    try:
        picture = cv2.imdecode(np.frombuffer(payload, dtype=np.uint8), cv2.IMREAD_UNCHANGED)
    except cv2.error:
        return None
    if picture is None or picture.ndim != 2 or picture.dtype != np.uint16:
        return None
    return np.asarray(picture, dtype=np.uint16)


def _encoding_and_codec(format: str) -> tuple[str, str]:
    encoding, _, rest = format.lower().partition(";")
    encoding, codec = encoding.strip(), rest.partition("compresseddepth")[2].strip() or _PNG
    if encoding not in _ENCODINGS or codec not in (_PNG, _RVL):
        said = f"compressed depth of format {quoted(format)} is not known"
        raise InputError(f"{said}; known are 16UC1 and 32FC1 as png or rvl")
    return encoding, codec


def _png(format: str, body: bytes) -> Samples:
    samples = png_samples(body)
    if samples is None:
        raise InputError(f"compressed depth of format {quoted(format)}, {len(body)} bytes, is no PNG of 16 bit gray")
    return samples


def _rvl_size(format: str, body: bytes) -> tuple[int, int]:
    """Rows and columns."""
    if len(body) < _RVL_HEAD.size:
        raise InputError(f"compressed depth of format {quoted(format)} is cut short: {len(body)} bytes of stream")
    columns, rows = _RVL_HEAD.unpack_from(body)
    if not 0 < rows * columns <= _MOST_PIXELS:
        raise InputError(f"compressed depth of format {quoted(format)} claims {columns}x{rows} pixels")
    return rows, columns


def _rvl(format: str, body: bytes) -> Samples:
    """Runs: a number of empty pixels, a number of measured ones, then each one's difference to the measured before."""
    rows, columns = _rvl_size(format, body)
    numbers = _rvl_numbers(body[_RVL_HEAD.size :])
    runs, used = _rvl_runs(numbers, rows * columns)
    measured = np.repeat(np.arange(len(runs)) % 2 == 1, runs)
    if measured.size != rows * columns:
        raise InputError(f"compressed depth of format {quoted(format)}, {columns}x{rows}, is cut short or damaged")
    zigzag = np.delete(numbers[:used], _run_places(runs))
    samples = np.zeros(measured.size, dtype=np.uint16)
    samples[measured] = np.cumsum((zigzag >> 1) ^ -(zigzag & 1)).astype(np.uint16)  # differences wrap at 16 bits
    return samples.reshape(rows, columns)


def _rvl_runs(numbers: npt.NDArray[np.int64], pixels: int) -> tuple[list[int], int]:
    """Lengths of runs, empty and measured in turn, as far as they go; and how many numbers were used."""
    listed, runs, at = numbers.tolist(), [], 0
    while pixels > 0 and at + 1 < len(listed):
        empty, full = listed[at : at + 2]
        pixels -= empty + full
        if pixels < 0 or at + 2 + full > len(listed):
            break
        runs += [empty, full]
        at += 2 + full
    return runs, at


def _run_places(runs: list[int]) -> npt.NDArray[np.int64]:
    """Where in the stream the lengths themselves stand."""
    full = np.array(runs[1::2], dtype=np.int64)
    first = np.concatenate([[0], np.cumsum(full + 2)[:-1]])
    return np.asarray(np.concatenate([first, first + 1]), dtype=np.int64)


def _rvl_numbers(stream: bytes) -> npt.NDArray[np.int64]:
    """Numbers of variable length: nibbles from the top of each little-endian word, three bits each, low bits first."""
    words = np.frombuffer(stream, dtype="<u4", count=len(stream) // 4)
    nibbles = ((words[:, None] >> np.arange(28, -4, -4, dtype=np.uint32)) & 0xF).reshape(-1).astype(np.int64)
    last = np.flatnonzero(nibbles < 8)  # the top bit says that more follow
    if last.size == 0:
        return last
    first = np.concatenate([[0], last[:-1] + 1])
    lengths = last - first + 1
    place = np.arange(last[-1] + 1) - np.repeat(first, lengths)
    parts = (nibbles[: last[-1] + 1] & 7) << (3 * np.minimum(place, _LONGEST_NUMBER))
    return np.asarray(np.add.reduceat(parts, first), dtype=np.int64)
