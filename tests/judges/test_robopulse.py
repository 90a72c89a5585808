"""The direction protocol against a slow reading of its text, and the context-dependent moments on a made case."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rollout_monitor.judges import robopulse
from rollout_monitor.trends import Trend, trends

curves = st.lists(st.floats(0, 1), min_size=1, max_size=60).map(np.array)


def slow_directions(values: np.ndarray) -> list[int]:
    """The text of the protocol, sample by sample."""
    out = []
    for k in range(len(values)):
        changes = [values[j] - values[j - 1] if j > 0 else 0.0 for j in range(max(0, k - 4), k + 1)]
        mean = sum(changes) / 5
        out.append(0 if abs(mean) < 1e-12 else 1 if mean > 0 else -1)
    return out


@given(curves)
def test_directions_of_a_curve(values: np.ndarray) -> None:
    assert robopulse.from_progress(values).tolist() == slow_directions(values)


@given(curves, st.lists(st.sampled_from([-1, 0, 1]), min_size=60, max_size=60))
def test_what_counts_lies_inside_an_interval_by_two_samples(values: np.ndarray, said: list[int]) -> None:
    labels = trends(values)
    kept = robopulse.count(np.array(said[: len(values)]), labels)
    padded = np.concatenate([[9, 9], labels, [9, 9]])
    wanted = [k for k in range(len(labels)) if labels[k] != 0 and (padded[k : k + 5] == labels[k]).all()]
    assert sorted(kept.index.tolist()) == wanted
    assert all(kept.true == labels[kept.index])


def test_scores_of_a_known_table() -> None:
    """Three of four rising and one of two falling said right; one falling was called flat."""
    said = np.array([1, 1, 1, -1, -1, 0])
    true = np.array([1, 1, 1, 1, -1, -1])
    table = robopulse.Counted(said, true, np.arange(6)).table()
    rising, falling = 2 * 3 / (3 + 4), 2 * 1 / (2 + 2)
    assert np.isclose(robopulse.f1([table], (1,)), rising)
    assert np.isclose(robopulse.f1([table], (-1,)), falling)
    assert np.isclose(robopulse.f1([table]), (rising + falling) / 2)
    assert np.isclose(robopulse.accuracy([table]), 4 / 6)
    assert np.isnan(robopulse.f1([np.zeros((3, 3), dtype=np.int64)]))


def test_context_dependent_is_where_the_same_motion_has_both_meanings() -> None:
    """Motion to the right rises on some rollouts and falls on others; motion upwards always rises."""
    right, up = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    rng = np.random.default_rng(0)
    motions, labels = [], []
    for k in range(12):
        moves = np.concatenate([np.tile(right, (10, 1)), np.tile(up, (10, 1)), np.zeros((5, 2))])
        motions.append(moves + rng.normal(0, 0.01, moves.shape))
        way = Trend.RISING if k % 2 else Trend.FALLING
        labels.append(np.concatenate([np.full(10, int(way)), np.full(10, 1), np.zeros(5)]).astype(np.int64))
    masks = robopulse.context_dependent(motions, labels)
    for mask in masks:
        assert mask[:10].all()
        assert not mask[10:].any()


def test_context_of_nothing_is_nothing() -> None:
    assert robopulse.context_dependent([], []) == []
    flat = robopulse.context_dependent([np.zeros((4, 2))], [np.zeros(4, dtype=np.int64)])
    assert not flat[0].any()
