"""Removes the shared-memory segments of Fast DDS that a killed process left: 64 MB each, and nobody else does it.

Each segment ``fastdds_<id>`` (``fastrtps_<id>`` up to Jazzy) has a file ``..._el`` beside it, on which its owner holds
an exclusive lock for as long as it lives, in whatever container. The kernel lets go of the lock with the process, so a
segment whose lock can be had belongs to nobody.

Ports (``..._port7000``, 50 kB) are shared between processes and stay behind, also where everybody ended in good order.
When a few dozen lie about, nodes that start begin to miss each other. They are removed when no process holds any lock:
a process that starts locks its segment before it opens a port, so none can be about to use one. A lock can only be
tried, and a process that wants it just then does without, deaf: no port's lock is tried while anybody has a segment.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
import time
from contextlib import suppress
from pathlib import Path

SHM = Path("/dev/shm")  # noqa: S108 - where Fast DDS keeps them
SETTLED_S = 2.0
"""A younger lock file may be of a process that has made it and takes its lock in the next microsecond."""

_LOCK = re.compile(r"fast(dds|rtps)_[0-9a-f]{16}_el")
_ANY_LOCK = re.compile(r"fast(dds|rtps)_\w+_[es]l")
_PORT = re.compile(r"fast(dds|rtps)_port\d+")


def remove_dead(folder: Path = SHM, settled_s: float = SETTLED_S) -> list[Path]:
    """Remove the segments of this user whose owners have ended.

    Args:
        folder: where the segments are.
        settled_s: segments younger than this are left for another time, s.

    Returns:
        The segments that were removed.
    """
    try:
        locks = [Path(entry.path) for entry in os.scandir(folder) if _LOCK.fullmatch(entry.name)]
    except OSError:
        return []
    removed = [segment for lock in sorted(locks) if (segment := _remove_if_dead(lock, settled_s)) is not None]
    return removed + _remove_ports(folder, settled_s)


def _remove_ports(folder: Path, settled_s: float) -> list[Path]:
    """Remove this user's ports, their locks and mutexes, if nobody holds a lock."""
    names = [entry.name for entry in os.scandir(folder)]
    ports = [folder / name for name in names if _PORT.fullmatch(name)]
    locks = sorted(filter(_ANY_LOCK.fullmatch, names), key=lambda name: _LOCK.fullmatch(name) is None)  # segments first
    if not ports or any(_held(folder / name, settled_s) for name in locks):
        return []
    removed = []
    for port in sorted(ports):
        with suppress(OSError):
            about = port.lstat()
            young = time.time() - about.st_mtime < settled_s
            if not stat.S_ISREG(about.st_mode) or about.st_uid != os.getuid() or young:
                continue
            port.unlink()
            removed.append(port)
            for name in (f"{port.name}_el", f"{port.name}_sl", f"sem.{port.name}_mutex"):
                port.with_name(name).unlink(missing_ok=True)
    return removed


def _held(lock: Path, settled_s: float) -> bool:
    """Whether a process holds the lock; one that is young or cannot be looked at counts as held."""
    try:
        if time.time() - lock.lstat().st_mtime < settled_s:
            return True
        descriptor = os.open(lock, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        # Several readers may share the lock of a port (..._sl); all others are exclusive.
        kind = fcntl.LOCK_EX if lock.name.endswith("_sl") else fcntl.LOCK_SH
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def remove_own(folder: Path = SHM) -> None:
    """Remove the segments of the calling process, which is about to leave without its destructors."""
    for link in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            lock = link.readlink()
            if lock.parent == folder and _LOCK.fullmatch(lock.name):
                _segment(lock).unlink(missing_ok=True)
                lock.unlink(missing_ok=True)


def _remove_if_dead(lock: Path, settled_s: float) -> Path | None:
    try:
        descriptor = os.open(lock, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return None  # gone meanwhile, a link, or another user's
    try:
        about = os.fstat(descriptor)
        of_this_user = stat.S_ISREG(about.st_mode) and about.st_uid == os.getuid()
        if not of_this_user or time.time() - about.st_mtime < settled_s:
            return None
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _segment(lock).unlink(missing_ok=True)
        lock.unlink(missing_ok=True)
    except OSError:
        return None  # locked: its owner lives
    finally:
        os.close(descriptor)
    return _segment(lock)


def _segment(lock: Path) -> Path:
    return lock.with_name(lock.name.removesuffix("_el"))
