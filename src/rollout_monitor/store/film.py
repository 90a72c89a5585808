"""The film of an episode: its cameras side by side, one H.264 MP4 small enough to travel inside a page.

What is traded for size: `RATE_HZ` pictures a second, fewer in attempts longer than `MOST_PICTURES` of them, cameras
scaled into panels of `PANEL` pixels, no sound. The encoder is held to `LIMIT_BYTES`; a film that does not keep to it is
made again with half the picture size, and left out where that is still too large. The recording keeps everything.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeAlias

import av
import cv2
import numpy as np
from av.codec.codec import UnknownCodecError
from av.error import FFmpegError

from rollout_monitor.errors import InputError
from rollout_monitor.frames import RgbImage

RATE_HZ = 10
MOST_PICTURES = 1500
PANEL = (480, 360)
"""Width and height, pixels."""
LIMIT_BYTES = 6_000_000
"""8 MB as text inside a page: mail takes 10 to 25 MB."""
_CRF = 28
_KEY_EVERY = 10
"""Pictures between those that a player can jump to: seeking stays instant, at a tenth more bytes."""
_ENCODERS = ("libx264", "libopenh264")
_GROUND = 24
_NS = 1_000_000_000
_MS = 1_000_000


@dataclass(frozen=True)
class Shot:
    """One frame of one camera."""

    camera: str
    stamp_ns: int
    decode: Callable[[], RgbImage]
    """May raise InputError: the picture before it is then shown on."""


Shots: TypeAlias = Callable[[], Iterable[Shot]]


@dataclass(frozen=True)
class Film:
    """An MP4 whose second 0 is `start_ns`.

    Attributes:
        start_ns: stamp of its first picture.
        step_ms: time between pictures.
        cameras: from left to right.
    """

    mp4: bytes
    start_ns: int
    step_ms: int
    cameras: tuple[str, ...]
    width: int
    height: int


def make_film(
    shots: Shots,
    cameras: Sequence[str],
    start_ns: int,
    end_ns: int,
    *,
    rate_hz: int = RATE_HZ,
    limit_bytes: int = LIMIT_BYTES,
) -> Film | None:
    """Make the film of an episode.

    Args:
        shots: gives the frames anew at each call, in the order of their stamps but for small disorder.
        cameras: names, from left to right; frames of others are left out.
        start_ns: second 0 of the film.
        end_ns: its end.
        rate_hz: pictures a second, at most.
        limit_bytes: the largest MP4.

    Returns:
        None where there is nothing to show, no H.264 encoder, or no film that is small enough.
    """
    encoder = next((name for name in _ENCODERS if _is_there(name)), None)
    if encoder is None or not cameras or end_ns <= start_ns:
        return None
    step_ms = max(1000 // rate_hz, -(-(end_ns - start_ns) // _MS // MOST_PICTURES))
    for shrink in (1, 2):
        film = _encode(shots(), tuple(cameras), start_ns, end_ns, step_ms, limit_bytes, encoder, shrink)
        if film is None or len(film.mp4) <= limit_bytes:
            return film
    return None


def read_film(path: Path) -> Film | None:
    """A film as `make_film` made it; None where the file is not there or is none of those."""
    try:
        data = path.read_bytes()
        with av.open(io.BytesIO(data), format="mp4") as container:
            told = json.loads(container.metadata.get("comment", ""))
            video = container.streams.video[0]
            size = (int(video.width), int(video.height))
        names = tuple(str(name) for name in told["cameras"])
        return Film(data, int(told["start_ns"]), int(told["step_ms"]), names, *size)
    except (OSError, FFmpegError, ValueError, KeyError, TypeError, IndexError):
        return None


def _is_there(encoder: str) -> bool:
    try:
        av.Codec(encoder, "w")
    except UnknownCodecError:
        return False
    return True


def _encode(
    shots: Iterable[Shot],
    cameras: tuple[str, ...],
    start_ns: int,
    end_ns: int,
    step_ms: int,
    limit_bytes: int,
    encoder: str,
    shrink: int,
) -> Film | None:
    panel = (PANEL[0] // shrink, PANEL[1] // shrink)
    width, height = panel[0] * len(cameras), panel[1]
    about = json.dumps({"start_ns": start_ns, "step_ms": step_ms, "cameras": cameras})
    sink, seen = io.BytesIO(), False
    with av.open(sink, "w", format="mp4") as container:
        container.metadata["comment"] = about
        stream: Any = container.add_stream(encoder, rate=Fraction(1000, step_ms))
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.codec_context.time_base = Fraction(step_ms, 1000)
        stream.codec_context.thread_count = 1  # a robot's other core is not ours
        _hold_to(stream, encoder, limit_bytes, (end_ns - start_ns) / _NS, step_ms / 1000)
        for index, picture in enumerate(_composed(shots, cameras, panel, start_ns, end_ns, step_ms)):
            seen = seen or picture is not None
            shown = np.full((height, width, 3), _GROUND, np.uint8) if picture is None else picture
            frame = av.VideoFrame.from_ndarray(shown, format="rgb24")
            frame.pts = index
            frame.time_base = Fraction(step_ms, 1000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return Film(sink.getvalue(), start_ns, step_ms, cameras, width, height) if seen else None


def _hold_to(stream: Any, encoder: str, limit_bytes: int, span_s: float, step_s: float) -> None:
    """Give the encoder a quality and a bit rate that it may not pass, so that the film keeps to its limit."""
    most = int(0.85 * limit_bytes * 8 / max(span_s, 10.0))
    stream.codec_context.gop_size = _KEY_EVERY
    if encoder != "libx264":
        stream.bit_rate = min(most, 1_500_000)
        return
    held = int(most * max(1.0, 4 * step_s))
    stream.options = {"preset": "veryfast", "crf": str(_CRF), "maxrate": str(most), "bufsize": str(held), "bf": "0"}


def _composed(
    shots: Iterable[Shot],
    cameras: tuple[str, ...],
    panel: tuple[int, int],
    start_ns: int,
    end_ns: int,
    step_ms: int,
) -> Iterator[RgbImage | None]:
    """The picture at each tick from start to end: of every camera the newest frame; None before the first one."""
    canvas = np.full((panel[1], panel[0] * len(cameras), 3), _GROUND, np.uint8)
    newest: dict[str, Shot] = {}
    tick_ns, seen = start_ns, False

    def draw() -> RgbImage | None:
        nonlocal seen
        for camera, shot in newest.items():
            try:
                _place(canvas, shot.decode(), cameras.index(camera), panel)
                seen = True
            except InputError:
                continue
        newest.clear()
        return canvas if seen else None

    for shot in shots:
        if shot.camera not in cameras:
            continue
        while shot.stamp_ns > tick_ns and tick_ns <= end_ns:
            yield draw()
            tick_ns += step_ms * _MS
        if tick_ns > end_ns:
            return
        newest[shot.camera] = shot
    while tick_ns <= end_ns:
        yield draw()
        tick_ns += step_ms * _MS


def _place(canvas: RgbImage, picture: RgbImage, index: int, panel: tuple[int, int]) -> None:
    """Scale a picture into its panel, whole."""
    height, width = picture.shape[:2]
    scale = min(panel[0] / width, panel[1] / height)
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    small = cv2.resize(picture, size, interpolation=cv2.INTER_AREA)
    left, top = index * panel[0] + (panel[0] - size[0]) // 2, (panel[1] - size[1]) // 2
    canvas[top : top + size[1], left : left + size[0]] = small
