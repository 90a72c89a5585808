"""The messages mirror the records: every field, every value of an enumeration is there, and every line is explained."""

from __future__ import annotations

import re
from enum import Enum
from pathlib import Path

import pytest

from rollout_monitor import records

# Record and message; then fields whose name differs, or that a message writes with more than one field.
NOT_CARRIED = {"schema_version"}
RENAMED = {
    "stamp_ns": "header",
    "latency_s": "latency",
    "duration_s": "duration",
    "elapsed_s": "elapsed",
    "estimate_age_s": "estimate_age",
    "rate_hz": "rate",
    "grid_rate_hz": "grid_rate",
    "last_stamp_ns": "last_stamp",
    "last_frame_ns": "last_frame",
    "frozen_since_ns": "frozen_since",
    "dark_since_ns": "dark_since",
    "onset_ns": "onset",
    "detected_ns": "detected",
    "cleared_ns": "cleared",
    "camera_stamps_ns": "camera_stamps",
    "clock_offset_s": "clock_offset",
}
MIRRORS = {
    "Episode": (records.EpisodeMarker, {}),
    "Progress": (records.ProgressEstimate, {}),
    "MotionFigures": (records.MotionFigures, {}),
    "JointHealth": (records.JointHealth, {"missing_since_ns": "missing_since"}),
    "GridRow": (records.GridRow, {"stamp_ns": "stamp"}),
    "EffortSpike": (records.EffortSpike, {"stamp_ns": "stamp"}),
    "Kinematics": (records.KinematicSummary, {}),
    "CameraHealth": (records.CameraHealth, {}),
    "MonitorEvent": (records.Event, {}),
    "MonitorStatus": (records.MonitorStatus, {"moving": "motion"}),
}
ENUMERATIONS = [
    ("Episode", "BOUNDARY", records.Boundary),
    ("Episode", "LABEL", records.Label),
    ("EndEpisode", "LABEL", records.Label),
    ("LabelEpisode", "LABEL", records.Label),
    ("EpisodeReport", "LABEL", records.Label),
    ("EpisodeReport", "OUTCOME", records.Outcome),
    ("Progress", "STATUS", records.EstimateStatus),
    ("Progress", "DIRECTION", records.Direction),
    ("MonitorEvent", "KIND", records.EventKind),
    ("MonitorEvent", "SEVERITY", records.Severity),
    ("MonitorStatus", "STATE", records.EpisodeState),
]
FIELD = re.compile(r"^(?P<type>[\w/]+(\[\d*\])?)\s+(?P<name>\w+)\s*(=\s*(?P<value>\S+))?\s*(#\s*(?P<comment>.*))?$")


@pytest.fixture(scope="session")
def package(root: Path) -> Path:
    return root / "ros2_ws" / "src" / "rollout_monitor_msgs"


def fields(package: Path, name: str) -> dict[str, re.Match[str]]:
    """Fields and constants by name."""
    (path,) = [*package.glob(f"*/{name}.msg"), *package.glob(f"*/{name}.srv")]
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line and line != "---" and not line.startswith("#"):
            match = FIELD.match(line)
            assert match, f"{path.name}: {line!r} is no field"
            found.setdefault(match["name"], match)
    return found


def interface_names(package: Path) -> list[str]:
    return sorted(path.stem for path in [*package.glob("msg/*.msg"), *package.glob("srv/*.srv")])


def test_every_file_is_generated(package: Path) -> None:
    text = (package / "CMakeLists.txt").read_text(encoding="utf-8")
    assert sorted(Path(name).stem for name in re.findall(r'"((?:msg|srv)/\w+\.\w+)"', text)) == interface_names(package)


def test_every_file_begins_with_what_it_is_for(package: Path) -> None:
    for name in interface_names(package):
        (path,) = package.glob(f"*/{name}.*")
        assert path.read_text(encoding="utf-8").startswith("# "), path.name


def test_every_field_is_explained(package: Path) -> None:
    silent = [
        f"{name}.{field}"
        for name in interface_names(package)
        for field, match in fields(package, name).items()
        if not match["comment"] and match["value"] is None
    ]
    assert silent == []


def test_absent_values_are_documented_where_they_can_be(package: Path) -> None:
    """An optional float says what NaN means, an optional count what -1 means."""
    vague = []
    for message, (record, own) in MIRRORS.items():
        found = fields(package, message)
        for name, field in record.model_fields.items():
            match = found.get({**RENAMED, **own}.get(name, name))
            if match is None or type(None) not in getattr(field.annotation, "__args__", ()):
                continue
            said = match["comment"] or ""
            marks = {"float64": "NaN", "int32": "-1", "string": "empty", "builtin_interfaces/Time": "valid only if"}
            mark = marks.get(match["type"])
            if mark and mark not in said:
                vague.append(f"{message}.{name}: {said!r} does not say {mark!r}")
    assert vague == []


@pytest.mark.parametrize("message", sorted(MIRRORS))
def test_messages_carry_every_field_of_their_record(package: Path, message: str) -> None:
    record, own = MIRRORS[message]
    found = fields(package, message)
    renamed = {**RENAMED, **own}
    expected = {renamed.get(name, name) for name in record.model_fields if name not in NOT_CARRIED}
    if message == "MonitorEvent":
        expected |= {"value_names"}  # a mapping takes two lists
    if message == "JointHealth":
        expected |= {"missing_joints"}
    if message == "Progress":
        expected |= {"camera_names"}
    assert expected <= set(found)
    extra = {name for name, match in found.items() if match["value"] is None} - expected
    assert extra <= {"header", "is_cleared", "has_last_stamp", "has_last_frame", "frozen", "dark"}


@pytest.mark.parametrize(("message", "prefix", "enumeration"), ENUMERATIONS)
def test_enumerations_have_a_constant_each(package: Path, message: str, prefix: str, enumeration: type[Enum]) -> None:
    constants = {
        name: int(match["value"])
        for name, match in fields(package, message).items()
        if name.startswith(f"{prefix}_") and match["value"] is not None
    }
    named = {f"{prefix}_{member.name}" for member in enumeration}
    assert named <= set(constants)
    assert set(constants) - named <= {f"{prefix}_NONE"}
    assert len(set(constants.values())) == len(constants)


@pytest.mark.parametrize(("message", "prefix"), [(m, p) for m, p, _ in ENUMERATIONS if p in ("LABEL", "STATE")])
def test_the_same_constant_has_the_same_value_everywhere(package: Path, message: str, prefix: str) -> None:
    of_first = fields(package, {"LABEL": "Episode", "STATE": "MonitorStatus"}[prefix])
    for name, match in fields(package, message).items():
        if name.startswith(f"{prefix}_") and match["value"] is not None:
            assert match["value"] == of_first[name]["value"]


def test_no_message_ends_in_a_list(package: Path) -> None:
    """The serialiser may append stray bytes after a message that ends in an empty list of 8-byte numbers."""
    for name in interface_names(package):
        if name != "GridRow":  # only ever inside Kinematics
            last = list(fields(package, name).values())[-1]
            assert not last["type"].startswith("float64["), name
