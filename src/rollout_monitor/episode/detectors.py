"""All detectors of one episode, wired to their alarms. Takes records in stamp order, answers events."""

from __future__ import annotations

from collections import deque
from statistics import median

from rollout_monitor.events import inputs
from rollout_monitor.events.alarm import IMMEDIATE, Alarm, EventLog, Finding
from rollout_monitor.events.motion import ContactDetector, RoughMotionDetector
from rollout_monitor.events.progress import DrawdownDetector, PlateauDetector, StallDetector
from rollout_monitor.events.settings import EventSettings
from rollout_monitor.records import CameraHealth, Event, EventKind, JointHealth, KinematicSummary, Severity

_NS = 1_000_000_000


class Detectors:
    """The detectors of a running episode. One is made per episode, so nothing leaks into the next."""

    def __init__(self, settings: EventSettings, log: EventLog, start_ns: int, budget_s: float | None) -> None:
        self._settings = settings
        self._log = log
        self._start_ns = start_ns
        self._settled_ns = start_ns + round(settings.settle_s * _NS)
        self._budget_s = budget_s
        self._stall = StallDetector(settings.stall)
        self._drawdown = DrawdownDetector(settings.drawdown, settings.stall.finished_at)
        self._plateau = PlateauDetector(settings.plateau)
        self._rough = RoughMotionDetector(settings.rough)
        self._contact = ContactDetector(settings.contact)
        self._invalid = inputs.JointsInvalidDetector(settings.inputs)
        self._alarms: dict[tuple[EventKind, str], Alarm] = {}
        self._last_estimate_ns: int | None = None
        self._last_joints_ns: int | None = None
        self._spacings: deque[int] = deque(maxlen=5)  # of the newest estimates: a slow model is not a late one
        self._cameras: dict[str, CameraHealth] = {}
        self._joint_stamps = ""  # what is wrong with the joints' stamps
        self._joint_health: JointHealth | None = None
        self._witnessed_ns = start_ns  # silence counts from here: the start, or where all stamps leapt to
        self._leapt_ns = 0
        self._judged_ns = start_ns

    def on_first(self, stamp_ns: int) -> None:
        """The streams begin here, well after START: nobody watched before."""
        self._witnessed_ns = stamp_ns

    def on_leap(self, stamp_ns: int, leap_ns: int) -> None:
        """All stamps leapt ahead to this one: nothing was silent for as long, and nothing stood still."""
        self._witnessed_ns = stamp_ns
        self._leapt_ns += leap_ns
        self._stall.suspend()

    def on_progress(self, stamp_ns: int, progress: float) -> list[Event]:
        """Take the next live smoothed progress value."""
        self._note_estimate(stamp_ns)
        events = self.on_time(stamp_ns)
        if self._blind():
            self._stall.suspend()
        stall = self._stall.update(stamp_ns, progress)
        drawdown = self._drawdown.update(stamp_ns, progress)
        plateau = self._plateau.update(stamp_ns, progress)
        if stamp_ns < self._settled_ns:
            return events
        return (
            events
            + self._update(EventKind.STALL, stall)
            + self._update(EventKind.DRAWDOWN, drawdown)
            + self._update(EventKind.PLATEAU_DONE, plateau)
        )

    def on_end(self, end_ns: int) -> list[Event]:
        """Judge what had fallen silent before the end, so that a stream that died last is not passed over."""
        events = self.on_time(end_ns)
        for health in self._cameras.values():
            events += self.on_camera(health.model_copy(update={"stamp_ns": max(end_ns, health.stamp_ns)}))
        return events

    def _note_estimate(self, stamp_ns: int) -> None:
        if self._last_estimate_ns is not None:
            self._spacings.append(stamp_ns - self._last_estimate_ns)
        self._last_estimate_ns = stamp_ns

    def on_kinematics(self, summary: KinematicSummary) -> list[Event]:
        """Take the next kinematic summary."""
        self._last_joints_ns = summary.stamp_ns
        self._note_stamps(summary.health)
        self._stall.update_motion(summary.stamp_ns, summary.moving)
        events = self.on_time(summary.stamp_ns)
        events += self._update(EventKind.JOINTS_INVALID, self._invalid.update(summary))
        events += self._missing_joints(summary.health)
        if summary.stamp_ns < self._settled_ns:
            return events
        rough = self._rough.update(summary)
        contact = self._contact.update(summary.stamp_ns, [s for s in summary.spikes if s.stamp_ns >= self._settled_ns])
        return (
            events
            + self._update(EventKind.ROUGH_MOTION, rough)
            + self._update(EventKind.CONTACT, contact, immediate=True)
        )

    def on_unheard(self, summary: KinematicSummary) -> list[Event]:
        """Joint states came, but none with a stamp to go by."""
        if self._last_joints_ns is None:
            self._last_joints_ns = self._start_ns
        self._note_stamps(summary.health)
        return self.on_time(summary.stamp_ns)

    def _note_stamps(self, health: JointHealth) -> None:
        self._joint_stamps = inputs.stamp_words(health, self._joint_health)
        self._joint_health = health

    def _missing_joints(self, health: JointHealth) -> list[Event]:
        lost = {subject for (kind, subject), _ in self._alarms.items() if kind is EventKind.JOINTS_LOST and subject}
        events: list[Event] = []
        for joint in sorted(lost | set(health.missing_since_ns)):
            finding = inputs.joint_missing(health, joint, self._settings.inputs)
            events += self._update(EventKind.JOINTS_LOST, finding, joint, immediate=True)
        return events

    def on_camera(self, health: CameraHealth) -> list[Event]:
        """Take a camera's health."""
        before = self._cameras.get(health.camera)
        self._cameras[health.camera] = health
        limits, since_ns = self._settings.inputs, self._witnessed_ns
        if self._leapt_ns and health.frozen_since_ns is not None:
            health = health.model_copy(update={"frozen_since_ns": max(health.frozen_since_ns, since_ns)})
        found = (
            (EventKind.CAMERA_LOST, inputs.camera_lost(health, limits, since_ns, self._cameras.values(), before)),
            (EventKind.CAMERA_FROZEN, inputs.camera_frozen(health, limits)),
            (EventKind.CAMERA_DARK, inputs.camera_dark(health, limits)),
        )
        return [event for kind, one in found for event in self._update(kind, one, health.camera, immediate=True)]

    def on_time(self, stream_ns: int) -> list[Event]:
        """Judge what is missing at this stream time: joints, estimates, the task's budget."""
        self._judged_ns = stream_ns = max(stream_ns, self._judged_ns)  # what comes late is judged as of now
        limits = self._settings.inputs
        cameras = self._cameras.values()
        usual_s = median(self._spacings) / _NS if self._spacings else 0.0
        since_ns = self._since(self._last_estimate_ns)
        late = inputs.model_silent(
            stream_ns, since_ns, self._start_ns, max(limits.model_late_s, 3 * usual_s), cameras=cameras
        )
        lost = inputs.model_silent(
            stream_ns, since_ns, self._start_ns, max(limits.model_lost_s, 9 * usual_s), lost=True, cameras=cameras
        )
        joints = inputs.joints_lost(stream_ns, self._since(self._last_joints_ns), limits, cameras, self._joint_stamps)
        return (
            self._update(EventKind.MODEL_LATE, late, immediate=True)
            + self._update(EventKind.MODEL_LOST, lost, immediate=True)
            + self._update(EventKind.JOINTS_LOST, joints, immediate=True)
            + self._timeout(stream_ns)
        )

    def _since(self, last_ns: int | None) -> int | None:
        """Since when an input can have been silent."""
        return last_ns if last_ns is None else max(last_ns, self._witnessed_ns)

    def _timeout(self, stream_ns: int) -> list[Event]:
        elapsed_s = (stream_ns - self._start_ns - self._leapt_ns) / _NS
        if self._budget_s is None or elapsed_s <= self._budget_s:
            return []
        finding = Finding(
            stream_ns,
            Severity.ERROR,
            over=False,
            onset_ns=self._start_ns + self._leapt_ns + round(self._budget_s * _NS),
            reason=f"running for longer than the task's budget of {self._budget_s:.1f} s",
            values={"budget_s": self._budget_s, "elapsed_s": elapsed_s},
        )
        return self._update(EventKind.TIMEOUT, finding, immediate=True)

    def _blind(self) -> bool:
        kinds = (EventKind.CAMERA_LOST, EventKind.CAMERA_FROZEN, EventKind.CAMERA_DARK)
        return any(alarm.active for (kind, _), alarm in self._alarms.items() if kind in kinds)

    def _update(self, kind: EventKind, finding: Finding, subject: str = "", *, immediate: bool = False) -> list[Event]:
        alarm = self._alarms.get((kind, subject))
        if alarm is None:
            debounce = IMMEDIATE if immediate else self._settings.debounce
            alarm = self._alarms[(kind, subject)] = Alarm(kind, debounce, subject)
        return alarm.update(finding, self._log)
