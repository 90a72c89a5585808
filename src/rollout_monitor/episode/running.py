"""One attempt while it runs: its curve, motion, events and, at its end, its report."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rollout_monitor.episode import looking_back
from rollout_monitor.episode.curve_book import CurveBook, largest_gap
from rollout_monitor.episode.detectors import Detectors
from rollout_monitor.episode.health import HealthBook
from rollout_monitor.episode.key_frames import KeyFrames
from rollout_monitor.episode.motion_book import MotionBook
from rollout_monitor.episode.pictures import PictureBook
from rollout_monitor.episode.settings import MonitorSettings
from rollout_monitor.episode.versions import versions
from rollout_monitor.events.alarm import EventLog
from rollout_monitor.events.calibration import Calibration
from rollout_monitor.events.outcome import decide
from rollout_monitor.records import (
    CameraHealth,
    EpisodeMarker,
    EpisodeReport,
    EpisodeState,
    EstimateStatus,
    Event,
    EventKind,
    KinematicSummary,
    MonitorStatus,
    Outcome,
    ProgressEstimate,
    Severity,
)

_NS = 1_000_000_000
_JUMP_NS = _NS  # a record this far behind the one before means that the clock went back


LEAP_NS = 2 * _NS
"""Streams whose time goes on by more at once, where it went by small steps before, were not watched in between."""


class _Pace:
    """How the streams' time goes on: a leap is one that an input's own stamps made, and that no other stamp bridges."""

    def __init__(self, start_ns: int) -> None:
        self._newest_ns = start_ns
        self._steady = False
        self._own_ns: dict[str, int] = {}
        self._begun = False

    def leap(self, source: str, stamp_ns: int) -> int:
        """How far all stamps leapt ahead with this input's newest, ns; 0 where they went on as they should."""
        last_ns, step_ns, steady = self._own_ns.get(source), stamp_ns - self._newest_ns, self._steady
        self._own_ns[source] = stamp_ns
        if step_ns > 0:
            self._newest_ns, self._steady = stamp_ns, step_ns <= LEAP_NS // 2
        leapt = last_ns is not None and steady and min(step_ns, stamp_ns - last_ns) > LEAP_NS
        return step_ns if leapt else 0

    def begins(self, stamp_ns: int, source: str) -> bool:
        """Whether this is the first stamp, of all or of an input, and far ahead: that may be of another clock."""
        first = not self._begun or (source != "" and source not in self._own_ns)
        self._begun = True
        return first and stamp_ns - self._newest_ns > LEAP_NS

    def is_ahead(self, stream_ns: int) -> bool:
        """Whether a time leaps ahead of what any input's own stamps have shown."""
        return self._steady and stream_ns - self._newest_ns > LEAP_NS

    def silence(self, stream_ns: int) -> None:
        """Time that has passed in silence was watched."""
        self._newest_ns = max(self._newest_ns, stream_ns)


class RunningEpisode:
    """Everything about the attempt that is running. Made by a START marker, used up by `close`."""

    def __init__(
        self,
        marker: EpisodeMarker,
        settings: MonitorSettings,
        budget_s: float | None,
        pictures: PictureBook,
        health: HealthBook,
        calibration: Calibration | None,
    ) -> None:
        self._marker = marker
        self._settings = settings
        self._pictures = pictures
        self._health = health
        self._calibration = calibration
        self._log = EventLog(marker.episode_id)
        self._detectors = Detectors(settings.events, self._log, marker.stamp_ns, budget_s)
        self._curve = CurveBook(settings.opd)
        self._motion = MotionBook(marker.stamp_ns, settings.motion.idle_speed)
        self._newest: ProgressEstimate | None = None
        self._summary: KinematicSummary | None = None
        self._live = 0.0
        self._missing = 0
        self._why_missing = ""
        self._latencies: list[float] = []
        self._pace = _Pace(marker.stamp_ns)
        self.stream_ns = marker.stamp_ns
        self.end: EpisodeMarker | None = None
        self.estimates_done = False
        self.kinematics_done = False
        self.dropped = 0
        self.notes: list[str] = []

    @property
    def episode_id(self) -> str:
        """The episode's id."""
        return self._marker.episode_id

    def same_start(self, marker: EpisodeMarker) -> bool:
        """Whether this START marker is the one that opened this episode, heard again."""
        return marker.episode_id == self._marker.episode_id and marker.stamp_ns == self._marker.stamp_ns

    @property
    def has_joints(self) -> bool:
        """Whether any kinematics came in this episode."""
        return self._summary is not None

    def went_back(self, item: ProgressEstimate | KinematicSummary) -> bool:
        """Whether this record shows that the clock went back since the one before of its kind."""
        before = self._newest if isinstance(item, ProgressEstimate) else self._summary
        if before is None:  # what is older than the start is merely from before it
            return False
        if (
            isinstance(item, KinematicSummary)
            and isinstance(before, KinematicSummary)
            and item.health.clock_jumps > before.health.clock_jumps
            and item.stamp_ns < before.stamp_ns  # another stream of the same joints may have counted more in its life
        ):
            return True
        # What is older than the start is a straggler of the attempt before, told of when the stream went on.
        return self._marker.stamp_ns <= item.stamp_ns < before.stamp_ns - _JUMP_NS

    def clock_jump(self, stamp_ns: int) -> Event:
        """Note that the clock went back; the episode must be interrupted now."""
        back_s = (self.stream_ns - stamp_ns) / _NS
        reason = f"stamps went back by {back_s:.1f} s: a bag looped or a simulator was reset"
        return self._log.instant(EventKind.CLOCK_JUMP, Severity.ERROR, self.stream_ns, reason, back_s=back_s)

    def on_estimate(self, estimate: ProgressEstimate) -> list[Event]:
        """Take the next estimate in stamp order."""
        if self._past_end(estimate.stamp_ns) or estimate.stamp_ns < self._marker.stamp_ns:
            return []
        if self._newest is not None and estimate.stamp_ns <= self._newest.stamp_ns:
            return []  # a repeated or reordered message adds nothing
        self._advance(estimate.stamp_ns)
        leapt = self._leap("estimates", estimate.stamp_ns)
        self._newest = estimate
        self.dropped = estimate.dropped
        if estimate.latency_s is not None:
            self._latencies.append(estimate.latency_s)
        if estimate.status is EstimateStatus.MISSING or estimate.progress is None:
            self._missing += 1
            self._why_missing = self._why_missing or estimate.reason
            return leapt + self._detectors.on_time(estimate.stamp_ns)
        if estimate.reason and not any(estimate.reason in note for note in self.notes):
            self.notes.append(f"{estimate.model}: {estimate.reason}")
        self._live = self._curve.add(estimate)
        return leapt + self._detectors.on_progress(estimate.stamp_ns, self._live)

    def on_kinematics(self, summary: KinematicSummary) -> list[Event]:
        """Take the next kinematic summary in stamp order."""
        self._motion.add(summary, None if self.end is None else self.end.stamp_ns)
        self._summary = summary
        if summary.stamp_ns < self._marker.stamp_ns or summary.end_of_episode or self._past_end(summary.stamp_ns):
            self._advance(summary.stamp_ns)
            return []
        self._advance(summary.stamp_ns)
        leapt = self._leap("joints", summary.health.last_stamp_ns or summary.stamp_ns)
        return leapt + self._detectors.on_kinematics(summary)

    def on_unheard(self, summary: KinematicSummary) -> list[Event]:
        """Joint states came without a stamp to go by: only their health can be judged."""
        if self._past_end(summary.stamp_ns) or summary.stamp_ns < self._marker.stamp_ns:
            return []
        return self._detectors.on_unheard(summary)

    def on_camera(self, health: CameraHealth) -> list[Event]:
        """Take a camera's health."""
        if self._past_end(health.stamp_ns) or health.stamp_ns < self._marker.stamp_ns:
            return []
        self._note_first(health.stamp_ns)
        leapt = [] if health.last_frame_ns is None else self._leap(f"camera {health.camera}", health.last_frame_ns)
        if self._pace.is_ahead(health.stamp_ns):
            return leapt  # in the time of an input that leapt, and has not told of it yet
        return leapt + self._detectors.on_camera(health)

    def _note_first(self, stamp_ns: int, source: str = "") -> None:
        if self._pace.begins(stamp_ns, source):
            self._detectors.on_first(stamp_ns)

    def _leap(self, source: str, stamp_ns: int) -> list[Event]:
        """Note when all stamps leap ahead at once: no device is to blame for what nobody saw."""
        self._note_first(stamp_ns, source)
        leap_ns = self._pace.leap(source, stamp_ns)
        if not leap_ns:
            return []
        ahead_s = leap_ns / _NS
        self._detectors.on_leap(stamp_ns, leap_ns)
        self.notes.insert(0, f"all stamps leapt ahead by {ahead_s:.1f} s at once; the duration counts that")
        reason = f"all stamps leapt ahead by {ahead_s:.1f} s at once: the clock was set, or nothing came for as long"
        return [self._log.instant(EventKind.CLOCK_JUMP, Severity.WARN, stamp_ns, reason, ahead_s=ahead_s)]

    def on_time(self, stream_ns: int) -> list[Event]:
        """Judge what is missing at this stream time."""
        self._advance(stream_ns)
        self._pace.silence(stream_ns)
        return [] if self._past_end(stream_ns) else self._detectors.on_time(stream_ns)

    def status(self, state: EpisodeState | None = None) -> MonitorStatus:
        """The operator's line."""
        newest, summary, seen = self._newest, self._summary, len(self._curve) > 0
        opd = self._curve.opd
        now_ns = self.stream_ns if self.end is None else min(self.stream_ns, self.end.stamp_ns)
        return MonitorStatus(
            stamp_ns=self.stream_ns,
            episode_id=self.episode_id,
            state=state or EpisodeState.RUNNING,
            task=self._marker.task,
            elapsed_s=max(0.0, (now_ns - self._marker.stamp_ns) / _NS),
            progress=self._live if seen else None,
            progress_raw=newest.progress if newest else None,
            lower=newest.lower if newest else None,
            upper=newest.upper if newest else None,
            mp=opd.mp if seen else None,
            drawdown=opd.drawdown if seen else None,
            max_drawdown=opd.max_drawdown if seen else None,
            success_probability=newest.success_probability if newest else None,
            smoothness=summary.window.sparc if summary else None,
            rms_jerk=summary.window.rms_jerk if summary else None,
            moving=summary.moving if summary else None,
            active_events=self._log.active,
            estimates=len(self._curve),
            dropped=self.dropped,
            estimate_age_s=max(0.0, (self.stream_ns - newest.stamp_ns) / _NS) if newest else None,
            model=newest.model if newest else "",
        )

    def close(self, state: EpisodeState) -> tuple[list[Event], EpisodeReport, dict[str, bytes]]:
        """Decide the outcome and write the report; the episode must not be used afterwards."""
        end_ns = self.end.stamp_ns if self.end else max(self.stream_ns, self._marker.stamp_ns)
        label = self.end.label if self.end else None
        events = self._detectors.on_end(end_ns)
        outcome = decide(
            self._curve.stamps_ns,
            self._curve.raw,
            self._curve.probabilities,
            end_ns,
            label,
            self._settings.events.outcome,
            calibrated=self._calibrated,
        )
        if state is EpisodeState.INTERRUPTED and label is None:
            outcome = outcome.model_copy(
                update={"outcome": Outcome.UNDECIDED, "decided_by": "none", "reason": self.notes[-1]}
            )
        elif outcome.outcome is not Outcome.UNDECIDED:
            good = outcome.outcome is Outcome.SUCCESS
            kind, severity = (EventKind.SUCCESS, Severity.INFO) if good else (EventKind.FAILURE, Severity.ERROR)
            events.append(self._log.instant(kind, severity, end_ns, outcome.reason))
        frames = KeyFrames(self._pictures, self._marker.stamp_ns)
        evidence = self._keep_frames(frames, end_ns)
        final_curve, stamps_ns = self._curve.final(), self._curve.stamps_ns
        live, final = self._curve.metrics(outcome)
        motion = self._motion.figures()
        report = EpisodeReport(
            episode_id=self.episode_id,
            task=self._marker.task,
            state=state,
            start_ns=self._marker.stamp_ns,
            end_ns=end_ns,
            duration_s=max(0.0, (end_ns - self._marker.stamp_ns) / _NS),
            source=self._marker.source,
            robot=self._settings.robot,
            label=label,
            ended_by=self.end.source if self.end else "",
            outcome=outcome,
            failed_at=looking_back.failed_at(
                outcome, stamps_ns, final_curve, self._log.events, self._marker.stamp_ns, frames
            ),
            metrics_final=final,
            metrics_live=live,
            largest_live_final_gap=largest_gap(live, final),
            drawdowns=looking_back.drawdowns(stamps_ns, final_curve, self._log.events, end_ns, frames),
            stalls=looking_back.stalls(self._log.events, end_ns, self._motion.stretches),
            curve=self._curve.points(),
            estimates=len(self._curve),
            missing_estimates=self._missing,
            motion=motion,
            joint_names=self._motion.joint_names,
            i_phys=self._motion.text(motion),
            speed=self._motion.speed(),
            traces=self._motion.traces(),
            events=[event.model_copy(update={"evidence": evidence.get(event.event_id)}) for event in self._log.events],
            cameras=self._health.cameras(end_ns),
            joints=self._health.joints(end_ns),
            key_frames=frames.in_order(),
            settings=_flat(self._settings.model_dump(exclude={"robot"})),
            calibration=self._settings.calibration,
            model=self._newest.model if self._newest else "",
            model_hash=self._newest.model_hash if self._newest else "",
            versions=versions(),
            dropped=self.dropped,
            latency_p50_s=_quantile(self._latencies, 0.5),
            latency_p99_s=_quantile(self._latencies, 0.99),
            notes=[*self.notes, *self._doubts()],
        )
        return events, report, frames.pictures

    @property
    def _calibrated(self) -> bool:
        """Whether the thresholds were learned for this task and this model."""
        return self._calibration is not None and not self._calibration_doubts(self._calibration)

    def _calibration_doubts(self, calibration: Calibration) -> list[str]:
        doubts = []
        if calibration.task != self._marker.task:
            doubts.append(f"the thresholds were calibrated for another task: {calibration.task}")
        if self._newest is not None and calibration.model_hash != self._newest.model_hash:
            doubts.append(f"the thresholds were calibrated with another model: {calibration.model}")
        return doubts

    def _doubts(self) -> list[str]:
        doubts = []
        if self._calibration is None:
            doubts.append("thresholds are the documented defaults: no calibration for this task was given")
        else:
            doubts += self._calibration_doubts(self._calibration)
        if self._missing:
            why = f"; the first: {self._why_missing}" if self._why_missing else ""
            doubts.append(f"{self._missing} estimates are missing: the model gave no value for them{why}")
        if self.dropped:
            doubts.append(f"{self.dropped} frame sets were skipped because the model was busy")
        return doubts

    def _keep_frames(self, frames: KeyFrames, end_ns: int) -> dict[int, str | None]:
        """Keep start, end, the peak, evenly spaced frames between, and one at each event's onset: their names."""
        start_ns, count = self._marker.stamp_ns, self._settings.peak_pictures
        frames.keep(start_ns, "start")
        for index in range(1, count + 1):
            frames.keep(start_ns + (end_ns - start_ns) * index // (count + 1), "on the way")
        if len(self._curve):
            raw = self._curve.raw
            frames.keep(self._curve.stamps_ns[raw.index(max(raw))], "highest progress")
        frames.keep(end_ns, "end")
        return {event.event_id: frames.keep(event.onset_ns, event.kind.value) for event in self._log.events}

    def _past_end(self, stamp_ns: int) -> bool:
        return self.end is not None and stamp_ns > self.end.stamp_ns

    def _advance(self, stamp_ns: int) -> None:
        self.stream_ns = max(self.stream_ns, stamp_ns)


def _flat(tree: dict[str, object], prefix: str = "") -> dict[str, float | int | str | bool | None]:
    """Nested settings as dotted names, for the report."""
    flat: dict[str, float | int | str | bool | None] = {}
    for name, value in tree.items():
        if isinstance(value, dict):
            flat.update(_flat(value, f"{prefix}{name}."))
        elif isinstance(value, float | int | str | bool) or value is None:
            flat[prefix + name] = value
        else:
            flat[prefix + name] = str(value)
    return flat


def _quantile(values: Sequence[float], q: float) -> float | None:
    return float(np.quantile(np.asarray(values), q)) if values else None
