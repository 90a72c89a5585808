"""Takes in rosbag2 recordings: one per pair of episode markers, or the whole bag where it has no markers.

What the bag does not say itself may stand in the reports and labels of an episode store in the same folder.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
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

LATE_NS = 60 * NS
"""A marker logged this long after its own stamp was late; more is another clock."""
GRACE_NS = 5 * NS
"""Frames logged this long after the END may still belong to the attempt."""

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
    description = folder / METADATA
    if description.is_file() and (files or b"rosbag2_bagfile_information" in description.read_bytes()):
        return [folder]
    numbered = re.compile(rf"{re.escape(folder.resolve().name)}_\d+")
    if files and all(numbered.fullmatch(_STORAGE.sub("", file.name)) for file in files):
        return [folder]
    return files


def bag_candidate(path: Path, known: KnownEpisodes) -> Candidate:
    """One bag, folder or file, as a candidate."""
    return Candidate(path, "", lambda: _open(path, known))


@dataclass(frozen=True)
class _Span:
    """One attempt within a bag: its START and what ended it."""

    start: EpisodeMarker
    start_log_ns: int
    end: EpisodeMarker | None = None
    last_ns: int | None = None
    """Stamp of the attempt's end; None where it ends with the bag."""
    end_log_ns: int | None = None
    note: str = ""


class BagTakeReader:
    """Streams of one bag, or of one attempt in it; see `TakeReader`."""

    def __init__(self, path: Path, span: _Span | None) -> None:
        self._path = path
        self._span = span

    def images(self, cameras: Mapping[str, str]) -> Iterator[CameraFrame]:
        """Frames in log order; those shortly before the attempt hold their places on the grid.

        Frames without a stamp (0, as a driver without a clock gives) are left out, as they are live.
        """
        names = {topic: camera for camera, topic in cameras.items()}
        for item in self._items(names):
            if isinstance(item, ImageItem) and item.stamp_ns > 0:
                yield CameraFrame(names[item.topic], item.stamp_ns, item.decode)

    def joints(self, source: str) -> Iterator[JointItem]:
        """Joint states as published, within the attempt."""
        first = self._span.start.stamp_ns if self._span else None
        last = self._span.last_ns if self._span else None
        for item in self._items([source]):
            late = last is not None and item.stamp_ns > last
            if isinstance(item, JointItem) and not late and (first is None or item.stamp_ns >= first):
                yield item

    def _items(self, topics: Collection[str]) -> Iterator[ImageItem | JointItem]:
        with open_bag(self._path) as bag:
            items = (item for item in bag.decoded(topics) if not isinstance(item, MarkerItem))
            yield from items if self._span is None else _of_attempt(items, self._span)


def _of_attempt(items: Iterable[ImageItem | JointItem], span: _Span) -> Iterator[ImageItem | JointItem]:
    """The items that may belong to an attempt, by stamp and by log time.

    Stamps alone do not tell: a simulator sets its clock back for every attempt. So what was logged before the START
    counts if its stamp is near the START's and the clock was not set back since; and after the END nothing does once
    the clock was set back, or some seconds have passed.
    """
    first = span.start.stamp_ns
    late_ns = span.start_log_ns - first  # the marker itself may have been recorded late
    latest = first + NS + (late_ns if 0 <= late_ns <= LATE_NS else 0)
    ended = None if span.end_log_ns is None else max(span.end_log_ns, span.last_ns or 0)
    before: list[ImageItem | JointItem] | None = []
    newest: dict[str, int] = {}
    for item in items:
        set_back = item.stamp_ns < newest.get(item.topic, item.stamp_ns) - NS
        newest[item.topic] = item.stamp_ns
        if item.log_ns < span.start_log_ns and before is not None:
            if set_back:
                before.clear()
            if first - NS <= item.stamp_ns <= latest:
                before.append(item)
            continue
        if ended is not None and (item.log_ns > ended + GRACE_NS or (item.log_ns >= ended and set_back)):
            break
        if before is not None:
            before = [] if set_back else before
            yield from before
            before = None
        yield item
    yield from before or ()


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
        reader=BagTakeReader(path, None),
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
    # without a last stamp by log time, which may be another clock
    lasted_ns = (span.end_log_ns or end_ns) - span.start_log_ns if last is None else last - first
    return replace(
        whole,
        name=name,
        reader=BagTakeReader(whole.path, span),
        duration_s=max(0, lasted_ns) / NS,
        task=span.start.task or None,
        claims=(*known.claims(whole.path, span.start), *_marker_claims(whole.path, span)),
        first_ns=first,
        last_ns=last,
        notes=(*whole.notes, span.note) if span.note else whole.notes,
    )


def _markers(bag: BagReader) -> list[MarkerItem]:
    topics = [topic.name for topic in bag.topics if topic.type == EPISODE and topic.count]
    return [item for item in bag.decoded(topics) if isinstance(item, MarkerItem)] if topics else []


def _spans(items: Iterable[MarkerItem]) -> list[_Span]:
    """Attempts in order: a START up to its END, up to the next START, or to the end of the bag."""
    spans: list[_Span] = []
    running: _Span | None = None
    for item in items:
        marker = item.marker
        if marker.boundary is Boundary.START:
            if running is not None:
                if (running.start.episode_id, running.start.stamp_ns) == (marker.episode_id, marker.stamp_ns):
                    continue  # heard twice
                spans.append(_cut(running, item))
            running = _Span(marker, item.log_ns)
        elif running is not None and running.start.episode_id == marker.episode_id:
            spans.append(replace(running, end=marker, last_ns=marker.stamp_ns, end_log_ns=item.log_ns))
            running = None
    if running is not None:
        spans.append(replace(running, note="has no END marker; it ends with the bag"))
    return spans


def _cut(running: _Span, by: MarkerItem) -> _Span:
    """An attempt that a new START cut off; where the clock was set back for that, its last stamp is not known."""
    last_ns = by.marker.stamp_ns - 1
    return replace(
        running,
        last_ns=last_ns if last_ns >= running.start.stamp_ns else None,
        end_log_ns=by.log_ns,
        note="has no END marker; it ends where the next one starts",
    )


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
