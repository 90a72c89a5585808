"""Between script and physics: commands become controller actions, the world becomes sight and scene states."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rollout_monitor.sim.experts import TICK_S, Command, Sight
from rollout_monitor.sim.progress import ALIGNED_M, SceneState
from rollout_monitor.sim.world import FloatArray, World, about_vertical, rotation_error

STEPS_PER_TICK = 25
"""Physics steps of 2 ms in one control tick."""

# With robosuite's default UR5e controller (kp 150, critically damped) a command of 1 moves at output_max * kp / kd.
FULL_SPEED = 0.05 * 150 / (2 * np.sqrt(150))
FULL_TURN = 10 * FULL_SPEED
GAIN = 4.0
"""Speed per distance, 1/s: the hand slows down within a few centimetres of its target."""

ACCELERATION = 1.2
"""Largest change of the commanded speed, m/s^2."""

RESTING_SPEED = 0.05
FALL_HEIGHT = 0.015


class Hand:
    """Moves the arm after commands, with an acceleration limit and a shake."""

    def __init__(self, world: World, rng: np.random.Generator, shake: float) -> None:
        self._world = world
        self._rng = rng
        self._shake = shake
        self._velocity: FloatArray = np.zeros(3)

    def act(self, command: Command) -> Iterator[None]:
        """Carry out one command: yields before each of the tick's physics steps."""
        action = self._action(command)
        for step in range(STEPS_PER_TICK):
            yield
            self._world.step(action, policy_step=step == 0)

    def _action(self, command: Command) -> FloatArray:
        wanted = GAIN * (command.target - self._world.tool)
        size = float(np.linalg.norm(wanted))
        if size > command.speed:
            wanted *= command.speed / size
        change = wanted - self._velocity
        limit = ACCELERATION * TICK_S
        self._velocity = self._velocity + change * min(1.0, limit / max(float(np.linalg.norm(change)), 1e-9))
        velocity = self._velocity + self._rng.normal(0, self._shake, 3)
        upright = about_vertical(command.yaw) @ self._world.upright
        turn = GAIN * rotation_error(upright, self._world.tool_rotation)
        grip = 1.0 if command.closed else -1.0
        return np.concatenate([np.clip(np.concatenate([velocity / FULL_SPEED, turn / FULL_TURN]), -1, 1), [grip]])


class Watcher:
    """Reads the privileged state at every tick: what is held, what rests on what, what falls."""

    def __init__(self, world: World, body_of: dict[str, str]) -> None:
        self._world = world
        self._body_of = body_of
        self.half = {colour: world.halves[body] for colour, body in body_of.items()}
        self.sight = Sight(half=self.half, table_z=world.table_z)
        self.drops: list[tuple[int, int]] = []
        self._gripped: str | None = None
        self._held: str | None = None
        self._falling: tuple[str, int] | None = None

    def look(self, stamp_ns: int) -> SceneState:
        """The state now; also updates `sight` and `drops`. Call it once per tick."""
        world, pairs = self._world, self._world.contacts()
        cubes = {colour: world.cube(body) for colour, body in self._body_of.items()}
        gripped = self._grip(pairs)
        # Contacts flicker between ticks: a grip counts as kept until it is missing twice in a row.
        held = gripped or self._gripped
        stacked, touching = self._stack(pairs, cubes, held)
        state = SceneState(world.tool, cubes, held, stacked, touching)
        self._note_drop(stamp_ns, state)
        self._gripped, self._held = gripped, held
        self._update_sight(state)
        return state

    def _grip(self, pairs: set[tuple[int, int]]) -> str | None:
        for colour, body in self._body_of.items():
            geom = self._world.geoms[body]
            if all(any((pad, geom) in pairs for pad in pads) for pads in self._world.pads):
                return colour
        return None

    def _stack(
        self, pairs: set[tuple[int, int]], cubes: dict[str, FloatArray], held: str | None
    ) -> tuple[str | None, bool]:
        """Which cube rests on the other one, and whether they touch."""
        if len(cubes) < 2:
            return None, False
        first, second = cubes
        touching = (self._world.geoms[self._body_of[first]], self._world.geoms[self._body_of[second]]) in pairs
        top, low = (first, second) if cubes[first][2] > cubes[second][2] else (second, first)
        over = float(np.linalg.norm(cubes[top][:2] - cubes[low][:2])) < ALIGNED_M
        clear = cubes[top][2] - cubes[low][2] > 0.8 * (self.half[top] + self.half[low])
        still = self._world.cube_speed(self._body_of[top]) < RESTING_SPEED
        return (top if touching and over and clear and still and held is None else None), touching

    def _note_drop(self, stamp_ns: int, state: SceneState) -> None:
        if self._falling is not None:
            colour, since = self._falling
            if self._world.cube_speed(self._body_of[colour]) < RESTING_SPEED or state.held == colour:
                self.drops.append((since, stamp_ns))
                self._falling = None
            return
        lost = self._held
        if lost is None or state.held == lost or state.touching:
            return
        if state.cubes[lost][2] - self.half[lost] - self._world.table_z > FALL_HEIGHT:
            self._falling = (lost, stamp_ns)

    def _update_sight(self, state: SceneState) -> None:
        sight, world = self.sight, self._world
        rotation = world.tool_rotation @ world.upright.T
        sight.tool = state.tool
        sight.yaw = float(np.arctan2(rotation[1, 0], rotation[0, 0]))
        sight.cubes = state.cubes
        sight.cube_yaws = {colour: world.cube_yaw(body) for colour, body in self._body_of.items()}
        sight.held = state.held
