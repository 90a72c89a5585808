"""The second half of the engine: records in, events, status and the episode's report out.

Life cycle: IDLE until a START marker; RUNNING; then ENDED by an END marker, or INTERRUPTED by a clock that went back,
a new START, or a shutdown. An ended episode is closed when the last estimate and the last kinematics have come, or
when they are overdue.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rollout_monitor.episode.health import HealthBook
from rollout_monitor.episode.merge import StampMerger
from rollout_monitor.episode.pictures import Picture, PictureBook
from rollout_monitor.episode.running import RunningEpisode
from rollout_monitor.episode.settings import MonitorSettings
from rollout_monitor.events import calibration
from rollout_monitor.records import (
    Boundary,
    CameraHealth,
    EpisodeMarker,
    EpisodeReport,
    EpisodeState,
    EstimateStatus,
    Event,
    JointHealth,
    KinematicSummary,
    MonitorStatus,
    ProgressEstimate,
)

_NS = 1_000_000_000
_EARLY_NS = 3 * _NS  # perception remembers two seconds for a START that is heard late


@dataclass(frozen=True)
class Closed:
    """An episode that is over.

    Attributes:
        report: the record.
        pictures: the JPEG pictures that the report names, by file name.
        shown: all pictures that were kept while it ran, for a film.
    """

    report: EpisodeReport
    pictures: dict[str, bytes]
    shown: tuple[Picture, ...] = ()


Output = Event | MonitorStatus | Closed
Item = ProgressEstimate | KinematicSummary


class Monitor:
    """Watches one robot. Feed it records as they come; it orders them by stamp itself. Not thread safe."""

    def __init__(self, settings: MonitorSettings, budget: Callable[[str], float | None] | None = None) -> None:
        """Make a monitor.

        Args:
            settings: thresholds and periods.
            budget: the longest run allowed for a task, seconds, asked at each start; None for no limit.

        Raises:
            InputError: the calibration file cannot be used.
        """
        self._calibration = calibration.load(Path(settings.calibration)) if settings.calibration else None
        if self._calibration is not None:
            settings = settings.model_copy(update={"events": calibration.apply(self._calibration, settings.events)})
        self._settings = settings
        self._budget = budget or (lambda _task: None)
        self._merger: StampMerger[Item] = StampMerger(round(settings.merge_wait_s * _NS))
        self._running: RunningEpisode | None = None
        self._idle = MonitorStatus(stamp_ns=0, state=EpisodeState.IDLE)
        self._early: deque[Item] = deque(maxlen=512)  # what came before its START marker
        self._pictures = PictureBook(settings.keep_pictures)
        self._health = HealthBook()
        self._status_tick = -1
        self._joints: JointHealth | None = None  # the newest

    @property
    def status(self) -> MonitorStatus:
        """Where the attempt stands now."""
        return self._running.status() if self._running else self._idle

    @property
    def running_id(self) -> str | None:
        """The id of the episode that is running or closing, if one is."""
        return self._running.episode_id if self._running else None

    def on_marker(self, marker: EpisodeMarker) -> list[Output]:
        """Open or close an episode. A marker heard twice changes nothing."""
        running = self._running
        if marker.boundary is Boundary.START:
            if running and running.same_start(marker):
                return []
            return self._make_way() + self._start(marker)
        if running is None or running.episode_id != marker.episode_id or running.end is not None:
            return []
        running.end = marker
        return self._maybe_close()

    def on_estimate(self, estimate: ProgressEstimate) -> list[Output]:
        """Take the model's next answer."""
        if self._running is None or estimate.episode_id != self._running.episode_id:
            self._keep_early(estimate)
            return []
        if estimate.status is EstimateStatus.END_OF_EPISODE:
            self._running.estimates_done = True
            self._running.dropped = estimate.dropped
            return self._maybe_close()
        return self._process(self._merger.add_first(estimate.stamp_ns, estimate)) + self._maybe_close()

    def on_kinematics(self, summary: KinematicSummary) -> list[Output]:
        """Take the next kinematic summary."""
        self._health.add(summary.health)
        before, self._joints = self._joints, summary.health
        if self._running is None:
            self._keep_early(summary)
            return []
        if _is_unheard(summary, before):
            return [*self._running.on_unheard(summary), *self._status_if_due(summary.stamp_ns)]
        if summary.end_of_episode:
            if summary.episode_id == self._running.episode_id:
                self._running.kinematics_done = True
                out = self._process(self._merger.add_second(summary.stamp_ns, summary))
                return out + self._maybe_close()
            return []
        return self._process(self._merger.add_second(summary.stamp_ns, summary)) + self._maybe_close()

    def on_camera(self, health: CameraHealth) -> list[Output]:
        """Take a camera's health."""
        self._health.add(health)
        if self._running is None:
            return []
        return [*self._running.on_camera(health), *self._status_if_due(health.stamp_ns)]

    def on_picture(self, picture: Picture) -> None:
        """Take a picture for the report (about two a second are plenty)."""
        self._pictures.add(picture)

    def on_quiet(self, stream_ns: int) -> list[Output]:
        """Nothing has come for a while: judge what is missing at this stream time (live only)."""
        if self._running is None:
            return []
        out = self._process(self._merger.flush())
        if self._running is not None:
            out += self._running.on_time(stream_ns)
            out += self._status_if_due(stream_ns)
        return out + self._maybe_close()

    def finish(self) -> list[Output]:
        """No more input will come (end of a recording): close an ended episode, interrupt a running one."""
        if self._running is None:
            return []
        if self._running.end is not None:
            return self._close(EpisodeState.ENDED)
        return self._interrupt("the recording ended before the episode did")

    def close_ending(self) -> list[Output]:
        """Close an episode that was ended and whose last records are overdue by passing time (live only)."""
        if self._running is None or self._running.end is None:
            return []
        self._running.notes.append("closed while its last records were overdue; some may be missing")
        return self._close(EpisodeState.ENDED)

    def interrupt(self, reason: str) -> list[Output]:
        """Close the running episode as INTERRUPTED, keeping all that came."""
        return self._interrupt(reason) if self._running else []

    # --- inside -------------------------------------------------------------------------------------------------

    def _start(self, marker: EpisodeMarker) -> list[Output]:
        self._merger.clear()
        self._pictures.begin_episode(marker.stamp_ns)
        self._health.begin_episode(marker.stamp_ns)
        self._status_tick = -1
        budget_s = self._budget(marker.task)
        self._running = RunningEpisode(
            marker, self._settings, budget_s, self._pictures, self._health, self._calibration
        )
        latest_ns = marker.stamp_ns + _EARLY_NS  # what is later than that is of a clock that was set back since
        early = [item for item in self._early if item.stamp_ns <= latest_ns]
        self._early.clear()
        out: list[Output] = [self._running.status()]
        for item in early:
            if isinstance(item, ProgressEstimate):
                out += self.on_estimate(item) if item.episode_id == marker.episode_id else []
            elif item.stamp_ns >= marker.stamp_ns and not item.end_of_episode:
                out += self.on_kinematics(item)
        return out

    def _keep_early(self, item: Item) -> None:
        if self._early and item.stamp_ns < self._early[-1].stamp_ns - _EARLY_NS:
            self._early.clear()
        self._early.append(item)

    def _make_way(self) -> list[Output]:
        """Close what still runs when the next episode starts: one that was ended has only its last records to lose."""
        if self._running is None:
            return []
        if self._running.end is None:
            return self._interrupt("another episode was started before this one was ended")
        self._running.notes.append("closed before its last estimates came: the next episode had started")
        return self._close(EpisodeState.ENDED)

    def _process(self, items: list[Item]) -> list[Output]:
        out: list[Output] = []
        for item in items:
            if self._running is None:
                break
            if self._running.went_back(item):
                return out + self._clock_jump(item)
            if isinstance(item, ProgressEstimate):
                out += self._running.on_estimate(item)
            else:
                out += self._running.on_kinematics(item)
            out += self._status_if_due(item.stamp_ns)
        return out

    def _clock_jump(self, item: Item) -> list[Output]:
        assert self._running is not None  # noqa: S101 - only called while running
        self._merger.clear()  # what still waits is of the old clock, and one jump is one event
        event = self._running.clock_jump(item.stamp_ns)
        return [event, *self._interrupt("the clock went back: a bag looped or a simulator was reset")]

    def _status_if_due(self, stream_ns: int) -> list[Output]:
        tick = int(stream_ns // (self._settings.status_period_s * _NS))
        if self._running is None or tick <= self._status_tick:
            return []
        self._status_tick = tick
        return [self._running.status()]

    def _maybe_close(self) -> list[Output]:
        running = self._running
        if running is None or running.end is None:
            return []
        if running.estimates_done and (running.kinematics_done or not running.has_joints):
            return self._close(EpisodeState.ENDED)
        if running.stream_ns >= running.end.stamp_ns + self._settings.end_wait_s * _NS:
            running.notes.append("the last estimates were overdue when the episode was closed; some may be missing")
            return self._close(EpisodeState.ENDED)
        return []

    def _interrupt(self, reason: str) -> list[Output]:
        assert self._running is not None  # noqa: S101 - callers checked
        self._running.notes.append(f"interrupted: {reason}")
        return self._close(EpisodeState.INTERRUPTED)

    def _close(self, state: EpisodeState) -> list[Output]:
        out = self._process(self._merger.flush())
        running = self._running
        if running is None:  # a clock jump among the last records closed it
            return out
        if self._merger.overtaken:
            running.notes.insert(
                0,
                f"{self._merger.overtaken} records came more than merge_wait_s after others of their time and were "
                "judged out of their place: events may differ from those of the recording judged offline",
            )
        events, report, pictures = running.close(state)
        self._running = None
        self._merger.clear()
        self._idle = running.status(state)
        shown = self._pictures.between(report.start_ns, report.end_ns)
        return [*out, *events, self._idle, Closed(report, pictures, shown)]


def _is_unheard(summary: KinematicSummary, before: JointHealth | None) -> bool:
    """Whether joint states came, but none with a stamp to go by: then the summary's stamp is of another input."""
    if summary.rows or summary.end_of_episode:
        return False
    timed, received = (0, 0) if before is None else (before.timed, before.received)
    return summary.health.timed == timed and summary.health.received > received
