"""Frame sets of a recorded take on the absolute stamp grid: the picks that the live gate makes.

The first primary frame with a stamp in every period since stamp 0; another camera adds its newest frame that is not
newer than the primary's and not older than ``pair_skew_s`` before it. Like the live gate this waits ``pair_wait_s``,
counted in stamps, for another camera, so that a recording gives what the robot's own monitor saw. The joints of a frame
set are chosen by the same `JointHistory`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence

from rollout_monitor.errors import InputError
from rollout_monitor.frames import FrameSet, JointSample
from rollout_monitor.joint_history import JointHistory
from rollout_monitor.stamps import StampGuard
from rollout_monitor.store.messages import JointItem
from rollout_monitor.store.takes_types import NS, CameraFrame

PAIR_WAIT_S = 0.2
PAIR_SKEW_S = 0.5
JOINT_AGE_S = 0.1
JUMP_S = 1.0
KEEP_S = 2.0
MOST_RATE_HZ = 240.0

OnBad = Callable[[str, str], None]
"""Told of a camera and, in a line, of its frame."""


class GridPicker:
    """Chooses frame sets from the frames of 1..n cameras in recorded order. Decodes nothing.

    Args:
        cameras: names, the primary first.
        rate_hz: frame sets per second.
    """

    def __init__(self, cameras: Sequence[str], rate_hz: float) -> None:
        if not 0.0 < rate_hz <= MOST_RATE_HZ:
            raise InputError(f"frame rate {rate_hz} Hz: expected more than 0 and at most {MOST_RATE_HZ:g}")
        self._primary = cameras[0]
        self._period_ns = NS / rate_hz
        self._others: dict[str, deque[CameraFrame]] = {camera: deque() for camera in cameras[1:]}
        self._newest: dict[str, int] = {}
        self._pending: deque[CameraFrame] = deque()
        self._tick = -1

    def add(self, frame: CameraFrame) -> list[dict[str, CameraFrame]]:
        """Take a frame; return the frame sets that are complete now, frame by camera name, the primary first.

        Raises:
            InputError: stamps that go back by more than a second: two recordings in one.
        """
        newest = self._newest.get(frame.camera)
        if newest is not None and frame.stamp_ns <= newest:
            if frame.stamp_ns < newest - round(JUMP_S * NS):
                back_s = (newest - frame.stamp_ns) / NS
                raise InputError(
                    f"camera {frame.camera}: stamps go back by {back_s:.1f} s at {newest} ns: the clock was set back "
                    "within the take; record each attempt by itself"
                )
            return []
        self._newest[frame.camera] = frame.stamp_ns
        if frame.camera != self._primary:
            history = self._others[frame.camera]
            history.append(frame)
            while len(history) > 2 and history[1].stamp_ns < frame.stamp_ns - round(KEEP_S * NS):
                del history[1]
        elif (tick := int(frame.stamp_ns // self._period_ns)) > self._tick:
            self._tick = tick
            self._pending.append(frame)
        return self._release()

    def finish(self) -> list[dict[str, CameraFrame]]:
        """Return what still waits for another camera: no more frames will come."""
        return self._release(everything=True)

    def _release(self, everything: bool = False) -> list[dict[str, CameraFrame]]:
        released = []
        newest = self._newest.get(self._primary, 0)
        while self._pending:
            stamp = self._pending[0].stamp_ns
            if not (everything or newest - stamp >= round(PAIR_WAIT_S * NS) or self._complete(stamp)):
                break
            frames = {self._primary: self._pending.popleft()}
            for camera, history in self._others.items():
                _trim(history, stamp)
                if history and history[0].stamp_ns <= stamp:
                    frames[camera] = history[0]
            released.append(frames)
        if not self._pending:
            for history in self._others.values():
                _trim(history, newest)
        return released

    def _complete(self, stamp_ns: int) -> bool:
        """Whether every other camera has shown all it has up to this stamp, or has fallen silent."""
        for camera in self._others:
            last = self._newest.get(camera)
            if last is None or stamp_ns - round(PAIR_SKEW_S * NS) <= last < stamp_ns:
                return False
        return True


class JointPicker:
    """Chooses the joints of frame sets with growing stamps, from joint states in recorded order."""

    def __init__(self, items: Iterable[JointItem]) -> None:
        self._items = iter(items)
        self._history = JointHistory(JOINT_AGE_S)
        self._guards: dict[frozenset[str], StampGuard[JointItem]] = {}
        self._newest_ns = 0
        self._ended = False

    def at(self, stamp_ns: int) -> JointSample | None:
        """Where the joints were at a stamp, with what came up to `PAIR_WAIT_S` later in stamps taken into account."""
        while not self._ended and self._newest_ns <= stamp_ns + round(PAIR_WAIT_S * NS):
            item = next(self._items, None)
            if item is None:
                self._ended = True
            else:
                self._add(item)
        return self._history.at(stamp_ns)

    def _add(self, item: JointItem) -> None:
        guard = self._guards.setdefault(frozenset(item.names), StampGuard(round(JUMP_S * NS)))
        for stamp_ns, one in guard.take(item.stamp_ns, item):
            self._newest_ns = stamp_ns
            self._history.add(stamp_ns, one.names, one.positions.tolist(), one.velocities.tolist())


def frame_sets(
    frames: Iterable[CameraFrame],
    cameras: Sequence[str],
    rate_hz: float,
    *,
    within: tuple[int | None, int | None] = (None, None),
    joints: Iterable[JointItem] = (),
    on_bad: OnBad | None = None,
) -> Iterator[FrameSet]:
    """Decoded frame sets on the grid.

    Args:
        frames: in recorded order.
        cameras: names, the primary first.
        rate_hz: of the grid.
        within: first and last stamp of the take, both included; frames before it still take their place on the grid,
            as they do live.
        joints: joint states in recorded order, on the clock of the frames.
        on_bad: told of a chosen frame that does not decode. Its frame set then comes without that camera, or not at
            all where it is the primary's. None: such a frame is an error.

    Raises:
        InputError: a chosen frame that does not decode, or stamps that go back.
    """
    first, last = within
    picker, joint_picker = GridPicker(cameras, rate_hz), JointPicker(joints)
    for frame in frames:
        if last is not None and frame.stamp_ns > last + NS:
            continue  # nothing that late is waited for
        for chosen in picker.add(frame):
            if _is_within(chosen, first, last):
                yield from _decoded(chosen, joint_picker, on_bad)
    for chosen in picker.finish():
        if _is_within(chosen, first, last):
            yield from _decoded(chosen, joint_picker, on_bad)


def _is_within(chosen: dict[str, CameraFrame], first: int | None, last: int | None) -> bool:
    stamp_ns = next(iter(chosen.values())).stamp_ns
    return (first is None or stamp_ns >= first) and (last is None or stamp_ns <= last)


def _decoded(chosen: dict[str, CameraFrame], joints: JointPicker, on_bad: OnBad | None) -> Iterator[FrameSet]:
    primary = next(iter(chosen.values()))
    images = {}
    for camera, frame in chosen.items():
        try:
            images[camera] = frame.decode()
        except InputError as error:
            message = f"camera {camera} at {frame.stamp_ns} ns: {error}"
            if on_bad is None:
                raise InputError(message) from error
            on_bad(camera, message)
    if primary.camera in images:
        stamps_ns = {camera: chosen[camera].stamp_ns for camera in images}
        yield FrameSet(primary.stamp_ns, images, stamps_ns, joints.at(primary.stamp_ns))


def _trim(history: deque[CameraFrame], stamp_ns: int) -> None:
    """Leave as first the newest frame that is not newer than the stamp, if it is young enough."""
    while len(history) > 1 and history[1].stamp_ns <= stamp_ns:
        history.popleft()
    while history and history[0].stamp_ns < stamp_ns - round(PAIR_SKEW_S * NS):
        history.popleft()
