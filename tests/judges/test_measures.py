"""The measures of a progress model, on curves whose figures are known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rollout_monitor.judges import measures
from rollout_monitor.judges.bootstrap import bootstrap
from rollout_monitor.judges.measures import Answers

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
    assert measures.MAE(own) == 0.0
    assert measures.SPEARMAN(own) == pytest.approx(1.0)
    assert measures.COVERAGE(own) == 1.0
    assert measures.direction_f1("direction")(own) == 1.0
    assert measures.accuracy("progress")(own) == 1.0
    rising, falling = measures.direction_counts(own)
    assert rising > falling > 0


def test_a_clock_knows_nothing_of_falling() -> None:
    clock = np.linspace(0, 1, len(UP_DOWN))
    own = [answers(clock, UP_DOWN, succeeded=False)]
    assert measures.direction_f1("progress", only=-1)(own) == 0.0
    assert measures.direction_f1("progress")(own) < 0.4
    assert measures.false_success("progress")(own) == 1.0
    assert measures.confusion(own, "progress")["false success"] == 1


def test_differences_are_averaged_causally() -> None:
    """One step up takes five samples to leave the mean, and no sample before it is touched."""
    value = np.zeros(40)
    value[20:] = 0.1
    kept = measures.counted(answers(value, np.linspace(0, 1, 40)), "progress")
    said, true = kept.said, kept.true
    first = 2 + 1  # the protocol's edge, and the first sample that has a true trend
    assert set(np.flatnonzero(said) + first) <= set(range(18, 27))
    assert int((said > 0).sum()) == 5
    assert (true == 1).all()


def test_short_intervals_are_left_out() -> None:
    truth = np.zeros(20)
    truth[10:] = 0.5
    kept = measures.counted(answers(truth, truth), "progress")
    assert len(kept.said) == len(kept.true) == len(kept.index) == 0


def test_drops_are_seen_or_not() -> None:
    truth = np.concatenate([np.full(10, 0.8), np.full(10, 0.2)])
    seen = replace(answers(truth, truth), drops=[(10, 11)])
    blind = replace(answers(np.full(20, 0.8), truth), drops=[(10, 11)])
    assert measures.DROPS_SEEN([seen]) == 1.0
    assert measures.DROPS_SEEN([seen, blind]) == 0.5
    assert np.isnan(measures.DROPS_SEEN([answers(truth, truth)]))
    assert bootstrap(measures.DROPS_SEEN, [seen, answers(truth, truth)]).n == 1


def test_the_outcome_is_the_last_seconds_median() -> None:
    peak = np.concatenate([UP, np.full(6, 0.3)])
    assert not measures.says_success(answers(peak, peak), "progress")
    assert measures.says_success(answers(UP, UP), "probability")


def test_the_bootstrap_is_seeded_and_holds_the_value() -> None:
    rng = np.random.default_rng(0)
    many = [answers(np.clip(UP + rng.normal(0, s), 0, 1), UP) for s in np.linspace(0.01, 0.2, 20)]
    figure = bootstrap(measures.MAE, many)
    assert figure == bootstrap(measures.MAE, many)
    assert figure.low < figure.value < figure.high
    assert figure.n == 20
    assert np.isnan(bootstrap(measures.MAE, []).value)


def test_the_error_of_success_rates_is_per_group_and_in_points() -> None:
    """One missed success among four in one group, one of each kind in the other: 25 and 0 points."""
    good, bad = answers(UP, UP), answers(UP * 0.4, UP)
    lucky = answers(UP, UP, succeeded=False)
    first = [replace(a, group="lift") for a in (good, good, good, bad)]
    second = [replace(a, group="stack") for a in (bad, lucky)]
    assert measures.success_rate_error("progress")(first) == pytest.approx(25.0)
    assert measures.success_rate_error("progress")(second) == pytest.approx(0.0)
    assert measures.success_rate_error("progress")([*first, *second]) == pytest.approx(12.5)


def test_context_accuracy_counts_the_masked_moments_only() -> None:
    mask = np.zeros(len(UP_DOWN), dtype=bool)
    mask[21:] = True
    clock = np.linspace(0, 1, len(UP_DOWN))
    asked = replace(answers(clock, UP_DOWN), context=mask)
    assert measures.context_accuracy("progress")([asked]) == 0.0
    assert measures.context_accuracy("progress")([replace(asked, value=UP_DOWN)]) > 0.8
    assert np.isnan(measures.context_accuracy("progress")([answers(clock, UP_DOWN)]))
    assert bootstrap(measures.context_accuracy("progress"), [asked, answers(clock, UP_DOWN)]).n == 1
