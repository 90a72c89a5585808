"""Kinematics for the monitor when prm_node gives none: the same joint stream, run here until they are back."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from rollout_monitor.episode.perception import END_GRACE_S
from rollout_monitor.motion.settings import MotionSettings
from rollout_monitor.motion.stream import JointStream
from rollout_monitor.records import EpisodeMarker, KinematicSummary

MATCH_S = 1.0
"""How long a new subscription may take until its first message."""

TRUST_S = 0.5
"""Joint states that flow for this long without kinematics mean that prm_node gives none."""


class SegmentNumbers:
    """Gives the grid segments of several sources numbers of their own.

    A restarted prm_node counts its segments from 0 again, and so does the fallback; rows of two sources must not be
    taken for neighbours.
    """

    def __init__(self) -> None:
        self._source = ""
        self._received = 0
        self._offset = 0
        self._highest = -1

    def renumber(self, source: str, summary: KinematicSummary) -> KinematicSummary:
        """The summary with a segment number that no other source has used."""
        restarted = summary.health.received < self._received
        if source != self._source or restarted:
            self._source, self._offset = source, self._highest + 1
        self._received = summary.health.received
        segment = summary.segment + self._offset
        self._highest = max(self._highest, segment)
        return summary if segment == summary.segment else summary.model_copy(update={"segment": segment})


class FallbackJoints:
    """A joint stream for one running episode.

    What it makes is held back until joint states have flowed for a while without kinematics: when a whole machine
    stalls, both are late together, and then prm_node's are the ones that count.
    """

    def __init__(
        self, settings: MotionSettings, running: EpisodeMarker, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock_s = clock_s
        self._began_s = clock_s()
        self._first_s: float | None = None
        self._held: list[KinematicSummary] = []
        self._stream = JointStream(settings)
        self._stream.begin_episode(running.episode_id, running.stamp_ns)
        self._end_ns: int | None = None

    def end_at(self, stamp_ns: int) -> None:
        """The episode ended at this stamp; messages from before it may still be on their way."""
        self._end_ns = stamp_ns

    def was_given_time(self) -> bool:
        """Whether joint states would have come by now, if there were any: a subscription takes a moment to match."""
        return self._clock_s() - self._began_s >= MATCH_S + TRUST_S

    def add(
        self,
        stamp_ns: int,
        names: Sequence[str],
        positions: Sequence[float],
        velocities: Sequence[float],
        efforts: Sequence[float],
    ) -> list[KinematicSummary]:
        """Take a joint state message as it came; the last summary comes once the stream is past the end."""
        if self._first_s is None:
            self._first_s = self._clock_s()
        summary = self._stream.add(stamp_ns, names, positions, velocities, efforts)
        self._held += [] if summary is None else [summary]
        if self._end_ns is not None and stamp_ns >= self._end_ns + END_GRACE_S * 1e9:
            return self.finish()
        return self._released()

    def finish(self) -> list[KinematicSummary]:
        """The last summary, now: no more messages will come."""
        if self._end_ns is not None:
            end_ns, self._end_ns = self._end_ns, None
            self._held.append(self._stream.end_episode(end_ns))
        return self._released()

    def _released(self) -> list[KinematicSummary]:
        if self._first_s is None or self._clock_s() - self._first_s < TRUST_S:
            return []
        held, self._held = self._held, []
        return held
