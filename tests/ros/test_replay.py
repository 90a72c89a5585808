"""replay_node: every message arrives, byte for byte, at its time; then it exits with code 0."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pytest
from graph import Graph, Heard
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.serialization import deserialize_message
from rollout_monitor_msgs.msg import Episode
from rollout_monitor_nodes.common.cdr import header_stamp_ns
from synthetic import NS, Rollout, make_rollout

from rollout_monitor.store.bags import open_bag

TYPES = {
    "/joint_states": "sensor_msgs/msg/JointState",
    "/camera_front/color/image_raw/compressed": "sensor_msgs/msg/CompressedImage",
    "/rollout/episode": "rollout_monitor_msgs/msg/Episode",
}


EAGER = {"settle_s": 0.0, "wait_for_subscribers_s": 60.0}


@pytest.fixture(scope="module")
def rollout(tmp_path_factory: pytest.TempPathFactory) -> Rollout:
    folder = tmp_path_factory.mktemp("bag") / "short"
    return make_rollout(folder, seconds=2.0, joint_hz=250, cameras=("front",))


def recorded(folder: Path) -> dict[str, list[bytes]]:
    by_topic = defaultdict(list)
    with open_bag(folder) as bag:
        for message in bag.messages():
            by_topic[message.topic].append(message.raw)
    return by_topic


def without_padding(received: bytes, sent: bytes) -> bytes:
    """What was sent, if the rest is what the wire adds: up to 3 bytes to a multiple of 4 (RTPS 2.5, 9.4.2.12)."""
    padding = received[len(sent) :]
    return received[: len(sent)] if len(received) % 4 == 0 and len(padding) <= 3 else received


def listen_to_all(graph: Graph, prefix: str = "") -> dict[str, Heard]:
    return {
        topic: graph.listen(prefix + topic, kind, "MARKERS" if topic == "/rollout/episode" else "REPLAY", raw=True)
        for topic, kind in TYPES.items()
    }


def test_every_message_arrives_byte_for_byte(graph: Graph, rollout: Rollout) -> None:
    heard = listen_to_all(graph, "/ur5e")
    replay = graph.start("replay_node", bag=rollout.folder, rate=2.0, prefix="/ur5e", **EAGER)
    graph.until("the end of the replay", lambda: replay.popen.poll() is not None)
    assert replay.wait() == 0
    for topic, raws in recorded(rollout.folder).items():
        received = heard[topic].messages
        graph.until(f"all of {topic}", lambda got=received, all_of=raws: len(got) >= len(all_of))
        assert [without_padding(bytes(got), raw) for got, raw in zip(received, raws, strict=True)] == raws


def test_a_loop_moves_stamps_on_and_names_new_attempts(graph: Graph, rollout: Rollout) -> None:
    """rosbag2#361: a loop that repeats old stamps sets every listener's clock back."""
    heard = listen_to_all(graph)
    replay = graph.start("replay_node", bag=rollout.folder, rate=8.0, loop=True, **EAGER)
    joints, markers = heard["/joint_states"], heard["/rollout/episode"]
    graph.until("a third pass", lambda: len(joints.messages) > 2.2 * rollout.joint_messages)
    stamps = [header_stamp_ns(bytes(raw)) for raw in joints.messages]
    assert all(later > earlier for earlier, later in pairwise(stamps))
    ids = [deserialize_message(bytes(raw), Episode).episode_id for raw in markers.messages]
    first = rollout.episode_id
    assert ids[:5] == [first, first, f"{first}-2", f"{first}-2", f"{first}-3"]
    replay.signal(2)
    assert replay.wait() == 0


def test_further_recordings_follow_on_the_same_topics(graph: Graph, rollout: Rollout, tmp_path: Path) -> None:
    other = make_rollout(tmp_path / "other", seconds=1.0, joint_hz=250, cameras=("front",))
    heard = listen_to_all(graph)
    replay = graph.start("replay_node", bag=rollout.folder, then=[str(other.folder)], rate=4.0, pause_s=0.2, **EAGER)
    graph.until("the end of the replay", lambda: replay.popen.poll() is not None)
    assert replay.wait() == 0
    joints, markers = heard["/joint_states"].messages, heard["/rollout/episode"].messages
    graph.until("all", lambda: len(joints) >= rollout.joint_messages + other.joint_messages and len(markers) >= 4)
    assert (len(joints), len(markers)) == (rollout.joint_messages + other.joint_messages, 4)


def test_a_loop_of_several_recordings_is_refused(graph: Graph, rollout: Rollout) -> None:
    replay = graph.start("replay_node", bag=rollout.folder, then=[str(rollout.folder)], loop=True)
    assert replay.wait() == 2
    assert "'loop' and 'then' exclude each other" in replay.text


def test_clock_follows_the_recording_and_restamp_begins_now(graph: Graph, rollout: Rollout) -> None:
    every_tick = QoSProfile(depth=1000, reliability=ReliabilityPolicy.BEST_EFFORT)
    clock = graph.listen("/clock", "rosgraph_msgs/msg/Clock", every_tick)
    joints = graph.listen("/joint_states", TYPES["/joint_states"], "REPLAY", raw=True)
    now_ns = graph.node.get_clock().now().nanoseconds
    replay = graph.start(
        "replay_node", bag=rollout.folder, rate=2.0, clock=True, restamp=True, **EAGER, topics=["/joint_states"]
    )
    graph.until("the end of the replay", lambda: replay.popen.poll() is not None)
    graph.until("all joint states", lambda: len(joints.messages) >= rollout.joint_messages)
    times = [msg.clock.sec * NS + msg.clock.nanosec for msg in clock.messages]
    assert len(times) > 100  # best effort: some of the 100 a second may be missed
    assert all(later > earlier for earlier, later in pairwise(times))
    stamps = [header_stamp_ns(bytes(raw)) for raw in joints.messages]
    assert now_ns < stamps[0] < now_ns + 60 * NS
    assert stamps[0] - NS < times[0] < stamps[-1]
    original = [header_stamp_ns(raw) for raw in recorded(rollout.folder)["/joint_states"]]
    assert [stamp - stamps[0] for stamp in stamps] == [stamp - original[0] for stamp in original]


def test_it_waits_for_the_subscribers_it_was_told_to_wait_for(graph: Graph, rollout: Rollout) -> None:
    replay = graph.start("replay_node", bag=rollout.folder, rate=4.0, wait_for=["/joint_states=2"], **EAGER)
    first = graph.listen("/joint_states", TYPES["/joint_states"], "REPLAY", raw=True)
    graph.until("the publisher", lambda: first.subscription.get_publisher_count() == 1)
    second = graph.listen("/joint_states", TYPES["/joint_states"], "REPLAY", raw=True)
    graph.until("the end of the replay", lambda: replay.popen.poll() is not None)
    assert replay.wait() == 0
    graph.until("all", lambda: min(len(first.messages), len(second.messages)) >= rollout.joint_messages)
    assert len(first.messages) == len(second.messages) == rollout.joint_messages


def test_it_says_whom_it_missed_and_plays_all_the_same(graph: Graph, rollout: Rollout) -> None:
    replay = graph.start("replay_node", bag=rollout.folder, rate=20.0, wait_for_subscribers_s=0.2, linger_s=0.0)
    assert replay.wait() == 0
    assert "starting without all subscribers after 0.2 s" in replay.text
    assert "/joint_states has 0 of 1" in replay.text


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({}, "parameter 'bag' is empty"),
        ({"bag": "/nowhere/bag"}, "/nowhere/bag: no such file or folder"),
        ({"bag": "BAG", "topics": ["/other"]}, "parameter 'topics': /other is not in"),
        ({"bag": "BAG", "wait_for": ["/other"]}, "parameter 'wait_for': /other is not played"),
    ],
)
def test_what_cannot_be_played_is_one_line_and_exit_code_2(
    graph: Graph, rollout: Rollout, parameters: dict[str, object], said: str
) -> None:
    given = {key: rollout.folder if value == "BAG" else value for key, value in parameters.items()}
    replay = graph.start("replay_node", **given)
    assert replay.wait() == 2
    lines = [line for line in replay.text.splitlines() if "error:" in line]
    assert len(lines) == 1 and said in lines[0]
    assert "Traceback" not in replay.text
