"""ROS domains for tests: each run, also one that goes on beside it on the same machine, has its own."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DOMAINS = range(60, 100)


@contextmanager
def domain_of_our_own() -> Iterator[int]:
    """A domain that no other test on this machine uses, also of another run: they would hear each other's robots."""
    folder = Path(tempfile.gettempdir()) / f"rollout-monitor-domains-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    first = os.getpid() % len(DOMAINS)
    for domain in (*DOMAINS[first:], *DOMAINS[:first]):
        with (folder / str(domain)).open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            yield domain
            return
    raise RuntimeError(f"all domains from {DOMAINS[0]} to {DOMAINS[-1]} are in use")
