"""What nodes ask of the folders they keep things in: can it be written, what is there of an attempt already."""

from __future__ import annotations

import json
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

import yaml

from rollout_monitor.errors import InputError
from rollout_monitor.store.episodes import REPORT
from rollout_monitor.store.recording import ACTIVE_SUFFIX, ENDED_EARLY

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


@dataclass(frozen=True)
class Recording:
    """A bag of an attempt.

    Attributes:
        folder: the bag's.
        ended_early: why it ended before its attempt; empty while it is being made.
    """

    folder: Path
    ended_early: str = ""


def attempt_data(episode_id: str, start_ns: int) -> dict[str, str]:
    """What a bag's custom data say about the attempt in it."""
    return {"episode_id": episode_id, "start_ns": str(start_ns)}


def recording_of(recordings: Path, episode_id: str, start_ns: int) -> Recording | None:
    """The bag in which a recorder is keeping this attempt right now, or kept it until its disk was full; if any."""
    for folder in reversed(numbered(recordings, episode_id)):
        if any(file.name.endswith(ACTIVE_SUFFIX) for file in folder.iterdir()):
            return Recording(folder)
        custom = _custom_data(folder)
        if ENDED_EARLY in custom and attempt_data(episode_id, start_ns).items() <= custom.items():
            return Recording(folder, custom[ENDED_EARLY])
    return None


def _custom_data(folder: Path) -> dict[str, str]:
    try:
        text = (folder / "metadata.yaml").read_text(encoding="utf-8")
        found = yaml.safe_load(text)["rosbag2_bagfile_information"]["custom_data"] if ENDED_EARLY in text else {}
        return dict(found)
    except (OSError, ValueError, TypeError, KeyError, yaml.YAMLError):
        return {}


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
