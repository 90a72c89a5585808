"""Effort or motor current that leaves its running baseline: the raw material of contact events.

Per joint an exponentially weighted mean follows what motion asks for, a slower one the usual size of departures from
it. Works on the raw samples, O(1) per sample, in whatever unit the driver publishes.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, sqrt

from rollout_monitor.motion.grid import MAX_JOINTS, NS
from rollout_monitor.motion.settings import MotionSettings
from rollout_monitor.records import EffortSpike


class _Baseline:
    """Running mean and mean square departure of one joint's effort."""

    __slots__ = ("beyond", "first_ns", "last_ns", "mean", "onset", "power", "quiet_ns")

    def __init__(self, stamp_ns: int, effort: float) -> None:
        self.first_ns = self.last_ns = stamp_ns
        self.mean = effort
        self.power = 0.0
        self.beyond = 0  # consecutive samples beyond the limit
        self.onset = (stamp_ns, effort, 0.0)  # stamp of the first of them, mean and deviation as they were then
        self.quiet_ns = stamp_ns  # no spike before this


class EffortWatch:
    """Finds spikes in the efforts of all joints of a stream.

    A sample is beyond if it is further from the baseline than ``effort_deviations`` running deviations and than
    ``effort_min_change``. ``effort_confirm`` such samples in a row are a spike, stamped at the first of them, unless
    the baseline has not settled or the joint spiked within the refractory time. A sample that is beyond moves the
    baseline no further than the limit, so a spike does not hide the next, and a lasting change becomes the new usual.
    After a hole in the stream the mean begins at the first sample: what came in between is not known.
    """

    def __init__(self, settings: MotionSettings) -> None:
        self._mean_ns = settings.effort_mean_tau_s * NS
        self._power_ns = settings.effort_deviation_tau_s * NS
        self._deviations = settings.effort_deviations
        self._gap_ns = round(settings.gap_limit_s * NS)
        self._min_change = settings.effort_min_change
        self._confirm = settings.effort_confirm
        self._settle_ns = round(settings.effort_settle_s * NS)
        self._refractory_ns = round(settings.effort_refractory_s * NS)
        self._asked = frozenset((*settings.joints, *settings.gripper_joints)) if settings.joints else None
        self._joints: dict[str, _Baseline] = {}

    def add(self, stamp_ns: int, names: Sequence[str], efforts: Sequence[float]) -> list[EffortSpike]:
        """Take a message's efforts, as many as names.

        Passed over: values that are not finite or do not advance, joints that were not asked for (another arm's
        contacts are not ours), and joints beyond the most a robot has.
        """
        spikes: list[EffortSpike] = []
        for name, effort in zip(names, efforts, strict=True):
            if not isfinite(effort):
                continue
            base = self._joints.get(name)
            if base is None:
                if (self._asked is None or name in self._asked) and len(self._joints) < MAX_JOINTS:
                    self._joints[name] = _Baseline(stamp_ns, effort)
            elif stamp_ns > base.last_ns:
                spike = self._step(name, base, stamp_ns, effort)
                if spike is not None:
                    spikes.append(spike)
        return spikes

    def restart(self) -> None:
        """Forget the baselines: the clock jumped or an attempt began, and what was usual may no longer be."""
        self._joints.clear()

    def _step(self, name: str, base: _Baseline, stamp_ns: int, effort: float) -> EffortSpike | None:
        step_ns = stamp_ns - base.last_ns
        base.last_ns = stamp_ns
        if step_ns > self._gap_ns:
            base.mean, base.beyond = effort, 0
            return None
        mean, departure = base.mean, effort - base.mean
        deviation = sqrt(base.power)
        limit = max(self._deviations * deviation, self._min_change)
        spike = None
        if abs(departure) > limit:
            if base.beyond == 0:
                base.onset = (stamp_ns, mean, deviation)
            base.beyond += 1
            if base.beyond >= self._confirm and self._may_tell(base, stamp_ns):
                base.quiet_ns = stamp_ns + self._refractory_ns
                spike = self._told(name, base, effort)
            departure = limit if departure > 0.0 else -limit
        else:
            base.beyond = 0
        base.mean = mean + departure * (step_ns / (self._mean_ns + step_ns))
        base.power += (departure * departure - base.power) * (step_ns / (self._power_ns + step_ns))
        return spike

    def _told(self, name: str, base: _Baseline, effort: float) -> EffortSpike:
        onset_ns, baseline, deviation = base.onset
        # a baseline that never moved has no deviation; the smallest change that counts stands in for it
        size = max(deviation, self._min_change / self._deviations)
        return EffortSpike(
            stamp_ns=onset_ns,
            joint=name,
            value=effort,
            baseline=baseline,
            deviations=abs(effort - baseline) / size,
        )

    def _may_tell(self, base: _Baseline, stamp_ns: int) -> bool:
        return stamp_ns - base.first_ns >= self._settle_ns and stamp_ns >= base.quiet_ns
