"""Usual ranges: of the same task, by the same model, of successes only, and only when there are enough."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from report_examples import failure_report, success_report

from rollout_monitor.records import EpisodeReport, EpisodeState, Label
from rollout_monitor.store.episodes import EpisodeStore
from rollout_monitor.store.usual import FEWEST, with_usual


def earlier(number: int, **changes: object) -> EpisodeReport:
    made = success_report()
    assert made.metrics_final is not None
    metrics = made.metrics_final.model_copy(update={"ppl": 0.5 + number / 100})
    return made.model_copy(update={"episode_id": f"e{number}", "metrics_final": metrics, "usual": [], **changes})


def test_ranges_of_earlier_successes(tmp_path: Path) -> None:
    store = EpisodeStore(tmp_path)
    for number in range(FEWEST):
        store.write(earlier(number), {})
    told = {usual.metric: usual for usual in with_usual(store, success_report()).usual}
    assert set(told) == {"mp", "ppl", "tv", "cra", "str", "max_drawdown", "drr", "sqs"}
    assert told["ppl"].n == FEWEST
    low, high = np.quantile([0.5 + number / 100 for number in range(FEWEST)], (0.1, 0.9))
    assert (told["ppl"].low, told["ppl"].high) == (pytest.approx(low), pytest.approx(high))


@pytest.mark.parametrize(
    "other",
    [
        {"task": "another task"},
        {"model_hash": "00"},
        {"state": EpisodeState.INTERRUPTED},
        {"outcome": failure_report().outcome},
    ],
    ids=lambda other: next(iter(other)),
)
def test_others_do_not_count(tmp_path: Path, other: dict[str, object]) -> None:
    store = EpisodeStore(tmp_path)
    for number in range(FEWEST - 1):
        store.write(earlier(number), {})
    store.write(earlier(FEWEST, **other), {})
    assert with_usual(store, success_report()).usual == []


def test_what_was_said_last_decides(tmp_path: Path) -> None:
    store = EpisodeStore(tmp_path)
    for number in range(FEWEST):
        store.write(earlier(number), {})
    store.labels.add("e0", Label.FAILURE, "anna", stamp_ns=1)
    assert with_usual(store, success_report()).usual == []
    store.labels.add("e0", Label.SUCCESS, "anna", "looked again", stamp_ns=2)
    assert with_usual(store, success_report()).usual


def test_an_empty_store_says_nothing(tmp_path: Path) -> None:
    made = success_report().model_copy(update={"usual": []})
    assert with_usual(EpisodeStore(tmp_path / "none"), made) == made
