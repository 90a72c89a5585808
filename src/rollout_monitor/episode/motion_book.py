"""The joint grid of the running episode, kept whole for the final figures."""

from __future__ import annotations

import struct

import numpy as np
import numpy.typing as npt

from rollout_monitor.episode.spool import Spool
from rollout_monitor.motion.figures import figures
from rollout_monitor.motion.text import i_phys
from rollout_monitor.motion.traces import traces
from rollout_monitor.records import KinematicSummary, MotionFigures, MotionStretch, MotionTraces

_SEEN_NS = 500_000_000
"""Summaries come ten times a second: over a longer pause nobody saw the arm."""


class MotionBook:
    """Collects the grid rows that kinematic summaries carry, by segment.

    30 Hz and 7 joints are 7 MB an hour: the rows go to temporary files as they come, and are read back at the end.
    """

    def __init__(self, start_ns: int, idle_speed: float) -> None:
        self._start_ns = start_ns
        self._idle_speed = idle_speed
        self._segments: dict[int, Spool] = {}
        self._last_ns = -1
        self._rate_hz: float | None = None
        self._stretches: list[tuple[int, int, bool]] = []
        self.joint_names: list[str] = []

    def add(self, summary: KinematicSummary, end_ns: int | None) -> None:
        """Keep the rows that lie within the episode; rows of another set of joints than the first are left out."""
        if not self.joint_names:
            self.joint_names = list(summary.joint_names)
        if not self.joint_names or summary.joint_names != self.joint_names:
            return
        self._rate_hz = summary.grid_rate_hz
        if summary.rows and (end_ns is None or summary.stamp_ns <= end_ns):
            self._note_motion(summary.stamp_ns, summary.moving)
        if summary.segment not in self._segments:
            self._segments[summary.segment] = Spool([("stamp", "<i8"), ("positions", "<f8", (len(self.joint_names),))])
        rows, pack = self._segments[summary.segment], struct.Struct(f"<q{len(self.joint_names)}d").pack
        for row in summary.rows:
            if row.stamp_ns < self._start_ns or row.stamp_ns <= self._last_ns:
                continue
            if end_ns is not None and row.stamp_ns > end_ns:
                continue
            self._last_ns = row.stamp_ns
            rows.append(pack(row.stamp_ns, *row.positions))

    def _note_motion(self, stamp_ns: int, moving: bool) -> None:
        """Go on with the newest stretch, or begin one; what a summary says holds for the time since the one before."""
        start_ns = stamp_ns
        if self._stretches and self._stretches[-1][1] <= stamp_ns <= self._stretches[-1][1] + _SEEN_NS:
            start_ns, last_ns, moved = self._stretches[-1]
            if moved is moving:
                self._stretches.pop()
            else:
                start_ns = last_ns
        self._stretches.append((start_ns, stamp_ns, moving))

    @property
    def stretches(self) -> list[MotionStretch]:
        """When the arm moved and when it stood, as the summaries said; what lies between was not seen."""
        return [MotionStretch(start_ns=start, end_ns=end, moving=moving) for start, end, moving in self._stretches]

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
        for segment in self._segments.values():
            if len(segment) < 2 or self._rate_hz is None:
                continue
            rows = segment.rows()
            norm = np.linalg.norm(np.diff(rows["positions"], axis=0), axis=1) * self._rate_hz
            out += list(zip(rows["stamp"][1:].tolist(), norm.tolist(), strict=True))
        return out

    def traces(self) -> MotionTraces | None:
        """Velocity and jerk of each joint; None where there are too few rows."""
        rows = [segment.rows() for segment in self._segments.values() if len(segment) > 1]
        if not rows or self._rate_hz is None:
            return None
        return traces([(part["stamp"], part["positions"]) for part in rows], self._rate_hz, self.joint_names)

    def _matrices(self) -> list[npt.NDArray[np.float64]]:
        found = [segment.rows()["positions"] for segment in self._segments.values() if len(segment)]
        return [np.ascontiguousarray(positions) for positions in found]
