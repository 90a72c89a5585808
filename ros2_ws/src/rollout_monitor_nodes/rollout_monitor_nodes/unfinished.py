"""Remembers on the disk which attempt runs, so that a monitor that was killed can take it up again or report it.

The file lies in the store, one per node, and holds the START marker and, once it was heard, the END marker. It is
written before anything else is done about a marker and goes when the report is kept. A kill leaves it whole; only a
power cut may lose it, for nothing waits for the disk here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from rollout_monitor.records import EpisodeMarker


class Unfinished(BaseModel):
    """An attempt without a report."""

    model_config = ConfigDict(frozen=True)

    start: EpisodeMarker
    end: EpisodeMarker | None = None


@dataclass(frozen=True)
class UnfinishedFile:
    """Where it is written down.

    Attributes:
        path: the file.
        on_trouble: called with why it could not be written; the attempt goes on without.
    """

    path: Path
    on_trouble: Callable[[str], None]

    @classmethod
    def of_node(cls, store: Path, node: str, on_trouble: Callable[[str], None]) -> UnfinishedFile:
        """The file of a node, by its full name: several may share a store."""
        return cls(store / f".unfinished{node.replace('/', '.')}.json", on_trouble)

    def write(self, unfinished: Unfinished) -> None:
        """Write it down, replacing what was there."""
        temporary = self.path.with_suffix(".tmp")
        try:
            temporary.write_text(unfinished.model_dump_json(), encoding="utf-8")
            temporary.replace(self.path)
        except OSError as error:
            self.on_trouble(
                f"{self.path}: {error.strerror or error}: this attempt would be lost if the node was killed"
            )

    def read(self) -> Unfinished | None:
        """What an earlier process left; None where nothing is, or nothing that can be read (then it says so)."""
        try:
            return Unfinished.model_validate_json(self.path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError):
            self.on_trouble(f"{self.path} cannot be read: if an attempt was running it has no report")
            return None

    def clear(self, episode_id: str, start_ns: int) -> None:
        """The attempt has its report; what is written of a later one stays."""
        left = self.read()
        if left is not None and (left.start.episode_id, left.start.stamp_ns) == (episode_id, start_ns):
            try:
                self.path.unlink(missing_ok=True)
            except OSError as error:
                self.on_trouble(f"{self.path} cannot be removed: {error.strerror or error}")
