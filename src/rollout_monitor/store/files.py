"""Files that are either whole or not there: temporary name, fsync, rename."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def write_whole(path: Path, data: bytes) -> None:
    """Write ``data`` so that ``path`` is never seen half written, and survives a power cut once this returns.

    Raises:
        OSError: as the system says; ``path`` is then as it was before.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        write_synced(temporary, data)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def write_synced(path: Path, data: bytes) -> None:
    """Write a new file and wait until its bytes are on the disk. The file must not be there yet."""
    with path.open("xb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def sync_folder(folder: Path) -> None:
    """Make renames within ``folder`` durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def free_name(folder: Path, name: str) -> Path:
    """The first of ``name``, ``name-2``, ``name-3`` ... that nothing in ``folder`` is called yet."""
    candidate, number = folder / name, 1
    while candidate.exists() or candidate.is_symlink():
        number += 1
        candidate = folder / f"{name}-{number}"
    return candidate
