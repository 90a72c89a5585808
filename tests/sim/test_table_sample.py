"""The one simulated take that is kept in the repository: it reads without a simulator, by the product's own reader too.

Made by ``rollout-monitor sim generate --plan test --rollouts 1 --seed 6 --task lift:green --mode drop --arm panda
--frame-rate 2``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rollout_monitor.errors import InputError
from rollout_monitor.records import Boundary
from rollout_monitor.sim.tabletop.files import read_pictures, read_row, read_truth
from rollout_monitor.store.bags import open_bag
from rollout_monitor.store.messages import ImageItem, JointItem, MarkerItem
from rollout_monitor.trends import Trend

SAMPLE = Path(__file__).parent / "sample" / "test-000006"


def test_the_truth_reads_and_judges_any_instruction_of_the_scene() -> None:
    truth = read_truth(SAMPLE)
    row = truth.row
    assert row == read_row(SAMPLE)
    assert (row.task, row.arms, row.mode, row.outcome, row.drops) == ("lift:green", "panda", "drop", "failure", 1)
    own = truth.judge()
    assert len(own.progress) == row.frames == len(truth.qpos) == len(truth.states)
    assert own.progress.max() > 0.5 > own.progress[-1]
    assert round(float(own.progress[-1]), 3) == pytest.approx(row.progress_end, abs=2e-3)
    assert row.alternatives
    for task in row.alternatives:
        other = truth.judge(task)
        assert other.progress.shape == own.progress.shape
        assert not other.done[0]
    with pytest.raises(InputError, match="the scene has no"):
        truth.judge("lift:can")
    (fall,) = [event for event in truth.events if event.kind == "drop"]
    assert fall.what == "green"
    assert any(begin <= fall.end_ns and fall.begin_ns <= end for begin, end in truth.intervals(Trend.FALLING))
    assert truth.intervals(Trend.RISING)[0][1] <= fall.end_ns
    assert set(truth.directions().tolist()) == {-1, 0, 1}


def test_pictures_are_as_many_as_states() -> None:
    for view in ("front", "wrist"):
        pictures = read_pictures(SAMPLE, view)
        assert len(pictures) == read_row(SAMPLE).frames
        assert all(picture.shape == (224, 224, 3) and picture.std() > 10 for picture in pictures)
    with pytest.raises(InputError, match="known views"):
        read_pictures(SAMPLE, "above")


def test_it_is_an_episode_like_any_other() -> None:
    items = list(open_bag(SAMPLE).decoded())
    start, end = (item.marker for item in items if isinstance(item, MarkerItem))
    assert (start.boundary, end.boundary) == (Boundary.START, Boundary.END)
    assert start.task == read_row(SAMPLE).text
    joints = [item for item in items if isinstance(item, JointItem)]
    assert set(np.diff([item.stamp_ns for item in joints]).tolist()) == {10_000_000}
    assert {item.names for item in joints} == {(*(f"joint{n}" for n in range(1, 8)), "finger_joint1")}
    images = [item for item in items if isinstance(item, ImageItem)]
    assert len({item.topic for item in images}) == 2
    assert end.stamp_ns >= max(item.stamp_ns for item in (*joints, *images))
