"""The supervisor with real processes: small Python scripts in the place of nodes."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from rollout_monitor.bringup.stack import RESPAWN_LIMIT, Process
from rollout_monitor.bringup.supervisor import Patience, Printer, Supervisor, ended, interpreter_for
from rollout_monitor.errors import InputError

DEADLINE_S = 60.0
WAITS = "import signal, time\nprint('ready')\nsignal.pause()\n"
STOPS = "import signal, sys\nsignal.signal(signal.SIGINT, lambda *_: sys.exit(0))\nprint('ready')\nsignal.pause()\n"
HASTE = Patience(stop=10 * DEADLINE_S, respawn=0.01, respawn_longest=0.02, settled=10 * DEADLINE_S)
"""Starts again at once, but gives who is asked to end all the time that a busy machine takes."""


class Screen(io.StringIO):
    """What was printed, with a call on every line, inside the supervisor's own loop."""

    def __init__(self, on_line: Callable[[str], None] = lambda _: None) -> None:
        super().__init__()
        self._on_line = on_line

    def write(self, text: str) -> int:
        written = super().write(text)
        self._on_line(text)
        return written


class Stage:
    """Makes executables and runs a supervisor over them until it ends."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[Process] = []
        self.screen = Screen()

    def add(self, name: str, code: str, respawn: bool = False, required: bool = True) -> Stage:
        (self.folder / name).write_text(f"#!/usr/bin/env python3\n{code}", encoding="utf-8")
        self.processes.append(Process(name, "p", name, "/ur5e", {"queue": 3}, (("a", "b"),), respawn, required, "info"))
        return self

    def run(self, react: Callable[[Supervisor, str], None] = lambda *_: None, patience: Patience = HASTE) -> int:
        self.screen = Screen(lambda line: react(supervisor, line))
        printer = Printer([process.name for process in self.processes], self.screen, colour=False)
        supervisor = Supervisor(self.processes, printer, lambda process: self.folder / process.executable, patience)
        return asyncio.run(asyncio.wait_for(supervisor.run(), DEADLINE_S))

    @property
    def lines(self) -> list[str]:
        return self.screen.getvalue().splitlines()


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def stop_at(word: str, times: int = 1, signal_number: int | None = None) -> Callable[[Supervisor, str], None]:
    """Stop once as many lines with the word were seen: by the supervisor's method, or by a signal to this process."""
    seen = 0

    def react(supervisor: Supervisor, line: str) -> None:
        nonlocal seen
        seen += word in line
        if word in line and seen == times:
            if signal_number is None:
                supervisor.stop("test")
            else:
                os.kill(os.getpid(), signal_number)

    return react


def test_lines_come_behind_names_and_all_end_when_asked(stage: Stage) -> None:
    stage.add("first", STOPS).add("second_node", STOPS)
    assert stage.run(stop_at("ready", times=2)) == 0
    assert "      first | ready" in stage.lines
    assert "second_node | ready" in stage.lines
    starts = [line for line in stage.lines if "started" in line]
    assert "first" in starts[0]
    assert "second_node" in starts[1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_passed_on_as_sigint(stage: Stage, number: int) -> None:
    stage.add("node", STOPS)
    assert stage.run(stop_at("ready", signal_number=number)) == 0
    assert any(f"stopping ({signal.Signals(number).name})" in line for line in stage.lines)


def test_an_interrupted_python_program_has_stopped_cleanly(stage: Stage) -> None:
    assert stage.add("node", WAITS).run(stop_at("ready")) == 0


def test_who_does_not_hear_is_terminated_and_then_killed_with_its_children(stage: Stage) -> None:
    """As ``ros2 launch`` does it: SIGINT, SIGTERM after 5 s, SIGKILL after 10 s (SMACC2#640)."""
    deaf = (
        "import signal, subprocess, sys\n"
        "for number in (signal.SIGINT, signal.SIGTERM): signal.signal(number, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'])\n"
        "print('child', child.pid, 'ready')\n"
        "while True: signal.pause()\n"
    )
    assert stage.add("deaf", deaf).run(stop_at("ready"), replace(HASTE, stop=0.3)) == 1
    text = stage.screen.getvalue()
    assert text.index("deaf still running: SIGTERM") < text.index("deaf still running: SIGKILL")
    assert "deaf did not stop cleanly: it was ended by SIGKILL" in text
    child = int(next(line for line in stage.lines if "child" in line).split()[-2])
    wait_until(lambda: not alive(child))


def test_asked_twice_the_next_signal_comes_at_once(stage: Stage) -> None:
    deaf_once = (
        "import signal, sys\nsignal.signal(signal.SIGINT, lambda *_: print('heard'))\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\nprint('ready')\nwhile True: signal.pause()\n"
    )
    stage.add("node", deaf_once)

    def twice(supervisor: Supervisor, line: str) -> None:
        if "ready" in line or "heard" in line:
            supervisor.stop("test")

    # With a patience beyond the deadline, only the second request can bring SIGTERM.
    assert stage.run(twice) == 0


def test_a_required_node_that_ends_takes_the_rest_along_and_is_named(stage: Stage) -> None:
    stage.add("stays", WAITS).add("dies", "import sys\nprint('why')\nsys.exit(7)\n")
    assert stage.run() == 1
    assert any("dies ended with exit code 7" in line for line in stage.lines)
    assert any("stopping (dies is required)" in line for line in stage.lines)
    assert any("dies | why" in line for line in stage.lines)


def test_even_a_required_node_that_ends_with_zero_is_a_failed_run(stage: Stage) -> None:
    assert stage.add("node", "").run() == 1


def test_a_node_that_is_not_required_leaves_the_rest_alone(stage: Stage) -> None:
    stage.add("stays", STOPS).add("crashes", "import os\nos.abort()\n", required=False)
    missing = {"crashes was ended by SIGABRT", "stays | ready"}

    def stop_when_both_happened(supervisor: Supervisor, line: str) -> None:
        found = {words for words in missing if words in line}
        missing.difference_update(found)
        if found and not missing:
            supervisor.stop("test")

    assert stage.run(stop_when_both_happened) == 0


def test_a_crashed_node_is_started_again_until_it_stays(stage: Stage) -> None:
    count = stage.folder / "count"
    code = (
        f"import pathlib, signal, sys\np = pathlib.Path({str(count)!r})\n"
        "n = len(p.read_text()) if p.exists() else 0\np.write_text('x' * (n + 1))\n"
        "if n < 2: sys.exit(5)\nsignal.signal(signal.SIGINT, lambda *_: sys.exit(0))\nprint('ready')\nsignal.pause()\n"
    )
    assert stage.add("node", code, respawn=True).run(stop_at("ready")) == 0
    again = [line for line in stage.lines if "exit code 5; starting it again in" in line]
    assert [line.rsplit(" ", 2)[1] for line in again] == ["0.01", "0.02"]


def test_restarts_in_a_row_are_limited(stage: Stage) -> None:
    assert stage.add("node", "import sys\nsys.exit(5)\n", respawn=True).run() == 1
    assert sum("started" in line for line in stage.lines) == RESPAWN_LIMIT + 1
    assert any(f"exit code 5 after {RESPAWN_LIMIT} restarts" in line for line in stage.lines)


def test_wrong_parameters_are_not_tried_again(stage: Stage) -> None:
    assert stage.add("node", "import sys\nsys.exit(2)\n", respawn=True).run() == 1
    assert sum("started" in line for line in stage.lines) == 1
    assert any("cannot run like this" in line for line in stage.lines)


def test_a_stop_during_the_wait_for_a_restart_is_heard(stage: Stage) -> None:
    stage.add("node", "import sys\nsys.exit(5)\n", respawn=True)
    slow = replace(HASTE, respawn=10 * DEADLINE_S, respawn_longest=10 * DEADLINE_S)
    assert stage.run(stop_at("starting it again"), slow) == 0


def test_a_node_gets_its_command_line_and_its_parameter_file(stage: Stage) -> None:
    code = "import pathlib, sys\nprint(sys.argv[1:])\nprint(pathlib.Path(sys.argv[9]).read_text())\n"
    stage.add("node", code).run()
    text = stage.screen.getvalue()
    assert "'__node:=node', '-r', '__ns:=/ur5e', '-r', 'a:=b', '--params-file'" in text
    body = "\n".join(line.split("| ", 1)[1] for line in stage.lines if "| " in line and "up |" not in line)
    assert yaml.safe_load(body[body.index("/**") :].split("\n\n")[0]) == {"/**": {"ros__parameters": {"queue": 3}}}


def test_what_moves_the_cursor_is_taken_out_and_long_lines_pass(stage: Stage) -> None:
    code = "print('a\\x1b[2Jb\\rc\\x07\\x1b[31md')\nprint('y' * 300000)\nimport sys\nsys.stdout.write('no newline')\n"
    stage.add("node", code).run()
    assert "node | a[2Jbc\x1b[31md" in stage.lines
    assert "node | " + "y" * 300000 in stage.lines
    assert "node | no newline" in stage.lines


def test_a_file_that_cannot_be_executed_ends_the_rest_and_is_named(stage: Stage) -> None:
    stage.add("stays", WAITS).add("broken", "", respawn=True)
    (stage.folder / "broken").write_bytes(b"\x7fELF, but not really")
    assert stage.run() == 1
    assert any("broken |" in line and "cannot be started" in line for line in stage.lines)
    assert any("stopping (broken is required)" in line for line in stage.lines)


def test_a_missing_executable_stops_before_anything_starts(stage: Stage) -> None:
    def find(process: Process) -> Path:
        raise InputError(f"{process.name} is not built")

    stage.add("node", WAITS)
    with pytest.raises(InputError, match="node is not built"):
        asyncio.run(Supervisor(stage.processes, Printer([], stage.screen), find).run())
    assert stage.lines == []


def test_colours_end_with_the_line() -> None:
    screen = Screen()
    printer = Printer(["node"], screen, colour=True)
    printer.node("node", "\x1b[31mred")
    printer.news("news", bad=True)
    assert all(line.endswith("\x1b[0m") for line in screen.getvalue().splitlines())


def test_python_scripts_run_on_this_interpreter_and_others_as_they_are(tmp_path: Path) -> None:
    script, binary = tmp_path / "script", tmp_path / "binary"
    script.write_text("#!/path with blanks/bin/python3\n", encoding="utf-8")
    binary.write_bytes(b"\x7fELF")
    assert interpreter_for(script) == [sys.executable, str(script)]
    assert interpreter_for(binary) == [str(binary)]


def test_ways_to_end_in_words() -> None:
    assert ended(3) == "ended with exit code 3"
    assert ended(-signal.SIGSEGV) == "was ended by SIGSEGV"
    assert ended(-200) == "ended with exit code -200"


def test_nodes_do_not_outlive_a_killed_supervisor(prefix: Path) -> None:
    for name in ("prm_node", "monitor_node", "recorder", "overlay_node"):
        path = prefix / "lib" / "rollout_monitor_nodes" / name
        path.write_text("#!/usr/bin/env python3\nimport os, signal\nprint('pid', os.getpid())\nsignal.pause()\n")
    command = [sys.executable, "-c", "from rollout_monitor.cli.main import main; main(['up'])"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as up:
        assert up.stdout is not None
        pids: list[int] = []
        while len(pids) < 4:
            line = up.stdout.readline()
            assert line, "the supervisor ended before its nodes ran"
            if "| pid" in line:
                pids.append(int(line.split()[-1]))
        up.kill()
        wait_until(lambda: not any(alive(pid) for pid in pids))


def alive(pid: int) -> bool:
    """Whether the process runs; one that ended and was not waited for does not."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return False


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.01)
