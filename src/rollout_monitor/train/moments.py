"""Moments of takes, each seen anew (`rollout_monitor.sim.tabletop.moments`), as cached training examples for seeing.

In ``<cache>/<take id>``:

<cache>/<take id>/moments.npy         features, int8 in steps of `examples.STEP`, (n, 2, 76, 14, 14)
<cache>/<take id>/moments_truth.npz   states, fixtures, joint features and where things are shown
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from functools import cached_property
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from rollout_monitor.frames import RgbImage
from rollout_monitor.images import decode_compressed, encode_jpeg
from rollout_monitor.prm.backbone import Backbone
from rollout_monitor.sim.tabletop.files import TAKES, TakeRow, read_truth
from rollout_monitor.sim.tabletop.goals import Judgement, States, parse
from rollout_monitor.sim.tabletop.moments import draw_moments, picture_moments
from rollout_monitor.sim.tabletop.skins import Skin, renamed
from rollout_monitor.sim.tabletop.world import VIEWS
from rollout_monitor.train.examples import Example, grid_steps, joint_features, points_of
from rollout_monitor.train.glances import Asked
from rollout_monitor.train.labels import TaskLabels, labels_of, place_of
from rollout_monitor.train.preparing import Task, cache_folder, each_of, open_backbone

PER_TAKE = 45
SPOILT_SHARE = 0.5
"""Share of the pictures whose exposure, colours, sharpness or compression are not the renderer's."""

FEATURES, TRUTH = "moments.npy", "moments_truth.npz"


class MomentsExample(Example):
    """Moments of one take for training: single ones, in no order, in groups with skins of their own."""

    groups: npt.NDArray[np.int64]
    skins: list[dict[str, Skin]]

    @classmethod
    def load(cls, folder: Path, cache: Path) -> MomentsExample:
        """The moments of a take's folder, made by `cache_moments`."""
        whole = read_truth(folder)
        with np.load(cache / TRUTH) as kept:
            states = States(**{f.name: kept[f"state_{f.name}"] for f in fields(States)})
            facts = replace(whole.facts, fixtures=kept["fixtures"])
            truth = replace(whole, states=states, facts=facts, stamps_ns=np.arange(len(states)))
            example = cls(truth, cache, kept["joints"], looks=1)
            example.groups = kept["groups"]
            example.skins = [
                {name: Skin(**skin) for name, skin in group.items()} for group in json.loads(str(kept["skins"]))
            ]
        return example

    @cached_property
    def _grids(self) -> list[npt.NDArray[np.int8]]:
        return [np.load(self._cache / FEATURES, mmap_mode="r")]

    @cached_property
    def _shown(self) -> npt.NDArray[np.float16]:
        with np.load(self._cache / TRUTH) as kept:
            shown: npt.NDArray[np.float16] = kept["shown"][None]
        return shown

    def ask(self, rng: np.random.Generator, moments: int, tasks: int) -> Asked:
        """Moments of one group, called by its names; what looks different is asked for first."""
        group = int(rng.integers(len(self.skins)))
        skins = self.skins[group]
        chosen = [self.row.task, *(self.draw_task(rng, 1.0) for _ in range(2 * tasks if skins else tasks))]
        chosen.sort(key=lambda task: not parse(task).things & set(skins))
        texts = [renamed(self.draw_text(rng, task), skins) for task in chosen[:tasks]]
        labels = [_unnamed(labels_of(task), skins) for task in chosen[:tasks]]
        path = rng.choice(np.flatnonzero(self.groups == group), size=moments)
        return Asked(0, path, chosen[:tasks], texts, labels)

    def judge(self, task: str, path: npt.NDArray[np.int64]) -> Judgement:  # noqa: ARG002
        """Not known: what a moment is worth depends on those before it."""
        count = len(path)
        return Judgement(np.full(count, np.nan), np.zeros(count, dtype=bool), np.full(count, -1, dtype=np.int64))


def _unnamed(labels: TaskLabels, skins: Mapping[str, Skin]) -> TaskLabels:
    """Labels in which the things with skins have no number: they are none of the known ones."""
    places = [place_of(name) for name in skins]
    what, target = (np.where(np.isin(row, places), -1, row) for row in (labels.what, labels.target))
    return TaskLabels(labels.kind, what, target)


def cache_moments(
    data: Path,
    rows: Sequence[TakeRow],
    work: Path,
    backbone: Path,
    *,
    count: int = PER_TAKE,
    jobs: int = 1,
    report: Callable[[int], None] = lambda _: None,
) -> Path:
    """Make the moments of takes that have none yet; returns their folder, one folder per take in it."""
    cache = cache_folder(work, backbone).with_name(f"moments-{cache_folder(work, backbone).name.split('-')[1]}")
    tasks = [(data / TAKES / row.id, cache / row.id, backbone, count) for row in rows]
    tasks = [task for task in tasks if not (task[1] / FEATURES).is_file()]
    each_of(_cache_one, tasks, jobs, report)
    return cache


def _cache_one(task: Task) -> None:
    folder, cache, backbone, count = task
    make_moments(folder, cache, open_backbone(os.fspath(backbone)), count)


def make_moments(folder: Path, cache: Path, backbone: Backbone, count: int) -> None:
    """Make the moments of one take and the features of their pictures."""
    truth = read_truth(folder)
    moments = draw_moments(truth, count, seed=0)
    pictures, shown = picture_moments(truth, moments, points_of(moments.states, moments.facts))
    rng = np.random.default_rng([truth.row.look_seed, truth.row.seed, 67])
    grids = [grid_steps(backbone, [_recorded(rng, picture) for picture in pictures[view]]) for view in VIEWS]
    making = cache.with_name(f".{cache.name}.making")
    making.mkdir(parents=True, exist_ok=True)
    np.save(making / FEATURES, np.stack(grids, axis=1))
    states = {f"state_{f.name}": getattr(moments.states, f.name) for f in fields(States)}
    joints = joint_features(folder, truth)[moments.rows]
    with (making / TRUTH).open("wb") as file:
        np.savez(
            file,
            allow_pickle=False,
            fixtures=moments.facts.fixtures,
            joints=joints,
            shown=shown.astype(np.float16),
            groups=moments.groups,
            skins=np.array(json.dumps([{k: asdict(v) for k, v in group.items()} for group in moments.skins])),
            **states,
        )
    making.rename(cache)


def _recorded(rng: np.random.Generator, picture: RgbImage) -> RgbImage:
    """What some camera and some recorder would have kept of a picture."""
    quality = 88
    if rng.random() < SPOILT_SHARE:
        levels = np.linspace(0.0, 1.0, 256)[:, None]
        gains = rng.uniform(0.75, 1.25) * (1.0 + rng.normal(0, 0.04, 3))
        curve = np.clip((gains * levels) ** rng.uniform(0.75, 1.3) + rng.normal(0, 0.03), 0.0, 1.0)
        table = np.round(255.0 * curve).astype(np.uint8)
        picture = np.stack([table[picture[..., k], k] for k in range(3)], axis=2)
        if rng.random() < 0.3:
            picture = np.asarray(cv2.GaussianBlur(picture, (0, 0), rng.uniform(0.4, 1.2)), dtype=np.uint8)
        quality = int(rng.integers(40, 96))
    return decode_compressed("jpeg", encode_jpeg(picture, quality))
