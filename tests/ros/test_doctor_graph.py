"""doctor on real graphs: publishers in processes of their own, each wrong in one way, and what it says of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import open_graph
from domains import domain_of_our_own
from graph import DEADLINE_S, Graph
from rollout_monitor_nodes.graph_probe import domains_in_use

TALKER = [sys.executable, str(Path(__file__).with_name("talker.py"))]
WITHOUT_PROFILE = ["env", "-u", "FASTDDS_DEFAULT_PROFILES_FILE", "-u", "FASTRTPS_DEFAULT_PROFILES_FILE"]
DOCTOR = [sys.executable, "-m", "rollout_monitor", "doctor"]


@dataclass
class Answer:
    """What the doctor said."""

    exit_code: int
    findings: list[dict[str, str]]

    def says(self, subject: str, words: str) -> bool:
        """Whether there is a finding about a subject that says these words, here or in its remedy."""
        return any(one["subject"] == subject and words in one["what"] + one["remedy"] for one in self.findings)

    def about(self, subject: str, words: str) -> dict[str, str]:
        """The finding about a subject that says these words."""
        found = [one for one in self.findings if one["subject"] == subject and words in one["what"]]
        assert len(found) == 1, [one for one in self.findings if one["level"] != "ok"]
        return found[0]

    def troubles(self, *, about_topics: bool) -> list[dict[str, str]]:
        """Warnings and errors."""
        bad = [one for one in self.findings if one["level"] in ("warning", "error")]
        return [one for one in bad if one["subject"].startswith("/") is about_topics]


def talk(graph: Graph, *nodes: str, profile: bool = True) -> None:
    """Start nodes in one process, each told as `talker.py` wants it, and wait until they are there."""
    graph.start_command("talker", [*([] if profile else WITHOUT_PROFILE), *TALKER, *" -- ".join(nodes).split()])
    names = {node.split()[1] for node in nodes}
    graph.until(f"nodes {names}", lambda: names <= set(graph.node.get_node_names()))


def ask(domain: int, seconds: int = 3, *, profile: bool = True) -> Answer:
    env = {**os.environ, "ROS_DOMAIN_ID": str(domain)}
    command = [*([] if profile else WITHOUT_PROFILE), *DOCTOR, "--json", "--seconds", str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False, timeout=300)
    assert done.stdout, done.stderr
    return Answer(done.returncode, json.loads(done.stdout)["findings"])


def ask_until(domain: int, is_so: Callable[[Answer], bool], seconds: int = 3, *, profile: bool = True) -> Answer:
    """Ask until it is so: on a busy machine a look can end before enough was heard, or lose what came."""
    end_s = time.monotonic() + DEADLINE_S
    while True:
        answer = ask(domain, seconds, profile=profile)
        if is_so(answer) or time.monotonic() > end_s:
            return answer


def says(subject: str, words: str) -> Callable[[Answer], bool]:
    """A condition for `ask_until`."""
    return lambda answer: answer.says(subject, words)


# --- one graph with everything wrong -----------------------------------------------------------------------------

WRONG = [
    "camera cold_camera /frozen/image_raw frozen",
    "camera night_camera /dark/image_raw dark",
    "camera camera_one /shared/image_raw",
    "camera camera_two /shared/image_raw",
    "camera shy_camera /quiet/image_raw",
    "viewer strict_viewer /quiet/image_raw reliable",
    "camera idle_camera /idle/image_raw reliable",
    "viewer hurried_viewer /idle/image_raw hurried",
    "torn torn_camera /torn/image_raw/compressed",
    "depth depth_camera /depth/image_rect_raw",
    "joints bad_driver /bad/joint_states malformed",
    "joints blind_driver /blind/joint_states blind",
    "joints driver /joint_states",
    "joints joint_state_publisher /joint_states",
    "clock stuck_simulator /clock stuck reliable",
    "sleeper sleeper -",
]


@pytest.fixture(scope="module")
def answer(tmp_path_factory: pytest.TempPathFactory) -> Answer:
    """What the doctor says of it; the nodes end with the look, and burden no other test."""
    with contextmanager(open_graph)(tmp_path_factory.mktemp("wrong")) as graph:
        talk(graph, *WRONG)
        return ask_until(graph.domain, lambda answer: len(answer.troubles(about_topics=True)) == 11, 6)


@pytest.mark.parametrize(
    ("subject", "words", "level", "remedy"),
    [
        ("/frozen/image_raw", "shows one picture again and again", "error", "restart the camera's driver"),
        ("/dark/image_raw", "is dark (mean luma ", "error", "lens cap, light, exposure"),
        ("/shared/image_raw", "2 publishers (/camera_one, /camera_two)", "warning", "remap it to a topic of its own"),
        (
            "/quiet/image_raw",
            "/strict_viewer asks for reliable, /shy_camera offers best effort: nothing gets through",
            "error",
            "make the subscriber ask for less, or the publisher offer more",
        ),
        (
            "/idle/image_raw",
            "/hurried_viewer asks for a deadline of 10 ms, /idle_camera offers no deadline: nothing gets through",
            "error",
            "make the subscriber ask for less, or the publisher offer more",
        ),
        ("/torn/image_raw/compressed", "frames looked into are damaged: ", "error", "check cable"),
        ("/depth/image_rect_raw", "is empty: no pixel has a depth", "error", "projector"),
        ("/bad/joint_states", "messages are malformed", "error", "mend the driver"),
        ("/blind/joint_states", "messages hold positions that are no numbers", "error", "is an encoder dead?"),
        ("/joint_states", "2 publishers (/driver, /joint_state_publisher)", "warning", "stop it"),
        (
            "/clock",
            "the clock of /stuck_simulator does not move; /sleeper with use_sim_time stands still",
            "error",
            "start or resume the simulator",
        ),
    ],
)
def test_each_fault_is_named_with_what_to_do(answer: Answer, subject: str, words: str, level: str, remedy: str) -> None:
    found = answer.about(subject, words)
    assert found["level"] == level
    assert remedy in found["remedy"]


def test_nothing_else_is_complained_of(answer: Answer) -> None:
    troubles = [f"{one['subject']}: {one['what']}" for one in answer.troubles(about_topics=True)]
    assert len(troubles) == 11, "\n".join(troubles)
    assert answer.exit_code == 1


# --- one thing at a time -----------------------------------------------------------------------------------------

ROBOT = ("camera front /front/image_raw", "joints driver /joint_states reliable")
"""Nothing is wrong with these: where they are, no other domain is looked into."""


def test_a_sound_graph_has_no_trouble(graph: Graph) -> None:
    talk(graph, "camera front /front/image_raw large", "joints driver /joint_states reliable")
    talk(graph, "clock simulator /clock reliable")
    answer = ask_until(graph.domain, lambda answer: not answer.troubles(about_topics=True))
    assert answer.troubles(about_topics=True) == []
    assert answer.exit_code == (1 if answer.troubles(about_topics=False) else 0)
    assert "Hz" in answer.about("/front/image_raw", "up to 900 kB")["what"]


@pytest.mark.parametrize("profile", [False, True])
def test_the_silent_loss_of_large_images_is_named(graph: Graph, profile: bool) -> None:
    """A 640x480 camera as a driver sends it, started without the profile; the doctor with it and without it.

    How much is lost depends on the machine: everything, which is an error, or some of it, which is counted.
    """
    talk(graph, "camera front /front/image_raw large", profile=False)
    talk(graph, "joints driver /joint_states reliable")
    answer = ask_until(graph.domain, says("/front/image_raw", "lost without a word"), profile=profile)
    (found,) = (one for one in answer.troubles(about_topics=True) if one["subject"] == "/front/image_raw")
    assert "lost without a word" in found["what"]
    assert found["level"] == ("error" if "nothing arrives" in found["what"] else "warning")
    assert "config/fastdds_shm.xml" in found["remedy"]
    assert answer.exit_code == 1


def test_a_robot_in_another_domain_is_found(graph: Graph) -> None:
    """Nobody says which domain to look in: a process of this machine listens on its ports."""
    talk(graph, "camera front /front/image_raw")
    both = f"2 in domain {graph.domain}"  # the camera and the test's own node
    with domain_of_our_own() as elsewhere:
        answer = ask_until(elsewhere, says("graph", both))
    found = answer.about("graph", f"no node in domain {elsewhere}")
    assert found["level"] == "warning"
    assert both in found["remedy"]
    assert "set ROS_DOMAIN_ID" in found["remedy"]


def test_simulated_time_without_a_clock_is_named(graph: Graph) -> None:
    talk(graph, *ROBOT, "sleeper arm -")
    said = "nobody publishes the clock; /arm with use_sim_time stands still"
    found = ask_until(graph.domain, says("/clock", said)).about("/clock", said)
    assert found["level"] == "error"
    assert "set use_sim_time to false" in found["remedy"]


@pytest.mark.parametrize(
    ("word", "said"),
    [("looping", "the clock of /simulator went back "), ("crawling", "the clock of /simulator crawls: ")],
)
def test_a_clock_that_moves_wrongly_is_named(graph: Graph, word: str, said: str) -> None:
    talk(graph, *ROBOT, f"clock simulator /clock {word}")
    assert ask_until(graph.domain, says("/clock", said)).about("/clock", said)["level"] == "error"


def test_wrong_usage_is_exit_code_2(graph: Graph) -> None:
    process = graph.start_command("doctor", [*DOCTOR, "--seconds", "soon"])
    assert process.wait() == 2


def test_domains_are_told_by_their_ports() -> None:
    head = "  sl  local_address rem_address   st\n"
    ports = [7400, 7410 + 250 * 7, 7400 + 250 * 101, 7401 + 250 * 9, 7400 + 250 * 102, 53, 40000]
    lines = [f"{index}: 0100007F:{port:04X} 00000000:0000 07\n" for index, port in enumerate(ports)]
    assert domains_in_use(head + "".join(lines)) == {0, 7, 101}
