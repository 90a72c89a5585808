"""What nodes ask of the folders they keep things in: can it be written, and is an attempt's report there already."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path

from rollout_monitor.errors import InputError
from rollout_monitor.store.episodes import REPORT

_NUMBER = re.compile(r"(-[0-9]+)?")


def numbered(folder: Path, name: str) -> list[Path]:
    """What is called ``name``, ``name-2``, ``name-3`` ... in a folder, as the store numbers names that were taken."""
    found = sorted(folder.glob(f"{name}*")) if folder.is_dir() else []
    return [path for path in found if _NUMBER.fullmatch(path.name.removeprefix(name))]


def stored_report(store: Path, episode_id: str, start_ns: int) -> Path | None:
    """The folder with the report of the attempt that began at this stamp, if there is one that can be read."""
    for folder in numbered(store, episode_id):
        try:
            report = json.loads((folder / REPORT).read_bytes())
        except (OSError, ValueError):
            continue
        if isinstance(report, dict) and report.get("start_ns") == start_ns:
            return folder
    return None


def ensure_writable(folder: Path, parameter: str) -> None:
    """Make a folder and write into it, now rather than after an attempt.

    Raises:
        InputError: it cannot be made or written; names the parameter.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"parameter '{parameter}': {folder} cannot be written: {reason}") from error
