"""Pictures for the page: JPEGs small enough to travel inside it."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from rollout_monitor.errors import InputError
from rollout_monitor.frames import RgbImage
from rollout_monitor.images import decode_compressed, encode_jpeg

WIDEST = 640
"""Pixels; wider pictures are scaled down. Those beside the report stay as they are."""
QUALITY = 80
_FRAMES = "frames"


@dataclass(frozen=True)
class Embedded:
    """A picture inside the page."""

    id: str
    width: int
    height: int
    uri: str


def embed(names: Iterable[str], source: Mapping[str, bytes | RgbImage] | Path) -> dict[str, Embedded]:
    """Read and shrink the named pictures; those that are missing or cannot be read are left out.

    Args:
        names: file names as the report gives them.
        source: JPEG bytes or decoded pictures by name, or an episode's folder with ``frames/``.
    """
    embedded: dict[str, Embedded] = {}
    for name in dict.fromkeys(names):
        picture = _read(name, source)
        if picture is not None:
            embedded[name] = _embedded(f"picture-{len(embedded)}", picture)
    return embedded


def _read(name: str, source: Mapping[str, bytes | RgbImage] | Path) -> RgbImage | None:
    if isinstance(source, Path):
        file = source / _FRAMES / Path(name).name  # never outside the episode's folder
        data: bytes | RgbImage | None = file.read_bytes() if file.is_file() else None
    else:
        data = source.get(name)
    if data is None or isinstance(data, np.ndarray):
        return data
    try:
        return decode_compressed("jpeg", data)
    except InputError:
        return None


def _embedded(identity: str, picture: RgbImage) -> Embedded:
    height, width = picture.shape[:2]
    if width > WIDEST:
        height, width = max(1, round(height * WIDEST / width)), WIDEST
        picture = np.asarray(cv2.resize(picture, (width, height), interpolation=cv2.INTER_AREA), dtype=np.uint8)
    data = base64.b64encode(encode_jpeg(picture, QUALITY)).decode()
    return Embedded(identity, width, height, f"data:image/jpeg;base64,{data}")
