"""Turns SIGINT and SIGTERM into one calm request to stop, whatever the main thread is doing.

rclpy's own handlers shut the context down at once, and nothing can be published after that. And a Python handler would
not run as long as the main thread waits inside the executor. So the interpreter writes each signal's number into a
pipe, whichever thread the signal was delivered to, and a thread reads it there.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections.abc import Callable
from functools import cache

from rollout_monitor.bringup import shared_memory

STOP_SIGNALS = frozenset({signal.SIGINT, signal.SIGTERM})

EXIT_HURRIED = 130
"""Exit code of a node that was still finishing when it had to leave (128 + SIGINT)."""

HURRY_S = 1.0
"""How long a node may go on finishing after a second signal: to close a file, not to wait for anybody."""


@cache
def catch() -> StopSignals:
    """Catch the stop signals from now on; a second call gives the same. Call it in the main thread, early."""
    return StopSignals()


class StopSignals:
    """The stop signals that this process has got, and will get. There is one: see `catch`."""

    def __init__(self) -> None:
        self._read_end, write_end = os.pipe()
        os.set_blocking(write_end, False)
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        for number in STOP_SIGNALS:
            signal.signal(number, lambda *_: None)

    def on_stop(self, request: Callable[[str], None]) -> None:
        """Call ``request`` with the signal's name, from a thread of its own, when a stop signal comes or came.

        An operator who asks twice does not want to wait: ``request`` is called again, and a second later, or at the
        third signal, the process leaves whatever it is doing.
        """

        def wait() -> None:
            request(self._next().name)
            again = self._next()
            print(f"{again.name} again: leaving at once", file=sys.stderr, flush=True)
            request(again.name)
            if select.select([self._read_end], [], [], HURRY_S)[0]:
                self._next()
            print("leaving without finishing", file=sys.stderr, flush=True)
            shared_memory.remove_own()
            os._exit(EXIT_HURRIED)

        threading.Thread(target=wait, name="signals", daemon=True).start()

    def _next(self) -> signal.Signals:
        while True:
            number = os.read(self._read_end, 1)[0]
            if number in STOP_SIGNALS:
                return signal.Signals(number)
