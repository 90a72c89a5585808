"""From joint messages to a uniform grid of joint positions.

Messages come by name, partial, jittering, repeated, late or broken; rows come out at multiples of the grid's period
since stamp 0, so the same recording gives the same rows wherever it is started. A row needs every joint, and depends
only on samples within a fixed half width of its tick: live and offline agree, and no two clocks are ever mixed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import isnan, nan

import numpy as np
import numpy.typing as npt

from rollout_monitor.motion import antialias
from rollout_monitor.motion.settings import MotionSettings
from rollout_monitor.motion.track import NEVER, Track
from rollout_monitor.records import JointHealth

Floats = npt.NDArray[np.float64]

NS = 1_000_000_000
MAX_JOINTS = 64  # names beyond this come from a broken stream, and would grow without bound
MAX_LAYOUTS = 64
MAX_POSITION = 1e6  # rad; what is beyond came from a broken message, and its fourth powers would not be finite
MIN_SAMPLES = 3  # a joint named fewer times than this may be a misprint of a broken message
JUMP_RUN = 5
"""So many messages in a row that are apart from what came before are a new position, and not a visit."""

LEAST_STEP_NS = NS // 200
"""Over a shorter interval a joint may move as far as in this: drivers repeat a value and then catch up."""

SUSPICION_NS = 2 * NS
"""After a position that was there and back, the next ones are held against `SUSPECT_SHARE` for as long."""

SUSPECT_SHARE = 0.2
"""Of the fastest speed: two publishers of the same joints are seldom further apart than the generous bound allows."""

RATE_SPAN_NS = NS  # the message rate is the median over the last second


class Ticks:
    """The absolute grid: tick k lies at k * 1e9 / rate nanoseconds, rounded half up, in exact integer arithmetic.

    >>> [Ticks(30.0).stamp(k) for k in (0, 1, 2, 3)]
    [0, 33333333, 66666667, 100000000]
    """

    def __init__(self, rate_hz: float) -> None:
        period = Fraction(NS) / Fraction(rate_hz).limit_denominator(10_000)  # 29.97 is meant to be 2997/100
        self._num, self._den = period.numerator, period.denominator
        self.period_ns = float(period)

    def stamp(self, k: int) -> int:
        """Stamp of tick ``k``, nanoseconds."""
        return (2 * k * self._num + self._den) // (2 * self._den)

    def first_from(self, stamp_ns: int) -> int:
        """The first tick at or after a stamp."""
        k = stamp_ns * self._den // self._num
        while self.stamp(k) < stamp_ns:
            k += 1
        return k


Layout = list[tuple[int, Track]]


@dataclass(frozen=True)
class _Message:
    """A message that is held; ``jumped`` are the joints that are apart from what came before."""

    stamp_ns: int
    layout: Layout
    positions: Sequence[float]
    velocities: Sequence[float]
    jumped: list[str]


@dataclass(frozen=True)
class Row:
    """One row of the grid.

    Attributes:
        stamp_ns: of the tick.
        segment: rows of one segment are consecutive ticks; differences across segments mean nothing.
        positions: float64 of shape (J,), rad (or m), in the order of `GridResampler.joint_names`.
    """

    stamp_ns: int
    segment: int
    positions: Floats


class GridResampler:
    """Takes joint messages, hands out grid rows. Not thread safe.

    Counts: ``received = used + not_advancing + malformed + unusable + implausible``, each message in exactly one of
    them once it is decided on; ``held`` tells how many are not.

    - used: gave at least one sample.
    - not_advancing: gave none, and a finite value was dropped because its joint's stamp did not advance.
    - malformed: no names, a name twice, an array that is neither empty nor as long as the names, or too many joints.
    - unusable: the rest: every value not finite, no positions, or no joint that was asked for.

    - implausible: a joint was where it cannot have been: it came there faster than ``max_speed`` and was back at once.

    A message apart from what came before is held until the next ones show what it was. If they stay with it
    (`JUMP_RUN` of them), the joint is there now (it was homed, its clock paused) and a new segment begins with it. If
    they do not even fit each other, the bound does not hold for this joint, and all are used.

    ``non_finite`` counts joint values, not messages; a value beyond `MAX_POSITION` is taken for one.
    """

    def __init__(self, settings: MotionSettings) -> None:
        self.ticks = Ticks(settings.grid_rate_hz)
        self.segment = 0
        self.locked = False
        """While true, the set of joints stays as it is; joints that turn up wait."""
        self.received = self.used = self.non_finite = self.not_advancing = self.malformed = self.unusable = 0
        self.gaps = self.clock_jumps = self.clock_steps = self.implausible = 0
        self.implausible_joint = ""
        self.newest_ns: int | None = None
        self._half_ns = int(antialias.HALF_WIDTH * self.ticks.period_ns)
        self._gap_ns = round(settings.gap_limit_s * NS)
        self._back_ns = round(settings.clock_back_s * NS)
        self._learn_ns = round(settings.learn_s * NS)
        self._max_speed = settings.max_speed
        self._suspect_until_ns = NEVER
        self._doubts: dict[frozenset[str], list[_Message]] = {}  # messages that are held, by their joints
        self._asked = frozenset(settings.joints)
        self._excluded = frozenset(settings.gripper_joints)
        self._tracks: dict[str, Track] = {}
        self._layouts: dict[tuple[str, ...], Layout | None] = {}
        self._candidates: list[Track] = []  # learned joints that are not in the grid yet
        self._first_ns: int | None = None  # when learning began
        self._begin_ns = 0  # first stamp since the stream, or its clock, began
        self._grid: list[Track] = [self._track(name) for name in settings.grid_joints]
        self._next = 0  # the tick to come
        self._ready_ns = NEVER  # no row before a sample reaches this
        self._expected: int | None = None  # the tick that would continue the segment
        self._arrivals: deque[int] = deque(maxlen=2048)
        self.joint_names: list[str] = [track.name for track in self._grid]

    # --- messages ---------------------------------------------------------------------------------------------------

    def count_malformed(self) -> None:
        """Count a message whose parts do not fit each other."""
        self.received += 1
        self.malformed += 1

    def add(
        self, stamp_ns: int, names: Sequence[str], positions: Sequence[float], velocities: Sequence[float] = ()
    ) -> list[Row] | None:
        """Take a message as it came.

        Args:
            stamp_ns: header stamp, nanoseconds.
            names: of the joints in it, any part of the arm's, in any order.
            positions: as many, rad (or m).
            velocities: as many, or none.

        Returns:
            The rows it completed, usually none; None if the message was not used (the counts say why), or not yet.
        """
        layout = self._layout(tuple(names))
        count = len(names)
        if layout is None or len(positions) not in (0, count) or len(velocities) not in (0, count):
            self.count_malformed()
            return None
        if len(positions) == 0:
            self.received += 1
            self.unusable += 1
            return None
        if self.newest_ns is not None and stamp_ns < self.newest_ns - self._back_ns:
            self._check_clock(stamp_ns, layout)
        jumped = self._jumped(stamp_ns, layout, positions)
        if jumped:
            return self._doubt(_Message(stamp_ns, layout, positions, velocities, jumped))
        if self._doubts:
            held = self._doubts.get(frozenset(track.name for _, track in layout))
            if held and self._stays(held[-1], layout, positions):
                return self._doubt(_Message(stamp_ns, layout, positions, velocities, held[-1].jumped))
            self._drop_doubts(stamp_ns, layout)
        return self._use(stamp_ns, layout, positions, velocities)

    def _use(
        self, stamp_ns: int, layout: Layout, positions: Sequence[float], velocities: Sequence[float]
    ) -> list[Row] | None:
        self.received += 1
        if not self._take(stamp_ns, layout, positions, velocities):
            return None
        self.used += 1
        if self.newest_ns is None:
            self._begin_ns = stamp_ns
        if self.newest_ns is None or stamp_ns > self.newest_ns:
            self.newest_ns = stamp_ns
            self._arrivals.append(stamp_ns)
        if self._candidates:
            self._learn(stamp_ns)
        return self._rows() if stamp_ns >= self._ready_ns and self._grid else []

    # --- positions that cannot be ------------------------------------------------------------------------------------

    def _reach(self, step_ns: int, stamp_ns: int) -> float:
        """How far a joint can have moved in a step, rad."""
        share = SUSPECT_SHARE if stamp_ns < self._suspect_until_ns else 1.0
        return share * self._max_speed * max(step_ns, LEAST_STEP_NS) * 1e-9

    def _jumped(self, stamp_ns: int, layout: Layout, positions: Sequence[float]) -> list[str]:
        """The joints that are further from their last position than they can have moved since."""
        jumped: list[str] = []
        step_ns, reach = NEVER, 0.0
        for index, track in layout:
            if track.last_ns == NEVER or track.name in self._excluded:
                continue
            if stamp_ns - track.last_ns != step_ns:  # the same for all joints, as a rule
                step_ns = stamp_ns - track.last_ns
                reach = self._reach(step_ns, stamp_ns)
            position = positions[index]
            if step_ns > 0 and abs(position - track.last) > reach and abs(position) <= MAX_POSITION:
                jumped.append(track.name)
        return jumped

    def _doubt(self, message: _Message) -> list[Row] | None:
        """Hold a message that is apart from what came before; go on with all that are held once they are enough."""
        joints = frozenset(track.name for _, track in message.layout)
        held = self._doubts.setdefault(joints, [])
        if held and message.stamp_ns <= held[-1].stamp_ns:
            self.received += 1
            self.not_advancing += 1
            return None
        held.append(message)
        if len(held) < JUMP_RUN:
            return None
        del self._doubts[joints]
        if all(self._follows(after, before) for before, after in pairwise(held)):
            for _, track in message.layout:
                track.cut()
        rows: list[Row] = []
        used = False
        for one in held:
            new = self._use(one.stamp_ns, one.layout, one.positions, one.velocities)
            used |= new is not None
            rows += new or ()
        return rows if used else None

    def _stays(self, held: _Message, layout: Layout, positions: Sequence[float]) -> bool:
        """Whether positions are nearer to those in doubt than to those before, which time has brought within reach."""
        was = {track.name: held.positions[index] for index, track in held.layout}
        away = [abs(positions[index] - was[track.name]) for index, track in layout]
        back = [abs(positions[index] - track.last) for index, track in layout]
        return max(away) < max(back)

    def _follows(self, after: _Message, before: _Message) -> bool:
        reach = self._reach(after.stamp_ns - before.stamp_ns, after.stamp_ns)
        was = {track.name: before.positions[index] for index, track in before.layout}
        moves = (abs(after.positions[index] - was[track.name]) for index, track in after.layout)
        return all(move <= reach or isnan(move) for move in moves)

    def _drop_doubts(self, stamp_ns: int, layout: Layout) -> None:
        """A joint is where it was before: what was held of it in between cannot have been."""
        names = {track.name for _, track in layout}
        for joints in [joints for joints in self._doubts if not joints.isdisjoint(names)]:
            held = self._doubts.pop(joints)
            self.received += len(held)
            self.implausible += len(held)
            self.implausible_joint = held[-1].jumped[0]
            self._suspect_until_ns = stamp_ns + SUSPICION_NS

    @property
    def held(self) -> int:
        """Messages that are not decided on yet."""
        return sum(len(held) for held in self._doubts.values())

    # --- clocks ------------------------------------------------------------------------------------------------------

    def step_back(self, names: Sequence[str]) -> None:
        """The clock of these joints was set back a little: what comes now does not go on from what came before.

        Ticks that were given out are not given out again, so rows go on where the stamps pass the last one.
        """
        self.clock_steps += 1
        for _, track in self._layout(tuple(names)) or ():
            track.clear()
        self._new_segment()
        self._arrivals.clear()
        self.newest_ns, self._ready_ns = None, NEVER

    def _take(
        self,
        stamp_ns: int,
        layout: Layout,
        positions: Sequence[float],
        velocities: Sequence[float],
    ) -> bool:
        used = late = hole = False
        moving = len(velocities) > 0
        for index, track in layout:
            position = positions[index]
            if not -MAX_POSITION <= position <= MAX_POSITION:  # true for NaN as well
                self.non_finite += 1
            elif stamp_ns <= track.last_ns:
                late = True
            else:
                hole |= track.append(stamp_ns, position, velocities[index] if moving else nan)
                used = True
        self.gaps += hole
        if not used:
            self.not_advancing += late
            self.unusable += not late
        return used

    def _layout(self, names: tuple[str, ...]) -> Layout | None:
        """Where each wanted joint is in messages with these names; None if such messages are malformed."""
        try:
            return self._layouts[names]
        except KeyError:
            pass
        layout: Layout | None = None
        wanted = [name for name in names if not self._asked or name in self._asked or name in self._excluded]
        if names and len(set(names)) == len(names) and len(self._tracks.keys() | wanted) <= MAX_JOINTS:
            layout = [(names.index(name), self._track(name)) for name in wanted]
        if len(self._layouts) >= MAX_LAYOUTS:
            self._layouts.clear()
        self._layouts[names] = layout
        return layout

    def _track(self, name: str) -> Track:
        track = self._tracks.get(name)
        if track is None:
            track = self._tracks[name] = Track(name, self._gap_ns)
            if not self._asked and name not in self._excluded:
                self._candidates.append(track)
        return track

    def _check_clock(self, stamp_ns: int, layout: Layout) -> None:
        """Begin anew if a joint's own stamps went back: a bag that looped, a simulator that was reset.

        A joint is only ever held against its own stamps: two arms on two clocks are not a jump.
        """
        if all(track.last_ns - stamp_ns <= self._back_ns for _, track in layout if track.last_ns != NEVER):
            return
        self.clock_jumps += 1
        self._new_segment()
        for track in self._tracks.values():
            track.clear()
        undecided = self.held
        self.received += undecided
        self.implausible += undecided
        self._doubts.clear()
        self._suspect_until_ns = NEVER
        self._arrivals.clear()
        self.newest_ns = self._first_ns = None
        self._next, self._ready_ns = 0, NEVER

    # --- the set of joints ------------------------------------------------------------------------------------------

    def _learn(self, stamp_ns: int) -> None:
        """Let joints into the grid once they have shown themselves for long enough."""
        if self._first_ns is None:
            self._first_ns = stamp_ns
        if stamp_ns - self._first_ns < self._learn_ns or (self.locked and self._grid):
            return
        known = [track for track in self._candidates if self._is_steady(track)]
        if not known:
            return
        self._candidates = [track for track in self._candidates if track not in known]
        if self._grid:
            self._new_segment()
        self._grid = sorted([*self._grid, *known], key=lambda track: track.name)
        self.joint_names = [track.name for track in self._grid]
        self._ready_ns = NEVER

    def _is_steady(self, track: Track) -> bool:
        """Whether a joint has come often enough for rows, and for long enough to be no misprint."""
        span_ns = track.last_ns - track.first_ns
        return len(track) >= MIN_SAMPLES and self._learn_ns // 2 <= span_ns <= (len(track) - 1) * self._gap_ns

    @property
    def waiting_for(self) -> list[str]:
        """Joints of the grid whose newest sample is older than the gap limit: no row can come without them."""
        newest = self.newest_ns
        if newest is None:
            return list(self.joint_names)
        return [track.name for track in self._grid if track.last_ns < newest - self._gap_ns]

    @property
    def missing_since_ns(self) -> dict[str, int]:
        """`waiting_for`, with the stamp of each joint's last sample: of the stream's first where it has none."""
        if self.newest_ns is None:
            return {}
        names = set(self.waiting_for)
        return {
            track.name: self._begin_ns if track.last_ns == NEVER else track.last_ns
            for track in self._grid
            if track.name in names
        }

    # --- rows -------------------------------------------------------------------------------------------------------

    def _rows(self) -> list[Row]:
        """All rows whose kernel every joint covers by now; stretches that cannot be filled are skipped at once."""
        rows: list[Row] = []
        covered_ns = min(track.last_ns for track in self._grid)
        while True:
            tick_ns = self.ticks.stamp(self._next)
            begin, end = tick_ns - self._half_ns, tick_ns + self._half_ns
            self._ready_ns = end
            if end > covered_ns:
                return rows
            blocks = [block for track in self._grid if (block := track.blocked_until(begin, end)) is not None]
            if blocks:
                self._next = self.ticks.first_from(max(blocks) + self._half_ns)
                continue
            rows.append(self._row(tick_ns))

    def covered_ns(self, stamp_ns: int) -> int:
        """The stamp before which every row that samples up to ``stamp_ns`` allow has been formed."""
        return stamp_ns - self._half_ns - int(self.ticks.period_ns)

    def _row(self, tick_ns: int) -> Row:
        if self._expected is not None and self._next != self._expected:
            self.segment += 1
        self._next += 1
        self._expected = self._next
        period_ns = self.ticks.period_ns
        positions = np.array([track.value_at(tick_ns, period_ns) for track in self._grid])
        return Row(tick_ns, self.segment, positions)

    def _new_segment(self) -> None:
        self.segment += 1
        self._expected = None

    # --- health -----------------------------------------------------------------------------------------------------

    def health(self) -> JointHealth:
        """The counts since the stream began."""
        return JointHealth(
            received=self.received,
            used=self.used,
            non_finite=self.non_finite,
            not_advancing=self.not_advancing,
            malformed=self.malformed,
            unusable=self.unusable,
            implausible=self.implausible,
            implausible_joint=self.implausible_joint,
            gaps=self.gaps,
            clock_jumps=self.clock_jumps,
            clock_steps=self.clock_steps,
            rate_hz=self._rate_hz(),
            last_stamp_ns=self.newest_ns,
            missing_since_ns=self.missing_since_ns,
        )

    def _rate_hz(self) -> float | None:
        """Median rate of advancing stamps over the last second; None below two of them."""
        arrivals = self._arrivals
        while len(arrivals) > 2 and arrivals[0] < arrivals[-1] - RATE_SPAN_NS:
            arrivals.popleft()
        if len(arrivals) < 2:
            return None
        stamps = np.fromiter(arrivals, dtype=np.int64, count=len(arrivals))
        return NS / float(np.median(np.diff(stamps)))
