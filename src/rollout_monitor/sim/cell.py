"""The simulated robot cell: a UR5e with a gripper on a table, streaming joint samples and camera frames with stamps.

`SimCell` is one attempt. It can be drawn from as fast as it goes (data generation) or paced to real time (a node);
it does not know which. The physics is robosuite's (MuJoCo, 2 ms steps, operational-space control at 20 Hz).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rollout_monitor.errors import InputError, RolloutMonitorError
from rollout_monitor.frames import RgbImage
from rollout_monitor.sim import progress as rules
from rollout_monitor.sim.experts import TICK_S, Expert
from rollout_monitor.sim.hand import STEPS_PER_TICK, Hand, Watcher
from rollout_monitor.sim.look import draw_look
from rollout_monitor.sim.modes import MODES, check_mode, draw_manner
from rollout_monitor.sim.progress import SceneStart, SceneState
from rollout_monitor.sim.tasks import get_task
from rollout_monitor.sim.world import JOINT_NAMES, FloatArray, check_picture, shared_world

CAMERA_NAMES = ("front", "wrist")
STEP_NS = 2_000_000
"""Physics and joint sample period: 500 Hz."""

MAX_ATTEMPT_S = 25.0


@dataclass(frozen=True)
class JointSample:
    """Joint state of one moment in the order of `JOINT_NAMES`: rad, rad/s, N m; float64 arrays of shape (7,)."""

    stamp_ns: int
    positions: FloatArray
    velocities: FloatArray
    efforts: FloatArray


@dataclass(frozen=True)
class CameraFrame:
    """One picture of one camera: RGB, uint8, (height, width, 3)."""

    stamp_ns: int
    camera: str
    rgb: RgbImage


@dataclass(frozen=True)
class Truth:
    """Ground truth of one attempt, one row per moment at which the cameras fired.

    Attributes:
        stamps_ns: frame stamps, int64, shape (n,).
        progress: true progress for the cell's own task, float64, shape (n,).
        done: whether the task was done at that moment, bool, shape (n,).
        states: the privileged states behind them.
        start: the first state and the sizes; another instruction can be judged on the same attempt with it.
        qpos: generalised positions, float64, shape (n, nq).
        drops: intervals (first, last stamp, ns) in which a cube fell from the hand.
    """

    stamps_ns: npt.NDArray[np.int64]
    progress: FloatArray
    done: npt.NDArray[np.bool_]
    states: list[SceneState]
    start: SceneStart
    qpos: FloatArray
    drops: list[tuple[int, int]]


class SimCell:
    """One attempt at a task in the simulated cell; the same arguments always give the same attempt.

    Args:
        task: a name of `rollout_monitor.sim.tasks.TASKS`.
        mode: a name of `rollout_monitor.sim.modes.MODES`.
        seed: makes scene, look and manner.
        frame_rate_hz: camera rate; 20 Hz divided by a whole number.
        size: picture (height, width), pixels.

    Raises:
        InputError: unknown task or mode, or a frame rate that does not fit.
        RolloutMonitorError: robosuite is not installed.
    """

    def __init__(
        self, task: str, mode: str, seed: int, *, frame_rate_hz: float = 10.0, size: tuple[int, int] = (240, 320)
    ) -> None:
        self.task = get_task(task)
        check_mode(self.task, mode)
        self.mode = mode
        self.seed = seed
        self._ticks_per_frame = _ticks_per_frame(frame_rate_hz)
        self._rng = np.random.default_rng([seed, self.task.index, list(MODES).index(mode)])
        self._world = shared_world(self.task.scene, *size)
        self._rows: list[tuple[int, SceneState, FloatArray]] = []
        self._drops: list[tuple[int, int]] = []
        self._start: SceneStart | None = None
        self._outcome: str | None = None

    @property
    def task_text(self) -> str:
        """The instruction in plain words."""
        return self.task.text

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Joint names in the order of the samples' arrays."""
        return JOINT_NAMES

    @property
    def camera_names(self) -> tuple[str, ...]:
        """Camera names; the first is the primary one."""
        return CAMERA_NAMES

    @property
    def outcome(self) -> str:
        """``success`` or ``failure``, read from the state at the end.

        Raises:
            RolloutMonitorError: the attempt has not ended yet.
        """
        if self._outcome is None:
            raise RolloutMonitorError("the attempt has not ended: draw all of run() first")
        return self._outcome

    @property
    def truth(self) -> Truth:
        """Ground truth of every frame so far.

        Raises:
            RolloutMonitorError: the attempt has not begun.
        """
        start = self._start
        if start is None:
            raise RolloutMonitorError("the attempt has not begun: draw from run() first")
        states = [state for _, state, _ in self._rows]
        return Truth(
            stamps_ns=np.array([stamp for stamp, _, _ in self._rows], dtype=np.int64),
            progress=np.array([rules.progress(self.task, state, start) for state in states]),
            done=np.array([rules.done(self.task, state, start) for state in states]),
            states=states,
            start=start,
            qpos=np.array([qpos for _, _, qpos in self._rows]),
            drops=list(self._drops),
        )

    def run(self) -> Iterator[JointSample | CameraFrame]:
        """Stream the attempt in stamp order from stamp 0: joint samples every 2 ms, frames at the camera rate.

        Attempts in one process share a world: draw one to its end before the next begins.

        Raises:
            RolloutMonitorError: off-screen rendering gives empty pictures.
        """
        world, rng = self._world, self._rng
        body_of = world.set_scene(rng)
        world.dress(draw_look(rng), body_of)
        manner = draw_manner(rng, self.task, self.mode)
        watcher = Watcher(world, body_of)
        self._drops = watcher.drops
        state = watcher.look(0)
        self._start = SceneStart(state, watcher.half, world.table_z)
        hand = Hand(world, rng, manner.shake)
        script = Expert(self.task, self.mode, manner, watcher.sight).script()
        stamp = 0
        for tick in range(round(MAX_ATTEMPT_S / TICK_S)):
            if tick % self._ticks_per_frame == 0:
                yield from self._frames(stamp, state)
            command = next(script, None)
            if command is None:
                break
            for _ in hand.act(command):
                positions, velocities, efforts = world.joint_state()
                yield JointSample(stamp, positions, velocities, efforts)
                stamp += STEP_NS
            state = watcher.look(stamp)
        self._outcome = "success" if self._ended_well() else "failure"

    def _frames(self, stamp: int, state: SceneState) -> Iterator[CameraFrame]:
        self._rows.append((stamp, state, self._world.data.qpos.copy()))
        for camera in CAMERA_NAMES:
            picture = self._world.render(camera)
            if stamp == 0:
                check_picture(picture, camera)
            yield CameraFrame(stamp, camera, picture)

    def _ended_well(self) -> bool:
        """Done at the last two frames: a cube that is just slipping away does not count."""
        start = self._start
        assert start is not None  # noqa: S101 - run() has set it
        return all(rules.done(self.task, state, start) for _, state, _ in self._rows[-2:])


def _ticks_per_frame(rate_hz: float) -> int:
    ticks = round(1.0 / (rate_hz * TICK_S)) if rate_hz > 0 else 0
    if ticks < 1 or abs(ticks * rate_hz * TICK_S - 1.0) > 1e-9:
        raise InputError(f"camera rate {rate_hz} Hz: it must be 20 Hz divided by a whole number (20, 10, 5, 4, ...)")
    return ticks


assert round(TICK_S * 1e9) == STEPS_PER_TICK * STEP_NS  # noqa: S101 - the three periods belong together
