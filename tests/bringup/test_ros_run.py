"""scripts/ros_run in a small made-up tree: which variables a command gets, with the wheels and with a sourced ROS 2."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BARE = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}


@pytest.fixture
def tree(tmp_path: Path, root: Path) -> Path:
    """A tree with both wheel environments and one over a sourced installation."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(root / "scripts" / "ros_run", tmp_path / "scripts")
    for venv, variant in ((".venv", "jazzy"), (".venv-kilted", "kilted"), (".venv-system-jazzy", "system-jazzy")):
        (tmp_path / venv / "bin").mkdir(parents=True)
        (tmp_path / venv / "bin" / "python").symlink_to(sys.executable)
        (tmp_path / venv / "lib" / "python3.11" / "site-packages" / "ros_rcl.libs").mkdir(parents=True)
        install = tmp_path / "ros2_ws" / "install" / variant
        (install / "lib" / "python3.11" / "site-packages").mkdir(parents=True)
        (install / "local_setup.bash").write_text('export OVERLAID=yes; echo "$UNSET_VARIABLE"\n', encoding="utf-8")
    return tmp_path


def environment(tree: Path, given: dict[str, str]) -> dict[str, str]:
    command = [str(tree / "scripts" / "ros_run"), "env", "--null"]
    done = subprocess.run(command, capture_output=True, text=True, env=given, check=True)
    return dict(entry.split("=", 1) for entry in done.stdout.strip("\n\0").split("\0"))


def test_with_the_wheels_everything_is_set(tree: Path) -> None:
    env = environment(tree, BARE)
    install, venv = f"{tree}/ros2_ws/install/jazzy", f"{tree}/.venv"
    assert env["AMENT_PREFIX_PATH"] == f"{install}:{venv}"
    assert env["LD_LIBRARY_PATH"] == f"{install}/lib:{venv}/lib:{venv}/lib/python3.11/site-packages/ros_rcl.libs"
    assert env["PYTHONPATH"] == f"{install}/lib/python3.11/site-packages"
    assert env["PATH"].startswith(f"{venv}/bin:")
    assert env["_ROS_WHEELS_BOOTSTRAP_COMPLETE"] == "1"
    assert env["ROS_DISTRO"] == "jazzy"
    assert env["RMW_IMPLEMENTATION"] == "rmw_fastrtps_cpp"
    assert (
        env["FASTDDS_DEFAULT_PROFILES_FILE"]
        == env["FASTRTPS_DEFAULT_PROFILES_FILE"]
        == f"{tree}/config/fastdds_shm.xml"
    )


def test_kilted_is_chosen_by_name(tree: Path) -> None:
    env = environment(tree, {**BARE, "DISTRO": "kilted"})
    assert env["ROS_DISTRO"] == "kilted"
    assert env["VIRTUAL_ENV"] == f"{tree}/.venv-kilted"
    assert "FASTRTPS_DEFAULT_PROFILES_FILE" not in env, "deprecated there, and warned about"


@pytest.mark.parametrize("distro", ["", "jazzy", "kilted"])
def test_run_inside_itself_nothing_changes(tree: Path, distro: str) -> None:
    once = environment(tree, {**BARE, "DISTRO": distro})
    again = environment(tree, {name: value for name, value in once.items() if name != "DISTRO"})
    ignored = {"DISTRO", "_", "SHLVL"}
    assert {k: v for k, v in again.items() if k not in ignored} == {k: v for k, v in once.items() if k not in ignored}


def test_a_sourced_installation_is_only_overlaid(tree: Path) -> None:
    sourced = {**BARE, "ROS_DISTRO": "jazzy", "AMENT_PREFIX_PATH": "/opt/ros/jazzy", "PYTHONPATH": "/opt/ros/jazzy/py"}
    env = environment(tree, sourced)
    assert env["OVERLAID"] == "yes"
    assert env["AMENT_PREFIX_PATH"] == "/opt/ros/jazzy"
    assert env["PYTHONPATH"].split(":") == [
        f"{tree}/.venv-system-jazzy/lib/python3.11/site-packages",
        "/opt/ros/jazzy/py",
    ]
    assert "_ROS_WHEELS_BOOTSTRAP_COMPLETE" not in env
    assert "RMW_IMPLEMENTATION" not in env
    assert "LD_LIBRARY_PATH" not in env


def test_a_profile_of_the_users_own_is_kept(tree: Path) -> None:
    env = environment(tree, {**BARE, "FASTDDS_DEFAULT_PROFILES_FILE": "/mine.xml"})
    assert env["FASTDDS_DEFAULT_PROFILES_FILE"] == env["FASTRTPS_DEFAULT_PROFILES_FILE"] == "/mine.xml"


def test_exit_code_and_arguments_pass_through(tree: Path) -> None:
    code = "import sys; print(sys.argv[1:]); sys.exit(7)"
    command = [str(tree / "scripts" / "ros_run"), sys.executable, "-c", code, "a b", "*"]
    done = subprocess.run(command, capture_output=True, text=True, env=BARE, check=False)
    assert (done.returncode, done.stdout) == (7, "['a b', '*']\n")


def test_what_is_missing_is_said_with_the_remedy(tree: Path) -> None:
    shutil.rmtree(tree / "ros2_ws" / "install" / "jazzy")
    done = subprocess.run(
        [str(tree / "scripts" / "ros_run"), "true"], capture_output=True, text=True, env=BARE, check=False
    )
    assert done.returncode == 1
    assert "run 'make setup' first" in done.stderr


def test_without_a_command_the_usage_is_printed(tree: Path) -> None:
    done = subprocess.run([str(tree / "scripts" / "ros_run")], capture_output=True, text=True, env=BARE, check=False)
    assert done.returncode == 2
    assert "usage" in done.stderr
