"""Takes in LeRobot datasets v2.x and v3.x, read with pyarrow and PyAV: LeRobot itself is not needed.

v2 keeps a parquet file and a video per camera for each episode; v3 puts many episodes into one file and says in
``meta/episodes`` where each lies. Pictures are MP4 of any codec (AV1 included) or image columns (PNG or JPEG). Row k of
an episode is at its ``timestamp``, from 0; a timestamp within LeRobot's tolerance of k / fps is taken as k / fps, so
that float32 does not put a row before the tick of a grid that it is on.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

import av
import numpy as np

from rollout_monitor.errors import InputError
from rollout_monitor.frames import RgbImage
from rollout_monitor.images import decode_compressed
from rollout_monitor.store.messages import JointItem
from rollout_monitor.store.takes_hdf5 import stamp_of_row
from rollout_monitor.store.takes_types import (
    NS,
    CameraFrame,
    Candidate,
    Claim,
    FoundTake,
    TakeKind,
    claimed,
    is_depth,
    name_cameras,
)

INFO = Path("meta") / "info.json"
STATE = "observation.state"
TOLERANCE_S = 1e-4
"""LeRobot's own tolerance between a row's timestamp and its frame's time."""
SUCCESS_COLUMNS = ("success", "next.success")
SUCCESS_METADATA = ("success", "is_success", "episode_success")
CHUNKS_SIZE = 1000
"""Episodes per folder where the dataset does not say; LeRobot's own default."""
IMAGE_ROWS = 32
"""Rows of pictures held at a time."""


@dataclass(frozen=True)
class _Video:
    """Where the frames of one camera and episode lie."""

    path: Path
    from_s: float


@dataclass(frozen=True)
class _Episode:
    """One episode as the metadata describes it."""

    index: int
    length: int
    data: Path
    videos: Mapping[str, _Video]
    """By key, video cameras only."""
    tasks: tuple[str, ...]
    metadata: Mapping[str, Any]
    source: Path
    """The metadata file it comes from."""


@dataclass(frozen=True)
class _Rows:
    """The light columns of one episode, by row."""

    stamps_ns: list[int]
    columns: Mapping[str, list[Any]]


def lerobot_candidates(root: Path) -> list[Candidate]:
    """Every episode of a dataset as a candidate.

    Raises:
        InputError: pyarrow is not installed, or metadata that cannot be read; names the file.
    """
    dataset = Dataset(root)
    return [
        Candidate(root, episode_name(episode.index), lambda episode=episode: [dataset.open(episode)])  # type: ignore[misc]
        for episode in dataset.episodes
    ]


def require_pyarrow(root: Path) -> None:
    """Raise InputError where pyarrow is not installed."""
    try:
        import pyarrow.parquet  # noqa: F401, PLC0415 - an extra
    except ImportError as error:
        raise InputError(
            f"{root}: reading a LeRobot dataset needs pyarrow; pip install 'rollout-monitor[takes]'"
        ) from error


def episode_name(index: int) -> str:
    """Name of an episode, as v2 names its files."""
    return f"episode_{index:06d}"


@dataclass(frozen=True)
class Dataset:
    """Metadata of a dataset; nothing is held open."""

    root: Path
    _light: dict[Path, Any] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def info(self) -> dict[str, Any]:
        """Contents of ``meta/info.json``.

        Raises:
            InputError: a file that cannot be read, of another version, or without what every version has.
        """
        path = self.root / INFO
        info = _json(path, _text(path))
        version = str(info.get("codebase_version", ""))
        if not version.startswith(("v2.", "v3.")):
            raise InputError(f"{path}: codebase_version {version!r}; v2.x and v3.x are read, convert it with LeRobot")
        fps, features = info.get("fps"), info.get("features")
        if not isinstance(fps, (int, float)) or isinstance(fps, bool) or not 0 < fps <= 1000:
            raise InputError(f"{path}: fps {fps!r}; expected frames per second, more than 0 and at most 1000")
        if not isinstance(features, dict) or not all(isinstance(feature, dict) for feature in features.values()):
            raise InputError(f"{path}: features: expected a table of features by key")
        return info

    @property
    def fps(self) -> float:
        """Rows per second."""
        return float(self.info["fps"])

    @cached_property
    def cameras(self) -> dict[str, str]:
        """``video`` or ``image`` by camera key; depth is left out."""
        return {
            key: feature["dtype"]
            for key, feature in self.info["features"].items()
            if feature.get("dtype") in ("video", "image")
            and not is_depth(key)
            and not (isinstance(feature.get("info"), dict) and feature["info"].get("video.is_depth_map"))
        }

    @cached_property
    def episodes(self) -> list[_Episode]:
        """All episodes that the metadata lists, in order."""
        v3 = str(self.info["codebase_version"]).startswith("v3.")
        rows = list(self._rows_v3() if v3 else self._rows_v2())
        if not rows:
            raise InputError(f"{self.root}: the dataset lists no episodes")
        make = self._episode_v3 if v3 else self._episode_v2
        return sorted((make(row, source) for row, source in rows), key=lambda episode: episode.index)

    @cached_property
    def task_texts(self) -> dict[int, str]:
        """Task text by ``task_index``."""
        jsonl, parquet = self.root / "meta" / "tasks.jsonl", self.root / "meta" / "tasks.parquet"
        if jsonl.is_file():
            rows = _json_lines(jsonl)
        elif parquet.is_file():
            rows = _read(parquet).to_pylist()
        else:
            return {}
        texts = {}
        for row in rows:
            # v3 writes a pandas table whose index is the text
            text = next((row[key] for key in ("task", "__index_level_0__") if isinstance(row.get(key), str)), None)
            if text and row.get("task_index") is not None:
                texts[_whole(row, "task_index", parquet)] = text
        return texts

    def open(self, episode: _Episode) -> FoundTake:
        """One episode as a take.

        Raises:
            InputError: files that are missing, cut short or do not fit together.
        """
        name = episode_name(episode.index)
        if not self.cameras:
            raise InputError(f"{self.root / INFO}: no camera among the features, and progress is judged from pictures")
        rows = self.rows(episode)
        for key, kind in self.cameras.items():
            if kind == "video":
                _check_video(episode.videos[key], len(rows.stamps_ns), self.fps, name)
        reader = LerobotReader(self, episode)
        task, notes = self._task(episode, rows)
        return FoundTake(
            name=name,
            path=self.root,
            kind=TakeKind.LEROBOT,
            reader=reader,
            cameras=name_cameras(list(self.cameras)),
            sources=tuple(self.cameras),
            duration_s=rows.stamps_ns[-1] / NS,
            task=task,
            claims=tuple(_claims(episode, rows)),
            joint_sources=(STATE,) if STATE in self.info["features"] else (),
            notes=notes,
        )

    def rows(self, episode: _Episode) -> _Rows:
        """Stamps and light columns of an episode."""
        table = self._light_table(episode)
        first, end = self.row_range(episode)
        if end - first != episode.length:
            raise InputError(
                f"{episode.data}: {end - first} rows of episode {episode.index}, but {episode.source.name} says "
                f"{episode.length}; copy the dataset again"
            )
        columns = {name: values[first:end] for name, values in table.items()}
        return _Rows(self._stamps(episode, columns.get("timestamp")), columns)

    def row_range(self, episode: _Episode) -> tuple[int, int]:
        """First row of the episode in its data file, and the one after its last.

        Raises:
            InputError: no rows, or rows that do not lie together.
        """
        at = [row for row, index in enumerate(self._light_table(episode)["episode_index"]) if index == episode.index]
        if not at:
            raise InputError(f"{episode.data}: has no rows of episode {episode.index}, so it holds no frames")
        if at[-1] + 1 - at[0] != len(at):
            raise InputError(f"{episode.data}: the rows of episode {episode.index} do not lie together")
        return at[0], at[-1] + 1

    def _stamps(self, episode: _Episode, timestamps: Sequence[Any] | None) -> list[int]:
        stamps = []
        for row in range(episode.length):
            regular = stamp_of_row(row, self.fps)
            said = regular / NS if timestamps is None else timestamps[row]
            if not isinstance(said, (int, float)) or said != said:  # noqa: PLR0124 - NaN
                raise InputError(f"{episode.data}: timestamp {said!r} in row {row} of episode {episode.index}")
            stamps.append(regular if abs(said - regular / NS) <= TOLERANCE_S else round(said * NS))
        if stamps != sorted(set(stamps)) or stamps[0] < 0:
            raise InputError(f"{episode.data}: the timestamps of episode {episode.index} do not grow")
        return stamps

    def _light_table(self, episode: _Episode) -> dict[str, list[Any]]:
        if episode.data not in self._light:
            wanted = ("episode_index", "timestamp", "task_index", *SUCCESS_COLUMNS)
            table = _read(episode.data, wanted)
            if "episode_index" not in table.column_names:
                raise InputError(f"{episode.data}: has no column episode_index")
            self._light[episode.data] = {
                name: [_scalar(value) for value in table[name].to_pylist()] for name in table.column_names
            }
        light: dict[str, list[Any]] = self._light[episode.data]
        return light

    def _task(self, episode: _Episode, rows: _Rows) -> tuple[str | None, tuple[str, ...]]:
        texts = list(episode.tasks)
        if not texts:
            numbers = dict.fromkeys(rows.columns.get("task_index", []))
            texts = [self.task_texts[number] for number in numbers if number in self.task_texts]
        if len(texts) > 1:
            return texts[0], (f"has {len(texts)} tasks; the first is taken: {texts[0]!r}",)
        return (texts[0] if texts else None), ()

    # --- the two layouts --------------------------------------------------------------------------------------------

    def _rows_v2(self) -> Iterator[tuple[dict[str, Any], Path]]:
        path = self.root / "meta" / "episodes.jsonl"
        for row in _json_lines(path):
            yield row, path

    def _rows_v3(self) -> Iterator[tuple[dict[str, Any], Path]]:
        folder = self.root / "meta" / "episodes"
        files = sorted(folder.rglob("*.parquet"))
        if not files:
            raise InputError(f"{folder}: holds no parquet file that lists the episodes")
        for path in files:
            names = [name for name in _schema(path) if not name.startswith("stats/")]
            for row in _read(path, names).to_pylist():
                yield row, path

    def _episode_v2(self, row: dict[str, Any], source: Path) -> _Episode:
        index = _whole(row, "episode_index", source)
        size = _whole({"chunks_size": CHUNKS_SIZE, **self.info}, "chunks_size", self.root / INFO)
        if size == 0:
            raise InputError(f"{self.root / INFO}: chunks_size is 0; expected episodes per folder")
        fields = {"episode_chunk": index // size, "episode_index": index}
        videos = {
            key: _Video(self._path("video_path", {**fields, "video_key": key}), 0.0)
            for key, kind in self.cameras.items()
            if kind == "video"
        }
        return self._episode(row, source, self._path("data_path", fields), videos)

    def _episode_v3(self, row: dict[str, Any], source: Path) -> _Episode:
        data = {name: _whole(row, (f"data/{name}", f"data_{name}"), source) for name in ("chunk_index", "file_index")}
        videos = {}
        for key, kind in self.cameras.items():
            if kind == "video":
                at = {name: _whole(row, f"videos/{key}/{name}", source) for name in ("chunk_index", "file_index")}
                path = self._path("video_path", {**at, "video_key": key})
                videos[key] = _Video(path, _number(row, f"videos/{key}/from_timestamp", source))
        return self._episode(row, source, self._path("data_path", data), videos)

    def _episode(self, row: dict[str, Any], source: Path, data: Path, videos: Mapping[str, _Video]) -> _Episode:
        return _Episode(
            index=_whole(row, "episode_index", source),
            length=_whole(row, "length", source),
            data=data,
            videos=videos,
            tasks=_task_texts(row.get("tasks"), source),
            metadata=row,
            source=source,
        )

    def _path(self, template: str, fields: Mapping[str, Any]) -> Path:
        """A file of the dataset by the template in ``info.json``, which must stay within the dataset."""
        text = self.info.get(template)
        try:
            inside = PurePosixPath(str(text).format_map(dict(fields)))
        except (KeyError, IndexError, ValueError, TypeError, AttributeError) as error:
            raise InputError(f"{self.root / INFO}: {template} {text!r} cannot be filled in ({error})") from error
        if not isinstance(text, str) or inside.is_absolute() or ".." in inside.parts:
            raise InputError(f"{self.root / INFO}: {template} {text!r}: expected a path within the dataset")
        return self.root / inside


class LerobotReader:
    """Streams of one episode; see `TakeReader`."""

    def __init__(self, dataset: Dataset, episode: _Episode) -> None:
        self._dataset = dataset
        self._episode = episode

    def images(self, cameras: Mapping[str, str]) -> Iterator[CameraFrame]:
        """Frames in the order of their stamps."""
        stamps = self._dataset.rows(self._episode).stamps_ns
        streams = [self._camera(camera, key, stamps) for camera, key in cameras.items()]
        return heapq.merge(*streams, key=lambda frame: frame.stamp_ns)

    def joints(self, source: str) -> Iterator[JointItem]:
        """The state row by row, whatever it holds; names as the dataset gives them."""
        first, end = self._dataset.row_range(self._episode)
        stamps = self._dataset.rows(self._episode).stamps_ns
        values = _read(self._episode.data, [source])[source].slice(first, end - first).to_pylist()
        nothing = np.empty(0)
        names: tuple[str, ...] | None = None
        for stamp, value in zip(stamps, values, strict=True):
            positions = np.atleast_1d(np.asarray(value, dtype=np.float64))
            names = names or _state_names(self._dataset.info["features"][source], len(positions))
            yield JointItem(source, stamp, names, positions, nothing, nothing)

    def _camera(self, camera: str, key: str, stamps: list[int]) -> Iterator[CameraFrame]:
        if self._dataset.cameras[key] == "video":
            decoders: Iterator[tuple[int, Callable[[], RgbImage]]] = _video_rows(
                self._episode.videos[key], len(stamps), self._dataset.fps
            )
        else:
            decoders = self._image_rows(key)
        for row, decode in decoders:
            yield CameraFrame(camera, stamps[row], decode)

    def _image_rows(self, key: str) -> Iterator[tuple[int, Callable[[], RgbImage]]]:
        """Pictures of an image column; only the row groups of this episode are read."""
        import pyarrow.parquet as pq  # noqa: PLC0415 - an extra

        first, end = self._dataset.row_range(self._episode)
        with _as_input_error(self._episode.data), pq.ParquetFile(self._episode.data) as file:
            at = 0
            for group in range(file.num_row_groups):
                count = file.metadata.row_group(group).num_rows
                if at < end and at + count > first:
                    row = at
                    for batch in file.iter_batches(IMAGE_ROWS, row_groups=[group], columns=[key]):
                        for value in batch.to_pydict().popitem()[1]:
                            if first <= row < end:
                                yield row - first, self._decoder(value)
                            row += 1
                at += count

    def _decoder(self, value: Any) -> Callable[[], RgbImage]:
        def decode() -> RgbImage:
            data = value.get("bytes") if isinstance(value, dict) else value
            if data is None and isinstance(value, dict) and isinstance(value.get("path"), str):
                data = self._file(value["path"])
            if not isinstance(data, bytes):
                raise InputError(f"{self._episode.data}: expected the bytes of a PNG or JPEG")
            return decode_compressed("png", data)

        return decode

    def _file(self, name: str) -> bytes:
        inside = PurePosixPath(name)
        if inside.is_absolute() or ".." in inside.parts:
            raise InputError(f"{self._episode.data}: picture {name!r}: expected a path within the dataset")
        try:
            return (self._dataset.root / inside).read_bytes()
        except OSError as error:
            raise InputError(f"{self._dataset.root / inside}: cannot be read: {error.strerror}") from error


def _video_rows(video: _Video, length: int, fps: float) -> Iterator[tuple[int, Callable[[], RgbImage]]]:
    """(row, decoder) of the frames that show an episode, each row once.

    A frame belongs to the row whose time is nearest to its own.

    Raises:
        InputError: a video that ends before the episode does.
    """
    last = -1
    try:
        with av.open(str(video.path)) as container:
            stream: Any = container.streams.video[0]
            stream.thread_type = "AUTO"
            if video.from_s > 0:
                container.seek(int((video.from_s - 0.5 / fps) / stream.time_base), stream=stream)
            for frame in container.decode(stream):
                if frame.pts is None or frame.time_base is None:
                    continue
                row = round((float(frame.pts * frame.time_base) - video.from_s) * fps)
                if row >= length:
                    break
                if row > last:
                    last = row
                    yield row, lambda frame=frame: np.ascontiguousarray(frame.to_ndarray(format="rgb24"))  # type: ignore[misc]
    except (av.error.FFmpegError, IndexError) as error:
        raise InputError(f"{video.path}: cannot be read as a video: {error}") from error
    if last < length - 1:
        raise InputError(f"{video.path}: ends at row {last + 1} of {length}; copy the file again")


def _check_video(video: _Video, length: int, fps: float, name: str) -> None:
    """Refuse a video that is not there or too short by its own header."""
    if not video.path.is_file():
        raise InputError(f"{video.path}: the video of {name} is not there; download the whole dataset")
    try:
        with av.open(str(video.path)) as container:
            if not container.streams.video:
                raise InputError(f"{video.path}: expected a video, but it has no video stream")
            stream: Any = container.streams.video[0]
            has_s = None if stream.duration is None else float(stream.duration * stream.time_base)
    except av.error.FFmpegError as error:
        raise InputError(f"{video.path}: cannot be read as a video: {error}") from error
    needs_s = video.from_s + (length - 1) / fps
    if has_s is not None and has_s < needs_s - 0.5 / fps:
        raise InputError(f"{video.path}: {has_s:.2f} s long, but {name} goes to {needs_s:.2f} s; copy the file again")


def _claims(episode: _Episode, rows: _Rows) -> Iterator[Claim]:
    """What columns and metadata say: a column that is true in any row says success, as LeRobot's evaluation counts."""
    for column in SUCCESS_COLUMNS:
        said = [claimed(value, f"column {column}", str(episode.data)) for value in rows.columns.get(column, [])]
        values = [claim for claim in said if claim is not None]
        if values:
            yield next((claim for claim in values if claim.success), values[0])
    for key in SUCCESS_METADATA:
        claim = claimed(_scalar(episode.metadata.get(key)), "episode metadata", f"{episode.source}: {key}")
        if claim is not None:
            yield claim


def _task_texts(tasks: object, source: Path) -> tuple[str, ...]:
    """An episode's own task texts; nothing where it names none."""
    texts = [tasks] if isinstance(tasks, str) else [] if tasks is None else tasks
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise InputError(f"{source}: tasks is {tasks!r}; expected a list of texts")
    return tuple(text for text in texts if text.strip())


def _state_names(feature: Mapping[str, Any], count: int) -> tuple[str, ...]:
    """Names of a state's elements: a list, a list within a list or a table of lists, as collectors write them."""
    names = feature.get("names")
    if isinstance(names, dict):
        names = [name for part in names.values() for name in (part if isinstance(part, list) else [part])]
    if isinstance(names, list) and len(names) == 1 and isinstance(names[0], list):
        names = names[0]
    if isinstance(names, list) and len(names) == count and len({str(name) for name in names}) == count:
        return tuple(str(name) for name in names)
    return tuple(f"state_{index}" for index in range(count))


def _scalar(value: Any) -> Any:
    """A value that may be wrapped in a list of one."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _whole(row: Mapping[str, Any], keys: str | tuple[str, ...], source: Path) -> int:
    value = _number(row, keys, source)
    if value != int(value) or value < 0:
        raise InputError(f"{source}: {keys if isinstance(keys, str) else keys[0]} is {value}; expected a whole number")
    return int(value)


def _number(row: Mapping[str, Any], keys: str | tuple[str, ...], source: Path) -> float:
    names = (keys,) if isinstance(keys, str) else keys
    value = next((row[name] for name in names if row.get(name) is not None), None)
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not -1e15 < value < 1e15:
        raise InputError(f"{source}: {names[0]} is {value!r}; expected a number")
    return float(value)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise InputError(f"{path}: is not there; download the whole dataset") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from error


def _json(path: Path, text: str, line: int | None = None) -> dict[str, Any]:
    where = f"{path}" if line is None else f"{path} line {line}"
    try:
        value = json.loads(text)
    except ValueError as error:
        raise InputError(f"{where}: no JSON: {error}") from error
    if not isinstance(value, dict):
        raise InputError(f"{where}: expected a JSON object")
    return value


def _json_lines(path: Path) -> list[dict[str, Any]]:
    lines = enumerate(_text(path).splitlines(), start=1)
    return [_json(path, line, number) for number, line in lines if line.strip()]


def _schema(path: Path) -> list[str]:
    import pyarrow.parquet as pq  # noqa: PLC0415 - an extra

    with _as_input_error(path):
        return [str(name) for name in pq.read_schema(path).names]


def _read(path: Path, columns: Sequence[str] | None = None) -> Any:
    """Columns of a parquet file, those of ``columns`` that are there."""
    import pyarrow.parquet as pq  # noqa: PLC0415 - an extra

    names = None if columns is None else [name for name in _schema(path) if name in columns]
    with _as_input_error(path), pq.ParquetFile(path) as file:
        return file.read(columns=names)


@contextmanager
def _as_input_error(path: Path) -> Iterator[None]:
    import pyarrow as pa  # noqa: PLC0415 - an extra

    try:
        yield
    except FileNotFoundError as error:
        raise InputError(f"{path}: is not there; download the whole dataset") from error
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path}: cannot be read as parquet: {error}") from error
