"""The measures in the model card, on curves whose figures are known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rollout_monitor.train import figures
from rollout_monitor.train.figures import Answers, bootstrap

UP = np.concatenate([np.linspace(0, 1, 21), np.full(6, 1.0)])
UP_DOWN = np.concatenate([np.linspace(0, 1, 21), np.linspace(1, 0, 21)[1:]])


def answers(value: np.ndarray, truth: np.ndarray, succeeded: bool = True) -> Answers:
    value = np.asarray(value, dtype=float)
    return Answers(
        rollout="one",
        value=value,
        lower=np.clip(value - 0.05, 0, 1),
        upper=np.clip(value + 0.05, 0, 1),
        success=value,
        direction=np.sign(np.diff(value, prepend=value[:1])).astype(np.int64),
        truth=np.asarray(truth, dtype=float),
        succeeded=succeeded,
        drops=[],
    )


def test_a_perfect_model_is_perfect() -> None:
    own = [answers(UP, UP), answers(UP_DOWN, UP_DOWN, succeeded=False)]
    assert figures.MAE(own) == 0.0
    assert figures.SPEARMAN(own) == pytest.approx(1.0)
    assert figures.COVERAGE(own) == 1.0
    assert figures.robopulse_f1("direction")(own) == 1.0
    assert figures.accuracy("progress")(own) == 1.0
    rising, falling = figures.robopulse_counts(own)
    assert rising > falling > 0


def test_a_clock_knows_nothing_of_falling() -> None:
    clock = np.linspace(0, 1, len(UP_DOWN))
    own = [answers(clock, UP_DOWN, succeeded=False)]
    assert figures.robopulse_f1("progress", only=-1)(own) == 0.0
    assert figures.robopulse_f1("progress")(own) < 0.4
    assert figures.false_success("progress")(own) == 1.0
    assert figures.confusion(own, "progress")["false success"] == 1


def test_differences_are_averaged_causally() -> None:
    """One step up takes five samples to leave the mean, and no sample before it is touched."""
    value = np.zeros(40)
    value[20:] = 0.1
    said, true = figures.robopulse(answers(value, np.linspace(0, 1, 40)), "progress")
    first = 2 + 1  # the protocol's edge, and the first sample that has a true trend
    assert set(np.flatnonzero(said) + first) <= set(range(18, 27))
    assert int((said > 0).sum()) == 5
    assert (true == 1).all()


def test_short_intervals_are_left_out() -> None:
    truth = np.zeros(20)
    truth[10:] = 0.5
    said, true = figures.robopulse(answers(truth, truth), "progress")
    assert len(said) == len(true) == 0


def test_drops_are_seen_or_not() -> None:
    truth = np.concatenate([np.full(10, 0.8), np.full(10, 0.2)])
    seen = replace(answers(truth, truth), drops=[(10, 11)])
    blind = replace(answers(np.full(20, 0.8), truth), drops=[(10, 11)])
    assert figures.DROPS_SEEN([seen]) == 1.0
    assert figures.DROPS_SEEN([seen, blind]) == 0.5
    assert np.isnan(figures.DROPS_SEEN([answers(truth, truth)]))
    assert bootstrap(figures.DROPS_SEEN, [seen, answers(truth, truth)]).n == 1


def test_the_outcome_is_the_last_seconds_median() -> None:
    peak = np.concatenate([UP, np.full(6, 0.3)])
    assert not figures.says_success(answers(peak, peak), "progress")
    assert figures.says_success(answers(UP, UP), "probability")


def test_the_bootstrap_is_seeded_and_holds_the_value() -> None:
    rng = np.random.default_rng(0)
    many = [answers(np.clip(UP + rng.normal(0, s), 0, 1), UP) for s in np.linspace(0.01, 0.2, 20)]
    figure = bootstrap(figures.MAE, many)
    assert figure == bootstrap(figures.MAE, many)
    assert figure.low < figure.value < figure.high
    assert figure.n == 20
    assert np.isnan(bootstrap(figures.MAE, []).value)
