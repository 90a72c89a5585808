"""A recorded rollout through the real stack: the report, the recording, and that live and offline agree."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import open_graph
from graph import unhurried
from rollout_monitor_nodes.common.conversions import joint_health_from_msg
from rosbags.highlevel import AnyReader
from stack import NAMESPACE, PATIENT, PATIENT_GATE, Stack
from synthetic import NS, START_NS, Rollout, make_rollout
from test_replay import without_padding

from rollout_monitor.cli.offline import choose_sources, run_bag
from rollout_monitor.episode.monitor import Closed
from rollout_monitor.episode.rollout import RolloutMonitor
from rollout_monitor.prm.registry import create
from rollout_monitor.records import EpisodeReport, EpisodeState, JointHealth, Outcome
from rollout_monitor.store.bags import open_bag
from rollout_monitor.store.film import read_film

RATHER_LIVE = {"latency_p50_s", "latency_p99_s", "bag", "joints", "cameras"}
"""Fields of a report that tell of the live run itself: latencies, its recording, and what was counted on the streams
from the moment on at which the START marker was heard."""


@pytest.fixture(scope="module")
def rollout(tmp_path_factory: pytest.TempPathFactory) -> Rollout:
    return make_rollout(tmp_path_factory.mktemp("bag") / "lift", seconds=6.0, camera_hz=10)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, rollout: Rollout) -> Iterator[Stack]:
    """The stack after it has watched the rollout once, at its own pace."""
    for graph in open_graph(tmp_path_factory.mktemp("stack")):
        stack = Stack(graph)
        try:
            stack.start_all(rollout.curve, patient=True)
            replay = stack.play(rollout.folder, rate=unhurried())
            stack.report(rollout.episode_id, 300.0)
            assert replay.wait() == 0
            stack.nodes["recorder"].said("closed (its report has come)")
        except BaseException:
            print(stack.logs())
            raise
        yield stack


@pytest.fixture(scope="module")
def offline(rollout: Rollout) -> EpisodeReport:
    """The same rollout, judged without ROS."""
    return judged(rollout.folder, rollout.curve)


def judged(folder: Path, curve: Path) -> EpisodeReport:
    model = create("recorded", path=curve)
    gate = PATIENT_GATE.model_copy(update={"rate_hz": model.card.rate_hz})
    with open_bag(folder) as bag:
        outputs = list(run_bag(bag, choose_sources(bag, {}, None), RolloutMonitor(model, gate, PATIENT), None, None))
    return next(one.report for one in outputs if isinstance(one, Closed))


def differences(live: EpisodeReport, offline: EpisodeReport) -> list[str]:
    """Where two reports differ, field by field and item by item, for a message that can be read."""
    found: list[str] = []

    def compare(place: str, one: Any, other: Any) -> None:
        if isinstance(one, dict) and isinstance(other, dict):
            for key in one.keys() | other.keys():
                compare(f"{place}.{key}", one.get(key), other.get(key))
        elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
            for index, pair in enumerate(zip(one, other, strict=True)):
                compare(f"{place}[{index}]", *pair)
        elif one != other:
            found.append(f"{place}: {one} live, {other} offline")

    compare("report", live.model_dump(exclude=RATHER_LIVE), offline.model_dump(exclude=RATHER_LIVE))
    return sorted(found)


def test_the_report_tells_how_it_went(stack: Stack, rollout: Rollout) -> None:
    report = stack.report(rollout.episode_id)
    assert report.state is EpisodeState.ENDED
    assert report.outcome.outcome is Outcome.SUCCESS
    assert report.estimates >= 29 and report.missing_estimates == 0 and report.dropped == 0
    assert report.motion is not None and report.motion.samples >= 179
    assert report.latency_p50_s is not None and report.key_frames
    assert (report.start_ns, report.end_ns) == (rollout.start_ns, rollout.end_ns)


def test_the_report_is_on_disk_before_it_is_told(stack: Stack, rollout: Rollout) -> None:
    message = stack.report_message(rollout.episode_id)
    kept = json.loads((Path(message.report_path) / "report.json").read_text())
    assert kept == json.loads(message.report_json)
    assert (Path(message.report_path) / "report.html").stat().st_size > 1000
    assert Path(message.bag_path) == stack.recordings / rollout.episode_id


def test_the_film_follows_the_report(stack: Stack, rollout: Rollout) -> None:
    folder = Path(stack.report_message(rollout.episode_id).report_path)
    stack.graph.until("a page with a film", lambda: 'id="film"' in (folder / "report.html").read_text())
    film = read_film(folder / "film.mp4")
    assert film is not None
    assert (film.cameras, film.start_ns) == (("front",), rollout.start_ns)


def test_live_and_offline_agree(stack: Stack, rollout: Rollout, offline: EpisodeReport) -> None:
    """The same rollout through DDS and in one process: the same report, latencies aside."""
    assert differences(stack.report(rollout.episode_id), offline) == []


def test_no_joint_state_is_lost_at_500_hz(stack: Stack, rollout: Rollout) -> None:
    def past_the_end() -> JointHealth | None:
        health = joint_health_from_msg(stack.kinematics.messages[-1].health)
        return health if health.last_stamp_ns is not None and health.last_stamp_ns > rollout.end_ns else None

    health = stack.graph.until("the last joint states", past_the_end)
    assert health.received == (health.last_stamp_ns - START_NS) * 500 // NS + 1
    assert (health.used, health.gaps, health.clock_jumps) == (health.received, 0, 0)


def test_the_live_line_followed_the_attempt(stack: Stack) -> None:
    running = [msg for msg in stack.statuses.messages if msg.state == msg.STATE_RUNNING]
    assert len(running) > 30
    assert max(msg.mp for msg in running if msg.estimates) > 0.9
    stack.graph.until("its end", lambda: stack.status.state is EpisodeState.ENDED)


def test_the_recording_holds_everything_byte_for_byte(stack: Stack, rollout: Rollout) -> None:
    """Read back by `rosbags`, a reader that is not ours."""
    folder = stack.recordings / rollout.episode_id
    found: dict[str, list[bytes]] = defaultdict(list)
    with AnyReader([folder]) as reader:
        types = {connection.topic: connection.msgtype for connection in reader.connections}
        for connection, _, raw in reader.messages():
            found[connection.topic].append(bytes(raw))
            reader.deserialize(raw, connection.msgtype)
    for topic, kind in {
        "rollout/episode": "Episode",
        "rollout/progress": "Progress",
        "rollout/kinematics": "Kinematics",
        "rollout/cameras": "CameraHealth",
        "rollout/status": "MonitorStatus",
        "rollout/events": "MonitorEvent",
        "rollout/reports": "EpisodeReport",
    }.items():
        assert types[f"{NAMESPACE}/{topic}"] == f"rollout_monitor_msgs/msg/{kind}"
    assert len(found[f"{NAMESPACE}/rollout/episode"]) == 2
    assert len(found[f"{NAMESPACE}/rollout/reports"]) == 1
    _assert_holds_the_attempt(rollout, found)


def _assert_holds_the_attempt(rollout: Rollout, found: dict[str, list[bytes]]) -> None:
    with open_bag(rollout.folder) as bag:
        sent = [m for m in bag.messages() if rollout.start_ns <= m.log_ns <= rollout.end_ns]
    for topic in (
        "/joint_states",
        "/camera_front/color/image_raw/compressed",
        "/camera_wrist/color/image_raw/compressed",
    ):
        wanted = [message.raw for message in sent if message.topic == topic]
        kept = found[NAMESPACE + topic]
        begin = next(index for index, raw in enumerate(kept) if without_padding(raw, wanted[0]) == wanted[0])
        pairs = zip(kept[begin : begin + len(wanted)], wanted, strict=True)
        assert all(without_padding(raw, sent_raw) == sent_raw for raw, sent_raw in pairs), topic


def test_the_recording_can_be_judged_again(stack: Stack, rollout: Rollout, offline: EpisodeReport) -> None:
    """What the recorder kept gives the same attempt as what was played to it."""
    again = judged(stack.recordings / rollout.episode_id, rollout.curve)
    assert [point.raw for point in again.curve] == [point.raw for point in offline.curve]
    assert again.motion == offline.motion


def test_a_late_viewer_gets_the_status_and_the_report(stack: Stack, rollout: Rollout) -> None:
    status = stack.listen("rollout/status", "MonitorStatus", "LATCHED")
    reports = stack.listen("rollout/reports", "EpisodeReport", "REPORTS")
    stack.graph.until("the latched status", lambda: status.messages)
    stack.graph.until("the latched report", lambda: reports.messages)
    assert status.messages[-1].episode_id == reports.messages[-1].episode_id == rollout.episode_id


def test_diagnostics_name_every_stream(stack: Stack) -> None:
    heard = stack.graph.listen("/diagnostics", "diagnostic_msgs/msg/DiagnosticArray", "DIAGNOSTICS")
    wanted = {
        *(f"ur5e/prm_node: {part}" for part in ("camera front", "camera wrist", "joints", "model")),
        *(f"ur5e/monitor_node: {part}" for part in ("episode", "reports", "kinematics", "pictures")),
        "ur5e/recorder: recording",
    }
    stack.graph.until(
        "diagnostics of all parts", lambda: wanted <= {s.name for array in heard.messages for s in array.status}
    )


def test_the_same_recording_again_is_another_episode(stack: Stack, rollout: Rollout) -> None:
    """At three times the speed; nothing of the first attempt is overwritten."""
    before = len(stack.reports.messages)
    replay = stack.play(rollout.folder, rate=3.0 * unhurried())
    stack.graph.until("a second report", lambda: len(stack.reports.messages) > before, 300.0)
    assert replay.wait() == 0
    again = stack.reports.messages[-1]
    assert again.episode_id == rollout.episode_id and again.estimates >= 29
    assert Path(again.report_path) == stack.episodes / f"{rollout.episode_id}-2"
    assert (stack.episodes / rollout.episode_id / "report.json").is_file()
