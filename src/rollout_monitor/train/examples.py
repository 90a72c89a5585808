"""Simulated takes as training examples: features of every frame and view under several looks, cached; labels on demand.

    <cache>/<take id>/look0.npy, look1.npy, ...   features, int8 in steps of `STEP`, (frames, 2, 76, 14, 14)
    <cache>/<take id>/shown.npy                   where things are in each view, float16, (looks, frames, 2, things, 3)
    <cache>/<take id>/joints.npy                  joint features of every frame, float32, (frames, joints)

Look 0 is the recorded one; the others are drawn anew: other cameras, light and colours at a fraction of a take's cost.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rollout_monitor.frames import RgbImage
from rollout_monitor.images import decode_compressed, encode_jpeg
from rollout_monitor.prm.backbone import Backbone
from rollout_monitor.prm.posture import FEATURES, posture
from rollout_monitor.prm.text import Vocabulary
from rollout_monitor.sim.tabletop.arms import JOINT_ORDERS
from rollout_monitor.sim.tabletop.catalogue import FIXTURE_INDEX, FIXTURES, JOINTED, OBJECTS
from rollout_monitor.sim.tabletop.files import Truth, project, read_joints, read_pictures, read_truth, rerender
from rollout_monitor.sim.tabletop.goals import Judgement, Meters, SceneFacts, States, details, judge_path, measure
from rollout_monitor.sim.tabletop.looks import draw_look
from rollout_monitor.sim.tabletop.phrases import draw_phrase
from rollout_monitor.sim.tabletop.takes import JPEG_QUALITY
from rollout_monitor.sim.tabletop.world import VIEWS
from rollout_monitor.train.batches import Mix
from rollout_monitor.train.glances import SAME_WORDS, Asked
from rollout_monitor.train.labels import DETAILS, GOALS, THINGS, TaskLabels, labels_of

STEP = 1.0 / 32.0
"""Features are kept in steps of this size, -4 to 4."""

BATCH = 16
PLACED = THINGS + 2
"""Places kept per view: objects, fixtures, and the tools of up to two arms."""

FloatArray = npt.NDArray[np.float32]


class Example:
    """One take for training or measuring.

    Args:
        truth: everything known of it.
        cache: its features' folder.
        joints: joint features of every frame, (frames, joints).
        looks: how many looks there are.
    """

    def __init__(self, truth: Truth, cache: Path, joints: FloatArray, looks: int) -> None:
        self.truth = truth
        self.row = truth.row
        self._cache = cache
        self._meters: dict[str, Meters] = {}
        self._details: dict[str, FloatArray] = {}
        self.looks = looks
        self.joints = joints
        self.has_joints = self.row.arms in JOINT_ORDERS

    @classmethod
    def load(cls, folder: Path, cache: Path) -> Example:
        """The take of a folder, its features made by `cache_take`."""
        return cls(read_truth(folder), cache, np.load(cache / "joints.npy"), len(list(cache.glob("look*.npy"))))

    @property
    def frames(self) -> int:
        """How many frames."""
        return len(self.truth.stamps_ns)

    @cached_property
    def _grids(self) -> list[npt.NDArray[np.int8]]:
        return [np.load(self._cache / f"look{look}.npy", mmap_mode="r") for look in range(self.looks)]

    @cached_property
    def _shown(self) -> npt.NDArray[np.float16]:
        shown: npt.NDArray[np.float16] = np.load(self._cache / "shown.npy", mmap_mode="r")
        return shown

    def draw(self, rng: np.random.Generator, mix: Mix, vocabulary: Vocabulary) -> Look:
        """An instruction, its words and one of the looks."""
        task = self.draw_task(rng, mix.other_task if mix.language else 0.0)
        text = self.draw_text(rng, task) if mix.language else SAME_WORDS
        return Look(self, task, vocabulary.encode(text)[0], int(rng.integers(self.looks)))

    def ask(self, rng: np.random.Generator, moments: int, tasks: int) -> Asked:
        """Moments of one look, and its own and other instructions; see `rollout_monitor.train.glances.Scene`."""
        chosen = [self.row.task, *(self.draw_task(rng, 1.0) for _ in range(tasks - 1))]
        texts = [self.draw_text(rng, task) for task in chosen]
        path = rng.integers(self.frames, size=moments)
        return Asked(int(rng.integers(self.looks)), path, chosen, texts, [labels_of(task) for task in chosen])

    def draw_task(self, rng: np.random.Generator, other: float) -> str:
        """The take's own task, or with probability ``other`` another one of its scene, similar ones first."""
        options = self.row.alternatives
        if not options or rng.random() >= other:
            return self.row.task
        # They are listed by likeness: the first are the ones that only the order of the words tells apart.
        weights = np.geomspace(1.0, 0.3, len(options))
        return options[int(rng.choice(len(options), p=weights / weights.sum()))]

    def draw_text(self, rng: np.random.Generator, task: str) -> str:
        """A training wording of a task."""
        return draw_phrase(rng, task)

    def judge(self, task: str, path: npt.NDArray[np.int64]) -> Judgement:
        """True progress along a path of frames: what was undone on the way back counts as undone."""
        if task not in self._meters:
            self._meters[task] = measure(task, self.truth.states, self.truth.facts)
        return judge_path(self._meters[task], path)

    def details(self, task: str, path: npt.NDArray[np.int64]) -> FloatArray:
        """What the progress of every goal is made of along a path, see `goals.details`; float32 (t, 3, details)."""
        if task not in self._details:
            every = details(task, self.truth.states, self.truth.facts).astype(np.float32)
            self._details[task] = np.full((len(every), GOALS, DETAILS), np.nan, dtype=np.float32)
            self._details[task][:, : every.shape[1]] = every[:, :GOALS]
        out: FloatArray = self._details[task][path]
        return out

    def steps(self, look: int) -> npt.NDArray[np.int8]:
        """All features of a look in steps of `STEP`, (frames, 2, 76, 14, 14)."""
        return self._grids[look]

    def grid(self, look: int, path: npt.NDArray[np.int64]) -> FloatArray:
        """Features of some frames, float32, (t, 2, 76, 14, 14)."""
        return self._grids[look][path].astype(np.float32) * np.float32(STEP)

    def shown(self, look: int, task: str, path: npt.NDArray[np.int64]) -> FloatArray:
        """Where the things of the goals and the tool are, (t, 2 views, places, (x, y, seen)), pictures -1 to 1."""
        things = labels_of(task).things
        every = self._shown[look][path].astype(np.float32)
        out: FloatArray = every[:, :, np.maximum(things, 0)]
        out[:, :, things < 0] = 0.0
        return out


@dataclass(frozen=True)
class Look:
    """A take under one instruction, seen in one look; see `rollout_monitor.train.batches.Drawn`."""

    example: Example
    task: str
    words: npt.NDArray[np.int64]
    look: int

    def views(self, path: npt.NDArray[np.int64]) -> FloatArray:
        """Features, float32, (t, 2, 76, 14, 14)."""
        return self.example.grid(self.look, path)

    @property
    def goals(self) -> TaskLabels:
        """What its goals are."""
        return labels_of(self.task)

    def shown(self, path: npt.NDArray[np.int64]) -> FloatArray | None:
        """Where things are, (t, 2, places, 3)."""
        return self.example.shown(self.look, self.task, path)


def cache_take(folder: Path, cache: Path, backbone: Backbone, looks: int, kind: str = "train") -> None:
    """Make a take's features unless they are there.

    Args:
        folder: the take's folder.
        cache: folder of its features; whole where it exists.
        backbone: makes the features.
        looks: how many, the recorded one included.
        kind: range of the looks that are drawn anew.
    """
    if (cache / f"look{looks - 1}.npy").is_file():
        return
    truth = read_truth(folder)
    making = cache.with_name(f".{cache.name}.making")
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir(parents=True)
    shown = []
    for look in range(looks):
        if look == 0:
            chosen = draw_look(truth.row.look_seed, truth.row.look)
            pictures = {view: read_pictures(folder, view) for view in VIEWS}
        else:
            chosen = draw_look(int(np.random.default_rng([truth.row.look_seed, look]).integers(2**31)), kind)
            pictures = {view: [_through_jpeg(p) for p in drawn] for view, drawn in rerender(truth, chosen).items()}
        grids = [grid_steps(backbone, pictures[view]) for view in VIEWS]
        np.save(making / f"look{look}.npy", np.stack(grids, axis=1))
        shown.append(_shown(truth, chosen))
    np.save(making / "shown.npy", np.stack(shown))
    np.save(making / "joints.npy", joint_features(folder, truth))
    shutil.rmtree(cache, ignore_errors=True)
    making.rename(cache)


def grid_steps(backbone: Backbone, pictures: list[RgbImage]) -> npt.NDArray[np.int8]:
    """Features of pictures in steps of `STEP`, (n, 76, 14, 14)."""
    parts = [backbone.grid(pictures[start : start + BATCH]) for start in range(0, len(pictures), BATCH)]
    return as_steps(np.concatenate(parts))


def as_steps(features: FloatArray) -> npt.NDArray[np.int8]:
    """Features in whole steps of `STEP`."""
    steps: npt.NDArray[np.int8] = np.clip(np.rint(features / STEP), -127, 127).astype(np.int8)
    return steps


def _through_jpeg(picture: RgbImage) -> RgbImage:
    """What a recording would have kept of it."""
    return decode_compressed("jpeg", encode_jpeg(picture, JPEG_QUALITY))


def joint_features(folder: Path, truth: Truth) -> FloatArray:
    """Joint features at the frames' stamps, (frames, joints)."""
    stamps, samples = read_joints(folder)
    newest = np.clip(np.searchsorted(stamps, truth.stamps_ns, side="right") - 1, 0, len(stamps) - 1)
    rows = [posture(samples[k, 0], samples[k, 1]) for k in newest]
    out: FloatArray = np.stack(rows) if rows else np.zeros((0, FEATURES), dtype=np.float32)
    return out


def _shown(truth: Truth, look: Any) -> npt.NDArray[np.float16]:
    """Where everything is in each view: (frames, 2, things, 3), x and y from -1 to 1, and whether it lies inside."""
    return project(truth, look, points_of(truth.states, truth.facts)).astype(np.float16)


def points_of(states: States, facts: SceneFacts) -> npt.NDArray[np.float64]:
    """Where everything is that is looked for: (n, `PLACED`, 3), metres, NaN for what is not there."""
    points = np.full((len(states), PLACED, 3), np.nan)
    points[:, : len(OBJECTS)] = states.objects
    points[:, len(OBJECTS) : len(OBJECTS) + len(FIXTURES)] = facts.fixtures
    for number, name in enumerate(JOINTED):
        points[:, len(OBJECTS) + FIXTURE_INDEX[name]] = states.grips[:, number]
    tools = states.tools
    points[:, -2], points[:, -1] = tools[:, 0], tools[:, min(1, tools.shape[1] - 1)]
    return points
