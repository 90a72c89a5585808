"""The figures of the site: leaderboards, portraits of success and failure, where attempts fail.

Every figure comes from `rollout_monitor.curve.aggregate`: n, value, 95 % bootstrap interval over episodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from rollout_monitor.curve.aggregate import ELEVEN, Figure, Rank, Rollout, Statistic, aggregate, rank, rank_intervals
from rollout_monitor.report.site.attempts import Attempt

UNNAMED_POLICY, UNNAMED_TASK = "(no policy named)", "(no task named)"
BINS = 10
"""Failures are counted by maximum progress in steps of a tenth."""

MOST_RANKED = 200
"""Mean ranks of more policies have no interval: it would take gigabytes, and so many names are rarely policies."""


@dataclass(frozen=True)
class Metric:
    """One of the eleven: its key in `aggregate`, its name on the page, what it says, which way is better."""

    key: str
    short: str
    name: str
    better: str


METRICS = (
    Metric("sr", "SR", "success rate", "higher"),
    Metric("mc25", "MC@25", "share that reached 25 %", "higher"),
    Metric("mc50", "MC@50", "share that reached 50 %", "higher"),
    Metric("mc75", "MC@75", "share that reached 75 %", "higher"),
    Metric("mp", "MP", "maximum progress", "higher"),
    Metric("ppl", "PPL", "path efficiency", "higher"),
    Metric("cra", "CRA", "cumulative regret", "lower"),
    Metric("str", "STR", "stagnation", "lower"),
    Metric("fns", "FNS", "near-success, failures only", "higher"),
    Metric("drr", "DRR", "recovery, where progress fell", "higher"),
    Metric("sqs", "SQS", "quality, successes only", "higher"),
)


@dataclass(frozen=True)
class Place:
    """One policy's line of a leaderboard.

    Attributes:
        policy: its name.
        episodes: attempts that count.
        tasks: tasks among them.
        rank: mean rank over the metrics in which it has a figure.
        rank_low: lower end of the 95 % interval of the mean rank; None with one policy or more than MOST_RANKED.
        rank_high: its upper end.
        figures: by metric key.
    """

    policy: str
    episodes: int
    tasks: int
    rank: Rank
    rank_low: float | None
    rank_high: float | None
    figures: dict[str, Figure]


@dataclass(frozen=True)
class Board:
    """Policies from best to worst, over all of the given attempts."""

    places: list[Place]
    tasks: list[str]
    episodes: int


@dataclass(frozen=True)
class Axis:
    """One axis of a portrait: a metric, turned so that further out is better."""

    key: str
    label: str
    turned: bool = False

    def shown(self, figure: Figure) -> Figure:
        """The figure along the axis."""
        if not self.turned or figure.value is None:
            return figure
        low = None if figure.high is None else 1.0 - figure.high
        high = None if figure.low is None else 1.0 - figure.low
        return Figure(figure.n, 1.0 - figure.value, low, high)


SUCCESS_AXES = (
    Axis("sqs", "SQS"),
    Axis("ppl", "PPL"),
    Axis("cra", "1 − CRA", turned=True),
    Axis("str", "1 − STR", turned=True),
    Axis("drr", "DRR"),
)
FAILURE_AXES = (
    Axis("fns", "FNS"),
    Axis("mp", "MP"),
    Axis("mc50", "MC@50"),
    Axis("mc75", "MC@75"),
    Axis("drr", "DRR"),
    Axis("cra", "1 − CRA", turned=True),
    Axis("str", "1 − STR", turned=True),
)


@dataclass(frozen=True)
class Portrait:
    """How one policy's successes, or its failures, look: a figure per axis."""

    policy: str
    episodes: int
    figures: list[Figure]


@dataclass(frozen=True)
class Fall:
    """Where the failures of one group stood.

    Attributes:
        group: policy or task.
        failures: attempts that count as failures.
        attempts: all that count.
        bins: failures by maximum progress, in tenths.
        best: median of the maximum progress.
        end: median of the progress at the end.
        drawdown: median of the deepest fall.
        drr: recovery of the deepest fall, where progress fell.
    """

    group: str
    failures: int
    attempts: int
    bins: list[int]
    best: float | None
    end: float | None
    drawdown: float | None
    drr: Figure


@dataclass(frozen=True)
class Subtasks:
    """How many goals of a task were done when its attempts failed: (goals done, failures); those that do not say."""

    task: str
    counts: list[tuple[int, int]]
    silent: int


def policy_of(attempt: Attempt) -> str:
    """Name of the policy's group."""
    return attempt.policy or UNNAMED_POLICY


def task_of(attempt: Attempt) -> str:
    """Name of the task's group."""
    return attempt.task or UNNAMED_TASK


def counted(attempts: Iterable[Attempt]) -> list[Attempt]:
    """Those that take part in figures."""
    return [attempt for attempt in attempts if attempt.counted]


def rollouts(attempts: Iterable[Attempt]) -> list[Rollout]:
    """As `aggregate` takes them; all must have metrics."""
    return [Rollout(task_of(a), policy_of(a), a.metrics) for a in attempts if a.metrics is not None]


def board(attempts: Sequence[Attempt], statistic: Statistic) -> Board:
    """The leaderboard of attempts that count."""
    given = rollouts(attempts)
    figures = aggregate(given, by="policy", statistic=statistic, names=ELEVEN)
    intervals = rank_intervals(given, statistic) if len(figures) <= MOST_RANKED else {}
    episodes = Counter(rollout.policy for rollout in given)
    tasks: dict[str, set[str]] = {}
    for rollout in given:
        tasks.setdefault(rollout.policy, set()).add(rollout.task)
    places = []
    for one in rank(given, statistic):
        low, high = intervals.get(one.policy, (None, None))
        counts = (episodes[one.policy], len(tasks[one.policy]))
        places.append(Place(one.policy, *counts, one, low, high, figures[(one.policy,)]))
    return Board(places, sorted({rollout.task for rollout in given}), len(given))


def on_shared_tasks(attempts: Sequence[Attempt]) -> list[Attempt]:
    """Attempts at the tasks that every policy tried; all of them where the policies tried the same."""
    tasks: dict[str, set[str]] = {}
    for attempt in attempts:
        tasks.setdefault(policy_of(attempt), set()).add(task_of(attempt))
    shared = set.intersection(*tasks.values()) if tasks else set()
    return [attempt for attempt in attempts if task_of(attempt) in shared]


def portraits(attempts: Sequence[Attempt], axes: Sequence[Axis], success: bool, statistic: Statistic) -> list[Portrait]:
    """A portrait per policy of its successes or its failures; policies without one are left out."""
    given = [one for one in rollouts(attempts) if one.metrics.success is success]
    counts = Counter(one.policy for one in given)
    found = aggregate(given, by="policy", statistic=statistic, names=[axis.key for axis in axes])
    return [
        Portrait(policy, counts[policy], [axis.shown(figures[axis.key]) for axis in axes])
        for (policy,), figures in found.items()
    ]


def falls(attempts: Sequence[Attempt], group: Callable[[Attempt], str]) -> list[Fall]:
    """Where failures stood, by group, sorted by name."""
    groups: dict[str, list[Attempt]] = {}
    for attempt in attempts:
        groups.setdefault(group(attempt), []).append(attempt)
    return [_fall(name, groups[name]) for name in sorted(groups)]


def _fall(name: str, attempts: Sequence[Attempt]) -> Fall:
    failed = [(a, a.metrics) for a in attempts if a.metrics is not None and not a.metrics.success]
    bins = [0] * BINS
    for _, metrics in failed:
        bins[bin_of(metrics.mp)] += 1
    given = [Rollout("", "", metrics) for _, metrics in failed]
    drr = aggregate(given, by="policy", names=("drr",))[("",)]["drr"] if given else Figure(0)
    return Fall(
        name,
        len(failed),
        len(attempts),
        bins,
        _median([metrics.mp for _, metrics in failed]),
        _median([a.last for a, _ in failed if a.last is not None]),
        _median([metrics.max_drawdown for _, metrics in failed]),
        drr,
    )


def bin_of(progress: float) -> int:
    """Which tenth a progress lies in; 1 belongs to the last."""
    return min(int(progress * BINS + 1e-9), BINS - 1)


def subtasks(attempts: Sequence[Attempt]) -> list[Subtasks]:
    """Failures by task and goals done, for the tasks in which some failure says how many."""
    groups: dict[str, list[int | None]] = {}
    for attempt in attempts:
        if attempt.metrics is not None and not attempt.metrics.success:
            groups.setdefault(task_of(attempt), []).append(attempt.subtask)
    return [
        Subtasks(task, sorted(Counter(one for one in told if one is not None).items()), told.count(None))
        for task, told in sorted(groups.items())
        if any(one is not None for one in told)
    ]


def _median(values: Sequence[float]) -> float | None:
    return float(np.median(values)) if values else None
