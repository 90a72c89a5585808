"""Takes in HDF5 as ARX's and ALOHA's collectors write them: one file, one episode.

``/observations/images/<camera>`` holds pictures, uint8 of shape (T, height, width, 3), or one JPEG or PNG per row,
zero padded to (T, N) or of variable length; ``/observations/qpos`` the joints, (T, J). The files carry no stamps: row k
is at k / frame rate, from stamp 0.

Colours: collectors hand pictures to OpenCV's encoder, which takes them for BGR. Given BGR the JPEG shows true colours;
given RGB (as ROS's ``rgb8`` comes) it shows red as blue, and nothing in the file tells which. A file is taken as any
viewer shows it and a raw array as RGB (``as-shown``); ``swapped`` exchanges red and blue of both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil, isfinite
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from rollout_monitor.errors import InputError
from rollout_monitor.frames import RgbImage
from rollout_monitor.images import decode_compressed
from rollout_monitor.store.messages import JointItem
from rollout_monitor.store.takes_types import (
    NS,
    CameraFrame,
    Candidate,
    Claim,
    FoundTake,
    TakeKind,
    claimed,
    name_cameras,
)

SUFFIXES = {".hdf5", ".h5"}
IMAGES, JOINTS = "/observations/images", "/observations/qpos"
Colour: TypeAlias = Literal["as-shown", "swapped"]
COLOURS: tuple[Colour, ...] = ("as-shown", "swapped")

_PICTURE_NDIM, _CHANNELS = 4, 3


@dataclass(frozen=True)
class Hdf5Options:
    """What an HDF5 episode does not say itself."""

    rate_hz: float | None = None
    """Rows per second of files without the attribute ``frame_rate``."""
    colour: Colour = "as-shown"


def hdf5_candidate(path: Path, options: Hdf5Options) -> Candidate:
    """One file as a candidate.

    Raises:
        InputError: h5py is not installed.
    """
    try:
        import h5py  # noqa: F401, PLC0415 - an extra
    except ImportError as error:
        raise InputError(f"{path}: reading HDF5 needs h5py; pip install 'rollout-monitor[takes]'") from error
    return Candidate(path, "", lambda: [_open(path, options)])


class Hdf5Reader:
    """Streams of one episode; see `TakeReader`."""

    def __init__(self, path: Path, rate_hz: float, swapped: bool) -> None:
        self._path = path
        self._rate_hz = rate_hz
        self._swapped = swapped

    def images(self, cameras: Mapping[str, str]) -> Iterator[CameraFrame]:
        """Frames row by row, every camera of a row together."""
        with _opened(self._path) as file:
            datasets = {camera: file[source] for camera, source in cameras.items()}
            for row in range(min(len(dataset) for dataset in datasets.values())):
                for camera, dataset in datasets.items():
                    yield CameraFrame(camera, self._stamp(row), self._decoder(dataset, cameras[camera], row))

    def joints(self, source: str) -> Iterator[JointItem]:
        """Joint positions row by row; the file names no joints, so they are called joint_0, joint_1, ..."""
        with _opened(self._path) as file:
            positions = np.asarray(file[source], dtype=np.float64)
        names = tuple(f"joint_{index}" for index in range(positions.shape[1]))
        nothing = np.empty(0)
        for row, values in enumerate(positions):
            yield JointItem(source, self._stamp(row), names, values, nothing, nothing)

    def _stamp(self, row: int) -> int:
        return stamp_of_row(row, self._rate_hz)

    def _decoder(self, dataset: Any, source: str, row: int) -> Callable[[], RgbImage]:
        def decode() -> RgbImage:
            data = self._row(dataset, source, row)
            if np.ndim(data) == _PICTURE_NDIM - 1:
                picture: RgbImage = np.asarray(data, dtype=np.uint8)
            else:
                picture = decode_compressed("jpeg", _file_bytes(data))
            return np.ascontiguousarray(picture[..., ::-1]) if self._swapped else picture

        return decode

    def _row(self, dataset: Any, source: str, row: int) -> Any:
        """One row; a frame that is looked at after the last one was given finds its file closed, and opens it again."""
        if not dataset:
            with _opened(self._path) as file:
                return file[source][row]
        with _as_input_error(self._path):
            return dataset[row]


def stamp_of_row(row: int, rate_hz: float) -> int:
    """Stamp of a row, nanoseconds from row 0, rounded up so that a row on a tick of a grid is not before it."""
    return ceil(round(row / rate_hz * NS, 3))


def _open(path: Path, options: Hdf5Options) -> FoundTake:
    with _opened(path) as file:
        if IMAGES not in file or not hasattr(file[IMAGES], "keys") or not len(file[IMAGES]):
            raise InputError(f"{path}: no pictures in {IMAGES}; expected an episode of the ARX or ALOHA kind")
        sources = [f"{IMAGES}/{name}" for name in file[IMAGES]]
        rows = {source: _rows(path, source, file[source]) for source in sources}
        joints = file.get(JOINTS)
        if joints is not None:
            if len(joints.shape) != 2 or joints.dtype.kind not in "fiu":
                raise InputError(f"{path}: {JOINTS}: expected numbers of shape (T, joints), got {joints.shape}")
            rows[JOINTS] = len(joints)
        if len(set(rows.values())) > 1:
            told = ", ".join(f"{source} {count}" for source, count in rows.items())
            raise InputError(f"{path}: the rows do not fit together ({told}): cut short while recording?")
        count = next(iter(rows.values()))
        if count == 0:
            raise InputError(f"{path}: holds no frames; remove it or record it again")
        rate_hz = _rate(path, file.attrs.get("frame_rate"), options.rate_hz)
        task, claim = _text(file.attrs.get("task")), _success(path, file.attrs.get("success"))
        return FoundTake(
            name="",
            path=path,
            kind=TakeKind.HDF5,
            reader=Hdf5Reader(path, rate_hz, options.colour == "swapped"),
            cameras=name_cameras(sources),
            sources=tuple(sources),
            duration_s=(count - 1) / rate_hz,
            task=task,
            claims=(claim,) if claim else (),
            joint_sources=(JOINTS,) if joints is not None else (),
        )


def _rows(path: Path, source: str, dataset: Any) -> int:
    """Rows of a camera's dataset, whose shape is checked."""
    shape = getattr(dataset, "shape", None)
    if shape is None:
        raise InputError(f"{path}: {source} is a group; expected pictures")
    pictures = len(shape) == _PICTURE_NDIM and shape[3] == _CHANNELS and dataset.dtype == np.uint8
    padded = len(shape) == 2 and dataset.dtype == np.uint8
    single = len(shape) == 1 and dataset.dtype.kind in "OSV"
    if not (pictures or padded or single):
        raise InputError(
            f"{path}: {source} is {dataset.dtype} of shape {shape}; expected uint8 (T, height, width, 3) or JPEG rows"
        )
    return int(shape[0])


def _file_bytes(data: Any) -> bytes:
    """One stored JPEG or PNG, whichever way it was put in."""
    if isinstance(data, bytes):
        return data
    array: npt.NDArray[Any] = np.asarray(data)
    return array.tobytes()


def _rate(path: Path, stored: Any, given: float | None) -> float:
    if stored is None and given is None:
        raise InputError(
            f"{path}: has no attribute frame_rate; say how many rows a second were recorded (hdf5_rate_hz)"
        )
    value: Any = given if stored is None else stored
    try:
        rate = float(value)
    except (TypeError, ValueError):
        rate = 0.0
    if not (isfinite(rate) and 0.0 < rate <= 1000.0):
        raise InputError(f"{path}: frame rate {value!r}: expected rows per second, more than 0 and at most 1000")
    return rate


def _text(value: object) -> str | None:
    if isinstance(value, bytes):
        value = value.decode("utf-8", errors="replace")
    return str(value).strip() or None if isinstance(value, str) else None


def _success(path: Path, value: Any) -> Claim | None:
    plain = value.decode("utf-8", errors="replace") if isinstance(value, bytes) else value
    if isinstance(plain, np.ndarray):
        plain = plain.reshape(-1)[0] if plain.size == 1 else plain.tolist()
    return claimed(plain, "attribute success", str(path))


@contextmanager
def _as_input_error(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, KeyError, RuntimeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: cannot be read as HDF5: {error}") from error


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    import h5py  # noqa: PLC0415 - an extra

    with _as_input_error(path), h5py.File(path, "r", locking=False) as file:
        yield file
