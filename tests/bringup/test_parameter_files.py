"""Parameter files: what is read, which node gets it, and what is said when it does not fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from rollout_monitor.bringup.parameters import (
    Section,
    engine_settings,
    load_settings,
    read_parameters,
    refuse_unmatched,
    resolve,
)
from rollout_monitor.episode.settings import MonitorSettings
from rollout_monitor.errors import InputError


@pytest.fixture
def write(tmp_path: Path):
    """Writes a YAML file of the given text."""

    def _write(text: str, name: str = "parameters.yaml") -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return _write


@pytest.mark.parametrize(
    ("pattern", "node", "expected"),
    [
        ("/**", "/prm_node", True),
        ("/**", "/ur5e/prm_node", True),
        ("/*", "/prm_node", True),
        ("/*", "/ur5e/prm_node", False),
        ("/**/prm_node", "/prm_node", True),
        ("/**/prm_node", "/lab/ur5e/prm_node", True),
        ("/*/prm_node", "/ur5e/prm_node", True),
        ("/*/prm_node", "/lab/ur5e/prm_node", False),
        ("/prm_node", "/prm_node", True),
        ("/prm_node", "/ur5e/prm_node", False),
        ("/ur5e/prm_node", "/ur5e/prm_node", True),
        ("/ur5e/prm_node", "/ur5e/prm_node_2", False),
        ("/ur5e/**", "/ur5e/prm_node", True),
    ],
)
def test_sections_match_nodes_by_the_rules_of_ros(pattern: str, node: str, expected: bool) -> None:
    assert Section(Path("f"), pattern, {}).matches(node) is expected


def test_nested_and_dotted_names_and_nested_namespaces_are_the_same(write) -> None:
    nested = read_parameters(write("ur5e:\n  prm_node:\n    ros__parameters:\n      gate: {jump_s: 2.0}\n"))
    dotted = read_parameters(write("/ur5e/prm_node:\n  ros__parameters:\n    gate.jump_s: 2.0\n", "other.yaml"))
    assert [(s.pattern, s.values) for s in nested] == [(s.pattern, s.values) for s in dotted]
    assert nested[0].values == {"gate.jump_s": 2.0}


def test_the_later_file_wins_whatever_its_pattern(write) -> None:
    first = write("/**/prm_node:\n  ros__parameters:\n    model: a\n    queue: 2\n")
    second = write("/**:\n  ros__parameters:\n    model: b\n", "second.yaml")
    sections = [*read_parameters(first), *read_parameters(second)]
    assert resolve(sections, "/ur5e/prm_node") == {"model": "b", "queue": 2}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("/**:\n  ros__parameters:\n    x: 1\n    x: 2\n", "line 4: 'x' is given twice"),
        ("a: [\n", "line 2"),
        ("- 1\n", "is no ROS 2 parameter file"),
        ("ros__parameters:\n  x: 1\n", "stands under no node name"),
        ("prm_node:\n  x: 1\n", "'x' is no section"),
        ("prm_node:\n  ros__parameters: 3\n", "must hold NAME: VALUE"),
        ("prm_node:\n  ros__parameters:\n    x: null\n", "parameter 'x' is None"),
        ("prm_node:\n  ros__parameters:\n    x: [1, a]\n", "parameter 'x' is [1, 'a']"),
        ("prm_node:\n  ros__parameters:\n    x: [[1]]\n", "parameter 'x' is [[1]]"),
        ("prm_node: !!python/object/apply:os.getcwd []\n", "could not determine a constructor"),
    ],
)
def test_a_file_that_is_no_parameter_file_is_one_line_that_names_it(write, text: str, complaint: str) -> None:
    path = write(text)
    with pytest.raises(InputError) as raised:
        read_parameters(path)
    assert str(raised.value).startswith(f"{path}: ")
    assert complaint in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.yaml: cannot be read"):
        read_parameters(tmp_path / "nowhere.yaml")


def test_a_section_that_misses_the_namespace_is_refused_and_others_are_not(write) -> None:
    sections = read_parameters(
        write("/prm_node:\n  ros__parameters: {queue: 2}\n/camera:\n  ros__parameters: {fps: 30}\n")
    )
    refuse_unmatched(sections, ["/prm_node", "/monitor_node"])
    with pytest.raises(
        InputError, match=r"section '/prm_node' does not match the node /ur5e/prm_node: write '/\*\*/prm_node'"
    ):
        refuse_unmatched(sections, ["/ur5e/prm_node"])


def test_without_a_file_the_settings_are_the_documented_defaults() -> None:
    assert load_settings().monitor == MonitorSettings()


def test_settings_are_those_of_the_two_nodes(write) -> None:
    path = write(
        "/**/prm_node:\n  ros__parameters:\n    model: embedded\n"
        "    gate: {jump_s: 2}\n    motion: {gripper_joints: [finger]}\n"
        "/**/monitor_node:\n  ros__parameters:\n"
        "    events.stall.window_s: 4.5\n    calibration: ''\n    episodes: kept\n"
        "    motion.gripper_joints: [finger]\n"
    )
    settings = load_settings(path, "/ur5e")
    assert settings.gate.jump_s == 2.0
    assert settings.monitor.motion.gripper_joints == ("finger",)
    assert settings.monitor.events.stall.window_s == 4.5
    assert settings.monitor.calibration is None


def test_both_nodes_must_judge_the_same_joints(write) -> None:
    path = write("/**/prm_node:\n  ros__parameters: {motion.gripper_joints: [finger]}\n")
    with pytest.raises(
        InputError, match=r"'motion.gripper_joints' is \[finger\] for prm_node and \[\] for monitor_node"
    ):
        load_settings(path)


@pytest.mark.parametrize(
    ("node", "line", "complaint"),
    [
        ("prm_node", "motion.grid_rate_hz: -1.0", "prm_node parameter 'motion.grid_rate_hz': Input should be greater"),
        (
            "prm_node",
            "motion.grid_rate_hz: '30'",
            "prm_node parameter 'motion.grid_rate_hz': Input should be a valid number",
        ),
        ("prm_node", "gate.jump_s: true", "prm_node parameter 'gate.jump_s': Input should be a valid number"),
        ("prm_node", "gate.jumps_s: 1.0", "prm_node parameter 'gate.jumps_s': Extra inputs are not permitted"),
        ("prm_node", "gate.rate_hz: 1.0", "'gate.rate_hz' is no parameter of prm_node"),
        ("monitor_node", "events.drawdown.warn: 0.9", "error (0.35) must not be below warn (0.9)"),
        ("monitor_node", "events: {stall: 3, stall.eps: 0.1}", "'stall' is given a value of its own as well"),
        ("monitor_node", "opd.convention: mine", "monitor_node parameter 'opd.convention': Input should be 'paper'"),
    ],
)
def test_a_wrong_value_is_one_line_that_names_file_node_and_parameter(
    write, node: str, line: str, complaint: str
) -> None:
    path = write(f"/**/{node}:\n  ros__parameters:\n    {line}\n")
    with pytest.raises(InputError) as raised:
        load_settings(path)
    assert str(path) in str(raised.value)
    assert complaint in str(raised.value)
    assert "\n" not in str(raised.value)


def test_both_nodes_must_agree_on_how_joints_are_judged(write) -> None:
    one = write("/**/prm_node:\n  ros__parameters: {motion.window_s: 2.0}\n")
    other = write("/**/monitor_node:\n  ros__parameters: {motion.window_s: 3.0}\n", "second.yaml")
    with pytest.raises(InputError, match=r"'motion\.window_s' is 2\.0 for prm_node and 3\.0 for monitor_node"):
        engine_settings([one, other])
