"""The model's thread: order is kept, the newest frame sets win, and what was dropped is booked on its episode."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest
from graph import until
from rollout_monitor_nodes.worker import EstimatorWorker

from rollout_monitor.episode.estimator import Estimator
from rollout_monitor.episode.gate import Frame, Selected
from rollout_monitor.episode.perception import EndJob, StartJob
from rollout_monitor.errors import InputError
from rollout_monitor.frames import FrameSet, RgbImage
from rollout_monitor.prm.protocol import ModelCard, Observation, ResetNotes, Style
from rollout_monitor.records import Boundary, EpisodeMarker, EstimateStatus, ProgressEstimate

PICTURE = np.zeros((4, 4, 3), np.uint8)


class GatedModel:
    """Answers a frame set only when it is let."""

    def __init__(self) -> None:
        self.let = threading.Semaphore(0)
        self.busy = threading.Event()

    @property
    def card(self) -> ModelCard:
        return ModelCard(name="gated", style=Style.DIRECT, rate_hz=5.0)

    def reset(self, task: str, goal: RgbImage | None = None) -> ResetNotes:
        if task == "unspeakable":
            raise InputError("the task text cannot be used")
        return ResetNotes(("an unknown word",) if task == "novel" else ())

    def observe(self, frames: FrameSet) -> Observation:
        self.busy.set()
        self.let.acquire()
        return Observation(progress=0.5)


class Bench:
    """A worker under test and what it said."""

    def __init__(self, queue: int = 2) -> None:
        self.model = GatedModel()
        self.estimates: list[ProgressEstimate] = []
        self.notes: list[str] = []
        self.now_s = 100.0
        self.worker = EstimatorWorker(
            Estimator(self.model),
            queue,
            self.estimates.append,
            self.notes.append,
            clock_s=lambda: self.now_s,
        )

    def start(self, name: str, task: str = "lift") -> None:
        self.worker.put(StartJob(EpisodeMarker(boundary=Boundary.START, stamp_ns=0, episode_id=name, task=task)))

    def end(self, name: str) -> None:
        self.worker.put(EndJob(EpisodeMarker(boundary=Boundary.END, stamp_ns=9, episode_id=name)))

    def frame(self, stamp_ns: int, arrived_s: float | None = None) -> None:
        self.worker.put(Selected(stamp_ns, {"front": Frame(stamp_ns, lambda: PICTURE)}), arrived_s)

    def until_said(self, count: int) -> list[ProgressEstimate]:
        until(f"{count} estimates", lambda: len(self.estimates) >= count)
        return self.estimates


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.model.let.release(1000)
    assert bench.worker.stop()


def test_an_episode_comes_out_in_order(bench: Bench) -> None:
    bench.model.let.release(1000)
    bench.start("a")
    for stamp in (1, 2):
        bench.frame(stamp)
    bench.end("a")
    said = bench.until_said(3)
    assert [(e.episode_id, e.status, e.stamp_ns) for e in said] == [
        ("a", EstimateStatus.OK, 1),
        ("a", EstimateStatus.OK, 2),
        ("a", EstimateStatus.END_OF_EPISODE, 9),
    ]


def test_the_newest_frames_win_and_the_dropped_are_counted(bench: Bench) -> None:
    bench.start("a")
    bench.frame(1)
    assert bench.model.busy.wait(10)
    for stamp in range(2, 8):
        bench.frame(stamp)
    assert bench.worker.health().waiting == 2
    bench.end("a")
    bench.model.let.release(1000)
    said = bench.until_said(4)
    assert [e.stamp_ns for e in said] == [1, 6, 7, 9]
    assert [e.dropped for e in said[1:]] == [4, 4, 4]
    assert bench.worker.health().dropped == 4


def test_drops_are_booked_on_the_episode_they_belong_to(bench: Bench) -> None:
    bench.start("a")
    bench.frame(1)
    assert bench.model.busy.wait(10)
    bench.frame(2)
    bench.end("a")
    bench.start("b")
    for stamp in (11, 12, 13, 14):
        bench.frame(stamp)
    bench.end("b")
    bench.model.let.release(1000)
    said = bench.until_said(5)
    assert [(e.episode_id, e.stamp_ns, e.dropped) for e in said[1:]] == [
        ("a", 9, 1),
        ("b", 13, 2),
        ("b", 14, 2),
        ("b", 9, 2),
    ]


def test_latency_counts_from_the_arrival_of_the_frame(bench: Bench) -> None:
    bench.start("a")
    bench.frame(1, arrived_s=99.75)
    assert bench.model.busy.wait(10)
    bench.now_s = 100.5
    bench.model.let.release()
    assert bench.until_said(1)[0].latency_s == 0.75


def test_a_frame_that_does_not_decode_is_a_missing_estimate(bench: Bench) -> None:
    def decode() -> RgbImage:
        raise InputError("cut short")

    bench.start("a")
    bench.worker.put(Selected(1, {"front": Frame(1, decode)}))
    said = bench.until_said(1)[0]
    assert (said.status, said.progress, said.reason) == (EstimateStatus.MISSING, None, "cut short")


def test_what_the_model_says_about_a_task_reaches_the_operator(bench: Bench) -> None:
    bench.start("a", task="novel")
    bench.start("b", task="unspeakable")
    until("both notes", lambda: len(bench.notes) == 2)
    assert bench.notes[0] == "an unknown word"
    assert bench.notes[1] == "the model cannot begin episode b: the task text cannot be used"


def test_a_model_that_never_comes_back_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rollout_monitor_nodes.worker.JOIN_S", 0.05)
    bench = Bench()
    bench.start("a")
    bench.frame(1)
    assert bench.model.busy.wait(10)
    assert not bench.worker.stop()
    bench.model.let.release(1000)
    bench.worker._thread.join(10)
