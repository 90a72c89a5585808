"""The few pictures an episode report keeps: thinned as they come, picked by stamp at the end."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

_BACK_NS = 1_000_000_000
_HEARD_LATE_NS = 10_000_000_000  # a START is heard within seconds of its stamp


@dataclass(frozen=True)
class Picture:
    """One JPEG picture of one camera."""

    stamp_ns: int
    camera: str
    jpeg: bytes


class PictureClock:
    """Says which frames are worth a picture: the first in every period of stamps, so live and offline agree."""

    def __init__(self, period_s: float = 0.5) -> None:
        self._period_ns = period_s * 1e9
        self._tick = -1

    def wants(self, stamp_ns: int) -> bool:
        """Whether the frame with this stamp should be kept."""
        tick = int(stamp_ns // self._period_ns)
        if tick == self._tick:
            return False
        self._tick = tick
        return True


class PictureBook:
    """Holds at most ``limit`` pictures of the running episode, evenly thinned when there are more.

    Thinning depends on the order of stamps alone, so a rollout gives the same pictures live and offline.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pictures: list[Picture] = []
        self._stride = 1
        self._seen = 0

    def add(self, picture: Picture) -> None:
        """Keep a picture, or not; one whose stamp does not advance is left out, a clock set back starts anew."""
        if self._pictures and picture.stamp_ns <= self._pictures[-1].stamp_ns:
            if picture.stamp_ns > self._pictures[-1].stamp_ns - _BACK_NS:
                return
            self._pictures.clear()
            self._stride, self._seen = 1, 0
        if self._seen % self._stride == 0:
            self._pictures.append(picture)
        self._seen += 1
        if len(self._pictures) > self._limit:
            self._pictures = self._pictures[::2]
            self._stride *= 2

    def begin_episode(self, stamp_ns: int) -> None:
        """Forget what is older than an episode's start, or so much newer that it is of another clock."""
        last_ns = stamp_ns + _HEARD_LATE_NS
        self._pictures = [picture for picture in self._pictures if stamp_ns <= picture.stamp_ns <= last_ns]
        self._stride, self._seen = 1, 0

    def at(self, stamp_ns: int) -> Picture | None:
        """The newest picture that is not newer than the stamp; else the oldest one."""
        if not self._pictures:
            return None
        index = bisect_right(self._pictures, stamp_ns, key=lambda picture: picture.stamp_ns)
        return self._pictures[max(0, index - 1)]

    def between(self, start_ns: int, end_ns: int) -> tuple[Picture, ...]:
        """The pictures of a stretch of time, both ends included."""
        return tuple(picture for picture in self._pictures if start_ns <= picture.stamp_ns <= end_ns)

    def __len__(self) -> int:
        return len(self._pictures)
