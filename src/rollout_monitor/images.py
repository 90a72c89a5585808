"""Pictures in and out of bytes: ROS image encodings, compressed images, JPEG. The one place that converts.

Everything that leaves this module is an ``RgbImage`` (height, width, 3), uint8, RGB, tight rows. The mapping of every
encoding is fixed, so a frame gives the same picture whenever and wherever it is decoded.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import Any, TypeAlias

import cv2
import numpy as np
import numpy.typing as npt

from rollout_monitor.depth import check_depth, decode_depth, is_compressed_depth, png_samples
from rollout_monitor.errors import InputError, quoted
from rollout_monitor.frames import RgbImage
from rollout_monitor.picture_files import JPEG_MAGIC, PNG_MAGIC, check_jpeg, check_png, decode_jpeg

Buffer: TypeAlias = bytes | bytearray | memoryview | npt.NDArray[np.uint8]

DEPTH_WHITE_M = 5.0
"""Depth drawn as white. 16UC1 is in millimetres and 32FC1 in metres (REP-118); the scale never depends on the frame."""

JPEG_QUALITY = 85
"""Quality of pictures kept beside a report: no visible blocking at 640x480, about 40 kB."""

STATISTICS_SAMPLES = 128
"""Luminance and contrast look at no more than this many rows and columns."""

_BYTES_PER_PIXEL = {
    **dict.fromkeys(["rgb8", "bgr8", "8UC3"], 3),
    **dict.fromkeys(["rgba8", "bgra8", "8UC4", "32FC1"], 4),
    **dict.fromkeys(["mono16", "16UC1", "yuv422", "uyvy", "yuv422_yuy2", "yuyv"], 2),
    **dict.fromkeys(["mono8", "8UC1", "bayer_rggb8", "bayer_bggr8", "bayer_gbrg8", "bayer_grbg8"], 1),
    **dict.fromkeys(["rgb16", "bgr16", "16UC3"], 6),
    **dict.fromkeys(["rgba16", "bgra16", "16UC4"], 8),
    **dict.fromkeys(["bayer_rggb16", "bayer_bggr16", "bayer_gbrg16", "bayer_grbg16"], 2),
}

_HIGH_BYTES = {
    **{f"{name}16": f"{name}8" for name in ("rgb", "bgr", "rgba", "bgra", "mono")},
    **{f"bayer_{order}16": f"bayer_{order}8" for order in ("rggb", "bggr", "gbrg", "grbg")},
    "16UC3": "8UC3",
    "16UC4": "8UC4",
}
"""Encodings of 16 bits per sample, drawn as their high bytes; by the encoding of those."""

# OpenCV names a Bayer pattern by its second row's second and third pixel; the *2RGB codes below spell it out.
_CONVERSIONS = {
    "bgr8": cv2.COLOR_BGR2RGB,
    "8UC3": cv2.COLOR_BGR2RGB,  # three unnamed channels are BGR, as OpenCV and RViz take them
    "rgba8": cv2.COLOR_RGBA2RGB,
    "bgra8": cv2.COLOR_BGRA2RGB,
    "8UC4": cv2.COLOR_BGRA2RGB,
    "mono8": cv2.COLOR_GRAY2RGB,
    "8UC1": cv2.COLOR_GRAY2RGB,
    "yuv422": cv2.COLOR_YUV2RGB_UYVY,
    "uyvy": cv2.COLOR_YUV2RGB_UYVY,
    "yuv422_yuy2": cv2.COLOR_YUV2RGB_YUY2,
    "yuyv": cv2.COLOR_YUV2RGB_YUY2,
    "bayer_rggb8": cv2.COLOR_BayerRGGB2RGB,
    "bayer_bggr8": cv2.COLOR_BayerBGGR2RGB,
    "bayer_gbrg8": cv2.COLOR_BayerGBRG2RGB,
    "bayer_grbg8": cv2.COLOR_BayerGRBG2RGB,
}

_EVEN_WIDTH = {"yuv422", "uyvy", "yuv422_yuy2", "yuyv"}
_BAYER_MINIMUM = 2
_VIDEO_CODECS = ("h264", "h265", "hevc", "av1")
_MAX_SIDE = 32768


def supported_encodings() -> list[str]:
    """Encodings of ``sensor_msgs/Image`` that :func:`decode_image` reads, sorted."""
    return sorted(_BYTES_PER_PIXEL)


def decode_image(
    encoding: str,
    height: int,
    width: int,
    step: int,
    is_bigendian: bool | int,
    data: Buffer,
) -> RgbImage:
    """Decode the fields of a ``sensor_msgs/Image``.

    Args:
        encoding: one of :func:`supported_encodings`, as in ``sensor_msgs/image_encodings``.
        height: rows.
        width: columns.
        step: bytes per row, padding included; padding is cut off.
        is_bigendian: byte order of 16 and 32 bit samples.
        data: at least ``step * (height - 1)`` bytes and one row without padding.

    Returns:
        Picture of shape (height, width, 3), a copy. Colour and gray of 16 bits keep their high bytes; ``16UC1`` (mm)
        and ``32FC1`` (m) are depth, drawn from black at 0 to white at ``DEPTH_WHITE_M``, invalid depth black.

    Raises:
        InputError: unknown encoding, sizes that cannot be, or a buffer that is too short.
    """
    rows = _rows(encoding, height, width, step, data)
    order = ">" if is_bigendian else "<"
    if encoding == "16UC1":
        return _gray(_depth(rows.view(f"{order}u2").astype(np.float32) / np.float32(1000.0)))
    if encoding == "32FC1":
        return _gray(_depth(rows.view(f"{order}f4").astype(np.float32)))
    if encoding in _HIGH_BYTES:
        encoding, rows = _HIGH_BYTES[encoding], (rows.view(f"{order}u2") >> 8).astype(np.uint8)
    if encoding == "rgb8":
        return rows.reshape(height, width, 3).copy()
    channels = _BYTES_PER_PIXEL[encoding]
    shape = (height, width) if channels == 1 else (height, width, channels)
    return _converted(rows.reshape(shape), _CONVERSIONS[encoding])


def check_image(encoding: str, height: int, width: int, step: int, data: Buffer) -> None:
    """Refuse what :func:`decode_image` would refuse, at the price of a look at the sizes.

    Raises:
        InputError: as :func:`decode_image`.
    """
    _tight_bytes(encoding, height, width, step, data)


def decode_compressed(format: str, data: Buffer) -> RgbImage:
    """Decode the fields of a ``sensor_msgs/CompressedImage`` holding a JPEG, a PNG or compressed depth.

    Args:
        format: ``jpeg``, ``png``, or the long form ``<encoding>; <codec> compressed <stored>``, for instance
            ``bgr8; jpeg compressed bgr8``. A picture stored as ``rgb8`` or ``rgba8`` has its channels in that order
            inside the file (compressed_image_transport reads it so); every other one is a picture as any viewer
            shows it. An orientation tag in the file is ignored. Depth, ``16UC1; png compressed`` and
            ``<encoding>; compressedDepth <codec>``, is drawn as :func:`decode_image` draws it.
        data: the file's bytes; whatever stands behind the file's end is allowed.

    Raises:
        InputError: none of these (video packets are named as such), or a file that is cut short or damaged, as far as
            that can be seen: see :func:`rollout_monitor.picture_files.decode_jpeg`.
    """
    check_compressed(format, data)
    lowered = format.lower()
    payload = np.frombuffer(data, dtype=np.uint8).tobytes()
    if is_compressed_depth(format):
        return _gray(_depth(decode_depth(format, payload)))
    if lowered.startswith("16uc1") and (samples := png_samples(payload)) is not None:
        return _gray(_depth(samples.astype(np.float32) / np.float32(1000.0)))
    picture = _jpeg(format, payload) if payload.startswith(JPEG_MAGIC) else _png(format, payload)
    stored_as_rgb = lowered.partition("compressed")[2].strip().startswith("rgb")
    return np.ascontiguousarray(picture[..., ::-1]) if stored_as_rgb else picture


def check_compressed(format: str, data: Buffer) -> None:
    """Refuse what can be seen to be unreadable without decoding it: another codec, a file without its end, a PNG
    with a wrong checksum.

    Raises:
        InputError: as :func:`decode_compressed`, which may find more.
    """
    payload = np.frombuffer(data, dtype=np.uint8).tobytes()
    if is_compressed_depth(format):
        check_depth(format, payload)
        return
    if any(codec in format.lower() for codec in _VIDEO_CODECS):
        raise InputError(
            f"compressed image of format {quoted(format)} is video and is not decoded; choose a topic that carries "
            "jpeg or png"
        )
    if not payload:
        raise InputError(f"compressed image of format {quoted(format)} is empty")
    if payload.startswith(JPEG_MAGIC):
        check = check_jpeg
    elif payload.startswith(PNG_MAGIC):
        check = check_png
    else:
        head = payload[:4].hex(" ")
        raise InputError(f"compressed image of format {quoted(format)} holds neither JPEG nor PNG: it starts {head}")
    try:
        check(payload)
    except InputError as error:
        raise _about(format, payload, error) from error


def encode_jpeg(rgb: RgbImage, quality: int = JPEG_QUALITY) -> bytes:
    """Encode a picture of shape (height, width, 3), uint8 RGB, as JPEG with ``quality`` in 1..100.

    Raises:
        InputError: wrong shape, dtype or quality.
    """
    if rgb.ndim != 3 or rgb.shape[2] != 3 or rgb.dtype != np.uint8 or 0 in rgb.shape:
        raise InputError(f"a picture must be (height, width, 3) uint8, got {rgb.shape} {rgb.dtype}")
    if not 1 <= quality <= 100:
        raise InputError(f"JPEG quality must be within 1..100, got {quality}")
    bgr = _converted(np.ascontiguousarray(rgb), cv2.COLOR_RGB2BGR)
    done, encoded = cv2.imencode(".jpg", bgr, [cv2.IMWRITE_JPEG_QUALITY, quality])
    if not done:
        raise InputError(f"a picture of {rgb.shape[1]}x{rgb.shape[0]} pixels does not encode as JPEG")
    return encoded.tobytes()


def luminance_and_contrast(rgb: RgbImage) -> tuple[float, float]:
    """Mean and standard deviation of luma (ITU-R BT.601), both 0..255, on a coarse grid of at most 128x128 pixels."""
    rows = -(-rgb.shape[0] // STATISTICS_SAMPLES)
    columns = -(-rgb.shape[1] // STATISTICS_SAMPLES)
    sample = rgb[::rows, ::columns].astype(np.float32)
    luma = sample @ np.array([0.299, 0.587, 0.114], dtype=np.float32)
    return float(luma.mean(dtype=np.float64)), float(luma.std(dtype=np.float64))


def fingerprint(data: Buffer, *parts: str | int) -> bytes:
    """Checksum of a frame's bytes and of the fields that give them meaning, to tell a repeated frame from a new one.

    Two checksums, 64 bits together, at 0.5 ms for 640x480: a cryptographic hash costs three times that on every
    frame, and nobody forges camera frames here.
    """
    flat = np.frombuffer(data, dtype=np.uint8).data
    seed = zlib.crc32(repr(parts).encode())
    return struct.pack("<II", zlib.crc32(flat, seed), zlib.adler32(flat))


def _rows(encoding: str, height: int, width: int, step: int, data: Buffer) -> npt.NDArray[np.uint8]:
    """Return the buffer as tight rows, shape (height, width * bytes per pixel)."""
    tight = _tight_bytes(encoding, height, width, step, data)
    flat = np.frombuffer(data, dtype=np.uint8)
    strided = np.lib.stride_tricks.as_strided(flat, shape=(height, tight), strides=(step, 1), writeable=False)
    return np.ascontiguousarray(strided)


def _tight_bytes(encoding: str, height: int, width: int, step: int, data: Buffer) -> int:
    """Bytes of a row without padding, once everything fits."""
    per_pixel = _BYTES_PER_PIXEL.get(encoding)
    if per_pixel is None:
        raise InputError(
            f"image encoding {quoted(encoding)} is not known; known are {', '.join(supported_encodings())}"
        )
    said = f"image of encoding {quoted(encoding)}, {width}x{height}, step {step}"
    smallest = _BAYER_MINIMUM if encoding.startswith("bayer_") else 1
    if not (smallest <= height <= _MAX_SIDE and smallest <= width <= _MAX_SIDE):
        raise InputError(f"{said}: width and height must be within {smallest}..{_MAX_SIDE}")
    if encoding in _EVEN_WIDTH and width % 2:
        raise InputError(f"{said}: a 4:2:2 picture needs an even width")
    tight = width * per_pixel
    if step < tight:
        raise InputError(f"{said}: a row of {width} pixels needs {tight} bytes")
    needed, there = step * (height - 1) + tight, np.frombuffer(data, dtype=np.uint8).size
    if there < needed:
        raise InputError(f"{said}: needs {needed} bytes, the message has {there}")
    return tight


def _jpeg(format: str, payload: bytes) -> RgbImage:
    try:
        return decode_jpeg(payload)
    except InputError as error:
        raise _about(format, payload, error) from error


def _png(format: str, payload: bytes) -> RgbImage:
    try:
        picture = cv2.imdecode(np.frombuffer(payload, dtype=np.uint8), cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION)
    except cv2.error as error:
        raise _about(format, payload, f"does not decode: {error.err}") from error
    if picture is None:
        raise _about(format, payload, "does not decode")
    return _converted(picture, cv2.COLOR_BGR2RGB)


def _about(format: str, payload: bytes, trouble: object) -> InputError:
    return InputError(f"compressed image of format {quoted(format)}, {len(payload)} bytes, {trouble}")


def _depth(metres: npt.NDArray[np.float32]) -> npt.NDArray[np.uint8]:
    """Draw depth in metres as gray; NaN, infinity and negative values are black."""
    with np.errstate(invalid="ignore"):
        valid = np.where(np.isfinite(metres) & (metres > 0), np.minimum(metres, DEPTH_WHITE_M), 0.0)
    return (valid * (255.0 / DEPTH_WHITE_M)).astype(np.uint8)


def _gray(samples: npt.NDArray[np.uint8]) -> RgbImage:
    return _converted(samples, cv2.COLOR_GRAY2RGB)


def _converted(picture: npt.NDArray[Any], code: int) -> RgbImage:
    return np.asarray(cv2.cvtColor(picture, code), dtype=np.uint8)


Decoder = Callable[[], RgbImage]
"""Decodes one frame when it is wanted: most frames of a bag never are."""
