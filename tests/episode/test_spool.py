"""Rows that go to a temporary file come back as they were, also where the file cannot be written."""

from __future__ import annotations

import errno
import struct
import tempfile
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollout_monitor.episode.spool import Spool

ROW = [("stamp", "<i8"), ("positions", "<f8", (2,))]
finite = st.floats(allow_nan=False)


@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), finite, finite), max_size=60), st.integers(1, 400))
def test_rows_come_back_in_order_however_often_they_are_written_out(
    values: list[tuple[int, float, float]], spill_bytes: int
) -> None:
    spool = Spool(ROW, spill_bytes)
    for stamp, one, two in values:
        spool.append(struct.pack("<qdd", stamp, one, two))
    rows = spool.rows()
    assert len(spool) == len(rows) == len(values)
    assert rows["stamp"].tolist() == [value[0] for value in values]
    assert rows["positions"].tolist() == [list(value[1:]) for value in values]


def test_a_row_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match="24 bytes, not 3"):
        Spool(ROW).append(b"abc")


class FullDisk:
    """A file on a disk with room for ``room`` bytes, which takes what fits, as a real one does."""

    def __init__(self, room: int) -> None:
        self.data = bytearray()
        self.room = room

    def seek(self, place: int) -> None:
        self.place = place

    def write(self, data: bytes) -> int:
        taken = bytes(data[: self.room - self.place])
        if not taken:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.data[self.place :] = taken
        return len(taken)

    def readinto(self, target: Any) -> int:
        target[:] = self.data[self.place : self.place + len(target)]
        return len(target)


@pytest.mark.parametrize("room", [0, 100, 1000])
def test_a_full_disk_costs_memory_and_no_row(monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: FullDisk(room))
    spool = Spool(ROW, spill_bytes=48)
    for number in range(100):
        spool.append(struct.pack("<qdd", number, number + 0.5, -number))
    assert spool.rows()["stamp"].tolist() == list(range(100))
    np.testing.assert_array_equal(spool.rows()["positions"][:, 0], np.arange(100) + 0.5)


def test_without_a_place_for_temporary_files_rows_stay_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> None:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    spool = Spool(ROW, spill_bytes=48)
    for number in range(10):
        spool.append(struct.pack("<qdd", number, 0.0, 0.0))
    assert spool.rows()["stamp"].tolist() == list(range(10))
