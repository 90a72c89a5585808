"""Whether simulation tells what the real robot will do: per metric over policies, per task in maximum progress.

Only pairs of policy and task that were tried on both sides take part, so that neither side is judged by other tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

from rollout_monitor.curve.aggregate import CONFIDENCE, ELEVEN, RESAMPLES, SEED, Figure, Statistic, aggregate
from rollout_monitor.report.site.attempts import Attempt
from rollout_monitor.report.site.figures import policy_of, rollouts, task_of

FEWEST_PAIRS = 5
"""With four pairs even a perfect order of ranks comes by chance one time in 24: no correlation is shown below five."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Correlation:
    """One metric over policies.

    Attributes:
        metric: its key.
        pairs: policies with a figure on both sides.
        spearman: rank correlation; None below FEWEST_PAIRS or where one side is constant.
        p_value: two-sided, by permuting the pairs (all of them up to eight, else 9,999 seeded ones); None with it.
    """

    metric: str
    pairs: int
    spearman: float | None
    p_value: float | None


@dataclass(frozen=True)
class Gap:
    """Maximum progress, real minus simulated, of one task: the mean over policies of the difference of medians.

    Attributes:
        task: its text; empty for the mean over tasks.
        policies: policies with attempts on both sides.
        simulated: episodes.
        real: episodes.
        value: in shares of the task.
        low: lower end of the 95 % interval, episodes drawn again within each policy and side; None where some policy
            has a single episode on a side.
        high: its upper end.
    """

    task: str
    policies: int
    simulated: int
    real: int
    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Transfer:
    """Everything of the page; ``figures`` are (policy, metric key, simulated, real)."""

    simulated: int
    real: int
    correlations: list[Correlation]
    gaps: list[Gap]
    overall: Gap | None
    figures: list[tuple[str, str, Figure, Figure]]


def transfer(attempts: Sequence[Attempt], statistic: Statistic) -> Transfer | None:
    """Compare the two sides; None where no attempt is tagged simulated or none real."""
    sides = {side: [a for a in attempts if a.where == side] for side in ("sim", "real")}
    if not all(sides.values()):
        return None
    keys = {side: {(policy_of(a), task_of(a)) for a in group} for side, group in sides.items()}
    shared = keys["sim"] & keys["real"]
    both = {side: [a for a in group if (policy_of(a), task_of(a)) in shared] for side, group in sides.items()}
    found = {
        side: aggregate(rollouts(group), by="policy", statistic=statistic, names=ELEVEN) for side, group in both.items()
    }
    policies = sorted({policy for policy, _ in shared})
    figures = [
        (policy, metric, found["sim"][(policy,)][metric], found["real"][(policy,)][metric])
        for policy in policies
        for metric in ELEVEN
    ]
    gaps, draws = _gaps(both["sim"], both["real"], shared)
    return Transfer(
        simulated=len(both["sim"]),
        real=len(both["real"]),
        correlations=[_correlation(metric, figures) for metric in ELEVEN],
        gaps=gaps,
        overall=_overall(gaps, draws),
        figures=figures,
    )


def _correlation(metric: str, figures: Sequence[tuple[str, str, Figure, Figure]]) -> Correlation:
    both = [(sim.value, real.value) for _, key, sim, real in figures if key == metric]
    pairs = np.array([(x, y) for x, y in both if x is not None and y is not None])
    if len(pairs) < FEWEST_PAIRS or np.ptp(pairs, axis=0).min() == 0.0:
        return Correlation(metric, len(pairs), None, None)
    ranks = stats.rankdata(pairs, axis=0)
    ranks -= ranks.mean(axis=0)
    scaled = ranks[:, 1] / np.sqrt((ranks**2).sum(axis=0).prod())

    def spearman(x: Floats, axis: int) -> Floats:
        product: Floats = np.moveaxis(x, axis, -1) @ scaled
        return product

    test = stats.permutation_test(
        (ranks[:, 0],),
        spearman,
        permutation_type="pairings",
        vectorized=True,
        n_resamples=40_320 if len(pairs) <= 8 else 9_999,
        rng=np.random.default_rng(SEED),
    )
    return Correlation(metric, len(pairs), float(test.statistic), float(test.pvalue))


def _gaps(
    simulated: Sequence[Attempt], real: Sequence[Attempt], shared: set[tuple[str, str]]
) -> tuple[list[Gap], list[Floats | None]]:
    """The gap of each task, and its resamples, shape (RESAMPLES,)."""
    values = [_progress(group) for group in (simulated, real)]
    rng = np.random.default_rng(SEED)
    gaps, draws = [], []
    for task in sorted({task for _, task in shared}):
        cells = [(values[0][key], values[1][key]) for key in sorted(shared) if key[1] == task]
        value = float(np.mean([np.median(r) - np.median(s) for s, r in cells]))
        drawn = None
        if all(len(s) > 1 and len(r) > 1 for s, r in cells):
            drawn = np.mean([_medians(r, rng) - _medians(s, rng) for s, r in cells], axis=0)
        counts = [sum(len(cell[side]) for cell in cells) for side in (0, 1)]
        gaps.append(Gap(task, len(cells), counts[0], counts[1], value, *_ends(drawn)))
        draws.append(drawn)
    return gaps, draws


def _overall(gaps: Sequence[Gap], draws: Sequence[Floats | None]) -> Gap | None:
    if not gaps:
        return None
    given = [one for one in draws if one is not None]
    drawn = np.mean(given, axis=0) if len(given) == len(gaps) else None
    value = float(np.mean([gap.value for gap in gaps]))
    most = max(gap.policies for gap in gaps)
    return Gap("", most, sum(g.simulated for g in gaps), sum(g.real for g in gaps), value, *_ends(drawn))


def _progress(attempts: Sequence[Attempt]) -> dict[tuple[str, str], Floats]:
    found: dict[tuple[str, str], list[float]] = {}
    for attempt in attempts:
        if attempt.metrics is not None:
            found.setdefault((policy_of(attempt), task_of(attempt)), []).append(attempt.metrics.mp)
    return {key: np.array(values) for key, values in found.items()}


def _medians(values: Floats, rng: np.random.Generator) -> Floats:
    drawn: Floats = np.median(values[rng.integers(len(values), size=(RESAMPLES, len(values)))], axis=1)
    return drawn


def _ends(drawn: Floats | None) -> tuple[float | None, float | None]:
    if drawn is None:
        return None, None
    low, high = np.quantile(drawn, [(1.0 - CONFIDENCE) / 2.0, (1.0 + CONFIDENCE) / 2.0])
    return float(low), float(high)
