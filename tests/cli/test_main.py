"""The command line as a whole: help, exit codes, one line for an error."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rollout_monitor import __version__
from rollout_monitor.cli.main import COMMANDS

MAIN = "from rollout_monitor.cli.main import main; main()"


def run(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "AMENT_PREFIX_PATH": "", "COLUMNS": "200", "NO_COLOR": "1", **more}
    return subprocess.run(
        [sys.executable, "-c", MAIN, *arguments], capture_output=True, text=True, check=False, env=env
    )


def test_every_module_that_registers_a_command_is_listed(root: Path) -> None:
    modules = (root / "src" / "rollout_monitor" / "cli").glob("*.py")
    assert {path.stem for path in modules if "def register(" in path.read_text(encoding="utf-8")} == set(COMMANDS)


def test_help_lists_every_command() -> None:
    done = run("--help")
    assert done.returncode == 0
    for name in COMMANDS:
        assert f" {name} " in done.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command: str) -> None:
    done = run(command, "--help")
    assert done.returncode == 0, done.stderr
    assert f"rollout-monitor {command}" in done.stdout


def test_version() -> None:
    assert run("--version").stdout == f"rollout-monitor {__version__}\n"


@pytest.mark.parametrize("arguments", [("nosuch",), ("up", "--nosuch"), ("up", "--namespace")])
def test_wrong_usage_is_exit_code_2(arguments: tuple[str, ...]) -> None:
    assert run(*arguments).returncode == 2


def test_bad_input_is_one_line_and_exit_code_2() -> None:
    done = run("up", "--namespace", "a b")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: namespace 'a b'")
    assert len(done.stderr.splitlines()) == 1


def test_debug_shows_where_an_error_was_raised() -> None:
    done = run("--debug", "up", "--namespace", "a b")
    assert done.returncode != 0
    assert "Traceback" in done.stderr
    assert "checked_namespace" in done.stderr


def test_a_command_imports_no_other() -> None:
    code = (
        "import sys; from rollout_monitor.cli.main import main\n"
        "try: main(['up', '--help'])\nexcept SystemExit: pass\n"
        "print([name for name in sys.modules if name in ('scipy', 'cv2', 'onnxruntime', 'rollout_monitor.cli.sim')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
