"""The joint grid of the running episode, kept whole for the final figures."""

from __future__ import annotations

from array import array

import numpy as np
import numpy.typing as npt

from rollout_monitor.motion.figures import figures
from rollout_monitor.motion.text import i_phys
from rollout_monitor.records import KinematicSummary, MotionFigures


class MotionBook:
    """Collects the grid rows that kinematic summaries carry, by segment.

    Memory grows by 8 bytes per joint and 8 per grid row: 30 Hz and 7 joints are 7 MB an hour.
    """

    def __init__(self, start_ns: int, idle_speed: float) -> None:
        self._start_ns = start_ns
        self._idle_speed = idle_speed
        self._segments: dict[int, tuple[array[int], array[float]]] = {}  # stamps, and positions row after row
        self._last_ns = -1
        self._rate_hz: float | None = None
        self.joint_names: list[str] = []

    def add(self, summary: KinematicSummary, end_ns: int | None) -> None:
        """Keep the rows that lie within the episode; rows of another set of joints than the first are left out."""
        if not self.joint_names:
            self.joint_names = list(summary.joint_names)
        if not self.joint_names or summary.joint_names != self.joint_names:
            return
        self._rate_hz = summary.grid_rate_hz
        stamps, rows = self._segments.setdefault(summary.segment, (array("q"), array("d")))
        for row in summary.rows:
            if row.stamp_ns < self._start_ns or row.stamp_ns <= self._last_ns:
                continue
            if end_ns is not None and row.stamp_ns > end_ns:
                continue
            self._last_ns = row.stamp_ns
            stamps.append(row.stamp_ns)
            rows.extend(row.positions)

    def figures(self) -> MotionFigures | None:
        """Final figures over the whole recorded matrix; None where no joint state came."""
        segments = self._matrices()
        if not segments or self._rate_hz is None:
            return None
        return figures(segments, self._rate_hz, self.joint_names, self._idle_speed)

    def text(self, summary: MotionFigures | None) -> str | None:
        """The episode's figures in words for a VLM prompt (I_phys); None where there are too few rows for them."""
        if summary is None or summary.u_v is None or summary.u_a is None:
            return None
        return i_phys(summary, self.joint_names)

    def speed(self) -> list[tuple[int, float]]:
        """Joint-speed norm on the grid, (stamp_ns, rad/s)."""
        out: list[tuple[int, float]] = []
        for stamps, rows in self._segments.values():
            if len(stamps) < 2 or self._rate_hz is None:
                continue
            norm = np.linalg.norm(np.diff(self._matrix(rows), axis=0), axis=1) * self._rate_hz
            out += [(stamp, float(value)) for stamp, value in zip(stamps[1:], norm, strict=True)]
        return out

    def _matrices(self) -> list[npt.NDArray[np.float64]]:
        return [self._matrix(rows) for _, rows in self._segments.values() if rows]

    def _matrix(self, rows: array[float]) -> npt.NDArray[np.float64]:
        return np.array(rows, dtype=np.float64).reshape(-1, len(self.joint_names))
