"""Takes in rosbag2 recordings: one per pair of episode markers, or the whole bag where it has no markers.

What the bag does not say itself may stand in the reports and labels of an episode store in the same folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from rollout_monitor.errors import InputError, StoreError
from rollout_monitor.records import Boundary, EpisodeMarker, EpisodeReport, Label
from rollout_monitor.store.bags import METADATA, BagReader, open_bag
from rollout_monitor.store.episodes import LABELS, REPORT, read_report
from rollout_monitor.store.labels import LabelFact, read_facts
from rollout_monitor.store.messages import (
    COMPRESSED_IMAGE,
    EPISODE,
    IMAGE,
    JOINT_STATE,
    ImageItem,
    JointItem,
    MarkerItem,
)
from rollout_monitor.store.takes_types import (
    NS,
    CameraFrame,
    Candidate,
    Claim,
    FoundTake,
    TakeKind,
    is_depth,
    name_cameras,
)

_STORAGE = re.compile(r"\.(mcap|mcap\.active|db3)(\.zstd)?$")


@dataclass(frozen=True)
class KnownEpisodes:
    """Reports and labels found beside the bags."""

    reports: tuple[tuple[Path, EpisodeReport], ...] = ()
    facts: tuple[tuple[Path, LabelFact], ...] = ()
    """In the order they were said."""

    def claims(self, bag: Path, marker: EpisodeMarker | None) -> list[Claim]:
        """What was said about an episode, the weightiest first: the newest label fact, then the report's label.

        A report belongs to a marker's episode if the id and the start agree, to a whole bag if it names it. What the
        monitor decided itself is no label and does not count.
        """
        claims = []
        for path, report in self.reports:
            if not _is_of(report, bag, marker):
                continue
            said = [
                Claim(fact.label is Label.SUCCESS, fact.who, str(file))
                for file, fact in self.facts
                if fact.label is not None and fact.episode_id == path.parent.name and file.parent == path.parent.parent
            ]
            claims += said[::-1]
            if report.label is not None:
                claims.append(Claim(report.label is Label.SUCCESS, "report", str(path)))
        return claims


def known_episodes(folder: Path) -> tuple[KnownEpisodes, list[str]]:
    """Reports and labels of episode stores anywhere in a folder.

    Returns:
        What was found, and a line about each report or label that cannot be read.

    Raises:
        StoreError: a ``labels.jsonl`` that cannot be opened.
    """
    reports, facts, problems = [], [], []
    for path in sorted(folder.rglob(REPORT)):
        try:
            reports.append((path, read_report(path)))
        except StoreError as error:
            problems.append(str(error))
    for path in sorted(folder.rglob(LABELS)):
        found, torn = read_facts(path)
        facts += [(path, fact) for fact in found]
        problems += [f"{path.parent}: {line}" for line in torn]
    return KnownEpisodes(tuple(reports), tuple(facts)), problems


def bags_in(folder: Path) -> list[Path]:
    """Bags that lie directly in a folder: the folder itself, or storage files in it, each by itself.

    Without ``metadata.yaml`` files that are numbered after the folder (``take_0.mcap``, ``take_1.mcap`` in ``take``)
    are one split bag, as rosbag2 names them; others are a bag each.
    """
    files = sorted(file for file in folder.iterdir() if file.is_file() and _STORAGE.search(file.name))
    if (folder / METADATA).is_file():
        return [folder]
    if files and all(re.fullmatch(rf"{re.escape(folder.name)}_\d+", _STORAGE.sub("", file.name)) for file in files):
        return [folder]
    return files


def bag_candidate(path: Path, known: KnownEpisodes) -> Candidate:
    """One bag, folder or file, as a candidate."""
    return Candidate(path, "", lambda: _open(path, known))


class BagTakeReader:
    """Streams of one bag; see `TakeReader`."""

    def __init__(self, path: Path, first_ns: int | None, last_ns: int | None) -> None:
        self._path = path
        self._first_ns = first_ns
        self._last_ns = last_ns

    def images(self, cameras: Mapping[str, str]) -> Iterator[CameraFrame]:
        """Frames in log order, from the start of the bag: those before the take hold their places on the grid.

        Frames without a stamp (0, as a driver without a clock gives) are left out, as they are live.
        """
        names = {topic: camera for camera, topic in cameras.items()}
        with open_bag(self._path) as bag:
            for item in bag.decoded(names):
                if isinstance(item, ImageItem) and item.stamp_ns > 0:
                    yield CameraFrame(names[item.topic], item.stamp_ns, item.decode)

    def joints(self, source: str) -> Iterator[JointItem]:
        """Joint states as published, within the take."""
        first, last = self._first_ns, self._last_ns
        with open_bag(self._path) as bag:
            for item in bag.decoded([source]):
                if not isinstance(item, JointItem) or (first is not None and item.stamp_ns < first):
                    continue
                if last is None or item.stamp_ns <= last:
                    yield item
                elif item.stamp_ns > last + NS:
                    return


@dataclass(frozen=True)
class _Span:
    """One attempt within a bag: its START and what ended it."""

    start: EpisodeMarker
    end: EpisodeMarker | None
    last_ns: int | None
    note: str = ""


def _open(path: Path, known: KnownEpisodes) -> list[FoundTake]:
    with open_bag(path) as bag:
        topics = [topic.name for topic in bag.topics if topic.type in (IMAGE, COMPRESSED_IMAGE) and topic.count]
        joints = tuple(topic.name for topic in bag.topics if topic.type == JOINT_STATE and topic.count)
        markers = _markers(bag)
        end_ns, duration_s, notes = bag.end_ns or 0, bag.duration_s, list(bag.notes)
    cameras = _cameras(path, topics)
    if unused := sorted(set(topics) - set(cameras.values())):
        notes.append(f"image topics not used: {', '.join(unused)}")
    whole = FoundTake(
        name="",
        path=path,
        kind=TakeKind.BAG,
        reader=BagTakeReader(path, None, None),
        cameras=cameras,
        sources=tuple(topics),
        duration_s=duration_s,
        claims=tuple(known.claims(path, None)),
        joint_sources=joints,
        notes=tuple(notes),
    )
    if not markers:
        return [whole]
    spans = _spans(markers)
    if not spans:
        raise InputError(f"{path}: has episode markers but no START; the recording began too late: record it again")
    names = _distinct([span.start.episode_id for span in spans]) if len(spans) > 1 else [""]
    return [_attempt(whole, name, span, end_ns, known) for name, span in zip(names, spans, strict=True)]


def _cameras(path: Path, topics: list[str]) -> dict[str, str]:
    pictures = [name for name in topics if not is_depth(name)]
    if not pictures:
        seen = f"only depth or infrared ({', '.join(topics)})" if topics else "no image topic with messages"
        raise InputError(f"{path}: holds {seen}, and progress is judged from pictures; record a colour camera")
    return name_cameras(pictures)


def _attempt(whole: FoundTake, name: str, span: _Span, end_ns: int, known: KnownEpisodes) -> FoundTake:
    """One attempt of a bag."""
    first, last = span.start.stamp_ns, span.last_ns
    return replace(
        whole,
        name=name,
        reader=BagTakeReader(whole.path, first, last),
        duration_s=max(0, (end_ns if last is None else last) - first) / NS,
        task=span.start.task or None,
        claims=(*known.claims(whole.path, span.start), *_marker_claims(whole.path, span)),
        first_ns=first,
        last_ns=last,
        notes=(*whole.notes, span.note) if span.note else whole.notes,
    )


def _markers(bag: BagReader) -> list[EpisodeMarker]:
    topics = [topic.name for topic in bag.topics if topic.type == EPISODE and topic.count]
    if not topics:
        return []
    return [item.marker for item in bag.decoded(topics) if isinstance(item, MarkerItem)]


def _spans(markers: Iterable[EpisodeMarker]) -> list[_Span]:
    """Attempts in order: a START up to its END, up to the next START, or to the end of the bag."""
    spans: list[_Span] = []
    running: EpisodeMarker | None = None
    for marker in markers:
        if marker.boundary is Boundary.START:
            if running is not None:
                if (running.episode_id, running.stamp_ns) == (marker.episode_id, marker.stamp_ns):
                    continue  # heard twice
                cut = "has no END marker; it ends where the next one starts"
                spans.append(_Span(running, None, marker.stamp_ns - 1, cut))
            running = marker
        elif running is not None and running.episode_id == marker.episode_id:
            spans.append(_Span(running, marker, marker.stamp_ns))
            running = None
    if running is not None:
        spans.append(_Span(running, None, None, "has no END marker; it ends with the bag"))
    return spans


def _marker_claims(path: Path, span: _Span) -> list[Claim]:
    label = span.end.label if span.end is not None else None
    return [] if label is None else [Claim(label is Label.SUCCESS, "episode marker", str(path))]


def _is_of(report: EpisodeReport, bag: Path, marker: EpisodeMarker | None) -> bool:
    if marker is None:
        return report.bag is not None and Path(report.bag).name in (bag.name, bag.stem)
    return report.episode_id == marker.episode_id and report.start_ns == marker.stamp_ns


def _distinct(names: list[str]) -> list[str]:
    """The names, with -2, -3 ... where one comes again."""
    seen: dict[str, int] = {}
    out = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        out.append(name if seen[name] == 1 else f"{name}-{seen[name]}")
    return out
