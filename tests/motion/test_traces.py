"""Traces of velocity and jerk: no extreme is lost, nothing is made up between segments."""

from __future__ import annotations

import numpy as np
import pytest

from rollout_monitor.motion.figures import figures
from rollout_monitor.motion.traces import COLUMNS, traces

RATE = 30.0


def stamps(rows: int, start_s: float = 0.0) -> np.ndarray:
    return (np.arange(rows) / RATE * 1e9 + start_s * 1e9).astype(np.int64)


def test_extremes_are_those_of_the_whole_motion() -> None:
    rng = np.random.default_rng(0)
    positions = np.cumsum(rng.normal(0, 0.01, (9000, 2)), axis=0)
    positions[4321:, 1] += 0.5  # one jump, in one of nine thousand rows
    made = traces([(stamps(9000), positions)], RATE, ["a", "b"])
    assert len(made.stamps_ns) == COLUMNS
    velocity, jerk = np.diff(positions, axis=0) * RATE, np.diff(positions, n=3, axis=0) * RATE**3
    for index, trace in enumerate(made.joints):
        assert max(high for _, high in trace.velocity) == pytest.approx(velocity[:, index].max(), rel=1e-3)
        assert min(low for low, _ in trace.velocity) == pytest.approx(velocity[:, index].min(), rel=1e-3)
        known = [pair for pair in trace.jerk if pair is not None]
        assert max(high for _, high in known) == pytest.approx(jerk[:, index].max(), rel=1e-3)
    peak = figures(positions, RATE, ["a", "b"]).peak_speed
    assert max(abs(v) for pair in made.joints[1].velocity for v in pair) == pytest.approx(peak, rel=1e-3)


def test_few_rows_are_given_as_they_are() -> None:
    made = traces([(stamps(4), np.array([[0.0], [0.1], [0.1], [0.4]]))], 10.0, ["a"])
    assert [low for low, _ in made.joints[0].velocity] == [1.0, 0.0, 3.0]
    assert made.joints[0].jerk[:2] == [None, None]
    assert made.joints[0].jerk[2] == pytest.approx((400.0, 400.0))


def test_nothing_is_drawn_across_a_hole() -> None:
    still, there = np.zeros((30, 1)), np.full((30, 1), 5.0)
    made = traces([(stamps(30), still), (stamps(30, 10.0), there)], RATE, ["a"])
    assert all(pair == (0.0, 0.0) for pair in made.joints[0].velocity)
