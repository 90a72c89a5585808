"""The pictures that go beside a report: one file each, however many moments it stands for."""

from __future__ import annotations

from rollout_monitor.episode.pictures import PictureBook
from rollout_monitor.records import KeyFrame


class KeyFrames:
    """Chooses pictures of the episode by stamp.

    Attributes:
        pictures: JPEG bytes by file name.
    """

    def __init__(self, book: PictureBook, start_ns: int) -> None:
        self._book = book
        self._start_ns = start_ns
        self._frames: dict[str, KeyFrame] = {}
        self.pictures: dict[str, bytes] = {}

    def keep(self, stamp_ns: int, why: str) -> str | None:
        """Keep the picture of a moment; return its file name, None where there is no picture at all."""
        picture = self._book.at(stamp_ns)
        if picture is None:
            return None
        offset_ms = max(0, picture.stamp_ns - self._start_ns) // 1_000_000
        name = f"{picture.camera}_{offset_ms:08d}.jpg"
        self.pictures[name] = picture.jpeg
        known = self._frames.get(name)
        if known is None:
            self._frames[name] = KeyFrame(stamp_ns=picture.stamp_ns, camera=picture.camera, file=name, why=why)
        elif why not in known.why.split(", "):
            self._frames[name] = known.model_copy(update={"why": f"{known.why}, {why}"})
        return name

    def in_order(self) -> list[KeyFrame]:
        """What was kept, by stamp."""
        return sorted(self._frames.values(), key=lambda frame: frame.stamp_ns)
