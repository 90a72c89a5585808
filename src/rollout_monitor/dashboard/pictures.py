"""The newest picture of each camera, as it is sent to pages: JPEG or PNG bytes, small enough for a card."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import cv2

from rollout_monitor.frames import RgbImage
from rollout_monitor.images import encode_jpeg

LARGEST_BYTES = 150_000
"""A picture that a camera sends as JPEG or PNG goes to the pages as it is, up to this size."""

WIDTH = 640
"""Others are made as wide as this at most."""

PERIOD_S = 0.2
"""A camera is shown five times a second: smooth enough to see what happens, cheap enough for ten robots."""

_KINDS = ((b"\xff\xd8\xff", "image/jpeg"), (b"\x89PNG\r\n\x1a\n", "image/png"))


@dataclass(frozen=True)
class Picture:
    """One picture; ``number`` grows with each of its camera."""

    number: int
    kind: str
    data: bytes


def as_sent(data: bytes | memoryview) -> str | None:
    """The media type of bytes that a browser can show as they are; None where the picture has to be made anew."""
    if len(data) > LARGEST_BYTES:
        return None
    return next((kind for mark, kind in _KINDS if bytes(data[: len(mark)]) == mark), None)


def made_small(picture: RgbImage) -> bytes:
    """JPEG of a picture (height, width, 3) uint8, no wider than a card needs."""
    height, width = picture.shape[:2]
    if width > WIDTH:
        size = (WIDTH, max(1, round(height * WIDTH / width)))
        picture = cv2.resize(picture, size, interpolation=cv2.INTER_AREA).astype(picture.dtype)
    return encode_jpeg(picture)


class Pictures:
    """The newest picture by robot and camera, and which of them anybody looks at. Safe to use from any thread."""

    def __init__(self, on_wanted: Callable[[frozenset[tuple[str, str]]], None]) -> None:
        """Nobody looks at first.

        Args:
            on_wanted: called with all cameras that some page shows, whenever that changes.
        """
        self._on_wanted = on_wanted
        self._lock = threading.Lock()
        self._newest: dict[tuple[str, str], Picture] = {}
        self._wanted: dict[object, frozenset[tuple[str, str]]] = {}
        self._union: frozenset[tuple[str, str]] = frozenset()

    def put(self, robot: str, camera: str, kind: str, data: bytes) -> None:
        """A new picture of a camera."""
        with self._lock:
            if (robot, camera) in self._union:
                before = self._newest.get((robot, camera))
                self._newest[robot, camera] = Picture(0 if before is None else before.number + 1, kind, data)

    def newest(self, robot: str, camera: str) -> Picture | None:
        """The newest picture; None where none has come."""
        with self._lock:
            return self._newest.get((robot, camera))

    def want(self, page: object, cameras: frozenset[tuple[str, str]]) -> None:
        """A page shows these cameras now; none, when it is gone."""
        with self._lock:
            self._wanted.pop(page, None)
            if cameras:
                self._wanted[page] = cameras
            union = frozenset[tuple[str, str]]().union(*self._wanted.values())
            changed, self._union = union != self._union, union
            for gone in self._newest.keys() - union:
                del self._newest[gone]
        if changed:
            self._on_wanted(union)
