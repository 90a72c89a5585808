"""The joint stream of one robot: messages in, `KinematicSummary` records out, episode by episode.

Puts together the grid, the live figures of the episode, the figures of the sliding window, and the effort watch.
Everything is decided by stamps; the cost of a message does not depend on the episode's length.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rollout_monitor.errors import InputError
from rollout_monitor.motion.effort import EffortWatch
from rollout_monitor.motion.figures import figures
from rollout_monitor.motion.grid import NS, GridResampler, Row
from rollout_monitor.motion.settings import MotionSettings
from rollout_monitor.motion.streaming import MotionAccumulator
from rollout_monitor.records import EffortSpike, GridRow, JointHealth, KinematicSummary, MotionFigures
from rollout_monitor.stamps import StampGuard

MOVING_NS = NS // 2  # the stretch that `KinematicSummary.moving` looks at
MAX_PUBLISHERS = 64  # sets of names that are told apart; a stream of ever new names is broken


_Message = tuple[Sequence[str], Sequence[float], Sequence[float], Sequence[float]]
UNHEARD_NS = NS // 2
"""Messages that come for this long without a stamp to go by are told of in another input's time."""


@dataclass(frozen=True)
class _Recent:
    """A row of the last seconds, with the episode's figures as they were after it (None outside an episode)."""

    row: Row
    episode: MotionAccumulator | None


class JointStream:
    """Joint states of one robot, live. Not thread safe.

    A summary is due whenever a used message's stamp enters the next summary period, whether or not rows came, so that
    a stream which carries nothing usable any more is still told of through the summaries' health. All rows of a
    summary are of one segment.
    """

    def __init__(self, settings: MotionSettings) -> None:
        self._settings = settings
        self._grid = GridResampler(settings)
        self._efforts = EffortWatch(settings)
        self._period_ns = round(settings.summary_period_s * NS)
        self._window_ns = round(settings.window_s * NS)
        self._keep_ns = max(self._window_ns, round(settings.keep_s * NS))
        self._recent: deque[_Recent] = deque()
        self._unsent: deque[Row] = deque()
        self._spikes: list[EffortSpike] = []
        self._raw_efforts: deque[tuple[int, Sequence[str], Sequence[float]]] = deque()  # of the last `keep_s`
        self._due_ns: int | None = None  # the stamp from which the next summary is due
        self._jumps = 0
        self._guards: dict[tuple[str, ...], StampGuard[_Message]] = {}  # by the names in a message
        self._guards_by_joints: dict[
            frozenset[str], StampGuard[_Message]
        ] = {}  # whatever their order: publishers differ
        self._back_ns = round(settings.clock_back_s * NS)
        self._unstamped = self._repeated = self._stray = self._lost = 0  # of guards that were forgotten
        self._unheard_since: tuple[int | None, int, int] | None = None  # believed stamp, stream time, received then
        self.heard_ns: int | None = None
        """Stamp of the newest message whose stamp is believed, usable or not; None where there was none."""
        self.believed: list[tuple[int, _Message]] = []
        """The messages that the newest call of `add` went on with, with their stamps, one held before included."""
        self._joints: list[str] = []
        self._episode_id = ""
        self._start_ns = 0
        self._episode: MotionAccumulator | None = None

    @property
    def health(self) -> JointHealth:
        """What came in since the stream began."""
        health, guards = self._grid.health(), self._guards_by_joints.values()
        unstamped = self._unstamped + sum(guard.unstamped for guard in guards)
        repeated = self._repeated + sum(guard.repeated for guard in guards)
        stray = self._stray + sum(guard.stray for guard in guards)
        return health.model_copy(
            update={
                "received": health.received + unstamped + repeated + stray,
                "not_advancing": health.not_advancing + repeated,
                "unstamped": unstamped,
                "stray": stray,
                "lost": self._lost,
            }
        )

    @property
    def held(self) -> int:
        """Messages in doubt, which are counted once those after them have shown what they were."""
        return self._grid.held + sum(guard.held for guard in self._guards_by_joints.values())

    @property
    def waiting_for(self) -> list[str]:
        """Joints that hold the grid back because nothing new came from them."""
        return self._grid.waiting_for

    # --- episodes ---------------------------------------------------------------------------------------------------

    def begin_episode(self, episode_id: str, stamp_ns: int) -> None:
        """Begin an episode: rows with a stamp from ``stamp_ns`` on count, those that already came included.

        An episode that is still running is left as it is, without a summary.
        """
        self._episode_id, self._start_ns = episode_id, stamp_ns
        self._grid.locked = True
        self._episode = None
        latest_ns = stamp_ns + 2 * self._keep_ns  # what is later is of a clock that was set back since
        rows = [recent.row for recent in self._recent if recent.row.stamp_ns <= latest_ns]
        self._recent.clear()
        for row in rows:
            self._remember(row)
        self._restart_efforts(stamp_ns, latest_ns)

    def _restart_efforts(self, stamp_ns: int, latest_ns: int) -> None:
        """Learn anew what effort is usual, so that an attempt gives the same spikes whatever was before it."""
        self._efforts.restart()
        self._spikes = [spike for spike in self._spikes if spike.stamp_ns < stamp_ns]
        for message_ns, names, efforts in self._raw_efforts:
            if stamp_ns <= message_ns <= latest_ns:
                self._spikes += self._efforts.add(message_ns, names, efforts)

    def end_episode(self, stamp_ns: int) -> KinematicSummary:
        """End the episode: its last summary, with the rows up to ``stamp_ns`` that were not told of yet.

        Rows after it, where they already came, are taken out of the episode's figures again; the end may be learned
        up to ``keep_s`` late. A row needs samples up to the kernel's half width after its stamp, so call this once
        the stream has passed the end by that much, or the last rows are missing.

        Raises:
            InputError: no episode is running.
        """
        if not self._episode_id:
            raise InputError("no episode is running; begin one before ending it")
        within = [recent for recent in self._recent if recent.row.stamp_ns <= stamp_ns]
        rows = [row for row in self._unsent if row.stamp_ns <= stamp_ns]
        rows = [row for row in rows if row.segment == rows[-1].segment]
        later = [row for row in self._unsent if row.stamp_ns > stamp_ns]
        summary = self._summary(rows, within, end_ns=stamp_ns)
        self._unsent = deque(later)
        self._episode_id, self._episode = "", None
        self._recent = deque(_Recent(recent.row, None) for recent in self._recent)
        self._grid.locked = False
        return summary

    # --- messages ---------------------------------------------------------------------------------------------------

    def add(
        self,
        stamp_ns: int,
        names: Sequence[str],
        positions: Sequence[float],
        velocities: Sequence[float] = (),
        efforts: Sequence[float] = (),
    ) -> KinematicSummary | None:
        """Take a joint state message as it came, possibly partial; units rad, rad/s, N m (or A).

        Returns:
            A summary where one is due.
        """
        guard = self._guard(tuple(names))
        summary: KinematicSummary | None = None
        self.believed = guard.take(stamp_ns, (names, positions, velocities, efforts))
        for message_ns, message in self.believed:
            summary = self._believe(message_ns, message, guard.stepped, tell=summary is None) or summary
        return summary

    def _believe(self, stamp_ns: int, message: _Message, stepped: bool, tell: bool) -> KinematicSummary | None:
        """Go on with a message whose stamp is believed; ``tell``: no summary came of this call yet."""
        names, positions, velocities, efforts = message
        self.heard_ns = stamp_ns
        if stepped:
            self._grid.step_back(names)
            self._efforts.restart()
            self._raw_efforts.clear()
            self._due_ns = stamp_ns
        rows = self._grid.add(stamp_ns, names, positions, velocities)
        if self._grid.clock_jumps != self._jumps:
            closing = self._close_segment()
            self._forget(stamp_ns)
            if closing is not None:
                return closing
        for row in rows or ():
            self._remember(row)
            self._unsent.append(row)
        if rows is not None and len(efforts) and len(efforts) == len(names):
            self._watch_efforts(stamp_ns, names, efforts)
        if not tell or not self._is_due(stamp_ns, used=rows is not None):
            return None
        return self._summary(*self._next_rows())

    def tell_unheard(self, stream_ns: int) -> KinematicSummary | None:
        """What came, told at another input's stamp, where messages come without a stamp to go by.

        None while stamps of joint states are believed, and where no messages come at all. The summary says nothing
        but its health.
        """
        seen, now = self._unheard_since, (self.heard_ns, stream_ns, self.health.received)
        if seen is None or seen[0] != self.heard_ns or stream_ns < seen[1]:
            self._unheard_since = now
            return None
        if stream_ns - seen[1] < UNHEARD_NS or now[2] <= seen[2]:
            return None
        self._unheard_since = now
        summary = self._summary([], [])
        return summary.model_copy(update={"stamp_ns": stream_ns, "spikes": []})

    def _watch_efforts(self, stamp_ns: int, names: Sequence[str], efforts: Sequence[float]) -> None:
        self._spikes += self._efforts.add(stamp_ns, names, efforts)
        self._raw_efforts.append((stamp_ns, names, efforts))
        while self._raw_efforts[0][0] < stamp_ns - self._keep_ns:
            self._raw_efforts.popleft()

    def count_malformed(self) -> None:
        """Count a message that could not be read at all."""
        self._grid.count_malformed()

    def count_lost(self, lost: int) -> None:
        """Count messages that never arrived, as the middleware tells."""
        self._lost += lost

    def _guard(self, names: tuple[str, ...]) -> StampGuard[_Message]:
        """Of the publishers of these joints, in whatever order each names them."""
        guard = self._guards.get(names)
        if guard is not None:
            return guard
        if len(self._guards) >= MAX_PUBLISHERS:
            self._forget_guards()
        joints = frozenset(names)
        guard = self._guards_by_joints.get(joints)
        if guard is None:
            guard = self._guards_by_joints[joints] = StampGuard(self._back_ns)
        self._guards[names] = guard
        return guard

    def _forget_guards(self) -> None:
        for guard in self._guards_by_joints.values():
            self._unstamped += guard.unstamped
            self._repeated += guard.repeated
            self._stray += guard.stray + guard.held
        self._guards.clear()
        self._guards_by_joints.clear()

    def _close_segment(self) -> KinematicSummary | None:
        """What was not told of yet when the clock went back, as it stood then; None if nothing was."""
        if not self._unsent:
            return None
        summary = self._summary(*self._next_rows())
        self._unsent.clear()
        return summary.model_copy(update={"health": summary.health.model_copy(update={"clock_jumps": self._jumps})})

    def _forget(self, stamp_ns: int) -> None:
        """The clock went back: nothing that came before can be set beside what comes now, and that is told at once."""
        self._jumps = self._grid.clock_jumps
        self._recent.clear()
        self._efforts.restart()
        self._raw_efforts.clear()
        self._due_ns = stamp_ns

    def _remember(self, row: Row) -> None:
        joints = self._grid.joint_names
        if joints != self._joints:
            self._joints = list(joints)
            self._recent.clear()
            self._unsent.clear()  # rows of another set of joints: a summary names one set
            self._episode = None
        before = self._recent[-1] if self._recent else None
        in_episode = bool(self._episode_id) and row.stamp_ns >= self._start_ns
        if in_episode:
            if self._episode is None:
                self._episode = self._accumulator()
            self._episode.push(row.positions, new_segment=before is None or before.row.segment != row.segment)
        held = self._episode.copy() if in_episode and self._episode is not None else None
        self._recent.append(_Recent(row, held))
        while self._recent[0].row.stamp_ns < row.stamp_ns - self._keep_ns:
            self._recent.popleft()

    def _accumulator(self) -> MotionAccumulator:
        return MotionAccumulator(len(self._joints), self._settings.grid_rate_hz, self._settings.idle_speed)

    # --- summaries --------------------------------------------------------------------------------------------------

    def _is_due(self, stamp_ns: int, used: bool) -> bool:
        newest = self._grid.newest_ns
        if used and newest is not None:
            following = (newest // self._period_ns + 1) * self._period_ns
            mixed = len(self._unsent) > 1 and self._unsent[0].segment != self._unsent[-1].segment
            due = mixed or (self._due_ns is not None and newest >= self._due_ns)
            self._due_ns = following
            return due
        # a message of no use tells of itself, but one stray stamp must not put off the summaries that are to come
        if self._due_ns is None:  # nothing usable came yet: a stream that is broken from its start must be told of, too
            self._due_ns = (stamp_ns // self._period_ns + 1) * self._period_ns
            return False
        if stamp_ns < self._due_ns:
            return False
        self._due_ns += self._period_ns
        return True

    def _next_rows(self) -> tuple[list[Row], list[_Recent]]:
        """Rows to tell of now, all of one segment, and the recent rows up to the last of them."""
        rows: list[Row] = []
        while self._unsent and (not rows or self._unsent[0].segment == rows[0].segment):
            rows.append(self._unsent.popleft())
        return rows, [recent for recent in self._recent if not rows or recent.row.stamp_ns <= rows[-1].stamp_ns]

    def _summary(self, rows: Sequence[Row], recent: Sequence[_Recent], end_ns: int | None = None) -> KinematicSummary:
        newest = recent[-1].row if recent else rows[-1] if rows else None
        window = self._window(recent)
        episode = recent[-1].episode if recent else None
        spikes, self._spikes = self._spikes, []
        health = self.health
        return KinematicSummary(
            stamp_ns=self._reached_ns(newest, end_ns),
            episode_id=self._episode_id,
            joint_names=self._joints or self._grid.joint_names,
            grid_rate_hz=self._settings.grid_rate_hz,
            segment=newest.segment if newest else self._grid.segment,
            rows=[GridRow(stamp_ns=row.stamp_ns, positions=row.positions.tolist()) for row in rows],
            window=self._figures(window),
            episode=episode.figures(self._joints) if episode else self._figures([]),
            moving=self._moving(recent),
            spikes=spikes,
            health=health,
            end_of_episode=end_ns is not None,
        )

    def _reached_ns(self, newest: Row | None, end_ns: int | None) -> int:
        """How far the rows have come; while none can be formed, as far as they would have."""
        stream_ns = (self.heard_ns or 0) if self._grid.newest_ns is None else self._grid.newest_ns
        if newest is None:
            return stream_ns
        could_ns = self._grid.covered_ns(stream_ns)
        return max(newest.stamp_ns, could_ns if end_ns is None else min(could_ns, end_ns))

    def _window(self, recent: Sequence[_Recent]) -> list[npt.NDArray[np.float64]]:
        """The rows of the sliding window that ends with the newest row, one matrix per segment."""
        segments: dict[int, list[npt.NDArray[np.float64]]] = {}
        for held in recent:
            if held.row.stamp_ns > recent[-1].row.stamp_ns - self._window_ns:
                segments.setdefault(held.row.segment, []).append(held.row.positions)
        return [np.stack(rows) for rows in segments.values()]

    def _figures(self, segments: list[npt.NDArray[np.float64]]) -> MotionFigures:
        if not segments:
            return MotionFigures(samples=0, duration_s=0.0)
        return figures(segments, self._settings.grid_rate_hz, self._joints, self._settings.idle_speed)

    def _moving(self, recent: Sequence[_Recent]) -> bool:
        """Whether a joint was faster than the idle speed within the last half second of rows."""
        limit = self._settings.idle_speed / self._settings.grid_rate_hz
        for before, after in zip(reversed(recent[:-1]), reversed(recent[1:]), strict=True):
            if after.row.stamp_ns <= recent[-1].row.stamp_ns - MOVING_NS:
                break
            if before.row.segment != after.row.segment:
                continue
            if float(np.abs(after.row.positions - before.row.positions).max()) >= limit:
                return True
        return False
