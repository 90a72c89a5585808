"""How a task usually comes out: ranges of the metrics over earlier successes in the same store."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from rollout_monitor.errors import StoreError
from rollout_monitor.records import EpisodeReport, EpisodeState, Label, UsualRange
from rollout_monitor.store.episodes import REPORT, EpisodeStore

METRICS = ("mp", "ppl", "tv", "cra", "str", "max_drawdown", "drr", "sqs")
"""Those that a success can have: FNS is of failures only."""
FEWEST = 5
"""Below this a range says more about chance than about the task."""
NEWEST = 50
_LOW, _HIGH = 0.1, 0.9


def with_usual(store: EpisodeStore, report: EpisodeReport) -> EpisodeReport:
    """The report with the usual ranges as of now, before it is stored itself.

    Counted are the newest `NEWEST` successes of the same task, judged by the same model in the same convention. What
    was said last about an episode decides before what the monitor found. Nothing is said with fewer than `FEWEST`.
    """
    metrics = report.metrics_final
    if metrics is None or not report.model_hash:
        return report
    try:
        rows = store.list()
        said = {fact.episode_id: fact.label.value for fact in store.labels.all() if fact.label is not None}
    except StoreError:  # a damaged index is told of when the report is written
        return report
    alike = [
        row.folder
        for row in rows
        if (row.task, row.model_hash, row.state) == (report.task, report.model_hash, EpisodeState.ENDED.value)
        and said.get(row.folder, row.outcome) == Label.SUCCESS.value
    ]
    earlier = [_metrics(store, folder) for folder in alike[:NEWEST]]
    kept = [found for found in earlier if found.get("convention") == metrics.convention]
    return report.model_copy(update={"usual": [usual for name in METRICS if (usual := _range(name, kept))]})


def _metrics(store: EpisodeStore, folder: str) -> dict[str, Any]:
    """The final metrics of a stored report, empty where it has none or cannot be read."""
    try:
        found = json.loads((store.root / folder / REPORT).read_bytes()).get("metrics_final")
    except (OSError, ValueError, AttributeError):
        return {}
    return found if isinstance(found, dict) else {}


def _range(name: str, episodes: list[dict[str, Any]]) -> UsualRange | None:
    values = [float(value) for one in episodes if isinstance(value := one.get(name), int | float)]
    if len(values) < FEWEST:
        return None
    low, high = np.quantile(values, (_LOW, _HIGH))
    return UsualRange(metric=name, low=float(low), high=float(high), n=len(values))
