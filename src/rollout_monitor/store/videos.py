"""Frames of a video file on a stamp grid, by PyAV: variable frame rate and AV1 included."""

from __future__ import annotations

from collections.abc import Iterator
from errno import EINVAL
from fractions import Fraction
from math import ceil
from pathlib import Path
from typing import Any

import av
import numpy as np

from rollout_monitor.errors import InputError
from rollout_monitor.frames import RgbImage

_NS = 1_000_000_000
_CONTAINERS = "mov,mp4,matroska,webm,avi,mpegts,mpeg,ogg,flv,asf,gif,ivf,mjpeg,wav"
"""FFmpeg would also draw a text file as a video of letters, and open whatever other files a play list names."""

_RATE_DENOMINATOR = 1001
"""NTSC rates are multiples of 1/1001; a rate given as float is taken for the nearest such fraction."""


_ONE_FILE = {"format_whitelist": _CONTAINERS, "protocol_whitelist": "file"}


def read_video(path: Path | str, rate_hz: float | None = None, threads: int = 0) -> Iterator[tuple[int, RgbImage]]:
    """Frames of the first video stream with their stamps, nanoseconds from the first frame.

    Args:
        path: a file in one of the usual containers (mp4, mkv, webm, avi, ...) with any codec that FFmpeg decodes.
        rate_hz: for k = 0, 1, 2, ... the first frame with stamp >= k / rate is given, compared exactly, and no frame
            twice; None gives every frame.
        threads: for decoding; 0 leaves it to FFmpeg. One is best where several videos are read at once.

    Yields:
        ``(stamp_ns, picture)`` with strictly growing stamps, rounded up, so that a frame on a tick of the grid is not
        taken for one before it. Frames without a time, or with one that does not grow, are left out.

    Raises:
        InputError: no video, no frames, or a file that is cut short (after the frames before the cut).
    """
    path = Path(path)
    if rate_hz is not None and not 0 < rate_hz < 1e6:
        raise InputError(f"{path}: the rate of frames must be positive, got {rate_hz} Hz")
    rate = None if rate_hz is None else Fraction(rate_hz).limit_denominator(_RATE_DENOMINATOR)
    return _frames(path, rate, threads)


def _frames(path: Path, rate: Fraction | None, threads: int) -> Iterator[tuple[int, RgbImage]]:
    decoded, next_tick = 0, 0
    first: Fraction | None = None
    last = Fraction(-1)
    try:
        with av.open(str(path), container_options=_ONE_FILE) as container:
            if not container.streams.video:
                raise InputError(f"{path}: expected a video, but it has no video stream")
            stream = container.streams.video[0]
            stream.thread_type = "AUTO"
            stream.codec_context.thread_count = threads
            for frame in container.decode(stream):
                decoded += 1
                if frame.pts is None or frame.time_base is None:
                    continue
                seconds = frame.pts * frame.time_base
                first = seconds if first is None else first
                since = seconds - first
                if since <= last:
                    continue
                last = since
                if rate is not None:
                    if since * rate < next_tick:
                        continue
                    next_tick = int(since * rate) + 1
                picture = np.ascontiguousarray(frame.to_ndarray(format="rgb24"), dtype=np.uint8)
                yield ceil(since * _NS), picture
            missing_s = _missing(stream, decoded, last)
    except av.error.FFmpegError as error:
        if not decoded and error.errno == EINVAL:
            raise InputError(f"{path}: expected a video file; containers that are read: {_CONTAINERS}") from error
        raise InputError(f"{path}: after {decoded} frames: {_reason(error)}") from error
    if decoded == 0:
        raise InputError(f"{path}: the video has no frames that can be decoded")
    if missing_s > 0:
        raise InputError(f"{path}: cut short: the last {missing_s:.1f} s are not there; copy the file again")


def _missing(stream: Any, decoded: int, last: Fraction) -> float:
    """Seconds of video that the file announces and does not have; 0 where it is whole.

    A trimmed video announces frames that its edit list hides, so fewer frames alone mean nothing: the time must be
    missing too.
    """
    if stream.duration is None or decoded == 0 or stream.frames <= decoded:
        return 0.0
    step = last / max(decoded - 1, 1)
    missing = stream.duration * stream.time_base - last - step
    return float(missing) if missing > step else 0.0


def _reason(error: Exception) -> str:
    text = getattr(error, "strerror", None) or str(error)
    log = getattr(error, "log", None)
    return f"{text} ({log[2].strip()})" if log else str(text)
