"""Turns SIGINT and SIGTERM into one calm request to stop, whatever the main thread is doing.

rclpy's own handlers shut the context down at once, and nothing can be published after that. Here the signals are
blocked in every thread and one thread waits for them, so that a node can still write and publish what it has.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable

STOP_SIGNALS = frozenset({signal.SIGINT, signal.SIGTERM})

EXIT_HURRIED = 130
"""Exit code when a second signal ends a node that was still finishing (128 + SIGINT)."""


def hold() -> None:
    """Block the stop signals in this thread and in all threads it starts from now on."""
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    for number in STOP_SIGNALS:
        # A shell starts background jobs with SIGINT ignored, and an ignored signal would never be waited for.
        signal.signal(number, lambda *_: None)


def on_stop(request: Callable[[str], None]) -> None:
    """Call ``request`` with the signal's name, from a thread of its own, when the first stop signal comes.

    A second one ends the process at once: an operator who asks twice does not want to wait. Call `hold` before.
    """

    def wait() -> None:
        first = signal.Signals(signal.sigwait(STOP_SIGNALS))
        request(first.name)
        second = signal.Signals(signal.sigwait(STOP_SIGNALS))
        print(f"{second.name} again: leaving without finishing", file=sys.stderr, flush=True)
        os._exit(EXIT_HURRIED)

    threading.Thread(target=wait, name="signals", daemon=True).start()
