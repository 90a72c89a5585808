"""Which environment is made, from what, and when again. Nothing is installed here: the plan is looked at."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

SOURCED = {"ROS_DISTRO": "jazzy", "AMENT_PREFIX_PATH": "/opt/ros/jazzy", "PATH": os.environ["PATH"]}
PLAIN = {"PATH": os.environ["PATH"]}


@pytest.fixture
def tree(tmp_path: Path, root: Path) -> Path:
    """A small copy of what the plan is made from."""
    for name in ("rollout_monitor_msgs", "rollout_monitor_nodes", "rollout_monitor_bringup"):
        package = tmp_path / "ros2_ws" / "src" / name
        package.mkdir(parents=True)
        (package / "package.xml").write_text(name, encoding="utf-8")
    for name in ("launch", "config"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name, encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text("[project]", encoding="utf-8")
    (tmp_path / "requirements").symlink_to(root / "requirements")
    return tmp_path


def commands(setup_env: ModuleType, tree: Path, environ: dict[str, str], distro: str | None = None) -> str:
    layout = setup_env.choose_layout(tree, distro, environ)
    return "\n".join(" ".join(command) for step in setup_env.plan(layout, environ) for command in step.commands)


def test_without_ros_the_wheels_of_jazzy_are_used(setup_env: ModuleType, tree: Path) -> None:
    text = commands(setup_env, tree, PLAIN)
    assert f"-m venv --clear {tree}/.venv" in text
    assert "--system-site-packages" not in text
    assert "requirements/ros-jazzy.txt" in text
    assert "ros2_ws/install/jazzy" in text


def test_kilted_lives_beside_it(setup_env: ModuleType, tree: Path) -> None:
    text = commands(setup_env, tree, PLAIN, "kilted")
    assert f"-m venv --clear {tree}/.venv-kilted" in text
    assert "requirements/ros-kilted.txt" in text
    assert "ros2_ws/install/kilted" in text
    assert "jazzy" not in text


def test_a_sourced_installation_is_used_and_no_wheel_is_installed(setup_env: ModuleType, tree: Path) -> None:
    text = commands(setup_env, tree, SOURCED)
    assert f"-m venv --clear --system-site-packages {tree}/.venv-system-jazzy" in text
    assert "requirements/ros-" not in text
    assert "requirements/build.txt" not in text
    assert f"{tree}/.venv-system-jazzy/bin/python -c import sys; from colcon_core" in text
    assert "ros2_ws/install/system-jazzy" in text


def test_the_numpy_of_a_sourced_installation_is_kept(setup_env: ModuleType, tree: Path) -> None:
    (tree / "python").mkdir()
    (tree / "python" / "numpy.py").write_text("__version__ = '1.26.4'", encoding="utf-8")
    path = {"PYTHONPATH": str(tree / "python")}
    assert " numpy==1.26.4 " in commands(setup_env, tree, {**SOURCED, **path})
    assert "numpy==" not in commands(setup_env, tree, {**PLAIN, **path})


def test_a_sourced_installation_is_overlaid_and_the_wheels_stand_alone(setup_env: ModuleType, tree: Path) -> None:
    sourced = {**SOURCED, "PYTHONPATH": "/opt/ros/jazzy/lib"}
    env = setup_env.build_environment(setup_env.choose_layout(tree, None, sourced), sourced)
    assert env["AMENT_PREFIX_PATH"] == "/opt/ros/jazzy"
    assert env["PYTHONPATH"] == "/opt/ros/jazzy/lib"
    env = setup_env.build_environment(setup_env.choose_layout(tree, None, PLAIN), {**PLAIN, "PYTHONPATH": "/other"})
    assert env["AMENT_PREFIX_PATH"] == env["CMAKE_PREFIX_PATH"] == str(tree / ".venv")
    assert "PYTHONPATH" not in env
    assert env["PATH"].startswith(f"{tree}/.venv/bin:")


def test_the_environment_that_ros_run_made_is_not_taken_for_an_installation(setup_env: ModuleType, tree: Path) -> None:
    inside = {**SOURCED, "ROS_DISTRO": "kilted", "ROLLOUT_MONITOR_ROS": "wheels"}
    assert not setup_env.choose_layout(tree, "kilted", inside).sourced


@pytest.mark.parametrize(
    ("environ", "distro", "complaint"),
    [
        ({"ROS_DISTRO": "jazzy"}, None, "AMENT_PREFIX_PATH is not"),
        (SOURCED, "kilted", "the sourced installation is jazzy"),
        (PLAIN, "humble", "wheels are set up for jazzy and kilted"),
    ],
)
def test_a_contradiction_is_named(
    setup_env: ModuleType, tree: Path, environ: dict[str, str], distro: str | None, complaint: str
) -> None:
    with pytest.raises(setup_env.SetupError, match=complaint):
        setup_env.choose_layout(tree, distro, environ)


@pytest.mark.parametrize(
    ("change", "value", "complaint"),
    [
        ("shutil.which", lambda _: None, "apt-get install g"),
        ("platform.machine", lambda: "aarch64", "x86_64 Linux only, this is aarch64"),
        ("importlib.util.find_spec", lambda _: None, "python3-venv"),
        ("sysconfig.get_path", lambda _: "/nowhere", "python3-dev"),
        ("sys.version_info", (3, 14, 0), "newer than what was tried"),
    ],
)
def test_what_the_machine_lacks_is_said_with_the_remedy(
    setup_env: ModuleType, tree: Path, monkeypatch: pytest.MonkeyPatch, change: str, value: object, complaint: str
) -> None:
    layout = setup_env.choose_layout(tree, None, PLAIN)
    setup_env.check_machine(layout, PLAIN)
    monkeypatch.setattr(change, value)
    with pytest.raises(setup_env.SetupError, match=complaint):
        setup_env.check_machine(layout, PLAIN)


def test_an_interpreter_that_does_not_see_the_sourced_ros_is_refused(
    setup_env: ModuleType, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = setup_env.choose_layout(tree, None, SOURCED)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "rclpy" else True)
    with pytest.raises(setup_env.SetupError, match="PYTHON=/usr/bin/python3"):
        setup_env.check_machine(layout, SOURCED)


def finish(setup_env: ModuleType, tree: Path) -> None:
    """Pretend that every step was carried out."""
    for step in setup_env.plan(setup_env.choose_layout(tree, None, PLAIN), PLAIN):
        step.stamp.parent.mkdir(parents=True, exist_ok=True)
        step.stamp.write_text(step.key, encoding="utf-8")


def open_steps(setup_env: ModuleType, tree: Path) -> list[str]:
    return [
        step.name for step in setup_env.plan(setup_env.choose_layout(tree, None, PLAIN), PLAIN) if not step.is_done()
    ]


@pytest.mark.parametrize(
    ("changed", "again"),
    [
        (None, []),
        ("pyproject.toml", ["ROS 2 jazzy and Python packages"]),
        ("ros2_ws/src/rollout_monitor_msgs/package.xml", ["workspace: rollout_monitor_msgs"]),
        ("ros2_ws/src/rollout_monitor_nodes/new.py", ["workspace: rollout_monitor_nodes"]),
        ("ros2_ws/src/rollout_monitor_nodes/__pycache__/new.pyc", []),
        ("launch/file", ["workspace: rollout_monitor_bringup"]),
        ("config/file", ["workspace: rollout_monitor_bringup"]),
    ],
)
def test_only_what_changed_is_made_again(
    setup_env: ModuleType, tree: Path, changed: str | None, again: list[str]
) -> None:
    assert len(open_steps(setup_env, tree)) == 6
    finish(setup_env, tree)
    if changed:
        (tree / changed).parent.mkdir(exist_ok=True)
        (tree / changed).write_text("changed", encoding="utf-8")
    assert open_steps(setup_env, tree) == again


def test_other_wheels_mean_everything_anew(setup_env: ModuleType, tree: Path, root: Path) -> None:
    finish(setup_env, tree)
    (tree / "requirements").unlink()
    (tree / "requirements").mkdir()
    for file in (root / "requirements").iterdir():
        (tree / "requirements" / file.name).write_bytes(file.read_bytes() + b"# changed\n" * ("jazzy" in file.name))
    assert open_steps(setup_env, tree)[0] == "ROS 2 jazzy and Python packages"
    assert len(open_steps(setup_env, tree)) == 5


def test_a_failed_step_leaves_no_stamp_and_shows_the_end_of_its_output(setup_env: ModuleType, tmp_path: Path) -> None:
    stamp = tmp_path / "stamp"
    stamp.write_text("old", encoding="utf-8")
    step = setup_env.Step("thing", "key", stamp, [[sys.executable, "-c", "print('why'); raise SystemExit(3)"]])
    with pytest.raises(setup_env.SetupError, match=r"thing failed with exit code 3(.|\n)*why"):
        setup_env.run(step, tmp_path / "log" / "setup.log")
    assert not stamp.exists()


def test_a_step_that_worked_is_done(setup_env: ModuleType, tmp_path: Path) -> None:
    step = setup_env.Step("thing", "key", tmp_path / "a" / "stamp", [[sys.executable, "-c", ""]])
    setup_env.run(step, tmp_path / "log" / "setup.log")
    assert step.is_done()


def test_a_deleted_module_does_not_live_on_in_the_workspace(setup_env: ModuleType, tree: Path) -> None:
    installed = tree / "ros2_ws/install/jazzy/lib/python3.11/site-packages/rollout_monitor_nodes"
    built = tree / "ros2_ws/build/jazzy/rollout_monitor_nodes/build/lib/rollout_monitor_nodes"
    for folder in (installed, built):
        folder.mkdir(parents=True)
        (folder / "__init__.py").touch()
        (folder / "deleted.py").touch()
    (tree / "ros2_ws/src/rollout_monitor_nodes/setup.py").touch()
    steps = {step.name: step for step in setup_env.plan(setup_env.choose_layout(tree, None, PLAIN), PLAIN)}
    assert steps["workspace: rollout_monitor_msgs"].stale == ()
    setup_env.run(replace(steps["workspace: rollout_monitor_nodes"], commands=[]), tree / "log" / "setup.log")
    assert not list(tree.glob("ros2_ws/**/deleted.py"))


def test_cmake_exports_are_repointed_once(setup_env: ModuleType, tmp_path: Path) -> None:
    export = tmp_path / "share" / "std_msgs" / "cmake" / "export.cmake"
    export.parent.mkdir(parents=True)
    before = (
        'INTERFACE_INCLUDE_DIRECTORIES "${_IMPORT_PREFIX}/include;/opt/python/cp311-cp311/include/python3.11;'
        '/opt/python/cp311-cp311/lib/python3.11/site-packages/numpy/_core/include"\n'
    )
    export.write_text(before, encoding="utf-8")
    assert setup_env.repoint_exports(tmp_path, "/usr/include/python3.11", "/v/numpy/include") == 1
    assert export.read_text(encoding="utf-8") == (
        'INTERFACE_INCLUDE_DIRECTORIES "${_IMPORT_PREFIX}/include;/usr/include/python3.11;/v/numpy/include"\n'
    )
    assert setup_env.repoint_exports(tmp_path, "/usr/include/python3.11", "/v/numpy/include") == 0


def test_dry_run_prints_and_does_nothing(root: Path) -> None:
    before = sorted(path.name for path in root.iterdir())
    env = {key: value for key, value in os.environ.items() if key not in ("ROS_DISTRO", "ROLLOUT_MONITOR_ROS")}
    done = subprocess.run(
        [sys.executable, str(root / "scripts" / "setup_env.py"), "--distro", "kilted", "--dry-run"],
        capture_output=True, text=True, check=True, env=env,
    )  # fmt: skip
    assert "# ROS 2 kilted and Python packages" in done.stdout
    assert "--packages-select rollout_monitor_msgs" in done.stdout
    assert sorted(path.name for path in root.iterdir()) == before


def test_the_checks_that_old_interpreters_reach_come_first(root: Path) -> None:
    lines = (root / "scripts" / "setup_env.py").read_text(encoding="utf-8").splitlines()
    code = [line for line in lines[lines.index("import sys") :] if line]
    assert code[1].startswith("if sys.version_info < (3, 10):")
    assert not any("from __future__" in line for line in lines)
