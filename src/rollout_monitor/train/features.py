"""Features of every frame of a data set, computed once with the run-time code and kept beside it.

One file per rollout, written under a temporary name and renamed: a run that was stopped goes on where it was.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rollout_monitor.prm.backbone import Backbone, prepare
from rollout_monitor.sim.generate import RolloutMeta, decode_pictures
from rollout_monitor.sim.progress import SceneStart, SceneState, done, progress, unpack
from rollout_monitor.sim.tasks import COLOURS, Task

VIEWS = ("front", "wrist")


@dataclass(frozen=True)
class Rollout:
    """One rollout as the head sees it: n frames.

    Attributes:
        meta: its index line.
        pooled: float16 (n, 2, 1280), by view.
        grid: float16 (n, 2, channels, 14, 14), by view.
        states: the true states, for labels under any instruction.
        start: what progress is measured against.
        drops: frame intervals [first, last] in which a cube fell.
    """

    meta: RolloutMeta
    pooled: npt.NDArray[np.float16]
    grid: npt.NDArray[np.float16]
    states: list[SceneState]
    start: SceneStart
    drops: list[tuple[int, int]]

    def labels(self, task: Task) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
        """True progress and done of every frame under an instruction; shapes (n,)."""
        return (
            np.array([progress(task, state, self.start) for state in self.states]),
            np.array([done(task, state, self.start) for state in self.states]),
        )


def sample_pictures(data: Path, metas: list[RolloutMeta], count: int, seed: int) -> npt.NDArray[np.uint8]:
    """Prepared pictures drawn evenly over rollouts and views: uint8 (count, 224, 224, 3)."""
    rng = np.random.default_rng(seed)
    pictures: list[npt.NDArray[np.uint8]] = []
    while len(pictures) < count:
        meta = metas[int(rng.integers(len(metas)))]
        with np.load(data / "rollouts" / f"{meta.id}.npz") as arrays:
            for view in VIEWS:
                frames = list(decode_pictures(arrays, view))
                pictures += [prepare(frames[int(k)]) for k in rng.integers(len(frames), size=2)]
    return np.stack(pictures[:count])


def cache_features(
    data: Path,
    metas: list[RolloutMeta],
    backbone: Backbone,
    cache: Path,
    report: Callable[[int], None] = lambda _: None,
) -> None:
    """Compute what is missing in ``cache``; ``report`` gets the number of rollouts ready."""
    cache.mkdir(parents=True, exist_ok=True)
    for number, meta in enumerate(metas, start=1):
        path = cache / f"{meta.id}.npz"
        if not path.exists():
            with np.load(data / "rollouts" / f"{meta.id}.npz") as arrays:
                parts = [_features(backbone, arrays, view) for view in VIEWS]
            temporary = path.with_suffix(".tmp")
            with temporary.open("wb") as file:
                pooled, grid = (np.stack(part, axis=1) for part in zip(*parts, strict=True))
                np.savez(file, allow_pickle=False, pooled=pooled, grid=grid)
            temporary.replace(path)
        report(number)


def _features(backbone: Backbone, arrays: object, view: str) -> tuple[npt.NDArray[np.float16], npt.NDArray[np.float16]]:
    frames = list(decode_pictures(arrays, view))
    parts = [backbone.features(frames[start : start + 16]) for start in range(0, len(frames), 16)]
    pooled, grid = (np.concatenate(part).astype(np.float16) for part in zip(*parts, strict=True))
    return pooled, grid


def load_rollout(data: Path, cache: Path, meta: RolloutMeta) -> Rollout:
    """Bring one rollout's features and truth into memory."""
    with np.load(data / "rollouts" / f"{meta.id}.npz") as arrays:
        states = unpack({key: arrays[key] for key in ("tool", "cubes", "flags")})
        half = {c: float(h) for c, h in zip(COLOURS, arrays["half"], strict=True) if np.isfinite(h)}
        start = SceneStart(states[0], half, float(arrays["table_z"]))
        stamps = arrays["stamps_ns"]
        last = len(stamps) - 1
        drops = [
            (int(np.searchsorted(stamps, a)), min(last, int(np.searchsorted(stamps, b)))) for a, b in arrays["drops"]
        ]
    with np.load(cache / f"{meta.id}.npz") as arrays:
        return Rollout(meta, arrays["pooled"], arrays["grid"], states, start, drops)
