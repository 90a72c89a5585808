"""Many rollouts: n, absence, intervals, comparisons, ranks, agreement with labels."""

from __future__ import annotations

import numpy as np
import pytest

from rollout_monitor.curve import compute
from rollout_monitor.curve.aggregate import (
    ELEVEN,
    Rollout,
    aggregate,
    agreement,
    compare,
    metric_value,
    rank,
    rank_intervals,
)
from rollout_monitor.errors import InputError
from rollout_monitor.records import Label

FAILED = [0.0, 0.3, 0.6, 0.2]
STRAIGHT = [0.0, 0.5, 1.0]
WANDERING = [0.0, 0.8, 0.2, 1.0]


def made(task: str, policy: str, *curves: list[float]) -> list[Rollout]:
    return [Rollout(task, policy, compute(curve)) for curve in curves]


def random_rollouts(policy: str, tasks: int, each: int, seed: int, lift: float = 0.0) -> list[Rollout]:
    rng = np.random.default_rng(seed)
    curves = np.clip(np.cumsum(rng.normal(0.05 + lift, 0.1, (tasks, each, 20)), axis=2), 0.0, 1.0)
    return [Rollout(f"task{t}", policy, compute(curves[t, i])) for t in range(tasks) for i in range(each)]


def test_conditional_metrics_count_only_where_they_apply() -> None:
    found = aggregate(made("stack", "a", FAILED, FAILED, STRAIGHT))[("stack", "a")]
    assert (found["sr"].n, found["sr"].value) == (3, pytest.approx(1 / 3))
    assert (found["fns"].n, found["sqs"].n, found["drr"].n) == (2, 1, 2)
    assert found["sqs"].value == compute(STRAIGHT).sqs
    assert found["sqs"].low is None  # one rollout has no interval


def test_a_metric_that_applies_to_none_is_absent_not_zero() -> None:
    found = aggregate(made("stack", "a", STRAIGHT, STRAIGHT))[("stack", "a")]
    for name in ("fns", "drr"):
        assert (found[name].n, found[name].value, found[name].low, found[name].high) == (0, None, None, None)
    assert found["mp"].value == 1.0
    assert (found["mp"].low, found["mp"].high) == (1.0, 1.0)


def test_medians_for_continuous_metrics_and_shares_for_the_rest() -> None:
    rollouts = random_rollouts("a", 1, 25, 0)
    median, mean = aggregate(rollouts), aggregate(rollouts, statistic="mean")
    values = [r.metrics.ppl for r in rollouts]
    assert median[("task0", "a")]["ppl"].value == pytest.approx(np.median(values))
    assert mean[("task0", "a")]["ppl"].value == pytest.approx(np.mean(values))
    shares = [r.metrics.mc50 for r in rollouts]
    assert median[("task0", "a")]["mc50"].value == mean[("task0", "a")]["mc50"].value == pytest.approx(np.mean(shares))


def test_groups_are_by_task_policy_or_both() -> None:
    rollouts = made("stack", "a", FAILED) + made("stack", "b", FAILED) + made("lift", "a", FAILED)
    assert list(aggregate(rollouts)) == [("lift", "a"), ("stack", "a"), ("stack", "b")]
    assert aggregate(rollouts, by="policy")[("a",)]["mp"].n == 2
    assert aggregate(rollouts, by="task")[("stack",)]["mp"].n == 2
    assert aggregate([]) == {}


def test_intervals_are_seeded_and_hold_the_value() -> None:
    rollouts = random_rollouts("a", 2, 30, 1)
    first, again = aggregate(rollouts), aggregate(rollouts)
    assert first == again
    for figures in first.values():
        for name in ("mp", "ppl", "cra", "str", "sr", "mc75"):
            figure = figures[name]
            assert figure.low is not None
            assert figure.high is not None
            assert figure.low <= figure.value <= figure.high
    assert aggregate(rollouts, seed=1) != first


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    covered = 0
    for seed in range(60):
        values = np.random.default_rng(seed).random(30)
        rollouts = [Rollout("t", "p", compute([0.0, v])) for v in values]
        figure = aggregate(rollouts, resamples=500, seed=seed)[("t", "p")]["mp"]
        covered += figure.low <= 0.5 <= figure.high
    assert covered >= 51  # of 57 expected; three standard errors below


def test_comparison_is_paired_by_task() -> None:
    good, poor = random_rollouts("good", 8, 6, 2, lift=0.03), random_rollouts("poor", 8, 6, 3)
    only_good = made("alone", "good", STRAIGHT)
    found = compare(good + poor + only_good, "good", "poor")
    assert set(found) == set(ELEVEN)
    mp = found["mp"]
    assert mp.tasks == 8
    assert mp.difference > 0.0
    assert mp.low <= mp.difference <= mp.high
    assert mp.a_better > 0.95
    back = compare(good + poor, "poor", "good")["mp"]
    assert back.difference == pytest.approx(-mp.difference)
    assert back.a_better == pytest.approx(1.0 - mp.a_better)


def test_where_lower_is_better_the_lower_is_better() -> None:
    rollouts = made("t0", "calm", STRAIGHT) + made("t0", "wild", WANDERING)
    rollouts += made("t1", "calm", STRAIGHT) + made("t1", "wild", [0.0, 0.9, 0.1, 1.0])
    cra = compare(rollouts, "calm", "wild")["cra"]
    assert cra.difference < 0.0
    assert cra.a_better == 1.0
    assert [r.policy for r in rank(rollouts)] == ["calm", "wild"]
    halting = [0.0, 0.5, 0.5, 0.5, 1.0]
    rollouts = [r for task in ("t0", "t1") for r in made(task, "brisk", STRAIGHT) + made(task, "halting", halting)]
    assert compare(rollouts, "brisk", "halting")["str"].a_better == 1.0


def test_a_comparison_without_pairs_is_absent() -> None:
    found = compare(made("t0", "a", STRAIGHT) + made("t1", "b", STRAIGHT), "a", "b")["mp"]
    assert (found.tasks, found.difference, found.low, found.a_better) == (0, None, None, None)
    one = compare(made("t0", "a", STRAIGHT) + made("t0", "b", WANDERING), "a", "b")["ppl"]
    assert one.tasks == 1
    assert one.difference > 0.0
    assert one.low is None
    with pytest.raises(InputError, match="'c'"):
        compare(made("t0", "a", STRAIGHT), "a", "c")


def test_ranks_share_places_and_say_over_how_many_metrics() -> None:
    ranks = rank(made("t", "a", STRAIGHT) + made("t", "b", STRAIGHT) + made("t", "c", FAILED))
    by_name = {r.policy: r for r in ranks}
    assert by_name["a"].mean_rank == by_name["b"].mean_rank
    assert ranks[-1].policy == "c"
    assert by_name["a"].metrics == len(ELEVEN) - 2  # neither FNS nor DRR applies to a straight success
    assert by_name["c"].metrics == len(ELEVEN) - 1  # no SQS
    # sr, mc25, mc50, mc75, mp, ppl, cra, str, sqs: the first two share places 1 and 2, or all three share 2
    assert by_name["a"].mean_rank == pytest.approx(np.mean([1.5, 2.0, 2.0, 1.5, 1.5, 1.5, 1.5, 2.0, 1.5]))


def test_agreement_with_labels() -> None:
    outcomes = [
        ("lift", True, Label.SUCCESS),
        ("lift", True, Label.SUCCESS),
        ("stack", True, Label.FAILURE),
        ("stack", False, Label.FAILURE),
        ("push", False, Label.SUCCESS),
        ("push", False, Label.FAILURE),
    ]
    found = agreement(outcomes)
    assert (found.true_success, found.false_success, found.false_failure, found.true_failure) == (2, 1, 1, 2)
    assert found.n == 6
    assert found.mae_points == pytest.approx((0 + 50 + 50) / 3)
    assert found.spearman == pytest.approx(0.5)
    assert agreement([]).mae_points is None
    assert agreement(outcomes[:2]).spearman is None


def test_an_unknown_metric_is_an_error() -> None:
    assert metric_value(compute(STRAIGHT), "mc100") == 1.0
    with pytest.raises(InputError, match="speed"):
        metric_value(compute(STRAIGHT), "speed")


def test_intervals_of_mean_ranks_are_those_of_drawing_again() -> None:
    rollouts = (
        random_rollouts("a", 1, 9, 4, lift=0.02) + random_rollouts("b", 1, 12, 5) + made("t", "c", FAILED, STRAIGHT)
    )
    found = rank_intervals(rollouts, resamples=60, seed=3)
    rng = np.random.default_rng(3)
    groups = {p: [r.metrics for r in rollouts if r.policy == p] for p in "abc"}
    draws = {p: rng.integers(len(g), size=(60, len(g))) for p, g in groups.items()}
    means = []
    for index in range(60):
        drawn = [Rollout("t", p, g[i]) for p, g in groups.items() for i in draws[p][index]]
        means.append({one.policy: one.mean_rank for one in rank(drawn)})
    for policy, (low, high) in found.items():
        assert (low, high) == pytest.approx(tuple(np.quantile([m[policy] for m in means], [0.025, 0.975])))
    assert rank_intervals(made("t", "a", FAILED)) == {}
