"""One take at the table: physics, operator, watcher and cameras together; the same specification, the same take."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

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
        return "success" if bool(self.truth.done[-2:].all()) else "failure"


def run(spec: TakeSpec, *, frame_rate_hz: float = 5.0, pictures: bool = True) -> Take:
    """Simulate one take.

    Raises:
        InputError: unknown task, arm or mode.
        RolloutMonitorError: robosuite is missing, or rendering fails.
    """
    world = shared_world(spec.arms, PICTURE)
    layout = spec_layout(spec, world)
    facts = world.lay_out(layout)
    rng = np.random.default_rng(spec.numbers(2))
    for arm in world.arms:
        arm.reset(arm.rest + rng.normal(0, 0.03, len(arm.rest)))
    for _ in range(SETTLE_SAMPLES):
        world.advance()
    if pictures:
        world.dress(draw_look(spec.look_seed, spec.look))
    return _Run(world, spec, layout, facts, round(1.0 / (frame_rate_hz * TICK_S)), pictures).go(rng)


def spec_layout(spec: TakeSpec, world: TableWorld) -> Layout:
    """The take's scene."""
    rng = np.random.default_rng(spec.numbers(1))
    return draw_layout(rng, parse(spec.task), world.spec, two_arms=spec.arms == TWO_ARMS, rare=spec.rare)


class _Run:
    """The loop of one take."""

    def __init__(
        self, world: TableWorld, spec: TakeSpec, layout: Layout, facts: SceneFacts, ticks_per_frame: int, pictures: bool
    ) -> None:
        self._world, self._spec, self._layout, self._facts = world, spec, layout, facts
        self._ticks_per_frame, self._with_pictures = ticks_per_frame, pictures
        self._watch = _Watcher(world)
        self._states: list[States] = []
        self._qpos: list[FloatArray] = []
        self._pictures: dict[str, list[bytes]] = {view: [] for view in VIEWS}
        self._joints: list[FloatArray] = []

    def go(self, rng: np.random.Generator) -> Take:
        world, spec = self._world, self._spec
        manner = draw_manner(rng, spec.mode)
        operator = Operator(world, parse(spec.task), spec.mode, manner, self._watch.held, rng)
        hands = [_Hand(arm, rng, manner.shake) for arm in world.arms]
        script = operator.script()
        self._watch.look(0)
        tick = 0
        for tick in range(round(MAX_TAKE_S / TICK_S)):
            if tick % self._ticks_per_frame == 0:
                self._frame()
            act = next(script, None)
            if act is None:
                break
            self._tick(act, hands, tick * TICK_NS)
            self._watch.look((tick + 1) * TICK_NS)
        rows = len(self._states)
        stack = {f.name: np.concatenate([getattr(s, f.name) for s in self._states]) for f in fields(States)}
        return Take(
            spec=spec,
            layout=self._layout,
            facts=self._facts,
            stamps_ns=np.arange(rows, dtype=np.int64) * self._ticks_per_frame * TICK_NS,
            states=States(**stack),
            qpos=np.array(self._qpos),
            pictures=self._pictures,
            joint_names=[name for arm in world.arms for name in joint_names(arm)],
            joint_stamps_ns=np.arange(len(self._joints), dtype=np.int64) * SAMPLE_NS,
            joints=np.array(self._joints),
            events=self._watch.finish(tick * TICK_NS),
        )

    def _frame(self) -> None:
        world = self._world
        self._states.append(self._watch.state())
        self._qpos.append(world.data.qpos.copy())
        if self._with_pictures:
            for view in VIEWS:
                self._pictures[view].append(encode_jpeg(world.render(view), JPEG_QUALITY))

    def _tick(self, act: Act, hands: list[_Hand], stamp_ns: int) -> None:
        world = self._world
        for hand, aim in zip(hands, act.aims, strict=True):
            hand.plan(aim)
        if act.shove is not None:
            self._watch.note_shove(act.shove[0], stamp_ns)
        for _ in range(SAMPLES_PER_TICK):
            rows = [arm.joint_state() for arm in world.arms]
            self._joints.append(np.concatenate([np.stack(row) for row in rows], axis=1))
            for hand in hands:
                hand.follow()
            if act.shove is not None:
                world.push(*act.shove)
            if act.slides is not None:
                world.slow(act.slides)
            world.advance()


def joint_names(arm: Arm) -> list[str]:
    """Names of an arm's joints and its first finger joint, as they are recorded."""
    return [*arm.joint_names, arm.finger_joints[0].name]


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
