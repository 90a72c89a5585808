"""Keeps reports in a thread of its own, so that a page being drawn and a slow disk do not hold up the streams."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

from rollout_monitor.episode.monitor import Closed
from rollout_monitor.errors import RolloutMonitorError, StoreError
from rollout_monitor.images import decode_compressed
from rollout_monitor.records import EpisodeReport, Label
from rollout_monitor.report.files import redraw
from rollout_monitor.report.html import render
from rollout_monitor.report.markdown import summary
from rollout_monitor.store.episodes import EpisodeStore, PartlyStoredError
from rollout_monitor.store.files import free_name
from rollout_monitor.store.film import Film, Shot, make_film
from rollout_monitor.store.usual import with_usual
from rollout_monitor_nodes.common.folders import Recording, recording_of

T = TypeVar("T")
_PICTURES_HZ = 2
"""As many as the monitor keeps, see `PictureClock`."""


class _NodeEndsError(Exception):
    """The film that is being made is not waited for."""


class ReportKeeper:
    """Writes each closed episode into the store, then calls back."""

    def __init__(
        self,
        root: Path,
        recordings: Path,
        on_kept: Callable[[EpisodeReport, str, str], None],
        on_trouble: Callable[[str], None],
    ) -> None:
        """Make a keeper.

        Args:
            root: the store's folder.
            recordings: where a recorder keeps its bags, to name the one a report belongs to.
            on_kept: called from the keeper's thread with the report, where it is, and its recording (empty: none).
            on_trouble: called with what could not be kept.
        """
        self._store = EpisodeStore(root)
        self._recordings = recordings
        self._on_kept = on_kept
        self._on_trouble = on_trouble
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="reports")
        self._closing = threading.Event()
        self._folders: dict[str, str] = {}  # the newest folder of an episode id, of those kept by this process
        self._newest = ""
        self.trouble = ""

    def keep(self, closed: Closed) -> Future[None]:
        """Write a closed episode; the future is done when it has been kept and told of."""
        return self._thread.submit(self._keep, closed)

    def budget_history(self, task: str) -> list[float]:
        """Durations of the task's successes in the store, s; none where the index cannot be read."""
        try:
            rows = self._store.list()
        except StoreError as error:
            self._tell(str(error))
            return []
        return [row.duration_s for row in rows if row.task == task and row.outcome == "success"]

    def expected_path(self, episode_id: str) -> Path:
        """Where a running episode's report will be, unless somebody takes the name until then."""
        return free_name(self._store.root.absolute(), episode_id)

    def label(self, episode_id: str, label: Label | None, who: str, note: str, stamp_ns: int) -> str:
        """Add a label to a kept episode (the newest where the id is empty); return its folder's name.

        Raises:
            InputError: no such episode, or nobody says so.
            StoreError: it could not be kept.
        """
        folder = self._folders.get(episode_id, episode_id) or self._newest
        try:
            self._store.labels.add(folder, label, who, note, stamp_ns=stamp_ns)
        except PartlyStoredError as error:
            self._tell(str(error))
        self._thread.submit(self._redraw, self._store.root / folder)
        return folder

    def close(self) -> None:
        """Wait for what is being written; a film that is not done yet is left."""
        self._closing.set()
        self._thread.shutdown(wait=True)

    def _keep(self, closed: Closed) -> None:
        try:
            self._write(closed)
        except Exception as error:  # a defect in drawing or storing must not lose the report's figures
            self._tell(f"report of {closed.report.episode_id}: {error!r}")
            self._on_kept(closed.report, "", "")

    def _write(self, closed: Closed) -> None:
        bag = recording_of(self._recordings, closed.report.episode_id, closed.report.start_ns)
        plain = closed.report if bag is None else _with_bag(closed.report, bag)
        report = self._drawn("usual ranges", plain, lambda: with_usual(self._store, plain)) or plain
        path, folder = "", None
        try:
            folder = self._store.write(
                report,
                closed.pictures,
                self._drawn("page", report, lambda: render(report, closed.pictures)),
                text=self._drawn("Markdown text", report, lambda: summary(report)),
            )
            self._folders[report.episode_id] = self._newest = folder.name
            path = str(folder.absolute())
            self.trouble = ""
        except PartlyStoredError as error:
            path = str(error.path.absolute())
            self._tell(str(error))
        except RolloutMonitorError as error:
            self._tell(str(error))
        self._on_kept(report, path, "" if bag is None else str(bag.folder.absolute()))
        if folder is not None:  # the film takes seconds, and nobody waits for it
            film = self._drawn("film", report, lambda: self._film(closed))
            if film is not None:
                self._redraw(folder, film)

    def _film(self, closed: Closed) -> Film | None:
        """Two pictures a second of one camera; `rollout-monitor report --recording` makes one of all cameras."""

        def shots() -> Iterator[Shot]:
            for picture in closed.shown:
                if self._closing.is_set():
                    raise _NodeEndsError
                yield Shot(picture.camera, picture.stamp_ns, partial(decode_compressed, "jpeg", picture.jpeg))

        cameras = sorted({picture.camera for picture in closed.shown})
        try:
            return make_film(shots, cameras, closed.report.start_ns, closed.report.end_ns, rate_hz=_PICTURES_HZ)
        except _NodeEndsError:
            return None

    def _drawn(self, what: str, report: EpisodeReport, draw: Callable[[], T | None]) -> T | None:
        try:
            return draw()
        except Exception as error:  # the figures are worth more than the page
            self._tell(f"{what} of {report.episode_id} could not be drawn: {error!r}")
            return None

    def _redraw(self, folder: Path, film: Film | None = None) -> None:
        try:
            redraw(folder, film)
        except Exception as error:  # report and labels are safe
            self._tell(f"page of {folder.name} could not be drawn again: {error!r}")

    def _tell(self, trouble: str) -> None:
        self.trouble = trouble
        self._on_trouble(trouble)


def _with_bag(report: EpisodeReport, bag: Recording) -> EpisodeReport:
    notes = [f"the recording ends before the episode does: {bag.ended_early}"] if bag.ended_early else []
    return report.model_copy(update={"bag": bag.folder.name, "notes": [*report.notes, *notes]})
