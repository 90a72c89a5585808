"""doctor names what is wrong, with both sides and a remedy, and stays silent about what is right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rollout_monitor.cli import diagnosis
from rollout_monitor.cli.diagnosis import Finding, Level, examine_environment, examine_graph, worst
from rollout_monitor.cli.doctor import _show

NOW_NS = 1_800_000_000_000_000_000
IMAGE, JOINTS, CLOCK = "sensor_msgs/msg/Image", "sensor_msgs/msg/JointState", "rosgraph_msgs/msg/Clock"


@pytest.fixture
def profile(tmp_path: Path, root: Path) -> dict[str, str]:
    return {"FASTDDS_DEFAULT_PROFILES_FILE": str(root / "config" / "fastdds_shm.xml")}


def end(node: str, kind: str, *, reliable: bool = True, latched: bool = False) -> dict[str, Any]:
    return {"node": node, "type": kind, "reliable": reliable, "transient_local": latched}


def topic(name: str, kind: str, **changes: Any) -> dict[str, Any]:
    return {
        "name": name,
        "types": [kind],
        "publishers": [end("/driver", kind)],
        "subscribers": [],
        "probed": True,
        "received": 100,
        "rate_hz": 30.0,
        "largest_bytes": 40_000,
        "first_stamp_ns": NOW_NS - 4_000_000_000,
        "last_stamp_ns": NOW_NS,
        "backward_stamps": 0,
        "repeated_frames": 0,
        "luminance": 100.0,
        "contrast": 30.0,
        "trouble": "",
        **changes,
    }


def graph(*topics: dict[str, Any], nodes: tuple[str, ...] = ("/driver",), **changes: Any) -> dict[str, Any]:
    return {"nodes": list(nodes), "topics": list(topics), "other_domains": {}, **changes}


def about(found: list[Finding], subject: str) -> list[Finding]:
    return [finding for finding in found if finding.subject == subject and finding.level is not Level.OK]


HEALTHY = (topic("/cam/image_raw", IMAGE), topic("/joint_states", JOINTS, rate_hz=500.0))


def test_a_healthy_graph_is_fine(profile: dict[str, str]) -> None:
    found = examine_graph(graph(*HEALTHY), profile, NOW_NS)
    assert worst(found) is Level.OK
    assert any("500.0 Hz" in finding.what for finding in found)


@pytest.mark.parametrize(
    ("wrong", "level", "said"),
    [
        (topic("/t", IMAGE, received=0, rate_hz=None, last_stamp_ns=None), Level.ERROR, "/driver has announced it"),
        (topic("/t", IMAGE, repeated_frames=99), Level.ERROR, "one picture again and again"),
        (topic("/t", IMAGE, luminance=3.0, contrast=1.0), Level.ERROR, "is dark"),
        (topic("/t", IMAGE, trouble="encoding 'foo8' is not known"), Level.ERROR, "foo8"),
        (topic("/t", IMAGE, trouble="'foo8'", unreadable=9), Level.ERROR, "9 of 100 frames cannot be read: 'foo8'"),
        (
            topic("/t", IMAGE, publishers=[end("/a", IMAGE), end("/b", IMAGE)]),
            Level.WARN,
            "2 publishers (/a, /b): their pictures are taken for one camera's",
        ),
        (topic("/t", JOINTS, received=0, rate_hz=None, last_stamp_ns=None), Level.ERROR, "/driver publishes nothing"),
        (topic("/t", JOINTS, publishers=[end("/a", JOINTS), end("/b", JOINTS)]), Level.WARN, "2 publishers (/a, /b)"),
        (topic("/t", JOINTS, first_stamp_ns=0, last_stamp_ns=0), Level.ERROR, "header stamps are zero"),
        (topic("/t", JOINTS, first_stamp_ns=NOW_NS), Level.ERROR, "do not advance"),
        (topic("/t", JOINTS, backward_stamps=2), Level.WARN, "went back 2 times"),
        (topic("/t", JOINTS, last_stamp_ns=NOW_NS + 5_000_000_000), Level.WARN, "5 s ahead"),
        (topic("/t", JOINTS, last_stamp_ns=NOW_NS - 63_200_000_000_000_000), Level.NOTE, "2 years old"),
        (topic("/t", CLOCK, first_stamp_ns=5, last_stamp_ns=5), Level.ERROR, "the clock of /driver does not move"),
        (
            topic("/t", CLOCK, received=1, subscribers=[end("/arm", CLOCK)]),
            Level.ERROR,
            "does not move; /arm with use_sim_time stands still",
        ),
        (
            topic("/t", CLOCK, publishers=[], probed=False, subscribers=[end("/arm", CLOCK)]),
            Level.ERROR,
            "nobody publishes the clock; /arm with use_sim_time stands still",
        ),
        (
            topic("/t", CLOCK, publishers=[end("/a", CLOCK), end("/b", CLOCK)]),
            Level.ERROR,
            "several publishers: /a, /b",
        ),
        (
            topic("/t", CLOCK, first_stamp_ns=5, last_stamp_ns=5, backward_stamps=4),
            Level.ERROR,
            "the clock of /driver went back 4 times",
        ),
        (
            topic("/t", CLOCK, first_stamp_ns=0, last_stamp_ns=100_000, span_s=5.0),
            Level.ERROR,
            "the clock of /driver crawls: 0.0001 s in 5.0 s",
        ),
        (
            topic("/t", IMAGE, trouble="'jpeg' is damaged", looked_into=20, damaged=7),
            Level.ERROR,
            "7 of 20 frames looked into are damaged: 'jpeg' is damaged",
        ),
        (topic("/t", JOINTS, malformed=100), Level.ERROR, "100 of 100 messages are malformed"),
        (topic("/t", JOINTS, malformed=3), Level.WARN, "3 of 100 messages are malformed"),
        (topic("/t", JOINTS, not_finite=100), Level.ERROR, "100 of 100 messages hold positions that are no numbers"),
        (topic("/t", IMAGE, received=3, repeated_frames=2), Level.NOTE, "too few frames to tell"),
        (topic("/t", IMAGE, received=4, repeated_frames=3), Level.ERROR, "one picture again and again"),
        (
            topic("/t", IMAGE, encoding="16UC1", luminance=0.0, contrast=0.0, repeated_frames=99),
            Level.ERROR,
            "is empty: no pixel has a depth",
        ),
        (topic("/t", IMAGE, luminance=0.0, contrast=0.0, repeated_frames=99), Level.ERROR, "is dark"),
        (topic("/t", IMAGE, types=[IMAGE, "std_msgs/msg/String"]), Level.ERROR, "has several types"),
    ],
)
def test_what_is_wrong_with_a_topic_is_named(
    profile: dict[str, str], wrong: dict[str, Any], level: Level, said: str
) -> None:
    found = about(examine_graph(graph(*HEALTHY, wrong), profile, NOW_NS), "/t")
    assert any(finding.level is level and said in finding.what for finding in found), found


def test_incompatible_qos_names_both_sides(profile: dict[str, str]) -> None:
    wrong = topic(
        "/t",
        IMAGE,
        publishers=[end("/cam", IMAGE, reliable=False)],
        subscribers=[end("/viewer", IMAGE, latched=True), end("/fine", IMAGE, reliable=False)],
    )
    (finding,) = about(examine_graph(graph(*HEALTHY, wrong), profile, NOW_NS), "/t")
    assert finding.what == (
        "/viewer asks for reliable and transient local, /cam offers best effort, volatile: nothing gets through"
    )


@pytest.mark.parametrize(
    ("offered", "asked", "said"),
    [
        ({}, {"deadline_ns": 10_000_000}, "/sub asks for a deadline of 10 ms, /pub offers no deadline"),
        ({"deadline_ns": 20_000_000}, {"deadline_ns": 10_000_000}, "/pub offers a deadline of 20 ms"),
        ({"deadline_ns": 10_000_000}, {"deadline_ns": 10_000_000}, None),
        ({"deadline_ns": 10_000_000}, {}, None),
        ({}, {"lease_ns": 500_000_000}, "/sub asks for a liveliness lease of 500 ms, /pub offers no liveliness lease"),
        ({}, {"manual": True}, "/sub asks for liveliness told by topic, /pub offers automatic liveliness"),
        ({"manual": True, "lease_ns": 1}, {"manual": True}, None),
    ],
)
def test_deadline_and_liveliness_must_fit_too(
    profile: dict[str, str], offered: dict[str, Any], asked: dict[str, Any], said: str | None
) -> None:
    ends = {"publishers": [end("/pub", IMAGE) | offered], "subscribers": [end("/sub", IMAGE) | asked]}
    found = about(examine_graph(graph(*HEALTHY, topic("/t", IMAGE, **ends)), profile, NOW_NS), "/t")
    assert [finding.level for finding in found] == ([] if said is None else [Level.ERROR])
    assert said is None or said in found[0].what


def test_a_camera_of_which_every_frame_is_damaged_is_not_called_fine(profile: dict[str, str]) -> None:
    wrong = topic("/t", IMAGE, trouble="is damaged", looked_into=9, damaged=9, luminance=None, contrast=None)
    found = [finding for finding in examine_graph(graph(*HEALTHY, wrong), profile, NOW_NS) if finding.subject == "/t"]
    assert [finding.level for finding in found] == [Level.ERROR]


@pytest.mark.parametrize("speed", [0.05, 1.0, 3.0])
def test_a_slow_simulator_is_fine(profile: dict[str, str], speed: float) -> None:
    clock = topic("/clock", CLOCK, first_stamp_ns=0, last_stamp_ns=int(4e9 * speed), span_s=4.0)
    assert about(examine_graph(graph(*HEALTHY, clock), profile, NOW_NS), "/clock") == []


@pytest.mark.parametrize("received", [0, 50])
def test_the_silent_loss_of_large_best_effort_images_is_recognised(profile: dict[str, str], received: int) -> None:
    wrong = topic(
        "/t",
        IMAGE,
        publishers=[end("/cam", IMAGE, reliable=False)],
        received=received,
        largest_bytes=900_000 if received else 0,
        last_stamp_ns=NOW_NS if received else None,
    )
    without = about(examine_graph(graph(*HEALTHY, wrong), {}, NOW_NS), "/t")
    assert len(without) == 1 and "fastdds_shm.xml" in without[0].remedy
    with_profile = about(examine_graph(graph(*HEALTHY, wrong), profile, NOW_NS), "/t")
    assert [("it does not stream, or it was started so" in finding.what) for finding in with_profile] == (
        [] if received else [True]
    )


@pytest.mark.parametrize(
    ("size", "lost", "said"),
    [
        (900_000, 60, "60 of 160 best-effort images (879 kB) of /cam were lost without a word: was it started without"),
        (9_000, 60, "60 of 160 best-effort images (9 kB) of /cam were lost without a word: is the network too slow?"),
        (900_000, 5, ""),
    ],
)
def test_lost_images_are_counted(profile: dict[str, str], size: int, lost: int, said: str) -> None:
    """The profile is here, and images get lost all the same: some, since the driver may be without it."""
    camera = end("/cam", IMAGE, reliable=False)
    wrong = topic("/t", IMAGE, publishers=[camera], largest_bytes=size, lost=lost)
    found = about(examine_graph(graph(*HEALTHY, wrong), profile, NOW_NS), "/t")
    assert [(finding.level, said in finding.what) for finding in found] == ([(Level.WARN, True)] if said else [])
    without = about(examine_graph(graph(*HEALTHY, wrong), {}, NOW_NS), "/t")
    assert size < 100_000 or len(without) == 1
    assert not (said and size > 100_000) or "profile: 60 of 160 were lost" in without[0].what


def test_a_camera_of_which_no_frame_can_be_read_is_not_called_fine(profile: dict[str, str]) -> None:
    wrong = topic("/t", IMAGE, trouble="'foo8' is not known", unreadable=100, luminance=None, contrast=None)
    found = [finding for finding in examine_graph(graph(*HEALTHY, wrong), profile, NOW_NS) if finding.subject == "/t"]
    assert [finding.level for finding in found] == [Level.ERROR]


def test_nodes_in_another_domain_are_pointed_at() -> None:
    found = examine_graph(graph(nodes=(), other_domains={"7": 12}), {"ROS_DOMAIN_ID": "3"}, NOW_NS)
    assert (found[0].level, found[0].what) == (Level.WARN, "no node in domain 3")
    assert "12 in domain 7" in found[0].remedy


def test_a_missing_camera_is_looked_for_in_other_domains() -> None:
    """The own nodes are here and the driver is not: it may have been started with another ROS_DOMAIN_ID."""
    found = examine_graph(graph(topic("/joint_states", JOINTS), other_domains={"7": 2}), {}, NOW_NS)
    (missing,) = [finding for finding in found if finding.what == "nobody publishes images in domain 0"]
    assert missing.remedy == "nodes were found: 2 in domain 7; set ROS_DOMAIN_ID"


def test_missing_streams_are_named() -> None:
    found = examine_graph(graph(topic("/chatter", "std_msgs/msg/String", probed=False)), {}, NOW_NS)
    assert [finding.what.split(" in domain")[0] for finding in found if finding.level is Level.WARN] == [
        "nobody publishes joint states",
        "nobody publishes images",
    ]


@pytest.mark.parametrize(
    ("environ", "subject", "level"),
    [
        ({}, "large images", Level.WARN),
        ({"FASTDDS_DEFAULT_PROFILES_FILE": "/nowhere.xml"}, "large images", Level.ERROR),
        ({"FASTDDS_BUILTIN_TRANSPORTS": "LARGE_DATA"}, "large images", Level.OK),
        ({"ROS_DOMAIN_ID": "seven"}, "domain", Level.ERROR),
        ({"ROS_LOCALHOST_ONLY": "1"}, "reach", Level.NOTE),
    ],
)
def test_the_environment_is_examined(environ: dict[str, str], subject: str, level: Level) -> None:
    found = examine_environment(environ, has_rclpy=True, has_nodes=True)
    assert [finding.level for finding in found if finding.subject == subject] == [level]


def test_a_profile_without_shared_memory_is_told(tmp_path: Path) -> None:
    file = tmp_path / "udp.xml"
    file.write_text("<dds><transport_descriptor><type>UDPv4</type></transport_descriptor></dds>")
    found = examine_environment({"FASTDDS_DEFAULT_PROFILES_FILE": str(file)}, has_rclpy=True, has_nodes=True)
    assert [f.level for f in found if f.subject == "large images"] == [Level.WARN]


def test_a_missing_ros_is_the_first_thing_to_mend() -> None:
    found = examine_environment({}, has_rclpy=False, has_nodes=False)
    assert worst(found) is Level.ERROR
    assert "make setup" in next(finding.remedy for finding in found if finding.level is Level.ERROR)


def test_too_little_shared_memory_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis, "SHM_NEEDED", 2**62)
    (found,) = diagnosis._shared_memory(tmp_path)
    assert found.level is Level.WARN and "--shm-size" in found.remedy


def test_findings_are_shown_with_their_remedies(capsys: pytest.CaptureFixture[str]) -> None:
    """What comes from the graph is text, never markup."""
    _show([Finding(Level.ERROR, "/cam[bold]", "is [red]dark[/]", "lens cap"), Finding(Level.OK, "graph", "3 nodes")])
    assert capsys.readouterr().out.splitlines() == [
        "  error  /cam[bold]: is [red]dark[/]",
        "         -> lens cap",
        "     ok  graph: 3 nodes",
    ]
