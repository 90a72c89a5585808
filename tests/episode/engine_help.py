"""A scripted model and synthetic streams for engine tests."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from rollout_monitor.episode.monitor import Closed, Output
from rollout_monitor.episode.rollout import RolloutMonitor
from rollout_monitor.errors import ModelError
from rollout_monitor.frames import FrameSet, RgbImage
from rollout_monitor.prm.protocol import ModelCard, Observation, ResetNotes, Style
from rollout_monitor.records import Boundary, EpisodeMarker, EpisodeReport, Event, Label

NS = 1_000_000_000
T0 = 1_700_000_000 * NS
NAMES = ("shoulder_pan_joint", "elbow_joint")


class ScriptedModel:
    """Answers a function of the seconds since the first frame it saw; ``None`` is a missing value."""

    def __init__(self, curve: Callable[[float], float | None], chance: Callable[[float], float] | None = None) -> None:
        self._curve, self._chance = curve, chance
        self._start: int | None = None
        self.tasks: list[str] = []

    @property
    def card(self) -> ModelCard:
        return ModelCard(name="scripted-1", style=Style.DIRECT, rate_hz=5.0, cameras=2, sha256="ab" * 32)

    def reset(self, task: str, goal: RgbImage | None = None) -> ResetNotes:
        self._start = None
        self.tasks.append(task)
        return ResetNotes()

    def observe(self, frames: FrameSet) -> Observation:
        self._start = frames.stamp_ns if self._start is None else self._start
        elapsed = (frames.stamp_ns - self._start) / NS
        value = self._curve(elapsed)
        if value is None:
            raise ModelError("scripted failure")
        return Observation(progress=value, success_probability=self._chance(elapsed) if self._chance else None)


@dataclass
class Streams:
    """Messages of one attempt: (arrival order key, topic, payload)."""

    duration_s: float = 12.0
    joints_hz: float = 100.0
    camera_hz: float = 10.0
    moving: Callable[[float], bool] = lambda t: True
    label: Label | None = None
    episode_id: str = "take_1"
    start_ns: int = T0
    items: list[tuple[int, str, tuple[object, ...]]] = field(default_factory=list)

    def build(self) -> list[tuple[int, str, tuple[object, ...]]]:
        end_ns = self.start_ns + round(self.duration_s * NS)
        start = EpisodeMarker(
            boundary=Boundary.START, stamp_ns=self.start_ns, episode_id=self.episode_id, task="lift the cube"
        )
        end = start.model_copy(update={"boundary": Boundary.END, "stamp_ns": end_ns, "label": self.label})
        items: list[tuple[int, str, tuple[object, ...]]] = [(self.start_ns, "marker", (start,))]
        phase = 0.0
        for i in range(int(self.duration_s * self.joints_hz) + 1):
            t = i / self.joints_hz
            phase += (1.0 / self.joints_hz) if self.moving(t) else 0.0
            position = (math.sin(phase), 0.5 * math.cos(2.0 * phase))
            items.append((self.start_ns + round(t * NS), "joints", (NAMES, position)))
        for camera, shift in (("front", 0), ("wrist", 7_000_000)):
            for i in range(int(self.duration_s * self.camera_hz)):
                items.append((self.start_ns + shift + round(i / self.camera_hz * NS), "image", (camera, i)))
        items.sort(key=lambda item: item[0])
        items.append((end_ns, "marker", (end,)))
        return items


def picture(index: int) -> RgbImage:
    rng = np.random.default_rng(index)
    return rng.integers(60, 200, size=(12, 16, 3), dtype=np.uint8)


def feed(engine: RolloutMonitor, items: list[tuple[int, str, tuple[object, ...]]]) -> list[Output]:
    out: list[Output] = []
    for stamp, topic, payload in items:
        if topic == "marker":
            out += engine.on_marker(payload[0])  # type: ignore[arg-type]
        elif topic == "joints":
            out += engine.on_joints(stamp, payload[0], payload[1])  # type: ignore[arg-type]
        else:
            camera, index = payload
            out += engine.on_image(str(camera), stamp, lambda index=index: picture(index), int(index))  # type: ignore
    return out + engine.finish()


def reports(outputs: list[Output]) -> list[EpisodeReport]:
    return [output.report for output in outputs if isinstance(output, Closed)]


def events(outputs: list[Output]) -> list[Event]:
    return [output for output in outputs if isinstance(output, Event)]
