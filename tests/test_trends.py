"""Directions of a curve and their runs."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rollout_monitor.trends import Trend, intervals, trends


def test_trends_and_intervals() -> None:
    values = np.array([0.0, 0.0, 0.1, 0.2, 0.3, 0.3, 0.3, 0.1, 0.1, 0.1])
    labels = trends(values)
    assert labels.tolist() == [0, 0, 1, 1, 1, 1, 0, -1, -1, 0]
    assert intervals(labels, Trend.RISING) == [(2, 6)]
    assert intervals(labels, Trend.FALLING) == [(7, 9)]
    assert intervals(labels, Trend.FLAT) == [(0, 2), (6, 7), (9, 10)]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_a_curve_played_backwards_has_no_more_than_opposite_trends(values: list[float]) -> None:
    forward = trends(np.array(values), span=1)[1:]
    backward = trends(np.array(values[::-1]), span=1)[1:]
    assert forward.tolist() == (-backward[::-1]).tolist()
