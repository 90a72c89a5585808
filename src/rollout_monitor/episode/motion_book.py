"""The joint grid of the running episode, kept whole for the final figures."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rollout_monitor.motion.figures import figures
from rollout_monitor.motion.text import i_phys
from rollout_monitor.records import KinematicSummary, MotionFigures


class MotionBook:
    """Collects the grid rows that kinematic summaries carry, by segment.

    Memory grows by 8 bytes per joint and grid row: 30 Hz and 7 joints are 6 MB an hour.
    """

    def __init__(self, start_ns: int, idle_speed: float) -> None:
        self._start_ns = start_ns
        self._idle_speed = idle_speed
        self._segments: dict[int, tuple[list[int], list[list[float]]]] = {}
        self._last_ns = -1
        self._rate_hz: float | None = None
        self.joint_names: list[str] = []

    def add(self, summary: KinematicSummary, end_ns: int | None) -> None:
        """Keep the rows that lie within the episode; a changed set of joints begins a new segment."""
        if summary.joint_names and not self.joint_names:
            self.joint_names = list(summary.joint_names)
        if summary.joint_names != self.joint_names:
            return
        self._rate_hz = summary.grid_rate_hz
        stamps, rows = self._segments.setdefault(summary.segment, ([], []))
        for row in summary.rows:
            if row.stamp_ns < self._start_ns or row.stamp_ns <= self._last_ns:
                continue
            if end_ns is not None and row.stamp_ns > end_ns:
                continue
            self._last_ns = row.stamp_ns
            stamps.append(row.stamp_ns)
            rows.append(row.positions)

    def figures(self) -> MotionFigures | None:
        """Final figures over the whole recorded matrix; None where no joint state came."""
        segments = self._matrices()
        if not segments or self._rate_hz is None:
            return None
        return figures(segments, self._rate_hz, self.joint_names, self._idle_speed)

    def text(self) -> str | None:
        """The figures in words for a VLM prompt (I_phys)."""
        summary = self.figures()
        return (
            None if summary is None or summary.u_v is None or summary.u_a is None else i_phys(summary, self.joint_names)
        )

    def speed(self) -> list[tuple[int, float]]:
        """Joint-speed norm on the grid, (stamp_ns, rad/s)."""
        out: list[tuple[int, float]] = []
        for stamps, rows in self._segments.values():
            if len(rows) < 2 or self._rate_hz is None:
                continue
            norm = np.linalg.norm(np.diff(np.asarray(rows), axis=0), axis=1) * self._rate_hz
            out += [(stamp, float(value)) for stamp, value in zip(stamps[1:], norm, strict=True)]
        return out

    def _matrices(self) -> list[npt.NDArray[np.float64]]:
        return [np.asarray(rows, dtype=np.float64) for _, rows in self._segments.values() if rows]
