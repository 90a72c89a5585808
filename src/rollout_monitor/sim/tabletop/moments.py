"""Single moments of stored takes made anew: other cameras, light and colours, things put elsewhere; no physics.

A take shows one camera, one light and one arrangement of its table. What is to be seen at a moment (is the object held,
how far is it from its place) follows from where things are, so a moment can be rearranged and its truth be read off
again. Each costs two pictures, and looks different from all others of its take.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from rollout_monitor.frames import RgbImage
from rollout_monitor.sim.tabletop.catalogue import (
    CONTAINERS,
    CUBES,
    FIXTURE_INDEX,
    FLOOR,
    FOOTPRINTS,
    OBJECT_INDEX,
    OBJECTS,
    ZONES,
)
from rollout_monitor.sim.tabletop.files import Truth
from rollout_monitor.sim.tabletop.goals import SceneFacts, States, parse
from rollout_monitor.sim.tabletop.looks import Look, draw_look
from rollout_monitor.sim.tabletop.skins import Skin, draw_skins
from rollout_monitor.sim.tabletop.takes import PICTURE
from rollout_monitor.sim.tabletop.world import VIEWS, TableWorld, shared_world

FloatArray = npt.NDArray[np.float64]

NEAR_EVENT_S = 0.7
EVENT_SHARE = 0.4
"""Share of the moments drawn near a grasp, a release, a drop or a shove: most of a take shows none."""

MOVED_SHARE, FIXTURE_SHARE = 0.6, 0.4
"""How often a thing that can be moved is."""

LET_GO_SHARE = 0.25
"""How often a held object is shown beside the fingers instead: almost held is what is hardest to tell from held."""

INTO_SHARE, ONTO_SHARE = 0.25, 0.12
"""How often an object is put into a target, or onto a cube."""

ALONE_M = 0.02
"""An object whose height is within this of lying on the table may be moved."""

HAND_ROOM_M, HAND_HEIGHT_M = 0.075, 0.14
TRIES = 30
GROUPS = 3
"""The moments of a take come in groups; in all but the first some things look different and have other names."""

MOVABLE = (*CUBES, "can", "ring")
STANDING = (*CONTAINERS, *ZONES, "peg")


@dataclass(frozen=True)
class Moments:
    """Moments of one take, n of them.

    Attributes:
        rows: the frames they come from, int64 (n,).
        looks: what each looks like.
        states: where everything is in them.
        facts: with the places of the fixtures at each moment, (n, fixtures, 3).
        qpos: generalised positions, (n, nq).
        groups: which group each belongs to, in order, int64 (n,).
        skins: of each group: other looks and names of some things; none in the first.
    """

    rows: npt.NDArray[np.int64]
    looks: list[Look]
    states: States
    facts: SceneFacts
    qpos: FloatArray
    groups: npt.NDArray[np.int64]
    skins: list[dict[str, Skin]]


def draw_moments(truth: Truth, count: int, seed: int) -> Moments:
    """Draw moments of a take and rearrange them.

    Args:
        truth: the take.
        count: how many; a frame may come more than once.
        seed: with the take's own seed it decides everything.

    Raises:
        RolloutMonitorError: robosuite is missing.
    """
    rng = np.random.default_rng([truth.row.look_seed, truth.row.seed, seed, 61])
    rows = _draw_rows(rng, truth, count)
    world = shared_world(truth.row.arms, PICTURE)
    world.lay_out(truth.layout)
    states = truth.states.take(rows)
    # They are changed in place below; taking rows has copied them.
    fixtures = np.repeat(truth.facts.fixtures[None], count, axis=0)
    facts = replace(truth.facts, fixtures=fixtures)
    qpos = truth.qpos[rows].astype(np.float64)
    for number in range(count):
        _Rearranged(rng, world, states, facts, qpos[number], number).rearrange()
    looks = [draw_look(int(rng.integers(2**31))) for _ in range(count)]
    handled = {str(goal.what) for goal in parse(truth.row.task).goals}
    skins = [{}, *(draw_skins(rng, truth.facts.present, handled) for _ in range(GROUPS - 1))]
    return Moments(rows, looks, states, facts, qpos, np.arange(count) * GROUPS // count, skins)


def picture_moments(truth: Truth, moments: Moments, points: FloatArray) -> tuple[dict[str, list[RgbImage]], FloatArray]:
    """Draw moments.

    Args:
        truth: their take.
        moments: what `draw_moments` gave.
        points: metres, world frame, (n, k, 3); NaN for what is not there.

    Returns:
        By view the pictures, RGB uint8 (height, width, 3), and where the points are in them, as `files.project` says.
    """
    world = shared_world(truth.row.arms, PICTURE)
    pictures: dict[str, list[RgbImage]] = {view: [] for view in VIEWS}
    shown = np.zeros((len(moments.rows), len(VIEWS), points.shape[1], 3))
    for number, look in enumerate(moments.looks):
        if number == 0 or moments.groups[number] != moments.groups[number - 1]:
            world.lay_out(truth.layout)  # takes the last group's skins away
        world.stand(moments.facts.fixtures[number])
        world.dress(look)
        for name, skin in moments.skins[moments.groups[number]].items():
            world.reskin(name, skin)
        world.show(moments.qpos[number])
        for index, view in enumerate(VIEWS):
            pictures[view].append(world.render(view))
            shown[number, index] = world.project(view, points[number])
    world.lay_out(truth.layout)
    return pictures, shown


def _draw_rows(rng: np.random.Generator, truth: Truth, count: int) -> npt.NDArray[np.int64]:
    frames = len(truth.stamps_ns)
    rows = rng.integers(frames, size=count)
    stamps = [event.begin_ns for event in truth.events if event.kind != "bump"]
    if stamps:
        near = rng.choice(stamps, size=count) + rng.uniform(-NEAR_EVENT_S, NEAR_EVENT_S, count) * 1e9
        closest = np.clip(np.searchsorted(truth.stamps_ns, near), 0, frames - 1)
        rows = np.where(rng.random(count) < EVENT_SHARE, closest, rows)
    return rows.astype(np.int64)


class _Rearranged:
    """One moment while its things are moved; works on its row of the states in place."""

    def __init__(
        self,
        rng: np.random.Generator,
        world: TableWorld,
        states: States,
        facts: SceneFacts,
        qpos: FloatArray,
        row: int,
    ) -> None:
        self._rng, self._world, self._qpos = rng, world, qpos
        self._at: FloatArray = states.objects[row]
        self._held, self._touching = states.held[row], states.touching[row]
        self._speeds, self._tools = states.speeds[row], states.tools[row]
        self._fixtures: FloatArray = facts.fixtures[row]
        self._half, self._table, self._present = facts.half, facts.table_z, facts.present

    def rearrange(self) -> None:
        """Move what can be moved."""
        rng = self._rng
        for name in rng.permutation(np.array(STANDING)):
            if name in self._present and rng.random() < FIXTURE_SHARE:
                self._move_fixture(str(name))
        for name in rng.permutation(np.array(MOVABLE)):
            if name not in self._present:
                continue
            if self._held[OBJECT_INDEX[name]] and rng.random() < LET_GO_SHARE:
                self._let_go(str(name))
            elif self._lies_alone(str(name)) and rng.random() < MOVED_SHARE:
                self._move(str(name))

    def _lies_alone(self, name: str) -> bool:
        me = OBJECT_INDEX[name]
        rise = self._at[me, 2] - self._table - self._half[me, 2]
        return bool(
            not self._held[me] and not self._touching[me].any() and abs(rise) < ALONE_M and self._speeds[me] < 0.02
        )

    def _move(self, name: str) -> None:
        """To a free place, into a target or onto a cube."""
        chance, me = self._rng.random(), OBJECT_INDEX[name]
        floor = self._table + self._half[me, 2] + 0.0005
        if chance < INTO_SHARE and name != "ring":
            targets = [t for t in (*CONTAINERS, *ZONES) if t in self._present]
            if targets:
                target = targets[int(self._rng.integers(len(targets)))]
                middle = self._fixtures[FIXTURE_INDEX[target], :2] + self._rng.uniform(-0.025, 0.025, 2)
                if self._free(middle, 0.03, {name, target}):
                    self._put(name, np.array([*middle, floor + FLOOR[target]]))
            return
        if chance < INTO_SHARE + ONTO_SHARE and name in CUBES:
            others = [c for c in CUBES if c in self._present and c != name and self._lies_alone(c)]
            if others:
                base = OBJECT_INDEX[others[int(self._rng.integers(len(others)))]]
                spot = self._at[base, :2] + self._rng.uniform(-0.006, 0.006, 2)
                if self._clear_of_hands(spot):
                    height = self._at[base, 2] + self._half[base, 2] + self._half[me, 2]
                    self._put(name, np.array([*spot, height]))
                    self._touching[me, base] = self._touching[base, me] = True
            return
        free = self._free_spot(name)
        if free is not None:
            self._put(name, np.array([*free, floor]))

    def _let_go(self, name: str) -> None:
        """Beside or below the fingers that held it: in the air, as it falls, or on the table already."""
        me, rng = OBJECT_INDEX[name], self._rng
        angle, apart = rng.uniform(-np.pi, np.pi), rng.uniform(0.03, 0.10)
        floor = self._table + self._half[me, 2] + 0.0005
        place = self._at[me].copy()
        place[:2] += apart * np.array([np.cos(angle), np.sin(angle)]) * (rng.random() < 0.7)
        high = place[2]
        place[2] = floor if rng.random() < 0.6 else rng.uniform(floor, max(floor, high - 0.03))
        if high - place[2] < 0.05 and np.linalg.norm(place[:2] - self._at[me, :2]) < 0.05:
            return  # it would still be between the fingers
        if self._free(place[:2], FOOTPRINTS[name] - 0.01, {name}):
            self._put(name, place)

    def _put(self, name: str, place: FloatArray) -> None:
        me = OBJECT_INDEX[name]
        self._at[me], self._speeds[me], self._held[me] = place, 0.0, 0
        self._touching[me, :] = self._touching[:, me] = False
        self._world.put(self._qpos, name, place, float(self._rng.uniform(-np.pi, np.pi)))

    def _move_fixture(self, name: str) -> None:
        """Where nothing lies in it."""
        index = FIXTURE_INDEX[name]
        room = FOOTPRINTS[name] + 0.03
        there = [self._at[OBJECT_INDEX[o], :2] for o in OBJECTS if o in self._present]
        if any(float(np.linalg.norm(o - self._fixtures[index, :2])) < room for o in there):
            return
        free = self._free_spot(name)
        if free is not None:
            self._fixtures[index, :2] = free

    def _free_spot(self, name: str) -> FloatArray | None:
        spec, rng = self._world.spec, self._rng
        for _ in range(TRIES):
            spot = np.array([rng.uniform(*spec.x), rng.uniform(-spec.y, spec.y)])
            if self._free(spot, FOOTPRINTS[name], {name}):
                return spot
        return None

    def _free(self, spot: FloatArray, room: float, but: set[str]) -> bool:
        places = [(name, self._at[OBJECT_INDEX[name]]) for name in OBJECTS]
        places += [(name, self._fixtures[FIXTURE_INDEX[name]]) for name in FIXTURE_INDEX]
        for name, place in places:
            if name in but or name not in self._present:
                continue
            if float(np.linalg.norm(spot - place[:2])) < room + FOOTPRINTS[name] * 0.85:
                return False
        return self._clear_of_hands(spot)

    def _clear_of_hands(self, spot: FloatArray) -> bool:
        for tool in self._tools:
            low = tool[2] - self._table < HAND_HEIGHT_M
            if low and float(np.linalg.norm(spot - tool[:2])) < HAND_ROOM_M:
                return False
        return True
