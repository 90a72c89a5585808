"""Runs the engine over a recording: the same decisions as live, as fast as the machine allows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from rollout_monitor.episode.monitor import Output
from rollout_monitor.episode.rollout import RolloutMonitor
from rollout_monitor.errors import InputError
from rollout_monitor.images import fingerprint
from rollout_monitor.records import Boundary, EpisodeMarker, Label
from rollout_monitor.store.bags import (
    BagReader,
    DamagedBagError,
    ImageItem,
    JointItem,
    MarkerItem,
    StreamItem,
    open_bag,
)
from rollout_monitor.store.film import RATE_HZ, Shot
from rollout_monitor.store.takes_types import camera_name, is_depth, name_cameras
from rollout_monitor.store.videos import read_video

_IMAGE_TYPES = ("sensor_msgs/msg/Image", "sensor_msgs/msg/CompressedImage")
_JOINT_TYPE = "sensor_msgs/msg/JointState"
_DISORDER_NS = 2_000_000_000
"""Frames of several cameras are recorded nearly in the order of their stamps."""
_EPISODE_TYPE = "rollout_monitor_msgs/msg/Episode"


@dataclass(frozen=True)
class Sources:
    """Which topics of a bag are looked at."""

    cameras: Mapping[str, str]  # topic by camera name, the primary first
    joints: str | None
    markers: str | None = None
    notes: list[str] = field(default_factory=list)


def choose_sources(bag: BagReader, cameras: Mapping[str, str], joints: str | None) -> Sources:
    """Fill in what the user did not name: all image topics (a front view first) and the only joint topic.

    Depth and infrared topics are left to the user, unless there is nothing else.

    Raises:
        InputError: a named topic that is not there or of another type, no image topic, several joint topics.
    """
    by_type: dict[str, list[str]] = {}
    for topic in bag.topics:
        by_type.setdefault(topic.type, []).append(topic.name)
    images = [name for kind in _IMAGE_TYPES for name in by_type.get(kind, [])]
    for camera, name in cameras.items():
        if name not in images:
            raise InputError(f"{bag.path}: camera {camera}: no image topic {name!r}; there are: {_list(images)}")
    notes = []
    if not cameras:
        if not images:
            raise InputError(f"{bag.path}: holds no image topic, and progress is judged from pictures")
        colour = [name for name in images if not is_depth(name)]
        cameras = name_cameras(colour or images)
        notes.append("cameras found: " + ", ".join(f"{camera}={name}" for camera, name in cameras.items()))
        if others := sorted(set(images) - set(cameras.values())):
            notes.append(f"not looked at without --camera: {', '.join(map(partial(_left_out, cameras), others))}")
    states = by_type.get(_JOINT_TYPE, [])
    if joints is not None and joints not in states:
        raise InputError(f"{bag.path}: no JointState topic {joints!r}; there are: {_list(states)}")
    if joints is None and len(states) > 1:
        raise InputError(f"{bag.path}: several JointState topics ({_list(states)}); choose one with --joints")
    markers = by_type.get(_EPISODE_TYPE, [])
    return Sources(cameras, joints or (states[0] if states else None), markers[0] if markers else None, notes)


def run_bag(
    bag: BagReader, sources: Sources, monitor: RolloutMonitor, whole: EpisodeMarker | None, label: Label | None
) -> Iterator[Output]:
    """Feed a bag's streams in log order.

    Args:
        bag: the opened recording.
        sources: what to look at.
        monitor: the engine.
        whole: a START to use for the whole bag in the place of its own markers; its stamp is set to the first one.
        label: outcome to give with each END that has none.

    A damaged bag is run as far as it can be read; what is missing is added to ``sources.notes``.
    """
    names = {topic: camera for camera, topic in sources.cameras.items()}
    topics = set(names) | ({sources.joints} if sources.joints else set())
    if whole is None and sources.markers:
        topics.add(sources.markers)
    last_ns = None
    for item in _readable(bag.decoded(topics), sources.notes):
        if isinstance(item, MarkerItem):
            yield from monitor.on_marker(_labelled(item.marker, label))
            continue
        if whole is not None and last_ns is None:
            whole = whole.model_copy(update={"stamp_ns": item.stamp_ns})
            yield from monitor.on_marker(whole)
        last_ns = item.stamp_ns if last_ns is None else max(last_ns, item.stamp_ns)
        yield from _feed(item, names, monitor)
    if whole is not None and last_ns is not None:
        end = {"boundary": Boundary.END, "stamp_ns": last_ns, "label": label}
        yield from monitor.on_marker(whole.model_copy(update=end))
    yield from monitor.finish()


def _readable(items: Iterator[StreamItem], notes: list[str]) -> Iterator[StreamItem]:
    try:
        yield from items
    except DamagedBagError as error:
        notes.append(f"the recording is damaged, and figures may be wrong for it: {error}")


def run_video(
    path: Path, camera: str, rate_hz: float, monitor: RolloutMonitor, start: EpisodeMarker, label: Label | None
) -> Iterator[Output]:
    """Feed a video as the primary camera; the episode is the whole video."""
    yield from monitor.on_marker(start)
    last_ns = 0
    for stamp_ns, rgb in read_video(path, rate_hz):
        last_ns = stamp_ns
        yield from monitor.on_image(camera, stamp_ns, lambda rgb=rgb: rgb, fingerprint(rgb))  # type: ignore[misc]
    yield from monitor.on_marker(
        start.model_copy(update={"boundary": Boundary.END, "stamp_ns": last_ns, "label": label})
    )
    yield from monitor.finish()


def bag_shots(path: Path, cameras: Mapping[str, str], start_ns: int, end_ns: int) -> Iterator[Shot]:
    """The frames of one episode of a recording, for its film.

    Args:
        path: the recording.
        cameras: topic by camera name.
        start_ns: the episode's start.
        end_ns: its end.
    """
    names = {topic: camera for camera, topic in cameras.items()}
    with open_bag(path) as bag, suppress(DamagedBagError):  # told of when it was judged
        for item in bag.decoded(set(names)):
            if isinstance(item, ImageItem) and not item.trouble and start_ns <= item.stamp_ns:
                if item.stamp_ns > end_ns + _DISORDER_NS:
                    return
                yield Shot(names[item.topic], item.stamp_ns, item.decode)


def video_shots(path: Path, camera: str) -> Iterator[Shot]:
    """The frames of a video, for the film of the episode that it is."""
    for stamp_ns, rgb in read_video(path, RATE_HZ):
        yield Shot(camera, stamp_ns, lambda rgb=rgb: rgb)  # type: ignore[misc]


def _labelled(marker: EpisodeMarker, label: Label | None) -> EpisodeMarker:
    """An END marker with the label that was given, where the recording has none of its own."""
    if label is None or marker.boundary is Boundary.START or marker.label is not None:
        return marker
    return marker.model_copy(update={"label": label})


def _feed(item: StreamItem, names: Mapping[str, str], monitor: RolloutMonitor) -> Iterable[Output]:
    if isinstance(item, ImageItem):
        if item.trouble:
            monitor.on_bad_image(names[item.topic])
            return []
        return monitor.on_image(names[item.topic], item.stamp_ns, item.decode, item.fingerprint)
    if isinstance(item, JointItem):
        arrays = (item.positions.tolist(), item.velocities.tolist(), item.efforts.tolist())
        return monitor.on_joints(item.stamp_ns, item.names, *arrays)
    return []


def _left_out(cameras: Mapping[str, str], topic: str) -> str:
    """A topic, and the one that was taken in its place where both would have the same name."""
    taken = cameras.get(camera_name(topic))
    return topic if taken is None or is_depth(topic) != is_depth(taken) else f"{topic} ({taken} has its name)"


def _list(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"
