"""Effort spikes: a contact is told once, at its edge; motion, noise and outliers are not."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rollout_monitor.motion import MotionSettings
from rollout_monitor.motion.effort import EffortWatch
from rollout_monitor.records import EffortSpike

S = 1_000_000_000
RATE = 500


def watch(effort: np.ndarray, settings: MotionSettings | None = None, start_ns: int = 0) -> list[EffortSpike]:
    held = EffortWatch(settings or MotionSettings())
    found: list[EffortSpike] = []
    for k, value in enumerate(effort.tolist()):
        found += held.add(start_ns + k * (S // RATE), ["elbow"], [value])
    return found


def resting(seconds: float, seed: int = 0) -> np.ndarray:
    return 12.0 + np.random.default_rng(seed).normal(0.0, 0.1, int(seconds * RATE))


def test_a_contact_is_told_once_at_its_edge() -> None:
    effort = resting(10.0)
    effort[6 * RATE : 6 * RATE + 100] += 9.0
    (spike,) = watch(effort)
    assert spike.stamp_ns == 6 * S
    assert spike.joint == "elbow"
    assert spike.baseline == pytest.approx(12.0, abs=0.2)
    assert spike.value == pytest.approx(21.0, abs=0.5)
    assert spike.deviations > 8.0


def test_a_fall_of_effort_is_a_spike_too() -> None:
    effort = resting(10.0)
    effort[6 * RATE : 6 * RATE + 100] -= 9.0
    assert len(watch(effort)) == 1


def test_noise_and_slow_change_are_usual() -> None:
    t = np.arange(30 * RATE) / RATE
    assert watch(resting(60.0)) == []
    assert watch(resting(30.0) + 20.0 * np.sin(2 * np.pi * 0.4 * t)) == []


def test_nothing_is_told_before_the_baseline_has_settled() -> None:
    effort = resting(10.0)
    effort[RATE : RATE + 100] += 9.0
    assert watch(effort) == []
    assert len(watch(effort, MotionSettings(effort_settle_s=0.5))) == 1


def test_lone_outliers_are_not_contacts() -> None:
    effort = resting(10.0)
    effort[5 * RATE :: 200] += 50.0
    assert watch(effort) == []


def test_a_joint_is_quiet_for_the_refractory_time() -> None:
    effort = resting(12.0)
    for at in (5.0, 5.2, 5.4, 8.0):
        effort[int(at * RATE) : int(at * RATE) + 30] += 15.0
    assert [round(spike.stamp_ns / S, 1) for spike in watch(effort)] == [5.0, 8.0]


def test_a_violent_spike_does_not_hide_the_next() -> None:
    effort = resting(15.0)
    effort[6 * RATE : 6 * RATE + 50] += 500.0
    effort[10 * RATE : 10 * RATE + 50] += 6.0
    assert [round(spike.stamp_ns / S, 2) for spike in watch(effort)] == [6.0, 10.0]


def test_a_lasting_load_becomes_the_new_usual() -> None:
    effort = resting(40.0)
    effort[10 * RATE :] += 6.0
    found = watch(effort)
    assert found
    assert found[-1].stamp_ns < 13 * S
    effort[30 * RATE : 30 * RATE + 50] += 25.0
    assert [spike.stamp_ns for spike in watch(effort)][-1] == 30 * S


def test_an_effort_that_never_moved_has_a_finite_distance() -> None:
    effort = np.zeros(10 * RATE)
    effort[6 * RATE : 6 * RATE + 50] = 4.0
    (spike,) = watch(effort)
    assert math.isfinite(spike.deviations)
    assert spike.deviations == pytest.approx(4.0 * 8.0)


def test_values_that_are_not_finite_or_late_are_passed_over() -> None:
    held = EffortWatch(MotionSettings(effort_settle_s=0.0, effort_confirm=1))
    assert held.add(S, ["a", "b"], [1.0, math.nan]) == []
    assert held.add(S + S // 10, ["a", "b"], [math.inf, 1.0]) == []
    assert held.add(S, ["a"], [99.0]) == []
    (spike,) = held.add(S + S // 5, ["a", "b"], [99.0, 1.0])
    assert spike.joint == "a"
    assert watch(np.concatenate([resting(5.0), resting(5.0) + 9.0]), MotionSettings(joints=("wrist",))) == []
    held.restart()
    assert held.add(S, ["a", "b"], [500.0, 500.0]) == []


def test_a_hole_in_the_stream_is_no_spike_and_widens_nothing() -> None:
    """What a seam between two laps of a bag did: the next contacts drowned in a deviation that never was."""
    held = EffortWatch(MotionSettings(effort_settle_s=0.5))
    for i in range(2000):
        assert held.add(i * S // 500, ["a"], [math.sin(i / 50)]) == []
    later_ns = 10 * S
    told = [spike for i in range(500) for spike in held.add(later_ns + i * S // 500, ["a"], [20.0 + (i >= 400) * 8.0])]
    assert [(spike.stamp_ns, spike.value, spike.baseline) for spike in told] == [
        (later_ns + 400 * S // 500, 28.0, 20.0)
    ]
