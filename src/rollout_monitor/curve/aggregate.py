"""Many rollouts: figures per task and policy with n and an interval, comparisons, ranks, agreement with labels.

Sources: PRM-as-a-Judge 1.5 (median over the rollouts where a metric applies, proportions for MC@q and SR, mean rank
over eleven metrics). Intervals are 95 % bootstrap intervals (`scipy.stats.bootstrap`, BCa), seeded.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import stats

from rollout_monitor.curve.checks import Floats
from rollout_monitor.errors import InputError
from rollout_monitor.records import Label, OpdMetrics

Statistic = Literal["median", "mean"]
By = Literal["task", "policy", "task+policy"]

PROPORTIONS = ("sr", "mc25", "mc50", "mc75")
CONTINUOUS = ("mp", "ppl", "cra", "str", "fns", "drr", "sqs")
ELEVEN = (*PROPORTIONS, *CONTINUOUS)  # the metrics that policies are ranked over
LOWER_IS_BETTER = frozenset({"cra", "str"})

# Resamples per interval: the ends of a 95 % interval are then good to about 1 % of its width, at 20 ms a figure.
RESAMPLES = 2000
SEED = 0
CONFIDENCE = 0.95
RANK_RESAMPLES = 500  # a mean rank is drawn as one number over all policies, which costs more

_BATCH_VALUES = 2_000_000  # drawn at a time: bounds the memory of an interval over thousands of rollouts


@dataclass(frozen=True)
class Rollout:
    """One measured rollout: which task, whose policy, its metrics."""

    task: str
    policy: str
    metrics: OpdMetrics


@dataclass(frozen=True)
class Figure:
    """One aggregated metric.

    Attributes:
        n: rollouts to which the metric applies.
        value: None where n is 0; an absent figure is never 0.
        low: lower end of the 95 % interval; None below two rollouts.
        high: its upper end.
    """

    n: int
    value: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Comparison:
    """Policy A against policy B in one metric, paired over the tasks where both have a figure.

    Attributes:
        metric: its name.
        tasks: pairs that were compared.
        difference: mean over the tasks of A minus B; None without a pair.
        low: lower end of its 95 % interval; None below two pairs.
        high: its upper end.
        a_better: share of bootstrap resamples of the tasks in which A is better (ties count half); None below two.
    """

    metric: str
    tasks: int
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    a_better: float | None = None


@dataclass(frozen=True)
class Rank:
    """A policy's place: the mean of its ranks (1 is best) over the metrics in which it has a figure."""

    policy: str
    mean_rank: float
    metrics: int


@dataclass(frozen=True)
class Agreement:
    """Success as read from progress against given labels.

    Attributes:
        n: rollouts with a label.
        mae_points: mean over the groups of abs(SR from progress - SR from labels), in percentage points.
        spearman: rank correlation of the two over the groups; None below two groups or where one is constant.
        true_success: both say success; the other three are the rest of the confusion table.
        false_success: progress says success, the label failure.
        false_failure: progress says failure, the label success.
        true_failure: both say failure.
    """

    n: int
    mae_points: float | None
    spearman: float | None
    true_success: int
    false_success: int
    false_failure: int
    true_failure: int


def metric_value(metrics: OpdMetrics, name: str) -> float | None:
    """One of `ELEVEN` (or ``mc100``) of a rollout; None where it does not apply.

    Raises:
        InputError: an unknown name.
    """
    attribute = {"sr": "success", "str": "str_"}.get(name, name)
    if name not in ELEVEN and name != "mc100":
        raise InputError(f"{name} is not a metric; known are {', '.join(ELEVEN)}, mc100")
    value = getattr(metrics, attribute)
    return None if value is None else float(value)


def aggregate(
    rollouts: Iterable[Rollout],
    by: By = "task+policy",
    statistic: Statistic = "median",
    *,
    names: Sequence[str] = (*ELEVEN, "mc100"),
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> dict[tuple[str, ...], dict[str, Figure]]:
    """Figures per group.

    Args:
        rollouts: any number, in any order.
        by: what makes a group; the keys are (task,), (policy,) or (task, policy), sorted.
        statistic: of the continuous metrics; ``mean`` is the published toolkit's own variant. Proportions are means.
        names: metrics wanted, of `ELEVEN` and ``mc100``; an interval costs milliseconds.
        resamples: bootstrap resamples per interval.
        seed: of the resampling; the same input gives the same interval.
    """
    groups: dict[tuple[str, ...], list[OpdMetrics]] = {}
    for rollout in rollouts:
        key = {"task": (rollout.task,), "policy": (rollout.policy,), "task+policy": (rollout.task, rollout.policy)}[by]
        groups.setdefault(key, []).append(rollout.metrics)
    return {
        key: {
            name: _figure(_applicable(groups[key], name), _statistic(name, statistic), resamples, seed)
            for name in names
        }
        for key in sorted(groups)
    }


def compare(
    rollouts: Sequence[Rollout],
    a: str,
    b: str,
    statistic: Statistic = "median",
    *,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> dict[str, Comparison]:
    """Policy ``a`` against policy ``b``, metric by metric, paired by task.

    Raises:
        InputError: a policy without a rollout.
    """
    known = {rollout.policy for rollout in rollouts}
    for policy in (a, b):
        if policy not in known:
            raise InputError(f"no rollout of policy {policy!r}; there are {', '.join(sorted(known)) or 'none'}")
    by_task: dict[str, dict[str, list[OpdMetrics]]] = {}
    for rollout in rollouts:
        by_task.setdefault(rollout.task, {}).setdefault(rollout.policy, []).append(rollout.metrics)
    pairs = [(tasks[a], tasks[b]) for tasks in by_task.values() if a in tasks and b in tasks]
    return {name: _compare(name, pairs, _statistic(name, statistic), resamples, seed) for name in ELEVEN}


def rank(rollouts: Iterable[Rollout], statistic: Statistic = "median") -> list[Rank]:
    """Policies from best to worst by the mean of their ranks over `ELEVEN`; ties share the mean of their places.

    A metric that does not apply to any rollout of a policy takes no part in that policy's mean; ``metrics`` says how
    many did. Compare ranks over different numbers of metrics with care.
    """
    groups: dict[str, list[OpdMetrics]] = {}
    for rollout in rollouts:
        groups.setdefault(rollout.policy, []).append(rollout.metrics)
    places: dict[str, list[float]] = {policy: [] for policy in groups}
    for name in ELEVEN:
        applicable = {policy: _applicable(group, name) for policy, group in sorted(groups.items())}
        values = {p: float(_statistic(name, statistic)(v)) for p, v in applicable.items() if len(v)}
        sign = 1.0 if name in LOWER_IS_BETTER else -1.0
        for policy, place in zip(values, stats.rankdata([sign * v for v in values.values()]), strict=True):
            places[policy].append(float(place))
    ranks = [Rank(policy, float(np.mean(held)), len(held)) for policy, held in places.items() if held]
    return sorted(ranks, key=lambda r: (r.mean_rank, r.policy))


def rank_intervals(
    rollouts: Iterable[Rollout],
    statistic: Statistic = "median",
    *,
    resamples: int = RANK_RESAMPLES,
    seed: int = SEED,
) -> dict[str, tuple[float, float]]:
    """95 % percentile interval of each policy's mean rank; empty below two policies.

    The rollouts of each policy are drawn again, all policies are ranked anew, and so on ``resamples`` times. A metric
    that applies to none of the drawn rollouts of a policy takes no part in that draw's mean.
    """
    groups: dict[str, list[OpdMetrics]] = {}
    for rollout in rollouts:
        groups.setdefault(rollout.policy, []).append(rollout.metrics)
    policies = sorted(groups)
    if len(policies) < 2:
        return {}
    rng = np.random.default_rng(seed)
    drawn = np.empty((len(ELEVEN), resamples, len(policies)))
    for column, policy in enumerate(policies):
        values = np.array(
            [[metric_value(metrics, name) for metrics in groups[policy]] for name in ELEVEN], dtype=np.float64
        )
        draws = rng.integers(values.shape[1], size=(resamples, values.shape[1]))
        for row, name in enumerate(ELEVEN):
            sign = 1.0 if name in LOWER_IS_BETTER else -1.0
            drawn[row, :, column] = sign * _drawn(values[row], draws, statistic == "mean" or name in PROPORTIONS)
    places = stats.rankdata(drawn, axis=2, nan_policy="omit")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a policy without any figure in a draw
        means = np.nanmean(places, axis=0)
    ends = np.nanquantile(means, [(1.0 - CONFIDENCE) / 2.0, (1.0 + CONFIDENCE) / 2.0], axis=0)
    return {policy: (float(low), float(high)) for policy, low, high in zip(policies, *ends, strict=True)}


def _drawn(values: Floats, draws: npt.NDArray[np.int64], mean: bool) -> Floats:
    """Mean or median of each draw over the values that are there; NaN where a draw has none. Shape (resamples,)."""
    batch = max(1, _BATCH_VALUES // draws.shape[1])
    parts = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for start in range(0, len(draws), batch):
            part = np.sort(values[draws[start : start + batch]], axis=1)  # NaN goes to the end
            n = np.isfinite(part).sum(axis=1)
            if mean:
                parts.append(np.where(n > 0, np.nansum(part, axis=1) / n, np.nan))
                continue
            row = np.arange(len(part))
            middle = (part[row, np.maximum((n - 1) // 2, 0)] + part[row, np.minimum(n // 2, part.shape[1] - 1)]) / 2.0
            parts.append(np.where(n > 0, middle, np.nan))
    return np.concatenate(parts)


def agreement(outcomes: Iterable[tuple[str, bool, Label]]) -> Agreement:
    """How well success read from progress agrees with labels.

    Args:
        outcomes: per labelled rollout (group, success from progress, label); the group is the task, the policy or
            whatever a success rate is reported for. Compute the metrics without the label, or it answers itself.
    """
    table = np.zeros((2, 2), dtype=np.int64)
    groups: dict[str, list[tuple[bool, bool]]] = {}
    for group, predicted, label in outcomes:
        told = label is Label.SUCCESS
        table[int(predicted), int(told)] += 1
        groups.setdefault(group, []).append((predicted, told))
    rates = np.array([np.mean(pairs, axis=0) for pairs in groups.values()]).reshape(-1, 2)
    return Agreement(
        n=int(table.sum()),
        mae_points=float(np.abs(rates[:, 0] - rates[:, 1]).mean() * 100.0) if len(rates) else None,
        spearman=_spearman(rates[:, 0], rates[:, 1]),
        true_success=int(table[1, 1]),
        false_success=int(table[1, 0]),
        false_failure=int(table[0, 1]),
        true_failure=int(table[0, 0]),
    )


def _applicable(group: Sequence[OpdMetrics], name: str) -> Floats:
    values = [metric_value(metrics, name) for metrics in group]
    return np.array([value for value in values if value is not None], dtype=np.float64)


def _statistic(name: str, chosen: Statistic) -> Callable[..., Any]:
    return np.mean if chosen == "mean" or name in (*PROPORTIONS, "mc100") else np.median


def _figure(values: Floats, statistic: Callable[..., Any], resamples: int, seed: int) -> Figure:
    if len(values) == 0:
        return Figure(n=0)
    low, high = _interval(values, statistic, resamples, seed)
    return Figure(n=len(values), value=float(statistic(values)), low=low, high=high)


def _interval(
    values: Floats, statistic: Callable[..., Any], resamples: int, seed: int
) -> tuple[float | None, float | None]:
    """95 % interval; (None, None) below two values.

    Equal values give an interval without width: resampling cannot show what was never seen. Where BCa has no answer
    (the jackknife of a median may not vary) the percentile interval of the same resamples stands in.
    """
    if len(values) < 2:
        return None, None
    if np.ptp(values) == 0.0:
        return float(values[0]), float(values[0])
    for method in ("BCa", "percentile"):
        with warnings.catch_warnings(), np.errstate(invalid="ignore", divide="ignore"):
            warnings.simplefilter("ignore", stats.DegenerateDataWarning)
            result = stats.bootstrap(
                (values,),
                statistic,
                n_resamples=resamples,
                confidence_level=CONFIDENCE,
                method=method,
                batch=max(1, _BATCH_VALUES // len(values)),
                rng=np.random.default_rng(seed),
            ).confidence_interval
        if np.isfinite(result.low) and np.isfinite(result.high):
            break
    return float(result.low), float(result.high)


def _compare(
    name: str,
    pairs: Sequence[tuple[list[OpdMetrics], list[OpdMetrics]]],
    statistic: Callable[..., Any],
    resamples: int,
    seed: int,
) -> Comparison:
    both = [(_applicable(a, name), _applicable(b, name)) for a, b in pairs]
    differences = np.array([statistic(a) - statistic(b) for a, b in both if len(a) and len(b)], dtype=np.float64)
    if len(differences) == 0:
        return Comparison(name, 0)
    low, high = _interval(differences, np.mean, resamples, seed)
    a_better = None
    if len(differences) > 1:
        rng = np.random.default_rng(seed)
        means = differences[rng.integers(len(differences), size=(resamples, len(differences)))].mean(axis=1)
        better = means < 0.0 if name in LOWER_IS_BETTER else means > 0.0
        a_better = float(np.mean(better) + 0.5 * np.mean(means == 0.0))
    return Comparison(name, len(differences), float(differences.mean()), low, high, a_better)


def _spearman(x: Floats, y: Floats) -> float | None:
    if len(x) < 2 or np.ptp(x) == 0.0 or np.ptp(y) == 0.0:
        return None
    return float(np.corrcoef(stats.rankdata(x), stats.rankdata(y))[0, 1])
