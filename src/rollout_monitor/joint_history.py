"""Which joint states belong to a frame set: decided by stamps alone, the same live and from a recording.

Each publisher tells of its own joints (an arm, its gripper, the other arm). A frame set gets the newest message of
each that is not newer than its picture and not older than a limit.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

from rollout_monitor.frames import JointSample

_NS = 1_000_000_000
KEEP_NS = 2 * _NS
"""A picture that comes later than this behind the joints gets none."""

JUMP_NS = _NS
"""A stamp this far back belongs to a clock that was set back."""

MAX_PUBLISHERS = 64
"""Sets of joint names that are told apart; a stream of ever new names is broken."""

Message = tuple[int, Sequence[float], Sequence[float]]
"""Stamp, positions and velocities."""


class JointHistory:
    """The joint states of the last seconds.

    Args:
        age_s: oldest message that still tells where the joints are at a picture, s.

    >>> history = JointHistory(age_s=0.1)
    >>> for stamp_ns, angle in ((1_000_000_000, 0.1), (1_050_000_000, 0.2), (1_080_000_000, 0.3)):
    ...     history.add(stamp_ns, ("elbow",), (angle,), ())
    >>> history.at(1_060_000_000).positions
    (0.2,)
    >>> history.at(1_500_000_000) is None
    True
    """

    def __init__(self, age_s: float) -> None:
        self._age_ns = round(age_s * _NS)
        self._publishers: dict[tuple[str, ...], deque[Message]] = {}
        self.first_ns: int | None = None
        """Stamp of the first message on the clock of now; None where none ever came."""

    def add(self, stamp_ns: int, names: Sequence[str], positions: Sequence[float], velocities: Sequence[float]) -> None:
        """Take a message as it came; one whose stamp does not advance is dropped."""
        key = tuple(names)
        messages = self._publishers.get(key)
        if messages is None:
            if len(self._publishers) >= MAX_PUBLISHERS:
                self._publishers.clear()
            messages = self._publishers[key] = deque()
        if self.first_ns is None or stamp_ns < self.first_ns - JUMP_NS:
            self.first_ns = stamp_ns
        if messages and stamp_ns <= messages[-1][0]:
            if stamp_ns > messages[-1][0] - JUMP_NS:
                return
            messages.clear()
        messages.append((stamp_ns, positions, velocities))
        while messages[0][0] < stamp_ns - KEEP_NS:
            messages.popleft()

    def reached(self, stamp_ns: int, silent_ns: int) -> bool:
        """Whether every publisher has told all it has up to a stamp, or has been silent for longer than ``silent_ns``.

        False where none ever came. A publisher that was never heard is not known of.
        """
        newest = [messages[-1][0] for messages in self._publishers.values()]
        if not newest:
            return False
        awaited_ns = max(stamp_ns, *newest) - silent_ns
        return all(last >= stamp_ns or last < awaited_ns for last in newest)

    def at(self, stamp_ns: int) -> JointSample | None:
        """Where the joints are at a stamp; None where no message says so.

        A message whose arrays do not fit its names, or with a position that is not finite, says nothing. Of two
        messages about one joint the newer one counts.
        """
        found = [
            (message, names)
            for names, messages in self._publishers.items()
            if (message := self._newest(messages, names, stamp_ns)) is not None
        ]
        if not found:
            return None
        found.sort(key=lambda one: (one[0][0], one[1]))
        joints: dict[str, tuple[float, float]] = {}
        for (_, positions, velocities), names in found:
            speeds = velocities if len(velocities) else [math.nan] * len(names)
            for name, position, velocity in zip(names, positions, speeds, strict=True):
                joints[name] = (float(position), float(velocity))
        return JointSample(
            names=tuple(joints),
            positions=tuple(position for position, _ in joints.values()),
            velocities=tuple(velocity for _, velocity in joints.values()),
            stamp_ns=found[-1][0][0],
        )

    def _newest(self, messages: deque[Message], names: tuple[str, ...], stamp_ns: int) -> Message | None:
        for message in reversed(messages):
            if message[0] < stamp_ns - self._age_ns:
                return None
            if message[0] <= stamp_ns and _is_sound(message, len(names)):
                return message
        return None


def _is_sound(message: Message, count: int) -> bool:
    _, positions, velocities = message
    return 0 < count == len(positions) and len(velocities) in (0, count) and all(map(math.isfinite, positions))
