"""Turns SIGINT and SIGTERM into one calm request to stop, whatever the main thread is doing.

rclpy's own handlers shut the context down at once, and nothing can be published after that. And a Python handler would
not run as long as the main thread waits inside the executor. So the interpreter writes each signal's number into a
pipe, whichever thread the signal was delivered to, and a thread reads it there.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from functools import cache

STOP_SIGNALS = frozenset({signal.SIGINT, signal.SIGTERM})

EXIT_HURRIED = 130
"""Exit code when a second signal ends a node that was still finishing (128 + SIGINT)."""


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
        """Call ``request`` with the signal's name, from a thread of its own, when the first stop signal comes or came.

        A second one ends the process at once: an operator who asks twice does not want to wait.
        """

        def wait() -> None:
            caught = self._caught()
            request(next(caught).name)
            print(f"{next(caught).name} again: leaving without finishing", file=sys.stderr, flush=True)
            os._exit(EXIT_HURRIED)

        threading.Thread(target=wait, name="signals", daemon=True).start()

    def _caught(self) -> Iterator[signal.Signals]:
        while True:
            for number in os.read(self._read_end, 64):
                if number in STOP_SIGNALS:
                    yield signal.Signals(number)
