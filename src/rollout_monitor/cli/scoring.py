"""Progress curves of many videos: decoded and judged by a few threads that share one model."""

from __future__ import annotations

import csv
import io
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rollout_monitor.errors import InputError
from rollout_monitor.prm.embedded import EmbeddedModel
from rollout_monitor.prm.protocol import Observation
from rollout_monitor.prm.side_by_side import Pictures, score
from rollout_monitor.store.files import write_whole
from rollout_monitor.store.videos import read_video

LANES = 8
"""Videos that one thread has open at a time: the head takes them in one step."""

COLUMNS = (
    "video",
    "stamp_ns",
    "progress",
    "lower",
    "upper",
    "success_probability",
    "direction",
    "subtask",
)


@dataclass
class Curve:
    """What the model said of one video.

    Attributes:
        video: its file.
        points: stamp, nanoseconds from the first frame, and answer, in order.
        trouble: why it could not be read, or not to its end; empty where it could.
    """

    video: Path
    points: list[tuple[int, Observation]] = field(default_factory=list)
    trouble: str = ""


def find_videos(given: Sequence[Path], suffixes: set[str]) -> list[Path]:
    """The files given, and those with these suffixes in the folders given and all below, sorted.

    Raises:
        InputError: a path that is not there, or a folder without a video.
    """
    found: list[Path] = []
    for path in given:
        if path.is_dir():
            inside = sorted(file for file in path.rglob("*") if file.suffix.lower() in suffixes and file.is_file())
            if not inside:
                raise InputError(f"{path}: no video in this folder; looked for {', '.join(sorted(suffixes))}")
            found += inside
        elif path.is_file():
            found.append(path)
        else:
            raise InputError(f"{path}: no such file or folder")
    return list(dict.fromkeys(found))


def score_videos(
    model: EmbeddedModel,
    videos: Sequence[Path],
    task: str,
    rate_hz: float,
    jobs: int,
    tell: Callable[[Curve], None] = lambda _: None,
) -> list[Curve]:
    """Judge videos as attempts at one task, one picture per period of ``1 / rate_hz`` s.

    Args:
        model: the model.
        videos: files, whose curves come in the same order.
        task: instruction in plain words.
        rate_hz: pictures per second of video.
        jobs: threads.
        tell: called with each curve as soon as its video is at its end, from any thread, one call at a time.

    Raises:
        InputError: the task has no word.
        ModelError: the network failed.
    """
    model.read(task)  # a task that cannot be used is one error, not one per thread
    curves = [Curve(video) for video in videos]
    waiting, lock = iter(curves), threading.Lock()

    def rollouts() -> Iterator[tuple[Curve, Pictures]]:
        while True:
            with lock:
                curve = next(waiting, None)
            if curve is None:
                return
            yield curve, pictures(curve)

    def pictures(curve: Curve) -> Pictures:
        try:
            yield from read_video(curve.video, rate_hz, threads=1)
        except InputError as error:
            curve.trouble = str(error)
        with lock:
            tell(curve)

    def work(_: int) -> None:
        for curve, stamp_ns, answer in score(model, task, rollouts(), LANES):
            curve.points.append((stamp_ns, answer))

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(work, range(jobs)))
    return curves


def idle_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_output(path: Path) -> None:
    """Refuse a file that `write_curves` could not write, before anything is scored.

    Raises:
        InputError: another suffix than .csv or .parquet, or no such folder.
    """
    if path.suffix not in {".csv", ".parquet"}:
        raise InputError(f"{path}: curves are written as .csv or .parquet")
    if not path.parent.is_dir():
        raise InputError(f"{path}: the folder {path.parent} does not exist; make it first")


def write_curves(curves: Sequence[Curve], path: Path) -> None:
    """Write all points as CSV or, by the suffix, as Parquet; an absent value is empty (null).

    Raises:
        InputError: see `check_output`, or no pyarrow for Parquet.
    """
    check_output(path)
    rows = [row for curve in curves for row in _rows(curve)]
    write_whole(path, _csv(rows) if path.suffix == ".csv" else _parquet(rows, path))


def _rows(curve: Curve) -> Iterator[tuple[Any, ...]]:
    for stamp_ns, said in curve.points:
        probable, direction = said.success_probability, said.direction.value
        yield (str(curve.video), stamp_ns, said.progress, said.lower, said.upper, probable, direction, said.subtask)


def _csv(rows: list[tuple[Any, ...]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(rows)
    return text.getvalue().encode()


def _parquet(rows: list[tuple[Any, ...]], path: Path) -> bytes:
    try:
        import pyarrow as pa  # noqa: PLC0415 - an extra
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ImportError as error:
        raise InputError(
            f"{path}: writing Parquet needs pyarrow; pip install 'rollout-monitor[takes]', or write .csv"
        ) from error
    text, number = pa.string(), pa.float64()
    types = (text, pa.int64(), number, number, number, number, text, pa.int8())
    columns = zip(*rows, strict=True) if rows else ([] for _ in COLUMNS)
    arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
    sink = io.BytesIO()
    pq.write_table(pa.table(arrays, names=list(COLUMNS)), sink)
    return sink.getvalue()
