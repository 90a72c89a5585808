"""Runs the processes of a stack where there is no ``ros2 launch``: starts, watches, restarts and stops them.

Every line of a node appears behind the node's name. A node that ends by itself is reported by name and exit code. A
stop is SIGINT, five seconds later SIGTERM, and five seconds later SIGKILL, as ``ros2 launch`` does it. What a killed
node leaves in shared memory is removed.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import re
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from rollout_monitor.bringup import shared_memory
from rollout_monitor.bringup.stack import RESPAWN_LIMIT, Process, find_executable

EXIT_USAGE = 2
"""A node's exit code for wrong parameters or a missing file: starting it again would not help."""

_ASKED_TO_STOP = (0, -signal.SIGINT, 128 + signal.SIGINT)
_ESCALATION = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
_COLOURS = (36, 32, 35, 34, 33, 96, 92, 95)  # ANSI foreground, told apart on light and dark ground; red is for trouble
_RED = 31
_CONTROL = re.compile(r"\x1b(?!\[[0-9;]*m)|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f]")  # all but tabs and colours
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_libc = ctypes.CDLL(None)


@dataclass(frozen=True)
class Patience:
    """How long things may take, in seconds.

    Attributes:
        stop: between SIGINT and SIGTERM, and between SIGTERM and SIGKILL.
        respawn: before the first restart; doubles with each further one in a row.
        respawn_longest: the longest wait before a restart.
        settled: a node that lived this long had a good start; its restarts are counted anew.
    """

    stop: float = 5.0
    respawn: float = 1.0
    respawn_longest: float = 30.0
    settled: float = 60.0


class Printer:
    """Writes lines behind the name of who said them, coloured on a terminal."""

    def __init__(self, names: Sequence[str], stream: TextIO | None = None, colour: bool | None = None) -> None:
        self._stream = stream or sys.stdout
        self._colour = self._stream.isatty() if colour is None else colour
        self._width = max((len(name) for name in names), default=0)
        self._colours = {name: _COLOURS[index % len(_COLOURS)] for index, name in enumerate(names)}

    @property
    def colour(self) -> bool:
        """Whether colours are written."""
        return self._colour

    def node(self, name: str, line: str) -> None:
        """One line that a node printed; what could move the cursor or fool the reader is taken out."""
        self._write(self._paint(f"{name:>{self._width}} |", self._colours.get(name, 0)), _CONTROL.sub("", line))

    def news(self, line: str, bad: bool = False) -> None:
        """One line of the supervisor itself."""
        self._write(self._paint(f"{'up':>{self._width}} |", _RED if bad else 0), self._paint(line, _RED if bad else 1))

    def _paint(self, text: str, code: int) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._colour else text

    def _write(self, head: str, line: str) -> None:
        tail = "\x1b[0m" if self._colour and "\x1b" in line else ""
        with contextlib.suppress(OSError):  # the reader or the terminal went away; the robot is still watched
            self._stream.write(f"{head} {line}{tail}\n")
            self._stream.flush()


class Supervisor:
    """Keeps the processes of a stack running until asked to stop, or until a required one is gone for good.

    Args:
        processes: what to run, in this order.
        printer: where their lines go.
        find: from a process to its executable file.
        patience: see `Patience`.
    """

    def __init__(
        self,
        processes: Sequence[Process],
        printer: Printer | None = None,
        find: Callable[[Process], Path] = find_executable,
        patience: Patience | None = None,
    ) -> None:
        self._processes = processes
        self._printer = printer or Printer([process.name for process in processes])
        self._find = find
        self._patience = patience or Patience()
        self._running: dict[str, asyncio.subprocess.Process] = {}
        self._stopping = asyncio.Event()
        self._hurry = asyncio.Event()
        self._exit = 0

    async def run(self) -> int:
        """Run everything to its end.

        Returns:
            0 when all ended as asked; 1 when a required node ended for good, or one did not stop cleanly.

        Raises:
            InputError: an executable is missing; nothing was started.
        """
        commands = {process.name: interpreter_for(self._find(process)) for process in self._processes}
        loop = asyncio.get_running_loop()
        shared_memory.remove_dead()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self.stop, signal.Signals(number).name)
        try:
            with tempfile.TemporaryDirectory(prefix="rollout_monitor_") as folder:
                await self._run_all(commands, Path(folder))
        finally:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                loop.remove_signal_handler(number)
        return self._exit

    def stop(self, reason: str) -> None:
        """Stop everything; asked again, go on to the next, harder signal at once."""
        if self._stopping.is_set():
            self._hurry.set()
            return
        self._printer.news(f"stopping ({reason})")
        self._stopping.set()

    async def _run_all(self, commands: Mapping[str, list[str]], folder: Path) -> None:
        tasks = []
        for process in self._processes:
            params_file = folder / f"{process.name}.yaml"
            params_file.write_text(process.parameter_file_text(), encoding="utf-8")
            command = [*commands[process.name], *process.ros_arguments(params_file)]
            started = asyncio.Event()
            tasks.append(asyncio.create_task(self._keep(process, command, started)))
            await started.wait()
        stopper = asyncio.create_task(self._stop_all())
        await asyncio.gather(*tasks)
        stopper.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await stopper

    async def _keep(self, process: Process, command: list[str], started: asyncio.Event) -> None:
        try:
            await self._repeat(process, command, started)
        finally:
            started.set()  # whatever came of it, the next one's turn has come

    async def _repeat(self, process: Process, command: list[str], started: asyncio.Event) -> None:
        """Run one node, again where it may be, until it has ended for good."""
        loop = asyncio.get_running_loop()
        restarts = 0
        while not self._stopping.is_set():
            begun = loop.time()
            code = await self._run_once(process, command, started)
            if self._stopping.is_set():
                self._judge_stop(process, code)
                break
            if loop.time() - begun >= self._patience.settled:
                restarts = 0
            if not process.respawn or code == EXIT_USAGE or restarts == RESPAWN_LIMIT:
                self._give_up(process, code, restarts)
                break
            delay = min(self._patience.respawn * 2**restarts, self._patience.respawn_longest)
            restarts += 1
            self._printer.news(f"{process.name} {ended(code)}; starting it again in {delay:g} s", bad=True)
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), delay)

    async def _run_once(self, process: Process, command: list[str], started: asyncio.Event) -> int:
        try:
            child = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env={**os.environ, "PYTHONUNBUFFERED": "1", "RCUTILS_COLORIZED_OUTPUT": str(int(self._printer.colour))},
                start_new_session=True,  # Ctrl-C reaches the nodes once, through the supervisor
                preexec_fn=_die_with_parent,
            )
        except OSError as error:
            self._printer.node(process.name, f"{command[0]} cannot be started: {error}")
            return EXIT_USAGE
        self._running[process.name] = child
        self._printer.news(f"{process.name} started (pid {child.pid})")
        started.set()
        if self._stopping.is_set():  # asked to stop while this one was being started
            child.send_signal(signal.SIGINT)
        assert child.stdout is not None  # noqa: S101 - a pipe was asked for
        reader = asyncio.create_task(self._pass_on(process.name, child.stdout))
        code = await child.wait()
        del self._running[process.name]
        await asyncio.wait([reader], timeout=1.0)  # a grandchild may hold the pipe open for ever
        reader.cancel()
        if code < 0:
            shared_memory.remove_dead()
        return code

    async def _pass_on(self, name: str, stream: asyncio.StreamReader) -> None:
        pending = b""
        while chunk := await stream.read(1 << 16):
            *lines, pending = (pending + chunk).split(b"\n")
            for line in lines:
                self._printer.node(name, line.decode("utf-8", errors="replace"))
        if pending:
            self._printer.node(name, pending.decode("utf-8", errors="replace"))

    async def _stop_all(self) -> None:
        """Once a stop is asked for, send harder and harder signals to whatever still runs."""
        await self._stopping.wait()
        for number in _ESCALATION:
            if number != _ESCALATION[0] and self._running:
                self._printer.news(f"{', '.join(self._running)} still running: {number.name}", bad=True)
            for child in list(self._running.values()):
                with contextlib.suppress(ProcessLookupError):
                    if number == signal.SIGKILL:
                        os.killpg(child.pid, number)  # and whatever it started
                    else:
                        child.send_signal(number)
            self._hurry.clear()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._hurry.wait(), self._patience.stop)

    def _judge_stop(self, process: Process, code: int) -> None:
        if code not in _ASKED_TO_STOP:
            self._printer.news(f"{process.name} did not stop cleanly: it {ended(code)}", bad=True)
            self._exit = 1

    def _give_up(self, process: Process, code: int, restarts: int) -> None:
        why = " (it cannot run like this; see its line above)" if code == EXIT_USAGE else ""
        tries = f" after {restarts} restarts" if restarts else ""
        self._printer.news(f"{process.name} {ended(code)}{why}{tries}", bad=True)
        if process.required:
            self._exit = 1
            self.stop(f"{process.name} is required")


def ended(code: int) -> str:
    """How a process ended, in words."""
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"was ended by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"


def interpreter_for(executable: Path) -> list[str]:
    """The command that runs a file: Python scripts run on this interpreter, whatever path their first line names."""
    with executable.open("rb") as stream:
        first = stream.readline(256)
    return [sys.executable, str(executable)] if first.startswith(b"#!") and b"python" in first else [str(executable)]


def _die_with_parent() -> None:
    """Let the kernel end the node when the supervisor is killed: no node stays behind unseen."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
