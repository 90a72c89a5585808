"""Bounds how long a node takes to leave: what was kept is on the disk by then, and a node that hangs helps nobody.

A DDS participant that is destroyed while another leaves can spin for ever, and holds the interpreter meanwhile
(eProsima/Fast-DDS#6513). So the watchdog is one that needs no Python: it prints where every thread is and ends the
process with exit code 1. The shared memory that is left then is removed by whoever starts or ends nodes next.
"""

from __future__ import annotations

import faulthandler
from collections.abc import Iterator
from contextlib import contextmanager

FINISH_S = 90.0
"""From the first stop signal: more than the longest wait that a parameter allows (the recorder's, for a report)."""

CLOSE_S = 30.0
"""For closing files. A recording that a dying disk still holds up then stays as what a kill leaves: readable."""

LEAVE_S = 5.0
"""For the middleware, when all is closed."""

_STDERR = 2


def leave_within(seconds: float) -> None:
    """End the process if it is still there after so long; a later bound takes the place of this one."""
    faulthandler.dump_traceback_later(seconds, exit=True, file=_STDERR)


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """End the process if what is done here takes longer; lifts any bound when it is done."""
    leave_within(seconds)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
