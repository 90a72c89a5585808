"""Rows of an episode that may last for hours: the newest in memory, the others in an unnamed temporary file."""

from __future__ import annotations

import tempfile
from typing import IO, Any

import numpy as np
import numpy.typing as npt

SPILL_BYTES = 1 << 18
"""Rows held in memory before they go to the file."""


class Spool:
    """An append-only table of one row type.

    The file has no name, so it is gone with the process, however that ends. Where none can be written (no room, no
    place for temporary files) the rows stay in memory: nothing is lost.

    Args:
        dtype: numpy type of one row; `append` takes rows in this layout.
        spill_bytes: how much is held before it is written out.
    """

    def __init__(self, dtype: npt.DTypeLike, spill_bytes: int = SPILL_BYTES) -> None:
        self._dtype = np.dtype(dtype)
        self._limit = spill_bytes
        self._recent = bytearray()
        self._file: IO[bytes] | None = None
        self._written = 0
        self._spills = True

    def append(self, row: bytes) -> None:
        """Add one row.

        Args:
            row: its bytes, as long as the row type.
        """
        if len(row) != self._dtype.itemsize:
            raise ValueError(f"a row has {self._dtype.itemsize} bytes, not {len(row)}")
        self._recent += row
        if self._spills and len(self._recent) >= self._limit:
            self._spill()

    def __len__(self) -> int:
        return (self._written + len(self._recent)) // self._dtype.itemsize

    def rows(self) -> npt.NDArray[Any]:
        """All rows in their order, a copy of shape (n,)."""
        out = np.empty(len(self), dtype=self._dtype)
        raw = out.view(np.uint8)
        if self._file is not None:
            self._file.seek(0)
            read = self._file.readinto(raw[: self._written])  # type: ignore[attr-defined]
            if read != self._written:
                raise OSError(f"the temporary file gave {read} of {self._written} bytes back")
        raw[self._written :] = np.frombuffer(self._recent, dtype=np.uint8)
        return out

    def _spill(self) -> None:
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - lives as long as this object
            self._file.seek(self._written)
            count = self._file.write(self._recent)
        except OSError:
            self._spills = False
            return
        # A disk that fills may take a part: what it took is there, the rest stays here.
        self._written += count
        del self._recent[:count]
        self._spills = not self._recent
