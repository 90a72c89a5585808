"""The band of past successful runs of a task: what the live curve is compared with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rollout_monitor.dashboard.cards import Card
from rollout_monitor.errors import StoreError
from rollout_monitor.records import EpisodeReport, Label, Outcome
from rollout_monitor.store.episodes import EpisodeRow, EpisodeStore
from rollout_monitor.store.labels import LabelFact

MOST_RUNS = 30
"""The newest so many are read: enough for a tenth and a nine-tenths quantile, and a second's work at most."""

STEPS = 100
LOW, MIDDLE, HIGH = 0.1, 0.5, 0.9
_NS = 1_000_000_000


def band(stores: Sequence[Path], task: str, model: str) -> Card | None:
    """Quantiles over time of the successful runs of a task, judged by the same model; None where there is none.

    A run that has ended keeps its last value, so that the band does not fall apart where few runs are left.

    Args:
        stores: folders of reports.
        task: the instruction, word for word.
        model: name and version of the progress model: curves of two models are not comparable.

    Returns:
        ``runs``, how many there are; ``times`` in seconds from the start, with ``low``, ``middle`` and ``high``
        (10 %, median, 90 %) of the progress as it was shown live.

    Raises:
        StoreError: an index that cannot be used.
    """
    curves = []
    for store in (EpisodeStore(folder) for folder in stores):
        said = last_said(store.labels.all()) if store.root.is_dir() else {}
        rows = [row for row in store.list() if (row.task, row.model) == (task, model) and succeeded(row, said)]
        for row in rows[:MOST_RUNS]:
            try:
                curves.append(_curve(store.load(row.folder)))
            except (StoreError, ValueError):  # one report that is gone or damaged; `report reindex` names it
                continue
    curves = [curve for curve in curves if len(curve[0]) > 1][:MOST_RUNS]
    if not curves:
        return None
    times = np.linspace(0.0, max(float(curve[0][-1]) for curve in curves), STEPS + 1)
    values = np.stack([np.interp(times, *curve) for curve in curves])
    low, middle, high = np.quantile(values, (LOW, MIDDLE, HIGH), axis=0)
    return {
        "runs": len(curves),
        "times": np.round(times, 2).tolist(),
        "low": np.round(low, 4).tolist(),
        "middle": np.round(middle, 4).tolist(),
        "high": np.round(high, 4).tolist(),
    }


def last_said(facts: Sequence[LabelFact]) -> dict[str, Label]:
    """What was last said of each episode, by whoever said it; a label that was taken back counts no more."""
    by_author: dict[tuple[str, str], LabelFact] = {}
    for fact in facts:
        if fact.label is not None or not fact.note:  # a note alone takes nothing back
            by_author[fact.episode_id, fact.who] = fact
    newest = sorted(by_author.values(), key=lambda fact: fact.stamp_ns)
    return {fact.episode_id: fact.label for fact in newest if fact.label is not None}


def succeeded(row: EpisodeRow, said: dict[str, Label]) -> bool:
    """Whether an attempt counts as a success: a label says so, or the monitor where nobody has said anything."""
    label = said.get(row.folder)
    return label is Label.SUCCESS if label is not None else row.outcome == Outcome.SUCCESS.value


def _curve(report: EpisodeReport) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    times = np.array([(point.stamp_ns - report.start_ns) / _NS for point in report.curve])
    return times, np.array([point.live for point in report.curve])
