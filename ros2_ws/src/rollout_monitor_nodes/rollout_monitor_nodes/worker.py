"""Runs the progress model in a thread of its own, so that a slow model never blocks the streams.

The queue is bounded: when the model is busy the newest frame sets win, and those that were dropped are counted. The
start and the end of an episode are never dropped.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from rollout_monitor.episode.estimator import Estimator
from rollout_monitor.episode.gate import Selected
from rollout_monitor.episode.perception import EndJob, Job, StartJob
from rollout_monitor.errors import RolloutMonitorError
from rollout_monitor.records import ProgressEstimate

JOIN_S = 2.0
"""How long `stop` waits for a model that is in the middle of an estimate."""


@dataclass(frozen=True)
class WorkerHealth:
    """What the worker has done so far."""

    alive: bool
    waiting: int
    estimates: int
    dropped: int
    last_latency_s: float | None


class EstimatorWorker:
    """Takes model jobs in order and calls back with estimates, from its own thread."""

    def __init__(
        self,
        estimator: Estimator,
        queue: int,
        on_estimate: Callable[[ProgressEstimate], None],
        on_note: Callable[[str], None] = lambda _: None,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start the thread.

        Args:
            estimator: used by this thread alone from now on.
            queue: frame sets that may wait.
            on_estimate: called with each estimate.
            on_note: called with what an operator should read about the model, or about a task it cannot use.
            clock_s: passing time, for latencies.
        """
        self._estimator = estimator
        self._limit = queue
        self._on_estimate = on_estimate
        self._on_note = on_note
        self._clock_s = clock_s
        self._jobs: deque[tuple[Job, float]] = deque()
        self._changed = threading.Condition()
        self._stopping = False
        self._dropped = 0  # in this episode, as of the newest job taken
        self._lost: dict[int, int] = {}  # frame sets dropped behind a start job that still waits, by its identity
        self._estimates = 0
        self._dropped_in_all = 0
        self._last_latency_s: float | None = None
        self._thread = threading.Thread(target=self._run, name="model", daemon=True)
        self._thread.start()

    def put(self, job: Job, arrived_s: float | None = None) -> None:
        """Hand over a job; ``arrived_s`` is when its primary frame came, on ``clock_s``."""
        with self._changed:
            self._jobs.append((job, self._clock_s() if arrived_s is None else arrived_s))
            if isinstance(job, Selected):
                self._make_room()
            self._changed.notify()

    def stop(self) -> bool:
        """End the thread after the estimate it is at; False where that takes too long and it is left behind."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join(JOIN_S)
        return not self.alive

    @property
    def alive(self) -> bool:
        """Whether the thread runs; a defect that no one foresaw ends it."""
        return self._thread.is_alive()

    def health(self) -> WorkerHealth:
        """Counts since the start, and how long the newest estimate took."""
        with self._changed:
            waiting = sum(isinstance(job, Selected) for job, _ in self._jobs)
        return WorkerHealth(
            alive=self.alive,
            waiting=waiting,
            estimates=self._estimates,
            dropped=self._dropped_in_all,
            last_latency_s=self._last_latency_s,
        )

    def _make_room(self) -> None:
        """Drop the oldest waiting frame sets beyond the limit, and book each on the episode it belonged to."""
        waiting = sum(isinstance(job, Selected) for job, _ in self._jobs)
        while waiting > self._limit:
            start: StartJob | None = None
            for index, (job, _) in enumerate(self._jobs):
                if isinstance(job, StartJob):
                    start = job
                if isinstance(job, Selected):
                    del self._jobs[index]
                    break
            if start is None:
                self._dropped += 1
            else:
                self._lost[id(start)] = self._lost.get(id(start), 0) + 1
            self._dropped_in_all += 1
            waiting -= 1

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._jobs or self._stopping)
                if self._stopping:
                    return
                job, arrived_s = self._jobs.popleft()
                if isinstance(job, StartJob):
                    self._dropped = self._lost.pop(id(job), 0)
            self._do(job, arrived_s)

    def _do(self, job: Job, arrived_s: float) -> None:
        if isinstance(job, StartJob):
            self._start(job)
            return
        if isinstance(job, EndJob):
            self._on_estimate(self._estimator.end(job.marker, dropped=self._dropped))
            return
        estimate = self._estimator.observe(job, dropped=self._dropped)
        self._estimates += 1
        self._last_latency_s = max(0.0, self._clock_s() - arrived_s)
        self._on_estimate(estimate.model_copy(update={"latency_s": self._last_latency_s}))

    def _start(self, job: StartJob) -> None:
        try:
            notes = self._estimator.start(job.marker)
        except RolloutMonitorError as error:
            self._on_note(f"the model cannot begin episode {job.marker.episode_id}: {error}")
            return
        for note in notes.notes:
            self._on_note(note)
