"""Kinematic figures of complete motion: the paper's unit-step summary, the same in SI units, and the field's measures.

Sources: Eval-Actions equations (5)-(7) for U_v, U_a, mu_v (population variance); `smoothness` for LDLJ and SPARC.
Differences are never taken across the boundary of two segments. `streaming` is the live twin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rollout_monitor.errors import InputError
from rollout_monitor.motion.settings import DEFAULT_IDLE_SPEED
from rollout_monitor.motion.smoothness import PeakCounter, ldlj, sparc
from rollout_monitor.records import MotionFigures

Floats = npt.NDArray[np.float64]


def figures(
    rows: Any, rate_hz: float, joint_names: Sequence[str], idle_speed: float = DEFAULT_IDLE_SPEED
) -> MotionFigures:
    """Figures of a stretch of motion.

    Args:
        rows: joint positions on the uniform grid, an array of shape (T, J) in rad, or a sequence of such arrays, one
            per segment. Works as well for positions of an end effector (T, 3) in m.
        rate_hz: the grid's rate.
        joint_names: J names, in the order of the columns.
        idle_speed: rad/s; below it a joint stands still. It is also the least prominence of a speed peak.

    Returns:
        The record. Variances, means and peaks are over all segments together; LDLJ and SPARC are of the longest
        segment, and None where nothing moved faster than ``idle_speed`` in it. What needs more rows than there are
        is None.

    Raises:
        InputError: a shape that does not fit the names, or a value that is not finite, named by row and joint.
    """
    if not (np.isfinite(rate_hz) and rate_hz > 0.0):
        raise InputError(f"the rate is {rate_hz}; a positive number of Hz is needed")
    segments = [_checked(segment, joint_names, index) for index, segment in enumerate(_segments(rows))]
    v = [np.diff(segment, axis=0) for segment in segments]
    a = [np.diff(velocity, axis=0) for velocity in v]
    jerk = _pool([np.diff(acceleration, axis=0) for acceleration in a], len(joint_names))
    speeds = [velocity * rate_hz for velocity in v]
    norms = [np.linalg.norm(speed, axis=1) for speed in speeds]
    all_v, all_a = _pool(v, len(joint_names)), _pool(a, len(joint_names))
    all_speed = np.abs(_pool(speeds, len(joint_names)))
    longest = max(norms, key=len, default=np.empty(0))
    moved = len(longest) > 0 and float(longest.max()) >= idle_speed
    return Totals(
        samples=sum(map(len, segments)),
        steps=len(all_v),
        s_v=all_v.var(axis=0) if len(all_v) else None,
        s_a=all_a.var(axis=0) if len(all_a) else None,
        mu_v=float(np.abs(all_v).mean()) if all_v.size else None,
        jerk_power=np.mean(jerk**2, axis=0) if len(jerk) else None,
        idle_steps=int(np.count_nonzero((all_speed < idle_speed).all(axis=1))),
        reversals=sum(_reversals(speed, idle_speed) for speed in speeds),
        speed_peaks=sum(_peaks(norm, idle_speed) for norm in norms),
        peak_speed=float(all_speed.max()) if all_speed.size else None,
        peak_step_acceleration=float(np.abs(all_a).max()) if all_a.size else None,
        ldlj=ldlj(longest, rate_hz) if moved else None,
        sparc=sparc(longest, rate_hz) if moved else None,
    ).record(rate_hz, joint_names)


@dataclass(frozen=True)
class Totals:
    """What batch and streaming code both arrive at, in unit steps but for speeds; `record` derives the rest from it.

    None where the stretch is too short. Arrays have shape (J,).
    """

    samples: int
    steps: int
    s_v: Floats | None
    s_a: Floats | None
    mu_v: float | None
    jerk_power: Floats | None
    idle_steps: int
    reversals: int
    speed_peaks: int
    peak_speed: float | None
    peak_step_acceleration: float | None
    ldlj: float | None = None
    sparc: float | None = None

    def record(self, rate_hz: float, joint_names: Sequence[str]) -> MotionFigures:
        """The figures as a record, SI units added."""
        s_v, s_a = self.s_v, self.s_a
        u_v = None if s_v is None else float(s_v.max())
        u_a = None if s_a is None else float(s_a.max())
        rms_jerk = None if self.jerk_power is None else np.sqrt(self.jerk_power) * rate_hz**3
        peak_a = self.peak_step_acceleration
        moved = self.steps > 0
        return MotionFigures(
            samples=self.samples,
            duration_s=self.steps / rate_hz,
            u_v=u_v,
            u_a=u_a,
            mu_v=self.mu_v,
            s_v=[] if s_v is None else s_v.tolist(),
            s_a=[] if s_a is None else s_a.tolist(),
            u_v_si=None if u_v is None else u_v * rate_hz**2,
            u_a_si=None if u_a is None else u_a * rate_hz**4,
            mu_v_si=None if self.mu_v is None else self.mu_v * rate_hz,
            worst_joint_v=None if s_v is None else joint_names[int(np.argmax(s_v))],
            worst_joint_a=None if s_a is None else joint_names[int(np.argmax(s_a))],
            rms_jerk=None if rms_jerk is None else float(np.sqrt(np.mean(rms_jerk**2))),
            rms_jerk_per_joint=[] if rms_jerk is None else rms_jerk.tolist(),
            worst_joint_jerk=None if rms_jerk is None else joint_names[int(np.argmax(rms_jerk))],
            ldlj=self.ldlj,
            sparc=self.sparc,
            idle_fraction=self.idle_steps / self.steps if moved else None,
            reversals=self.reversals if moved else None,
            speed_peaks=self.speed_peaks if moved else None,
            peak_speed=self.peak_speed,
            peak_acceleration=None if peak_a is None else peak_a * rate_hz**2,
        )


def _segments(rows: Any) -> list[Any]:
    """One matrix, or several, as a list of matrices."""
    if isinstance(rows, np.ndarray):
        return [rows]
    rows = list(rows)
    return [rows] if rows and np.ndim(rows[0]) == 1 else rows


def _checked(segment: Any, joint_names: Sequence[str], index: int) -> Floats:
    matrix = np.ascontiguousarray(segment, dtype=np.float64)  # sums must not depend on how the rows lie in memory
    if matrix.ndim != 2 or matrix.shape[1] != len(joint_names) or len(joint_names) == 0:
        raise InputError(
            f"segment {index} has shape {matrix.shape}; rows of {len(joint_names)} joints "
            f"({', '.join(joint_names) or 'no names'}) are needed"
        )
    bad = ~np.isfinite(matrix)
    if bad.any():
        row, joint = np.argwhere(bad)[0]
        raise InputError(f"segment {index}, row {row}, joint {joint_names[joint]} is {matrix[row, joint]}")
    return matrix


def _pool(parts: list[Floats], joints: int) -> Floats:
    return np.concatenate(parts) if parts else np.empty((0, joints))


def _reversals(speeds: Floats, idle_speed: float) -> int:
    """Changes of direction, summed over joints; a joint that rests in between and goes back has reversed."""
    signs = np.where(np.abs(speeds) >= idle_speed, np.sign(speeds), 0.0)
    return sum(int(np.count_nonzero(np.diff(column[column != 0.0]))) for column in signs.T)


def _peaks(norm: Floats, prominence: float) -> int:
    counter = PeakCounter(prominence)
    for speed in norm.tolist():
        counter.update(speed)
    return counter.count
