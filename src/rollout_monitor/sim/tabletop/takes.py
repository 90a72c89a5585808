"""One take at the table: physics, operator, watcher and cameras together; the same specification, the same take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from rollout_monitor.errors import InputError, RolloutMonitorError
from rollout_monitor.frames import RgbImage
from rollout_monitor.images import encode_jpeg
from rollout_monitor.sim.tabletop.arms import Arm
from rollout_monitor.sim.tabletop.catalogue import OBJECTS
from rollout_monitor.sim.tabletop.goals import Judgement, SceneFacts, States, judge, parse
from rollout_monitor.sim.tabletop.layouts import draw_layout
from rollout_monitor.sim.tabletop.looks import draw_look
from rollout_monitor.sim.tabletop.operator import TICK_S, Act, Aim, Held, Operator, draw_manner
from rollout_monitor.sim.tabletop.rotations import about_vertical, rotation_vector
from rollout_monitor.sim.tabletop.world import (
    STEP_S,
    STEPS_PER_SAMPLE,
    TWO_ARMS,
    VIEWS,
    Layout,
    TableWorld,
    check_picture,
    shared_world,
)

FloatArray = npt.NDArray[np.float64]

SAMPLE_NS = round(STEP_S * STEPS_PER_SAMPLE * 1e9)
SAMPLES_PER_TICK = round(TICK_S * 1e9) // SAMPLE_NS
TICK_NS = round(TICK_S * 1e9)
SETTLE_SAMPLES = 20
MAX_TAKE_S = 75.0
GAIN = 4.0
"""Speed per distance, 1/s: the hand slows down within a few centimetres of its target."""

ACCELERATION = 1.5
TURN_LIMIT = 1.6
FALL_M = 0.015
PICTURE = (224, 224)
JPEG_QUALITY = 88

EVENT_KINDS = ("grasp", "release", "drop", "shove", "bump")
"""What is noted on the way: an object gripped, let go, fallen, pushed by a person, touched by the hand first."""


@dataclass(frozen=True)
class TakeSpec:
    """What one take shall be.

    Attributes:
        plan: the plan it belongs to, part of every seed.
        seed: number within the plan.
        arms: a name of `ARMS` or `TWO_ARMS`.
        task: written form, see `goals`.
        mode: one of `operator.MODES`.
        text: the instruction.
        phrasing: ``known`` or ``held_out``.
        look: range of the look, see `looks`.
        rare: the can and the bowl may lie about.
        one_look: all takes of the plan look the same.
    """

    plan: str
    seed: int
    arms: str
    task: str
    mode: str
    text: str
    phrasing: str
    look: str
    rare: bool
    one_look: bool = False

    @property
    def id(self) -> str:
        """Folder name and identifier."""
        return f"{self.plan}-{self.seed:06d}"

    def numbers(self, use: int) -> list[int]:
        """A seed sequence for one use; plans never share one."""
        return [self.seed, use, *self.plan.encode()]

    @property
    def look_seed(self) -> int:
        """Seed of the take's own look."""
        numbers = [0, 5, *self.plan.encode()] if self.one_look else self.numbers(5)
        return int(np.random.default_rng(numbers).integers(2**31))


@dataclass(frozen=True)
class Event:
    """Something that happened to an object; begin and end are equal where it took no time."""

    begin_ns: int
    end_ns: int
    kind: str
    what: str


@dataclass(frozen=True)
class Take:
    """One take with n frames and m joint samples; stamps start at 0.

    Attributes:
        spec: what was asked for.
        layout: where everything lay.
        facts: what stays the same.
        stamps_ns: frame stamps, int64 (n,).
        states: privileged states of the frames.
        qpos: generalised positions of the frames, float64 (n, nq).
        pictures: JPEG by view, n each.
        joint_names: in the order of ``joints``.
        joint_stamps_ns: int64 (m,).
        joints: position, velocity, effort: float64 (m, 3, joints).
        events: in order of their beginning.
    """

    spec: TakeSpec
    layout: Layout
    facts: SceneFacts
    stamps_ns: npt.NDArray[np.int64]
    states: States
    qpos: FloatArray
    pictures: dict[str, list[bytes]]
    joint_names: list[str]
    joint_stamps_ns: npt.NDArray[np.int64]
    joints: FloatArray
    events: list[Event]

    @property
    def truth(self) -> Judgement:
        """Ground truth under the take's own instruction."""
        return judge(self.spec.task, self.states, self.facts)

    @property
    def outcome(self) -> str:
        """``success`` where the task is done at the last two frames: what is slipping away just then does not count."""
        return _outcome(self.truth)


@dataclass(frozen=True)
class JointSample:
    """The joints of one moment: position, velocity, effort in rad, rad/s, N m (m, m/s, N where they slide).

    ``values`` is float64 of shape (3, joints).
    """

    stamp_ns: int
    values: FloatArray


@dataclass(frozen=True)
class CameraFrame:
    """One picture of one view: RGB, uint8, (height, width, 3)."""

    stamp_ns: int
    view: str
    rgb: RgbImage


def run(spec: TakeSpec, *, frame_rate_hz: float = 5.0, pictures: bool = True) -> Take:
    """Simulate one take.

    Raises:
        InputError: unknown task, arm or mode, or a frame rate that does not fit.
        RolloutMonitorError: robosuite is missing, or rendering fails.
    """
    live = LiveTake(spec, frame_rate_hz=frame_rate_hz, pictures=pictures)
    drawn: dict[str, list[bytes]] = {view: [] for view in VIEWS}
    joints: list[FloatArray] = []
    for sample in live.stream():
        if isinstance(sample, CameraFrame):
            drawn[sample.view].append(encode_jpeg(sample.rgb, JPEG_QUALITY))
        else:
            joints.append(sample.values)
    return live.finish(drawn, joints)


def spec_layout(spec: TakeSpec, world: TableWorld) -> Layout:
    """The take's scene."""
    rng = np.random.default_rng(spec.numbers(1))
    return draw_layout(rng, parse(spec.task), world.spec, two_arms=spec.arms == TWO_ARMS, rare=spec.rare)


def ticks_per_frame(rate_hz: float) -> int:
    """Control ticks from one frame to the next.

    Raises:
        InputError: the rate is not 20 Hz divided by a whole number.
    """
    ticks = round(1.0 / (rate_hz * TICK_S)) if rate_hz > 0 else 0
    if ticks < 1 or abs(ticks * rate_hz * TICK_S - 1.0) > 1e-9:
        raise InputError(f"camera rate {rate_hz} Hz: it must be 20 Hz divided by a whole number (20, 10, 5, 4, ...)")
    return ticks


def joint_names(arms: Sequence[Arm]) -> list[str]:
    """Names of the arms' joints, each arm's first finger joint behind its own, as they are recorded.

    A single arm's are its driver's, ``shoulder_pan_joint`` and so on; of two arms robosuite's prefixes tell which.
    """
    names = [name for arm in arms for name in (*arm.joint_names, arm.finger_joints[0].name)]
    return names if len(arms) > 1 else [name.removeprefix("robot0_").removeprefix("gripper0_right_") for name in names]


def _outcome(truth: Judgement) -> str:
    return "success" if bool(truth.done[-2:].all()) else "failure"


class LiveTake:
    """One take as it happens. It can be drawn from as fast as it goes or paced to real time; it does not know which.

    Takes of one process share a world: draw one to its end before the next begins, all in one thread.

    Args:
        spec: what it shall be.
        frame_rate_hz: camera rate: 20 Hz divided by a whole number.
        pictures: False for joints alone.

    Raises:
        InputError: unknown arm, or a frame rate that does not fit.
        RolloutMonitorError: robosuite is missing.
    """

    def __init__(self, spec: TakeSpec, *, frame_rate_hz: float = 5.0, pictures: bool = True) -> None:
        self.spec = spec
        self.views = VIEWS if pictures else ()
        self._ticks_per_frame = ticks_per_frame(frame_rate_hz)
        self._world = shared_world(spec.arms, PICTURE)
        self.joint_names = joint_names(self._world.arms)
        self._layout = spec_layout(spec, self._world)
        self._watch = _Watcher(self._world)
        self._states: list[States] = []
        self._qpos: list[FloatArray] = []
        self._end_ns: int | None = None

    def stream(self) -> Iterator[JointSample | CameraFrame]:
        """Simulate: samples in stamp order from stamp 0, joints every 10 ms; of equal stamps the frames come first.

        Raises:
            InputError: unknown task or mode.
            RolloutMonitorError: off-screen rendering gives empty pictures.
        """
        world, spec = self._world, self.spec
        self._facts = world.lay_out(self._layout)
        rng = np.random.default_rng(spec.numbers(2))
        for arm in world.arms:
            arm.reset(arm.rest + rng.normal(0, 0.03, len(arm.rest)))
        for _ in range(SETTLE_SAMPLES):
            world.advance()
        if self.views:
            world.dress(draw_look(spec.look_seed, spec.look))
        manner = draw_manner(rng, spec.mode)
        script = Operator(world, parse(spec.task), spec.mode, manner, self._watch.held, rng).script()
        hands = [_Hand(arm, rng, manner.shake) for arm in world.arms]
        self._watch.look(0)
        tick = 0
        for tick in range(round(MAX_TAKE_S / TICK_S)):
            if tick % self._ticks_per_frame == 0:
                yield from self._frames(tick * TICK_NS)
            act = next(script, None)
            if act is None:
                break
            yield from self._tick(act, hands, tick * TICK_NS)
            self._watch.look((tick + 1) * TICK_NS)
        self._end_ns = tick * TICK_NS

    def _frames(self, stamp_ns: int) -> Iterator[CameraFrame]:
        world = self._world
        self._states.append(self._watch.state())
        self._qpos.append(world.data.qpos.copy())
        for view in self.views:
            picture = world.render(view)
            if stamp_ns == 0:
                check_picture(picture, view)
            yield CameraFrame(stamp_ns, view, picture)

    def _tick(self, act: Act, hands: list[_Hand], stamp_ns: int) -> Iterator[JointSample]:
        world = self._world
        for hand, aim in zip(hands, act.aims, strict=True):
            hand.plan(aim)
        if act.shove is not None:
            self._watch.note_shove(act.shove[0], stamp_ns)
        for number in range(SAMPLES_PER_TICK):
            rows = [np.stack(arm.joint_state()) for arm in world.arms]
            yield JointSample(stamp_ns + number * SAMPLE_NS, np.concatenate(rows, axis=1))
            for hand in hands:
                hand.follow()
            if act.shove is not None:
                world.push(*act.shove)
            if act.slides is not None:
                world.slow(act.slides)
            world.advance()

    @property
    def outcome(self) -> str:
        """How it ended, see `Take.outcome`.

        Raises:
            RolloutMonitorError: it has not ended yet.
        """
        self._ended()
        return _outcome(judge(self.spec.task, self._all_states(), self._facts))

    def finish(self, pictures: dict[str, list[bytes]], joints: list[FloatArray]) -> Take:
        """The whole take, from its pictures (JPEG by view) and joint samples (3, joints) and what was noted on the way.

        Raises:
            RolloutMonitorError: it has not ended yet.
        """
        end_ns = self._ended()
        return Take(
            spec=self.spec,
            layout=self._layout,
            facts=self._facts,
            stamps_ns=np.arange(len(self._qpos), dtype=np.int64) * self._ticks_per_frame * TICK_NS,
            states=self._all_states(),
            qpos=np.array(self._qpos),
            pictures=pictures,
            joint_names=self.joint_names,
            joint_stamps_ns=np.arange(len(joints), dtype=np.int64) * SAMPLE_NS,
            joints=np.array(joints),
            events=self._watch.finish(end_ns),
        )

    def _ended(self) -> int:
        if self._end_ns is None:
            raise RolloutMonitorError("the take has not ended: draw all of stream() first")
        return self._end_ns

    def _all_states(self) -> States:
        return States(**{f.name: np.concatenate([getattr(s, f.name) for s in self._states]) for f in fields(States)})


class _Hand:
    """Moves one arm after the operator's aims, with an acceleration limit and a shake."""

    def __init__(self, arm: Arm, rng: np.random.Generator, shake: float) -> None:
        self._arm, self._rng, self._shake = arm, rng, shake
        self._velocity: FloatArray = np.zeros(3)
        self._aim: Aim | None = None
        self._noise: FloatArray = np.zeros(3)

    def plan(self, aim: Aim) -> None:
        """Take up a new aim for one tick."""
        self._aim = aim
        wanted = GAIN * (aim.target - self._arm.tool)
        size = float(np.linalg.norm(wanted))
        if size > aim.speed:
            wanted *= aim.speed / size
        change = wanted - self._velocity
        limit = ACCELERATION * TICK_S
        self._velocity = self._velocity + change * min(1.0, limit / max(float(np.linalg.norm(change)), 1e-9))
        self._noise = self._rng.normal(0, self._shake, 3)

    def follow(self) -> None:
        """Steer the joints for one sample."""
        assert self._aim is not None  # noqa: S101 - plan comes first
        upright = about_vertical(self._aim.yaw) @ self._arm.upright
        turn = GAIN * rotation_vector(upright @ self._arm.rotation.T)
        size = float(np.linalg.norm(turn))
        if size > TURN_LIMIT:
            turn *= TURN_LIMIT / size
        seconds = SAMPLE_NS / 1e9
        self._arm.follow(self._velocity + self._noise, turn, seconds)
        self._arm.squeeze(self._aim.closed, seconds)


class _Watcher:
    """Reads the world at every tick: what is held, and what happened."""

    def __init__(self, world: TableWorld) -> None:
        self._world = world
        self.held = Held()
        self.events: list[Event] = []
        self._gripped: npt.NDArray[np.int8] = np.zeros(len(OBJECTS), dtype=np.int8)
        self._touching: npt.NDArray[np.bool_] = np.zeros((len(OBJECTS), len(OBJECTS)), dtype=bool)
        self._falling: dict[str, tuple[int, float]] = {}
        self._shoved: dict[str, int] = {}
        self._bumped: set[int] = set()

    def look(self, stamp_ns: int) -> None:
        """Bring `held` and `events` up to date; once per tick."""
        gripped, self._touching, touched = self._world.contacts()
        # Contacts flicker between ticks: a grip counts as kept until it is missing twice in a row.
        held = gripped | self._gripped if stamp_ns else gripped
        before, self._gripped = self.held.bits, gripped
        self.held.bits = held
        for index in np.flatnonzero((held > 0) != (before > 0)):
            name, now = OBJECTS[index], bool(held[index])
            self.events.append(Event(stamp_ns, stamp_ns, "grasp" if now else "release", name))
            if not now:
                self._falling[name] = (stamp_ns, float(self._world.place(name)[2]))
        for index in touched - self._bumped:
            self.events.append(Event(stamp_ns, stamp_ns, "bump", OBJECTS[index]))
        self._bumped |= touched
        self._note_falls(stamp_ns)

    def _note_falls(self, stamp_ns: int) -> None:
        for name, (since, height) in list(self._falling.items()):
            low = height - float(self._world.place(name)[2])
            dof = self._world.model.joint(name).dofadr[0]
            slow = float(np.linalg.norm(self._world.data.qvel[dof : dof + 3])) < 0.05
            if (slow and stamp_ns - since > 100_000_000) or stamp_ns - since > 1_500_000_000 or self.held.by(name):
                if low > FALL_M:
                    self.events.append(Event(since, stamp_ns, "drop", name))
                del self._falling[name]

    def note_shove(self, name: str, stamp_ns: int) -> None:
        """A person pushes an object in this tick."""
        last = self._shoved.get(name)
        if last is not None and self.events[last].end_ns == stamp_ns:
            self.events[last] = Event(self.events[last].begin_ns, stamp_ns + TICK_NS, "shove", name)
            return
        self._shoved[name] = len(self.events)
        self.events.append(Event(stamp_ns, stamp_ns + TICK_NS, "shove", name))

    def state(self) -> States:
        """The privileged state now."""
        return self._world.state(self.held.bits.copy(), self._touching)

    def finish(self, stamp_ns: int) -> list[Event]:
        """All events in order; a fall that has not ended ends now."""
        for name, (since, height) in self._falling.items():
            if height - float(self._world.place(name)[2]) > FALL_M:
                self.events.append(Event(since, stamp_ns, "drop", name))
        return sorted(self.events, key=lambda event: (event.begin_ns, EVENT_KINDS.index(event.kind), event.what))
