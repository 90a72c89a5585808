"""Falls of a curve: where they begin, how deep they go, what was made good."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollout_monitor.curve.drawdowns import LEAST_DEPTH, find_drawdowns
from rollout_monitor.curve.opd import compute


def test_a_fall_that_is_made_good_and_one_that_is_not() -> None:
    first, second = find_drawdowns(range(0, 90, 10), np.array([0.1, 0.5, 0.5, 0.2, 0.3, 0.6, 0.9, 0.4, 0.5]))
    assert (first.peak_ns, first.trough_ns, first.recovered_ns) == (20, 30, 50)
    assert (first.peak, first.trough, first.recovery) == (0.5, 0.2, 1.0)
    assert (second.peak_ns, second.trough_ns, second.recovered_ns) == (60, 70, None)
    assert second.depth == pytest.approx(0.5)
    assert second.recovery == pytest.approx(0.2)


def test_small_falls_are_noise() -> None:
    assert find_drawdowns(range(3), np.array([0.5, 0.5 - LEAST_DEPTH + 0.001, 0.6])) == []
    assert find_drawdowns([], np.empty(0)) == []
    assert find_drawdowns([0], np.array([0.5])) == []


@given(values=st.lists(st.floats(0, 1), min_size=1, max_size=60))
def test_the_deepest_is_the_metrics_own(values: list[float]) -> None:
    falls = find_drawdowns(range(len(values)), np.array(values), least=1e-6)
    metrics = compute(values)
    assert max((fall.depth for fall in falls), default=0.0) == pytest.approx(metrics.max_drawdown, abs=1e-6)
    if falls and metrics.max_drawdown > 1e-6:
        deepest = max(falls, key=lambda fall: fall.depth)
        assert deepest.trough_ns == metrics.max_drawdown_index
        assert deepest.recovery == pytest.approx(metrics.drr, abs=1e-6)
    for fall in falls:
        assert fall.peak_ns < fall.trough_ns
        assert fall.recovered_ns is None or fall.recovered_ns > fall.trough_ns
