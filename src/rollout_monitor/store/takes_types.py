"""What the readers of takes have in common: what they find, and how cameras are named."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Protocol

from rollout_monitor.errors import InputError
from rollout_monitor.frames import RgbImage
from rollout_monitor.store.messages import JointItem

NS = 1_000_000_000

_STREAM_WORDS = {
    "image",
    "image_raw",
    "image_rect_raw",
    "color",
    "rgb",
    "compressed",
    "camera",
    "observation",
    "images",
}
"""Parts of a topic or key that every camera has, so that they name none."""
_LONGEST_NAME = 64
_NEAR = ("wrist", "hand", "gripper")


class TakeKind(str, Enum):
    """How a take is stored."""

    BAG = "bag"
    LEROBOT = "lerobot"
    HDF5 = "hdf5"


@dataclass(frozen=True)
class Claim:
    """One thing that somebody said about a take's outcome."""

    success: bool
    who: str
    """``label file``, a person or program of ``labels.jsonl``, ``report``, ``episode marker``, ``column ...``,
    ``episode metadata``, ``attribute success`` or ``folder ...``."""
    where: str
    """File (and line) that says so."""


@dataclass(frozen=True)
class CameraFrame:
    """One frame of one camera, decoded only when somebody looks."""

    camera: str
    stamp_ns: int
    decode: Callable[[], RgbImage] = field(repr=False)
    """Raises InputError where the payload cannot be decoded."""


class TakeReader(Protocol):
    """Opens one take's streams; every call reads the files anew."""

    def images(self, cameras: Mapping[str, str]) -> Iterator[CameraFrame]:
        """Frames in recorded order; ``cameras`` is the source (topic, key, dataset) by camera name."""
        ...

    def joints(self, source: str) -> Iterator[JointItem]:
        """Joint samples of one source in recorded order."""
        ...


@dataclass(frozen=True)
class FoundTake:
    """A take as its reader found it, before cameras are compared and labels are put in."""

    name: str
    """Within its file or folder; empty where that holds just one take."""
    path: Path
    kind: TakeKind
    reader: TakeReader = field(repr=False)
    cameras: Mapping[str, str]
    """Source by camera name, outside views first."""
    sources: tuple[str, ...]
    """Every source of pictures that may be asked for, depth and second topics of one camera included."""
    duration_s: float
    task: str | None = None
    claims: tuple[Claim, ...] = ()
    joint_sources: tuple[str, ...] = ()
    first_ns: int | None = None
    """Frame sets before this stamp do not belong to the take."""
    last_ns: int | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Candidate:
    """Something that looks like one or more takes; opening it tells."""

    path: Path
    name: str
    """Of the take within the path, for messages; empty where the path says it all."""
    open: Callable[[], list[FoundTake]] = field(repr=False)
    """Raises InputError where it cannot be read."""


def name_cameras(sources: list[str]) -> dict[str, str]:
    """Source by camera name, views from outside first: progress is read from the scene.

    A name is what tells a source from others: ``/camera/camera_h/color/image_raw`` is ``h``,
    ``observation.images.cam_high`` is ``cam_high``. Of two sources with one name (a raw and a compressed topic of one
    camera) the first in order is taken.
    """
    named: dict[str, str] = {}
    for source in sorted(sources, key=lambda source: (any(word in source.lower() for word in _NEAR), source)):
        named.setdefault(camera_name(source), source)
    return named


def camera_name(source: str) -> str:
    """Name of a camera after its topic, LeRobot key or HDF5 dataset; letters, digits and underscores."""
    parts = [part for part in re.split(r"[/.]", source) if part]
    telling = [part for part in parts if part not in _STREAM_WORDS] or parts[-1:] or ["camera"]
    name = telling[-1].removeprefix("camera_").removesuffix("_camera") or "camera"
    name = re.sub(r"[^A-Za-z0-9_]", "_", name)[:_LONGEST_NAME]
    return name if name[:1].isalpha() else f"camera_{name}"[:_LONGEST_NAME]


def is_depth(source: str) -> bool:
    """Whether a source is a depth or infrared stream by its name: no picture that a progress model was made for."""
    return bool(re.search(r"depth|infra|(^|[/_.])ir([/_.]|$)", source.lower()))


def claimed(value: object, who: str, where: str) -> Claim | None:
    """A claim from a stored value: true, false, 1, 0 or a word for them; None where the value says nothing.

    Raises:
        InputError: any other value.
    """
    if value is None or value != value or value == "":  # noqa: PLR0124 - NaN is the number that is not itself
        return None
    word = str(value).strip().lower()
    if word in YES:
        return Claim(True, who, where)
    if word in NO:
        return Claim(False, who, where)
    raise InputError(f"{where}: {who} is {str(value)[:40]!r}; expected true or false")


YES = {"true", "1", "1.0", "yes", "success", "succeeded"}
NO = {"false", "0", "0.0", "no", "fail", "failed", "failure"}
