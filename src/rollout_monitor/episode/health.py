"""Stream health of one episode: what the streams counted since it began, not since the nodes were started."""

from __future__ import annotations

from typing import TypeVar

from rollout_monitor.records import CameraHealth, JointHealth

H = TypeVar("H", CameraHealth, JointHealth)

_COUNTS = (
    "received",
    "used",
    "bad",
    "repeated",
    "non_finite",
    "not_advancing",
    "malformed",
    "gaps",
    "clock_jumps",
)


class HealthBook:
    """The newest health of each stream, and where its counts stood when the episode began.

    Health is reported ten times a second for joints and twice for a camera, so counts are exact to that much at the
    episode's start.
    """

    def __init__(self) -> None:
        self._joints: JointHealth | None = None
        self._joints_before: JointHealth | None = None
        self._cameras: dict[str, CameraHealth] = {}
        self._cameras_before: dict[str, CameraHealth] = {}

    def begin_episode(self) -> None:
        """Count from here."""
        self._joints_before, self._joints = self._joints or self._joints_before, None
        self._cameras_before.update(self._cameras)
        self._cameras = {}

    def add(self, health: JointHealth | CameraHealth) -> None:
        """Take the newest health of a stream."""
        if isinstance(health, JointHealth):
            self._joints = health
        else:
            self._cameras[health.camera] = health

    @property
    def joints(self) -> JointHealth | None:
        """The joint stream in this episode; None where nothing came."""
        return None if self._joints is None else _since(self._joints, self._joints_before)

    @property
    def cameras(self) -> list[CameraHealth]:
        """Each camera in this episode, by name."""
        return [_since(self._cameras[name], self._cameras_before.get(name)) for name in sorted(self._cameras)]


def _since(now: H, before: H | None) -> H:
    """The newer health with counts since the older one; a stream that was started again counts from its start."""
    if before is None or now.received < before.received:
        return now
    counts = {name: getattr(now, name) - getattr(before, name) for name in _COUNTS if hasattr(now, name)}
    return now.model_copy(update={name: max(0, count) for name, count in counts.items()})
