"""Labels: who or what said what about an attempt, and when. Facts are added, never changed or removed."""

from __future__ import annotations

import os
import re
from pathlib import Path

from pydantic import Field, ValidationError

from rollout_monitor.errors import StoreError
from rollout_monitor.records import Label, Record

_HASHTAG = re.compile(r"(?<!\S)#([\w:.+-]{1,60})")


def tags_of(note: str) -> list[str]:
    """Each ``#word`` of a note, without the mark."""
    return _HASHTAG.findall(note)


class LabelFact(Record):
    """One thing somebody said about one stored episode."""

    episode_id: str = Field(min_length=1, description="name of the episode's folder in the store")
    label: Label | None = Field(default=None, description="the outcome as they saw it; None for a mere note")
    who: str = Field(min_length=1, max_length=200, description="person or program")
    note: str = Field(default="", max_length=10_000)
    stamp_ns: int = Field(ge=0, description="when it was said, nanoseconds")

    @property
    def tags(self) -> list[str]:
        """The tags in the note: each ``#word``, without the mark."""
        return tags_of(self.note)


def append_fact(path: Path, fact: LabelFact) -> None:
    """Add one line to a ``labels.jsonl`` and wait until it is on the disk.

    Raises:
        OSError: as the system says.
    """
    line = fact.model_dump_json().encode() + b"\n"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            line = b"\n" + line  # a line torn by a crash stays by itself
        if os.write(descriptor, line) != len(line):
            raise OSError(28, "the line was written in part only", str(path))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_facts(path: Path) -> tuple[list[LabelFact], list[str]]:
    """Facts of a ``labels.jsonl`` in the order they were said, and a line about each that cannot be read.

    Raises:
        StoreError: the file is there but cannot be opened.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return [], []
    except OSError as error:
        raise StoreError(f"{path}: cannot be read: {error.strerror}; nothing was changed") from error
    facts, problems = [], []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            facts.append(LabelFact.model_validate_json(line))
        except ValidationError as error:
            problems.append(f"{path.name} line {number} is no label: {error.errors()[0]['msg']}")
    return facts, problems
