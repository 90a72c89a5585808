"""The first half of the engine: streams in, model jobs, kinematics and camera health out.

Perception never runs the model: it says what the model must do (`StartJob`, `Selected`, `EndJob`), in order. Offline
the jobs are done in line; a live node hands them to a worker so that a slow model never blocks the streams.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from rollout_monitor.episode.gate import Decode, FrameGate, Selected
from rollout_monitor.episode.settings import GateSettings
from rollout_monitor.motion.settings import MotionSettings
from rollout_monitor.motion.stream import JointStream
from rollout_monitor.records import Boundary, CameraHealth, EpisodeMarker, JointHealth, KinematicSummary

_NS = 1_000_000_000
END_GRACE_S = 0.5
"""How long after an END marker frames and joints from before it are still awaited: topics have no common order."""


@dataclass(frozen=True)
class StartJob:
    """The model must forget everything and begin this episode."""

    marker: EpisodeMarker


@dataclass(frozen=True)
class EndJob:
    """The model has seen everything of this episode."""

    marker: EpisodeMarker


Job = StartJob | Selected | EndJob
Output = Job | KinematicSummary | CameraHealth


class Perception:
    """Sorts the streams of one robot into model jobs and records. Not thread safe; cheap."""

    def __init__(self, gate: GateSettings, motion: MotionSettings) -> None:
        self._gate = FrameGate(gate)
        self._joints = JointStream(motion)
        self._recall_ns = round(gate.recall_s * _NS)
        self._recall: deque[Selected] = deque()
        self._start: EpisodeMarker | None = None
        self._end: EpisodeMarker | None = None
        self._joints_seen = False

    @property
    def gate(self) -> FrameGate:
        """The frame gate, for its counts."""
        return self._gate

    @property
    def joints(self) -> JointStream:
        """The joint stream, for its counts."""
        return self._joints

    @property
    def joint_health(self) -> JointHealth:
        """What came in on the joint stream so far."""
        return self._joints.health

    def count_lost(self, camera: str | None, lost: int) -> None:
        """Count messages of a camera, or of the joints (None), that never arrived, as the middleware tells."""
        if camera is None:
            self._joints.count_lost(lost)
        else:
            self._gate.count_lost(camera, lost)

    @property
    def ending(self) -> bool:
        """Whether an END marker was heard and the episode still waits for its last frames."""
        return self._end is not None

    @property
    def running(self) -> EpisodeMarker | None:
        """The START marker of the running episode, if one runs."""
        return self._start

    def on_marker(self, marker: EpisodeMarker) -> list[Output]:
        """Hear an episode boundary; one heard twice changes nothing."""
        if marker.boundary is Boundary.END:
            if self._start is not None and self._start.episode_id == marker.episode_id and self._end is None:
                self._end = marker
            return []
        if self._start is not None and (marker.episode_id, marker.stamp_ns) == (
            self._start.episode_id,
            self._start.stamp_ns,
        ):
            return []
        out = self.finish_episode()
        self._start, self._end = marker, None
        self._joints.begin_episode(marker.episode_id, marker.stamp_ns)
        out.append(StartJob(marker))
        latest_ns = marker.stamp_ns + 2 * self._recall_ns  # what is later is of a clock that was set back since
        out += [selected for selected in self._recall if marker.stamp_ns <= selected.stamp_ns <= latest_ns]
        self._recall.clear()
        return out

    def on_image(self, camera: str, stamp_ns: int, decode: Decode, fingerprint: bytes | int) -> list[Output]:
        """Take a frame; see `FrameGate.on_image` for the arguments and errors."""
        jumps = self._gate.clock_jumps
        selected, health = self._gate.on_image(camera, stamp_ns, decode, fingerprint)
        if self._gate.clock_jumps != jumps:
            self._recall.clear()
        believed_ns = self._gate.last_ns(camera)
        out: list[Output] = [*self._belonging(selected), *health]
        if believed_ns is not None:
            out += self._unheard(believed_ns)
            out += self._finish_if_past(believed_ns)
        return out

    def on_time(self, stream_ns: int) -> list[Output]:
        """What is due at this stream time though nothing came that carries one (live only)."""
        return [*self._gate.on_time(stream_ns), *self._unheard(stream_ns)]

    def _unheard(self, stream_ns: int) -> list[KinematicSummary]:
        """Joint states that come without a stamp to go by are told of in the time of another input."""
        summary = self._joints.tell_unheard(stream_ns) if self._joints_seen else None
        return [] if summary is None else [summary]

    def on_joints(
        self,
        stamp_ns: int,
        names: Sequence[str],
        positions: Sequence[float],
        velocities: Sequence[float] = (),
        efforts: Sequence[float] = (),
    ) -> list[Output]:
        """Take a joint state message as it came: by name, possibly partial; units rad, rad/s, N m (or A)."""
        self._joints_seen = True
        summary = self._joints.add(stamp_ns, names, positions, velocities, efforts)
        if self._joints.heard_ns != stamp_ns:  # not believed: a stamp from another time
            return []
        out: list[Output] = [*self._belonging(self._gate.on_joints(self._joints.believed))]
        if summary is None:
            return out + self._finish_if_past(stamp_ns) if self._end is not None else out
        if summary.stamp_ns > stamp_ns + _NS:  # the last rows of a clock that was set back: a tenth of a second at most
            return out
        return [*out, summary, *self._gate.on_time(summary.stamp_ns), *self._finish_if_past(stamp_ns)]

    def on_bad_joints(self) -> None:
        """Count a joint state that could not even be read as a message of its type."""
        self._joints.count_malformed()

    def finish_episode(self) -> list[Output]:
        """Close the ending episode now: no more of its frames will come. Does nothing when none is ending.

        An episode that a new START cuts off is closed where the new one begins.
        """
        if self._start is None:
            return []
        end = self._end
        if end is None:
            end = self._start.model_copy(update={"boundary": Boundary.END})
            self._gate.finish()
        out: list[Output] = [*self._belonging(self._gate.finish()), EndJob(end)]
        if self._joints_seen:
            out.append(self._joints.end_episode(end.stamp_ns))
        self._start = self._end = None
        return out

    def _belonging(self, selected: list[Selected]) -> list[Selected]:
        if self._start is None:
            for one in selected:
                self._recall.append(one)
                while self._recall[0].stamp_ns < one.stamp_ns - self._recall_ns:
                    self._recall.popleft()
            return []
        first = self._start.stamp_ns
        last = self._end.stamp_ns if self._end is not None else None
        return [one for one in selected if one.stamp_ns >= first and (last is None or one.stamp_ns <= last)]

    def _finish_if_past(self, stamp_ns: int) -> list[Output]:
        if self._end is None or stamp_ns < self._end.stamp_ns + END_GRACE_S * _NS:
            return []
        return self.finish_episode()
