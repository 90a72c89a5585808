"""A bundled recording of the simulated table through the real stack with the embedded model, live against offline."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from graph import Graph, unhurried
from stack import NAMESPACE, PATIENT, Stack
from test_stack import differences

from rollout_monitor.cli.offline import choose_sources, run_bag
from rollout_monitor.episode.monitor import Closed
from rollout_monitor.episode.rollout import RolloutMonitor
from rollout_monitor.episode.settings import GateSettings
from rollout_monitor.prm.registry import create
from rollout_monitor.records import EpisodeReport
from rollout_monitor.store.bags import open_bag


@pytest.fixture(scope="module")
def bag(root: Path) -> Path:
    return root / "demo" / "lift_success"


def judged(bag: Path, model: Path | None, *, joints: bool = True) -> EpisodeReport:
    """The recording without ROS."""
    embedded = create("embedded", path=model)
    gate = GateSettings(cameras=("front", "wrist"), rate_hz=embedded.card.rate_hz)
    with open_bag(bag) as reader:
        sources = choose_sources(reader, {}, None)
        sources = sources if joints else replace(sources, joints=None)
        outputs = list(run_bag(reader, sources, RolloutMonitor(embedded, gate, PATIENT), None, None))
    return next(one.report for one in outputs if isinstance(one, Closed))


@pytest.mark.parametrize("model", [None, "tests/prm/data/tiny_model"], ids=["released", "uses joints"])
def test_the_embedded_model_judges_live_as_it_does_offline(
    graph: Graph, root: Path, bag: Path, model: str | None
) -> None:
    """Stamps decide which frames and joints are used: however long the machine takes, every figure is the same."""
    folder = None if model is None else root / model
    offline = judged(bag, folder)
    if folder is not None:
        assert {point.subtask for point in offline.curve} <= set(range(5))
        without = judged(bag, folder, joints=False)
        assert [point.raw for point in offline.curve] != [point.raw for point in without.curve]
    stack = Stack(graph)
    stack.start_all(None, patient=True, **({} if folder is None else {"model_path": folder}))
    stack.play(bag, prefix="", rate=unhurried())
    live = stack.report(offline.episode_id, 300.0)
    assert live.robot == offline.robot and live.source == offline.source
    assert stack.nodes["prm_node"].popen.poll() is None
    assert NAMESPACE in stack.nodes["prm_node"].text
    assert differences(live, offline) == []
