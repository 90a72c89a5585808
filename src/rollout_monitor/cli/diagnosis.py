"""What is wrong with an environment or a running graph, and what to do about it: facts in, findings out, no ROS."""

from __future__ import annotations

import shutil
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

IMAGES = ("sensor_msgs/msg/Image", "sensor_msgs/msg/CompressedImage")
JOINTS = "sensor_msgs/msg/JointState"
CLOCK = "rosgraph_msgs/msg/Clock"

SHM_NEEDED = 256 * 1024 * 1024
"""Four processes with the shared-memory profile's 64 MB each."""

LARGE_BYTES = 64 * 1024
"""Above this a best-effort message does not fit one UDP datagram and is easily lost as a whole."""

LOST_SHARE = 0.1
_WITH_PROFILE = "start publisher and subscribers with config/fastdds_shm.xml (scripts/ros_run does)"

FROZEN_SHARE = 0.9
FEW_FRAMES = 3
"""With no more frames, nothing is said of whether they change."""

DEPTH_ENCODINGS = ("16uc1", "32fc1")
CRAWLING = 0.01
"""Seconds of the clock in a second; slow simulators reach 0.05."""

DARK_LUMINANCE, DARK_CONTRAST = 16.0, 4.0
OLD_S = 10.0
_NS = 1e9


class Level(str, Enum):
    """How bad a finding is."""

    OK = "ok"
    NOTE = "note"
    WARN = "warning"
    ERROR = "error"


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. ``remedy`` says what to do; empty where nothing is needed."""

    level: Level
    subject: str
    what: str
    remedy: str = ""


# --- the environment ---------------------------------------------------------------------------------------------


def examine_environment(environ: Mapping[str, str], has_rclpy: bool, has_nodes: bool) -> list[Finding]:
    """ROS, middleware, domain, shared memory and compiler, as this process sees them."""
    return [
        *_ros(environ, has_rclpy, has_nodes),
        *_domain(environ),
        *_profile(environ),
        *_shared_memory(Path("/dev/shm")),  # noqa: S108 - the system's place for shared memory
        *_compiler(environ),
    ]


def _ros(environ: Mapping[str, str], has_rclpy: bool, has_nodes: bool) -> Iterator[Finding]:
    version = ".".join(str(part) for part in sys.version_info[:3])
    yield Finding(Level.OK, "Python", f"{version}, {sys.executable}")
    if not has_rclpy:
        yield Finding(
            Level.ERROR, "ROS 2", "rclpy cannot be imported", "run 'make setup', then start through scripts/ros_run"
        )
        return
    kind = "wheels" if environ.get("ROLLOUT_MONITOR_ROS") == "wheels" else "installation"
    yield Finding(Level.OK, "ROS 2", f"{environ.get('ROS_DISTRO', 'unknown')} ({kind})")
    rmw = environ.get("RMW_IMPLEMENTATION", "")
    yield Finding(Level.OK, "middleware", rmw or "the distribution's default (RMW_IMPLEMENTATION is not set)")
    if not has_nodes:
        yield Finding(
            Level.ERROR,
            "workspace",
            "rollout_monitor_nodes cannot be imported",
            "run 'make setup', then start through scripts/ros_run",
        )


def _domain(environ: Mapping[str, str]) -> Iterator[Finding]:
    domain = environ.get("ROS_DOMAIN_ID", "")
    if domain and not (domain.isdigit() and int(domain) <= 232):
        yield Finding(Level.ERROR, "domain", f"ROS_DOMAIN_ID={domain!r} is no domain", "choose 0 to 101")
        return
    yield Finding(Level.OK, "domain", f"{domain or 0}" + ("" if domain else " (ROS_DOMAIN_ID is not set)"))
    reach = environ.get("ROS_AUTOMATIC_DISCOVERY_RANGE", "")
    if environ.get("ROS_LOCALHOST_ONLY") == "1" or reach in ("LOCALHOST", "OFF"):
        name = f"ROS_AUTOMATIC_DISCOVERY_RANGE={reach}" if reach else "ROS_LOCALHOST_ONLY=1"
        yield Finding(Level.NOTE, "reach", f"{name}: other machines are not seen", "unset it to see a robot's computer")


def _profile(environ: Mapping[str, str]) -> Iterator[Finding]:
    if "fastrtps" not in environ.get("RMW_IMPLEMENTATION", "rmw_fastrtps_cpp"):
        return
    remedy = "start through scripts/ros_run, or export FASTDDS_DEFAULT_PROFILES_FILE=.../config/fastdds_shm.xml"
    if environ.get("FASTDDS_BUILTIN_TRANSPORTS", "").startswith("LARGE_DATA"):
        yield Finding(Level.OK, "large images", "FASTDDS_BUILTIN_TRANSPORTS=LARGE_DATA")
        return
    file = environ.get("FASTDDS_DEFAULT_PROFILES_FILE") or environ.get("FASTRTPS_DEFAULT_PROFILES_FILE")
    if not file:
        yield Finding(Level.WARN, "large images", "no shared-memory profile: large best-effort images get lost", remedy)
        return
    try:
        root = ET.parse(file).getroot()  # noqa: S314 - a file of the user's own environment
    except (OSError, ET.ParseError) as error:
        yield Finding(Level.ERROR, "large images", f"profile {file}: {error}", remedy)
        return
    kinds = {element.text for element in root.iter() if element.tag.endswith("type")}
    if "SHM" in kinds:
        yield Finding(Level.OK, "large images", f"shared-memory profile {file}")
    else:
        yield Finding(Level.WARN, "large images", f"profile {file} has no shared-memory transport", remedy)


def _shared_memory(folder: Path) -> Iterator[Finding]:
    if not folder.is_dir():
        yield Finding(Level.ERROR, "shared memory", f"{folder} is not there", "mount a tmpfs on it")
        return
    free = shutil.disk_usage(folder).free
    left = len(list(folder.glob("fastrtps_*"))) + len(list(folder.glob("fastdds_*")))
    said = f"{free / 2**20:.0f} MB free in {folder}, {left} segments of Fast DDS"
    if free < SHM_NEEDED:
        remedy = "make it larger (docker: --shm-size=1g); with no ROS process running, `fastdds shm clean` frees it"
        yield Finding(Level.WARN, "shared memory", f"only {said}", remedy)
    else:
        yield Finding(Level.OK, "shared memory", said)


def _compiler(environ: Mapping[str, str]) -> Iterator[Finding]:
    names = [environ.get("CXX", "").split(" ")[0], "c++", "g++", "clang++"]
    found = next((path for name in names if name and (path := shutil.which(name))), None)
    if found is None:
        yield Finding(Level.WARN, "compiler", "no C++ compiler", "needed by 'make setup' only: apt-get install g++")
    else:
        yield Finding(Level.OK, "compiler", found)


# --- the graph ---------------------------------------------------------------------------------------------------


def examine_graph(graph: Mapping[str, Any], environ: Mapping[str, str], now_ns: int) -> list[Finding]:
    """What a look at the running graph shows; see `rollout_monitor_nodes.graph_probe` for the fields."""
    findings = list(_nobody(graph, environ))
    for topic in graph["topics"]:
        kinds = set(topic["types"])
        findings += _types(topic)
        findings += _qos(topic)
        if kinds & set(IMAGES):
            findings += _camera(topic, environ)
        if JOINTS in kinds:
            findings += _joints(topic)
        if CLOCK in kinds:
            findings += _clock(topic)
        if kinds & {*IMAGES, JOINTS}:
            findings += _stamps(topic, now_ns)
    return findings


def _nobody(graph: Mapping[str, Any], environ: Mapping[str, str]) -> Iterator[Finding]:
    domain = environ.get("ROS_DOMAIN_ID") or "0"
    others = graph.get("other_domains", {})
    elsewhere = ", ".join(f"{count} in domain {number}" for number, count in others.items())
    found = f"nodes were found: {elsewhere}; set ROS_DOMAIN_ID" if elsewhere else ""
    if not graph["nodes"]:
        remedy = found or "start the robot's driver"
        yield Finding(Level.WARN, "graph", f"no node in domain {domain}", remedy)
        return
    yield Finding(Level.OK, "graph", f"{len(graph['nodes'])} nodes: {', '.join(graph['nodes'])}")
    published = {kind for topic in graph["topics"] if topic["publishers"] for kind in topic["types"]}
    for kinds, what in (((JOINTS,), "joint states"), (IMAGES, "images")):
        if not published & set(kinds):
            yield Finding(
                Level.WARN,
                "graph",
                f"nobody publishes {what} in domain {domain}",
                found or "is the driver running, and with the same ROS_DOMAIN_ID?",
            )


def _types(topic: Mapping[str, Any]) -> Iterator[Finding]:
    if len(topic["types"]) > 1:
        yield Finding(
            Level.ERROR,
            topic["name"],
            f"has several types: {', '.join(topic['types'])}; they do not hear each other",
            "remap one of them",
        )


def _qos(topic: Mapping[str, Any]) -> Iterator[Finding]:
    for publisher in topic["publishers"]:
        for subscriber in topic["subscribers"]:
            if publisher["type"] != subscriber["type"]:
                continue
            terms = list(_unmet(publisher, subscriber))
            if terms:
                asked, offer = " and ".join(asked for asked, _ in terms), ", ".join(offered for _, offered in terms)
                yield Finding(
                    Level.ERROR,
                    topic["name"],
                    f"{subscriber['node']} asks for {asked}, {publisher['node']} offers {offer}: nothing gets through",
                    "make the subscriber ask for less, or the publisher offer more",
                )


def _unmet(publisher: Mapping[str, Any], subscriber: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What a subscriber asks for and the publisher does not offer, and what it offers (DDS 1.4, 2.2.3)."""
    for policy, asked, offered in (
        ("reliable", "reliable", "best effort"),
        ("transient_local", "transient local", "volatile"),
        ("manual", "liveliness told by topic", "automatic liveliness"),
    ):
        if subscriber.get(policy) and not publisher.get(policy):
            yield asked, offered
    for term, words in (("deadline_ns", "deadline"), ("lease_ns", "liveliness lease")):
        asked_ns, offered_ns = subscriber.get(term), publisher.get(term)
        if asked_ns is not None and (offered_ns is None or offered_ns > asked_ns):
            offer = f"no {words}" if offered_ns is None else f"a {words} of {offered_ns / 1e6:g} ms"
            yield f"a {words} of {asked_ns / 1e6:g} ms", offer


def _camera(topic: Mapping[str, Any], environ: Mapping[str, str]) -> Iterator[Finding]:
    name, publishers = topic["name"], topic["publishers"]
    if not publishers or not topic["probed"]:
        return
    if len(publishers) > 1:
        yield Finding(
            Level.WARN,
            name,
            f"{len(publishers)} publishers ({_nodes(publishers)}): their pictures are taken for one camera's",
            "stop one of them, or remap it to a topic of its own",
        )
    if topic["trouble"]:
        yield _bad_frames(topic)
    if topic["received"] and topic["received"] == topic.get("unreadable"):
        return
    if topic["received"] == 0:
        yield _silent_camera(name, publishers, environ)
        return
    if not topic.get("looked_into") or topic["looked_into"] > topic.get("damaged", 0):
        yield _picture(topic)
    if any(not publisher["reliable"] for publisher in publishers):
        yield from _lost_images(topic, environ)


def _bad_frames(topic: Mapping[str, Any]) -> Finding:
    """Frames that are seen to be unreadable when they come, or that are damaged inside."""
    bad, damaged, trouble = topic.get("unreadable", 0), topic.get("damaged", 0), topic["trouble"]
    if damaged:
        what = f"{damaged} of {topic['looked_into']} frames looked into are damaged: {trouble}"
        return Finding(Level.ERROR, topic["name"], what, "check cable, USB bandwidth, network and the camera's driver")
    what = f"{bad} of {topic['received']} frames cannot be read: {trouble}" if bad else trouble
    return Finding(Level.ERROR, topic["name"], what, "choose another encoding in the camera's driver")


def _picture(topic: Mapping[str, Any]) -> Finding:
    """What the frames of a camera show."""
    name, luminance = topic["name"], topic["luminance"]
    said = f"{_rate(topic)}, up to {topic['largest_bytes'] / 1024:.0f} kB"
    changes = topic["received"] - 1 - topic["repeated_frames"]
    if topic.get("encoding", "").lower().startswith(DEPTH_ENCODINGS):
        if luminance == 0:
            remedy = "is it covered, too close, or its projector off?"
            return Finding(Level.ERROR, name, f"is empty: no pixel has a depth ({said})", remedy)
    elif luminance is not None and luminance < DARK_LUMINANCE and topic["contrast"] < DARK_CONTRAST:
        what = f"is dark (mean luma {luminance:.0f} of 255, {said})"
        return Finding(Level.ERROR, name, what, "lens cap, light, exposure")
    if topic["received"] <= FEW_FRAMES:
        what = f"too few frames to tell whether the picture changes: {topic['received']} ({said})"
        return Finding(Level.NOTE, name, what, "look for longer: --seconds 30")
    if changes <= (1 - FROZEN_SHARE) * (topic["received"] - 1):
        return Finding(Level.ERROR, name, f"shows one picture again and again ({said})", "restart the camera's driver")
    return Finding(Level.OK, name, said)


def _lost_images(topic: Mapping[str, Any], environ: Mapping[str, str]) -> Iterator[Finding]:
    """Best-effort images that are too large for the transport: the middleware drops them whole, and nobody is told."""
    lost, sent = topic.get("lost", 0), topic["received"] + topic.get("lost", 0)
    many, large = lost >= LOST_SHARE * sent, topic["largest_bytes"] > LARGE_BYTES
    size = f"{topic['largest_bytes'] / 1024:.0f} kB"
    if large and not _has_profile(environ):
        counted = f"{lost} of {sent} were" if many else "many are"
        yield Finding(
            Level.WARN,
            topic["name"],
            f"large best-effort images ({size}) without the shared-memory profile: {counted} lost without a word",
            _WITH_PROFILE,
        )
    elif many:
        why = "was it started without the shared-memory profile?" if large else "is the network too slow?"
        nodes = _nodes(topic["publishers"])
        what = f"{lost} of {sent} best-effort images ({size}) of {nodes} were lost without a word: {why}"
        yield Finding(Level.WARN, topic["name"], what, _WITH_PROFILE if large else "a wired network, or fewer images")


def _silent_camera(name: str, publishers: list[Mapping[str, Any]], environ: Mapping[str, str]) -> Finding:
    nodes = _nodes(publishers)
    if any(not publisher["reliable"] for publisher in publishers):
        lost = "without the shared-memory profile large images are lost without a word"
        doubt = (
            lost
            if not _has_profile(environ)
            else f"it does not stream, or it was started so that images get lost: {lost}"
        )
        return Finding(
            Level.ERROR,
            name,
            f"{nodes} publishes best effort and nothing arrives: {doubt}",
            _WITH_PROFILE,
        )
    return Finding(
        Level.ERROR,
        name,
        f"{nodes} has announced it, but nothing arrives",
        "is the camera streaming? Is the network fast enough?",
    )


def _joints(topic: Mapping[str, Any]) -> Iterator[Finding]:
    if not topic["publishers"] or not topic["probed"]:
        return
    nodes = _nodes(topic["publishers"])
    if len(topic["publishers"]) > 1:
        yield Finding(
            Level.WARN,
            topic["name"],
            f"{len(topic['publishers'])} publishers ({nodes}): fine for two arms, not for one",
            "a joint_state_publisher beside a real driver sends zeros in between; stop it",
        )
    if topic["received"] == 0:
        yield Finding(Level.ERROR, topic["name"], f"{nodes} publishes nothing", "is the controller active?")
        return
    bad = False
    for count, what, remedy in (
        (topic.get("malformed", 0), "are malformed: names and values differ in number", "mend the driver"),
        (topic.get("not_finite", 0), "hold positions that are no numbers", "mend the driver, or is an encoder dead?"),
    ):
        if count:
            bad = True
            level = Level.ERROR if count == topic["received"] else Level.WARN
            said = f"{count} of {topic['received']} messages {what} ({_rate(topic)})"
            yield Finding(level, topic["name"], said, remedy)
    if not bad:
        yield Finding(Level.OK, topic["name"], _rate(topic))


def _clock(topic: Mapping[str, Any]) -> Iterator[Finding]:
    """Nodes with use_sim_time subscribe to the clock and stand still without it."""
    name, publishers = topic["name"], topic["publishers"]
    waiting = _nodes(topic["subscribers"])
    held = f"; {waiting} with use_sim_time stands still" if waiting else ""
    if not publishers:
        if waiting:
            remedy = "start the simulator or the replay (with --clock), or set use_sim_time to false"
            yield Finding(Level.ERROR, name, f"nobody publishes the clock{held}", remedy)
        return
    if len(publishers) > 1:
        yield Finding(
            Level.ERROR, name, f"several publishers: {_nodes(publishers)}; time jumps to and fro", "stop all but one"
        )
    if not topic["probed"]:
        return
    if topic["backward_stamps"]:
        what = f"the clock of {_nodes(publishers)} went back {topic['backward_stamps']} times"
        remedy = "a bag that loops, or a simulator that is reset: let it run on, or end episodes before"
        yield Finding(Level.ERROR, name, what, remedy)
        return
    remedy = "start or resume the simulator or the replay, or set use_sim_time to false"
    if topic["received"] < 2 or topic["first_stamp_ns"] == topic["last_stamp_ns"]:
        yield Finding(Level.ERROR, name, f"the clock of {_nodes(publishers)} does not move{held}", remedy)
        return
    passed_s = (topic["last_stamp_ns"] - topic["first_stamp_ns"]) / _NS
    speed = passed_s / topic["span_s"] if topic.get("span_s") else None
    if speed is not None and speed < CRAWLING:
        what = f"the clock of {_nodes(publishers)} crawls: {passed_s:.2g} s in {topic['span_s']:.1f} s{held}"
        yield Finding(Level.ERROR, name, what, remedy)
        return
    told = "" if speed is None else f" at {speed:.2g} times real time"
    yield Finding(Level.OK, name, f"moves{told}, {_rate(topic)}")


def _stamps(topic: Mapping[str, Any], now_ns: int) -> Iterator[Finding]:
    last = topic["last_stamp_ns"]
    if last is None:
        return
    name = topic["name"]
    if last == 0:
        yield Finding(Level.ERROR, name, "header stamps are zero", "the driver must fill header.stamp")
        return
    if topic["received"] > 1 and topic["first_stamp_ns"] == last:
        yield Finding(Level.ERROR, name, "header stamps do not advance", "the driver must stamp each message")
    if topic["backward_stamps"]:
        count = topic["backward_stamps"]
        remedy = "two publishers with clocks of their own, or a bag that loops with old stamps"
        yield Finding(Level.WARN, name, f"header stamps went back {count} times", remedy)
    age_s = (now_ns - last) / _NS
    if age_s > OLD_S:
        yield Finding(Level.NOTE, name, f"stamps are {_span(age_s)} old: a recording, or a clock that is off")
    elif age_s < -1.0:
        remedy = "synchronise the clocks of the two machines (chrony)"
        yield Finding(Level.WARN, name, f"stamps are {_span(-age_s)} ahead of this machine's clock", remedy)


def _has_profile(environ: Mapping[str, str]) -> bool:
    return all(finding.level is Level.OK for finding in _profile(environ))


def _nodes(ends: Iterable[Mapping[str, Any]]) -> str:
    """The names of the nodes at these ends of a topic."""
    return ", ".join(sorted({end["node"] for end in ends}))


def _rate(topic: Mapping[str, Any]) -> str:
    return "one message" if topic["rate_hz"] is None else f"{topic['rate_hz']:.1f} Hz"


def _span(seconds: float) -> str:
    for size, unit in ((86400 * 365.25, "years"), (86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def worst(findings: list[Finding]) -> Level:
    """The worst level among the findings."""
    order = list(Level)
    return max((finding.level for finding in findings), key=order.index, default=Level.OK)
