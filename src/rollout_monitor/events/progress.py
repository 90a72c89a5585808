"""Detectors on the progress curve: STALL, DRAWDOWN, PLATEAU_DONE."""

from __future__ import annotations

from collections import deque

from rollout_monitor.events.alarm import Finding
from rollout_monitor.events.settings import DrawdownSettings, PlateauSettings, StallSettings
from rollout_monitor.events.window import RangeWindow
from rollout_monitor.records import Severity

_NS = 1_000_000_000


class StallDetector:
    """Progress stands while the task is not finished.

    The finding says whether the arm is MOVING (working without effect) or STILL (frozen), by the later half of the
    window: an arm that has just frozen counts as frozen.
    """

    def __init__(self, settings: StallSettings) -> None:
        self._settings = settings
        self._window_ns = round(settings.window_s * _NS)
        self._window = RangeWindow(self._window_ns)
        self._since_ns: int | None = None
        self._motion: deque[tuple[int, bool]] = deque()

    def update_motion(self, stamp_ns: int, moving: bool) -> None:
        """Take the arm's state from the joint stream."""
        self._motion.append((stamp_ns, moving))
        while self._motion[0][0] < stamp_ns - self._window_ns // 2:
            self._motion.popleft()

    def suspend(self) -> None:
        """Forget the stretch: the pictures cannot be trusted now (camera lost, frozen or dark)."""
        self._window = RangeWindow(self._window_ns)
        self._since_ns = None

    def update(self, stamp_ns: int, progress: float) -> Finding:
        """Take the next smoothed progress value."""
        self._window.update(stamp_ns, progress)
        stands = self._window.full and self._window.spread < self._settings.eps
        if not stands or progress >= self._settings.finished_at:
            self._since_ns = None
            moved = self._window.spread >= self._settings.eps or progress >= self._settings.finished_at
            return Finding(stamp_ns, None, over=moved, reason=f"progress moves again, at {progress:.0%}")
        if self._since_ns is None:
            self._since_ns = stamp_ns - self._window_ns
        stood_s = (stamp_ns - self._since_ns) / _NS
        words, values = "", {"progress": progress, "stood_s": stood_s}
        if self._motion:
            share = sum(moving for _, moving in self._motion) / len(self._motion)
            words = ", arm MOVING without effect" if share >= 0.5 else ", arm STILL"
            values["moving_share"] = share
        return Finding(
            stamp_ns,
            Severity.ERROR if stood_s >= self._settings.error_after_s else Severity.WARN,
            over=False,
            onset_ns=self._since_ns,
            reason=f"no progress for {stood_s:.1f} s at {progress:.0%}{words}",
            values=values,
        )


class DrawdownDetector:
    """Progress fell: d_t = max so far - now (PRM-as-a-Judge 1.5), on the live smoothed curve."""

    def __init__(self, settings: DrawdownSettings, finished_at: float) -> None:
        self._settings = settings
        self._finished_at = finished_at
        self._peak = -1.0
        self._peak_ns = 0
        self._falling = False
        self._trough = 0.0
        self._deepest = 0.0

    def update(self, stamp_ns: int, progress: float) -> Finding:
        """Take the next smoothed progress value."""
        if progress >= self._peak:
            self._peak, self._peak_ns = progress, stamp_ns
        depth = self._peak - progress
        if depth < self._settings.warn * self._settings.clear_ratio:
            self._falling = False
            return self._recovery(stamp_ns, progress)
        if not self._falling:
            self._falling, self._deepest = True, 0.0
        if depth > self._deepest:
            self._deepest, self._trough = depth, progress
        if depth < self._settings.warn:
            return Finding(stamp_ns, None, over=False)
        what = "fell from a finished task: lost" if self._peak >= self._finished_at else "lost"
        return Finding(
            stamp_ns,
            Severity.ERROR if depth >= self._settings.error else Severity.WARN,
            over=False,
            onset_ns=self._peak_ns,
            reason=f"{what} {depth:.0%} of the task, from {self._peak:.0%} to {progress:.0%}",
            values={"drawdown": depth, "peak": self._peak, "progress": progress},
        )

    def _recovery(self, stamp_ns: int, progress: float) -> Finding:
        if self._deepest <= 0.0:
            return Finding(stamp_ns, None, over=True)
        ratio = min(1.0, (progress - self._trough) / self._deepest)
        return Finding(
            stamp_ns,
            None,
            over=True,
            reason=f"recovered {ratio:.0%} of a {self._deepest:.0%} drawdown",
            values={"drawdown": self._deepest, "recovered": ratio, "progress": progress},
        )


class PlateauDetector:
    """Progress is high and flat: a candidate for success."""

    def __init__(self, settings: PlateauSettings) -> None:
        self._settings = settings
        self._window = RangeWindow(round(settings.window_s * _NS))

    def update(self, stamp_ns: int, progress: float) -> Finding:
        """Take the next smoothed progress value."""
        self._window.update(stamp_ns, progress)
        high = progress >= self._settings.level
        if high and self._window.full and self._window.spread < self._settings.eps:
            return Finding(
                stamp_ns,
                Severity.INFO,
                over=False,
                onset_ns=stamp_ns - self._window.length_ns,
                reason=f"progress is high and flat at {progress:.0%}: looks done",
                values={"progress": progress},
            )
        return Finding(stamp_ns, None, over=not high, reason=f"progress left the plateau ({progress:.0%})")
