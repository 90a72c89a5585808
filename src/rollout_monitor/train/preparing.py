"""From simulated takes to cached features: the backbone with its projection, then every take's features.

Everything here can be stopped and goes on where it was; features belong to one backbone, by its hash.
"""

from __future__ import annotations

import contextlib
import io
import os
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rollout_monitor.errors import InputError, RolloutMonitorError
from rollout_monitor.prm.backbone import Backbone, prepare
from rollout_monitor.prm.files import sha256_of
from rollout_monitor.sim.tabletop.files import TAKES, TakeRow, read_pictures
from rollout_monitor.sim.tabletop.world import VIEWS
from rollout_monitor.train.examples import cache_take

EMBEDDED = "efficientnet-lite0"
"""The released model's frozen network."""

RATE_HZ = 5.0
"""Frames per second that the model is trained with and asked at."""

Task = tuple[Path, Path, Path, int]
"""A take's folder, its cache, the backbone, and how many looks or moments."""

PROJECTION_TAKES = 120
PICTURES_PER_TAKE = 6
TOLERANCE = 1e-4


def make_backbone(data: Path, rows: Sequence[TakeRow], work: Path, seed: int, name: str = EMBEDDED) -> Path:
    """Make ``backbone.onnx`` in the work folder unless it is there, its projection fitted to the first training takes.

    Args:
        data: data set of `rollout-monitor sim generate --plan train`.
        rows: its training takes; the first `PROJECTION_TAKES` count, so that a growing set keeps its features.
        work: folder of what training makes.
        seed: draws the pictures.
        name: which frozen network, see `rollout_monitor.train.backbone.load_middle`.

    Raises:
        InputError: the network cannot be loaded, or the work folder has features of another one.
        RolloutMonitorError: the exported network differs from torch.
    """
    from rollout_monitor.train.backbone import (  # noqa: PLC0415
        FrozenBackbone,
        export_backbone,
        fit_projection,
        load_middle,
    )

    path, named = work / "backbone.onnx", work / "backbone.txt"
    if path.is_file():
        made = named.read_text(encoding="utf-8").strip() if named.is_file() else EMBEDDED
        if made != name:
            raise InputError(f"{work} holds features of the backbone {made}: give --work another folder for {name}")
        return path
    work.mkdir(parents=True, exist_ok=True)
    making = work / "backbone.making.onnx"
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():  # the packages chat
        warnings.simplefilter("ignore")
        backbone = FrozenBackbone(load_middle(name))
        kept = fit_projection(backbone, _sample(data, rows[:PROJECTION_TAKES], seed))
        difference = export_backbone(backbone, making)
    print(f"backbone: projection keeps {kept:.0%} of the variance, onnxruntime differs by {difference:.1e}", flush=True)
    if not difference <= TOLERANCE:
        raise RolloutMonitorError(f"the exported backbone differs from torch by {difference:.1e}")
    named.write_text(name, encoding="utf-8")
    making.rename(path)
    return path


def _sample(data: Path, rows: Sequence[TakeRow], seed: int) -> npt.NDArray[np.uint8]:
    """Prepared pictures of some takes, (n, 224, 224, 3)."""
    rng = np.random.default_rng([seed, 23])
    pictures = []
    for row in rows:
        for view in VIEWS:
            seen = read_pictures(data / TAKES / row.id, view)
            picked = rng.choice(len(seen), size=min(len(seen), PICTURES_PER_TAKE // len(VIEWS)), replace=False)
            pictures += [prepare(seen[int(k)]) for k in picked]
    return np.stack(pictures)


def cache_folder(work: Path, backbone: Path) -> Path:
    """Where the features of one backbone are kept."""
    return work / f"features-{sha256_of(backbone)[:12]}"


def cache_features(
    data: Path,
    rows: Sequence[TakeRow],
    work: Path,
    backbone: Path,
    *,
    looks: int = 1,
    jobs: int = 1,
    report: Callable[[int], None] = lambda _: None,
) -> Path:
    """Make the features of takes that have none yet; returns their folder, one folder per take in it."""
    cache = cache_folder(work, backbone)
    tasks = [(data / TAKES / row.id, cache / row.id, backbone, looks) for row in rows]
    each_of(_cache_one, tasks, jobs, report)
    return cache


def each_of(work_on: Callable[[Task], None], tasks: Sequence[Task], jobs: int, report: Callable[[int], None]) -> None:
    """Work on every task, in this process or in several; ``report`` hears how many are done."""
    if jobs == 1:
        for number, task in enumerate(tasks, start=1):
            work_on(task)
            report(number)
        return
    with ProcessPoolExecutor(max_workers=jobs) as pool:
        for number, _ in enumerate(pool.map(work_on, tasks), start=1):
            report(number)


def _cache_one(task: Task) -> None:
    folder, cache, backbone, looks = task
    cache_take(folder, cache, open_backbone(os.fspath(backbone)), looks)


@lru_cache(maxsize=1)
def open_backbone(path: str) -> Backbone:
    """One per process."""
    return Backbone(Path(path))
