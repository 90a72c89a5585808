"""Detectors on the joint stream's figures: ROUGH_MOTION and CONTACT."""

from __future__ import annotations

from collections.abc import Sequence

from rollout_monitor.events.alarm import Finding
from rollout_monitor.events.settings import ContactSettings, RoughSettings
from rollout_monitor.records import EffortSpike, KinematicSummary, Severity

_NS = 1_000_000_000


class RoughMotionDetector:
    """The sliding window's jerk, acceleration variance or reversals are over the task's band."""

    def __init__(self, settings: RoughSettings) -> None:
        self._settings = settings

    def update(self, summary: KinematicSummary) -> Finding:
        """Judge one summary's window."""
        over = self._over(summary)
        if over:
            words, values = zip(*((text, (name, value)) for name, value, text in over), strict=True)
            return Finding(summary.stamp_ns, Severity.WARN, over=False, reason="; ".join(words), values=dict(values))
        return Finding(summary.stamp_ns, None, over=True, reason="motion is within its band again")

    def _over(self, summary: KinematicSummary) -> list[tuple[str, float, str]]:
        window, limits = summary.window, self._settings
        found: list[tuple[str, float, str]] = []
        if window.rms_jerk is not None and window.rms_jerk > limits.rms_jerk:
            joint = window.worst_joint_jerk or "unknown joint"
            found.append(("rms_jerk", window.rms_jerk, f"jerk {window.rms_jerk:.0f} rad/s^3, worst in {joint}"))
        if window.u_a_si is not None and window.u_a_si > limits.u_a_si:
            joint = window.worst_joint_a or "unknown joint"
            found.append(("u_a_si", window.u_a_si, f"acceleration variance {window.u_a_si:.1f} (rad/s^2)^2 in {joint}"))
        if window.reversals is not None and window.duration_s > 0.0:
            rate = window.reversals / window.duration_s
            if rate > limits.reversals_per_s:
                found.append(("reversals_per_s", rate, f"{rate:.1f} direction reversals per second"))
        return found


class ContactDetector:
    """Effort left its running baseline on one joint; the event lasts until spikes stay away."""

    def __init__(self, settings: ContactSettings) -> None:
        self._settings = settings
        self._last_spike_ns: int | None = None

    def update(self, stamp_ns: int, spikes: Sequence[EffortSpike]) -> Finding:
        """Judge the spikes since the summary before."""
        if spikes:
            worst = max(spikes, key=lambda spike: spike.deviations)
            self._last_spike_ns = max(spike.stamp_ns for spike in spikes)
            return Finding(
                stamp_ns,
                Severity.WARN,
                over=False,
                onset_ns=min(spike.stamp_ns for spike in spikes),
                reason=f"effort of {worst.joint} jumped to {worst.value:.2f} from {worst.baseline:.2f} "
                f"({worst.deviations:.0f} deviations)",
                values={"value": worst.value, "baseline": worst.baseline, "deviations": worst.deviations},
            )
        quiet = self._last_spike_ns is None or stamp_ns - self._last_spike_ns >= self._settings.quiet_s * _NS
        return Finding(stamp_ns, None, over=quiet)
