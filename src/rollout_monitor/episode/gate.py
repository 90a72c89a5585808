"""Which frames a progress model sees: chosen by stamps, never by arrival; and how each camera is doing.

The grid of stamps is absolute: the first primary frame in every period since stamp 0 is chosen, so the same rollout
gives the same frames whenever the node was started. Another camera adds its newest frame that is not newer than the
primary's; the primary waits for it as long as stamps allow (`GateSettings.pair_wait_s`). Where the model uses joints,
they are chosen and waited for in the same way.

The first frame, and one whose stamp is far from the one before, is held until the next frame bears it out or shows it
to be a stray.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rollout_monitor.episode.offsets import JOINT_STATES, ClockOffset
from rollout_monitor.episode.settings import GateSettings
from rollout_monitor.errors import InputError
from rollout_monitor.frames import JointSample, RgbImage
from rollout_monitor.images import luminance_and_contrast
from rollout_monitor.joint_history import JointHistory
from rollout_monitor.records import CameraHealth
from rollout_monitor.stamps import StampGuard

_NS = 1_000_000_000
JOINTS_EXPECTED_NS = 2 * _NS
"""A robot whose joints were not heard of within this time of its first picture is not expected to have any."""

KEEP_NS = 2 * _NS
"""While the primary camera shows nothing, no more than this of another camera's frames is held for it."""

Decode = Callable[[], RgbImage]
Joints = tuple[Sequence[str], Sequence[float], Sequence[float], Sequence[float]]
"""Names, positions, velocities and efforts of a message; the last two may be empty."""


@dataclass(frozen=True)
class Frame:
    """A frame as it came: decoded only when somebody looks."""

    stamp_ns: int
    decode: Decode


@dataclass(frozen=True)
class Selected:
    """A frame set that a progress model should see, not decoded yet."""

    stamp_ns: int
    frames: dict[str, Frame]
    joints: JointSample | None = None


class CameraWatch:
    """Counts and health of one camera stream."""

    def __init__(self, camera: str, settings: GateSettings) -> None:
        self.camera = camera
        self._settings = settings
        self._fingerprint: bytes | int | None = None
        self._fingerprint_ns = 0
        self._recent: deque[int] = deque(maxlen=64)
        self._looked_tick = -1
        self._reported_tick = -1
        self._reported_state: tuple[int | None, int | None] = (None, None)
        self._guard: StampGuard[tuple[Frame, bytes | int]] = StampGuard(round(settings.jump_s * _NS))
        self.offset = ClockOffset()
        self.offset_from = ""
        self.last_ns: int | None = None
        self._received = self._not_advancing = 0  # of those whose stamps are believed
        self.used = self.bad = self.repeated = self.lost = self.clock_steps = 0
        self._frozen_since: int | None = None
        self._dark_since: int | None = None
        self._luminance: float | None = None
        self._contrast: float | None = None

    def restart(self) -> None:
        """Forget stamps after the clock went back; the counts stay."""
        self.last_ns = None
        self._recent.clear()
        self._fingerprint = None
        self._frozen_since = self._dark_since = None
        self._looked_tick = self._reported_tick = -1

    @property
    def held(self) -> int:
        """Frames in doubt, which are counted once those after them have shown what they were."""
        return self._guard.held

    @property
    def received(self) -> int:
        """Frames that came and are decided on."""
        return self._received + self._guard.unstamped + self._guard.repeated + self._guard.stray

    @property
    def not_advancing(self) -> int:
        """Frames whose stamp was not newer than the one before."""
        return self._not_advancing + self._guard.repeated

    def believe(self, frame: Frame, fingerprint: bytes | int) -> list[tuple[Frame, bytes | int]]:
        """Take a frame that came; return those that can be gone on with now, one held back before included."""
        this = (Frame(frame.stamp_ns, self._counting(frame.decode)), fingerprint)
        believed = [one for _, one in self._guard.take(frame.stamp_ns, this)]
        self._received += len(believed)
        if self._guard.stepped:
            self.clock_steps += 1
            self.last_ns = None
            self._recent.clear()
        return believed

    def count_bad(self) -> None:
        """Count a frame that could not even be read as a message of its type."""
        self._received += 1
        self.bad += 1

    def _counting(self, decode: Decode) -> Decode:
        """The same decoder, which counts the frame as bad the first time it does not decode."""
        told = False

        def decode_and_count() -> RgbImage:
            nonlocal told
            try:
                return decode()
            except InputError:
                self.bad += not told
                self.used -= not told
                told = True
                raise

        return decode_and_count

    def see(self, frame: Frame, fingerprint: bytes | int) -> bool:
        """Take a frame that is believed; False where its stamp does not advance and it must be dropped."""
        if self.last_ns is not None and frame.stamp_ns <= self.last_ns:
            self._not_advancing += 1
            return False
        self.used += 1
        self.last_ns = frame.stamp_ns
        self._recent.append(frame.stamp_ns)
        if fingerprint == self._fingerprint:
            self.repeated += 1
            if self._frozen_since is None:
                self._frozen_since = self._fingerprint_ns
        else:
            self._fingerprint, self._fingerprint_ns = fingerprint, frame.stamp_ns
            self._frozen_since = None
        self._look(frame)
        return True

    def _look(self, frame: Frame) -> None:
        """Decode one frame per half health period: darkness needs no more, decoding costs."""
        tick = int(frame.stamp_ns // (self._settings.health_period_s * _NS / 2))
        if tick <= self._looked_tick:
            return
        self._looked_tick = tick
        try:
            self._luminance, self._contrast = luminance_and_contrast(frame.decode())
        except InputError:
            return  # counted
        dark = self._luminance < self._settings.dark_luminance and self._contrast < self._settings.dark_contrast
        if not dark:
            self._dark_since = None
        elif self._dark_since is None:
            self._dark_since = frame.stamp_ns

    def report(self, stream_ns: int) -> CameraHealth | None:
        """The health when its time has come or its state has changed, else None."""
        tick = int(stream_ns // (self._settings.health_period_s * _NS))
        state = (self._frozen_since, self._dark_since)
        changed = (state[0] is None) != (self._reported_state[0] is None) or state[1] != self._reported_state[1]
        if tick <= self._reported_tick and not changed:
            return None
        self._reported_tick, self._reported_state = tick, state
        return self.health(stream_ns)

    def health(self, stream_ns: int) -> CameraHealth:
        """The health now."""
        return CameraHealth(
            camera=self.camera,
            stamp_ns=stream_ns,
            received=self.received,
            used=self.used,
            bad=self.bad,
            repeated=self.repeated,
            not_advancing=self.not_advancing,
            unstamped=self._guard.unstamped,
            stray=self._guard.stray,
            lost=self.lost,
            clock_steps=self.clock_steps,
            rate_hz=self._rate(),
            last_frame_ns=self.last_ns,
            clock_offset_s=self.offset.seconds,
            offset_from=self.offset_from,
            frozen_since_ns=self._frozen_since,
            dark_since_ns=self._dark_since,
            luminance=self._luminance,
            contrast=self._contrast,
        )

    def _rate(self) -> float | None:
        if len(self._recent) < 2 or self._recent[-1] == self._recent[0]:
            return None
        return (len(self._recent) - 1) * _NS / (self._recent[-1] - self._recent[0])


class FrameGate:
    """Chooses frame sets from 1..n cameras and watches their health.

    Cheap enough for a subscription's callback: it decodes about four frames a second per camera (for darkness) and
    no other.
    """

    def __init__(self, settings: GateSettings) -> None:
        self._settings = settings
        self._primary = settings.cameras[0]
        self._period_ns = _NS / settings.rate_hz
        self._wait_ns = round(settings.pair_wait_s * _NS)
        self._skew_ns = round(settings.pair_skew_s * _NS)
        self._watches = {camera: CameraWatch(camera, settings) for camera in settings.cameras}
        self._others: dict[str, deque[Frame]] = {camera: deque() for camera in settings.cameras[1:]}
        self._joints = JointHistory(settings.joint_age_s) if settings.joints else None
        self._first_ns: int | None = None  # of the primary camera, since the clock last went back
        self._pending: deque[Frame] = deque()
        self._tick = -1
        self.clock_jumps = 0

    def on_image(
        self, camera: str, stamp_ns: int, decode: Decode, fingerprint: bytes | int
    ) -> tuple[list[Selected], list[CameraHealth]]:
        """Take a frame; return the frame sets that are complete now, and health reports that are due.

        Args:
            camera: its name; must be one of the settings' cameras.
            stamp_ns: header stamp, nanoseconds.
            decode: makes the picture; raises InputError where the payload cannot be decoded.
            fingerprint: equal for equal payloads, to tell a frozen camera.

        Raises:
            InputError: a camera that was not named in the settings.
        """
        watch = self._watches.get(camera)
        if watch is None:
            raise InputError(f"camera {camera!r} is not one of {', '.join(self._watches)}")
        selected: list[Selected] = []
        health: list[CameraHealth] = []
        for frame, known_as in watch.believe(Frame(stamp_ns, decode), fingerprint):
            if watch.last_ns is not None and frame.stamp_ns < watch.last_ns - round(self._settings.jump_s * _NS):
                self._restart()
            if not watch.see(frame, known_as):
                continue
            if frame.stamp_ns == stamp_ns:  # one that was held came earlier
                self._note_clock(camera, frame.stamp_ns)
            self._queue(camera, frame)
            selected += self._release()
            health += self.on_time(frame.stamp_ns)
        return selected, health

    def last_ns(self, camera: str) -> int | None:
        """Stamp of a camera's newest frame that is believed; None where none came."""
        return self._watches[camera].last_ns

    def on_joints(self, messages: Sequence[tuple[int, Joints]]) -> list[Selected]:
        """Take joint state messages that are believed, one that was held back before included.

        Their stamps are the clock that the cameras' are held against.

        Returns:
            The frame sets that are complete now.
        """
        if not messages:
            return []
        self._note_joint_clock(messages[-1][0])
        if self._joints is None:
            return []
        for stamp_ns, (names, positions, velocities, _) in messages:
            self._joints.add(stamp_ns, names, positions, velocities)
        return self._release()

    def _note_joint_clock(self, stamp_ns: int) -> None:
        for watch in self._watches.values():
            if watch.offset_from != JOINT_STATES:
                watch.offset, watch.offset_from = ClockOffset(), JOINT_STATES
            watch.offset.on_reference(stamp_ns)

    def _note_clock(self, camera: str, stamp_ns: int) -> None:
        for other, watch in self._watches.items():
            if other == camera:
                watch.offset.on_own(stamp_ns)
            elif camera == self._primary and watch.offset_from != JOINT_STATES:
                watch.offset_from = self._primary
                watch.offset.on_reference(stamp_ns)

    def _queue(self, camera: str, frame: Frame) -> None:
        if camera != self._primary:
            history = self._others[camera]
            history.append(frame)
            while len(history) > 2 and history[1].stamp_ns < frame.stamp_ns - KEEP_NS:
                del history[1]  # the first one may be what a waiting frame of the primary camera needs
            return
        tick = int(frame.stamp_ns // self._period_ns)
        if self._first_ns is None:
            self._first_ns = frame.stamp_ns
        if tick > self._tick:
            self._tick = tick
            self._pending.append(frame)

    def on_bad_image(self, camera: str) -> None:
        """Count a frame that could not even be read as a message of its type."""
        self._watches[camera].count_bad()

    def count_lost(self, camera: str, lost: int) -> None:
        """Count frames that never arrived, as the middleware tells."""
        self._watches[camera].lost += lost

    def on_time(self, stream_ns: int) -> list[CameraHealth]:
        """Health reports that are due at this stream time (any input's stamp moves it)."""
        reports = (watch.report(stream_ns) for watch in self._watches.values())
        return [report for report in reports if report is not None]

    def finish(self) -> list[Selected]:
        """Give out what still waits for another camera: no more frames will come."""
        return self._release(everything=True)

    def health(self, stream_ns: int) -> list[CameraHealth]:
        """Every camera's health now, those without a frame included."""
        return [watch.health(stream_ns) for watch in self._watches.values()]

    def held(self, camera: str) -> int:
        """How many of a camera's frames are not decided on yet."""
        return self._watches[camera].held

    def camera_health(self, camera: str, stream_ns: int) -> CameraHealth:
        """One camera's health now."""
        return self._watches[camera].health(stream_ns)

    def _restart(self) -> None:
        self.clock_jumps += 1
        self._tick = -1
        self._first_ns = None
        self._pending.clear()
        for frames in self._others.values():
            frames.clear()
        for watch in self._watches.values():
            watch.restart()

    def _release(self, everything: bool = False) -> list[Selected]:
        released: list[Selected] = []
        newest = self._watches[self._primary].last_ns
        while self._pending and newest is not None:
            stamp = self._pending[0].stamp_ns
            if not (everything or newest - stamp >= self._wait_ns or self._complete(stamp)):
                break
            primary = self._pending.popleft()
            frames = {self._primary: primary}
            for camera, history in self._others.items():
                self._trim(history, stamp)
                if history and history[0].stamp_ns <= stamp:
                    frames[camera] = history[0]
            released.append(Selected(stamp, frames, None if self._joints is None else self._joints.at(stamp)))
        if not self._pending and newest is not None:
            for history in self._others.values():
                self._trim(history, newest)
        return released

    def _complete(self, stamp_ns: int) -> bool:
        """Whether every other camera has shown all it has up to this stamp, or is not there."""
        for camera in self._others:
            last = self._watches[camera].last_ns
            if last is None or last < stamp_ns - self._skew_ns:
                if self._watches[camera].received and last is not None:
                    continue  # silent for longer than a frame set allows: it has nothing to add
                return False
            if last < stamp_ns:
                return False
        return self._joints is None or self._joints_complete(self._joints, stamp_ns)

    def _joints_complete(self, joints: JointHistory, stamp_ns: int) -> bool:
        """Whether no joint state up to this stamp is to come, or the robot seems to have none."""
        if joints.first_ns is None:
            return self._first_ns is not None and stamp_ns >= self._first_ns + JOINTS_EXPECTED_NS
        is_settled = stamp_ns >= joints.first_ns + self._wait_ns
        # at first another publisher (a gripper) may begin a little later than the first
        return joints.reached(stamp_ns if is_settled else stamp_ns + self._wait_ns, self._skew_ns)

    def _trim(self, history: deque[Frame], stamp_ns: int) -> None:
        """Leave as first the newest frame that is not newer than the stamp, if it is young enough."""
        while len(history) > 1 and history[1].stamp_ns <= stamp_ns:
            history.popleft()
        while history and history[0].stamp_ns < stamp_ns - self._skew_ns:
            history.popleft()
