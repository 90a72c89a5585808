"""A user's own takes of his cell, whatever recorded them: rosbag2, LeRobot datasets, HDF5 episodes.

``open_takes`` finds them in a folder, brings their cameras and labels together, and refuses what cannot be used. A take
is lazy: pictures are decoded when they are asked for. Nothing is ever written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from rollout_monitor.errors import InputError
from rollout_monitor.frames import FrameSet, RgbImage
from rollout_monitor.store.messages import JointItem
from rollout_monitor.store.takes_bags import KnownEpisodes, bag_candidate, bags_in, known_episodes
from rollout_monitor.store.takes_grid import MOST_RATE_HZ, OnBad, frame_sets
from rollout_monitor.store.takes_hdf5 import COLOURS, SUFFIXES, Colour, Hdf5Options, hdf5_candidate
from rollout_monitor.store.takes_labels import read_labels
from rollout_monitor.store.takes_lerobot import INFO, lerobot_candidates, require_pyarrow
from rollout_monitor.store.takes_types import Candidate, Claim, FoundTake, TakeKind, TakeReader

__all__ = ["Claim", "Take", "TakeKind", "open_takes", "unlabelled"]

SUFFIX = re.compile(r"\.(mcap|mcap\.active|db3|hdf5|h5)(\.zstd)?$", re.IGNORECASE)
SUCCESS_FOLDERS = {"success", "successes", "successful", "succeeded", "success_episodes"}
FAILURE_FOLDERS = {"fail", "fails", "failed", "failure", "failures", "fail_episodes", "failure_episodes"}

MOTION_RATE_HZ = 2.0
MOTION_FRAMES = 10
"""A short take is looked at more often than twice a second, this many times."""
MOTION_BLOCKS = 16
"""Pictures are compared as means of 16x16 blocks, in which the noise of a camera averages out."""
MOTION_LEVELS = 2.0
"""A block whose mean has changed by this many of 256 levels has moved: less is noise and codec."""

_SHOWN = 5


@dataclass(frozen=True)
class Take:
    """One recorded attempt."""

    id: str
    """Path within the opened folder, without suffix; then the episode's name where that holds several."""
    path: Path
    """The bag, the dataset's folder or the HDF5 file."""
    kind: TakeKind
    task: str | None
    """Instruction: the one given to `open_takes`, else ``recorded_task``."""
    recorded_task: str | None
    """Instruction as recorded with the take."""
    claims: tuple[Claim, ...]
    """All that was said about the outcome, the weightiest first."""
    cameras: tuple[str, ...]
    """Names, the primary first."""
    duration_s: float
    """First to last row; of a bag: START to END, or first to last message where it has no markers."""
    joint_sources: tuple[str, ...]
    """Topic, key or dataset of each stream of joint samples; empty without any."""
    notes: tuple[str, ...]
    """What a reader must know, for instance that a bag is cut short or that claims disagree."""
    _sources: Mapping[str, str] = field(repr=False)
    _reader: TakeReader = field(repr=False)
    _within: tuple[int | None, int | None] = field(repr=False, default=(None, None))

    @property
    def success(self) -> bool | None:
        """The outcome by the weightiest claim; None where nobody said anything."""
        return self.claims[0].success if self.claims else None

    @property
    def said_by(self) -> str | None:
        """Who said so."""
        return self.claims[0].who if self.claims else None

    def frames(
        self,
        rate_hz: float = 5.0,
        *,
        cameras: Sequence[str] | None = None,
        joints: str | None = None,
        on_bad: OnBad | None = None,
    ) -> Iterator[FrameSet]:
        """Decoded frame sets on the absolute stamp grid, picked as the live gate picks them.

        Args:
            rate_hz: frame sets per second.
            cameras: some of ``self.cameras``, the primary first; all where None.
            joints: one of ``self.joint_sources``, to put the joints into the frame sets; None leaves them out.
            on_bad: told of a chosen frame that does not decode, whose camera (or whole set, if the primary's) is then
                left out. None: such a frame is an error.

        Yields:
            Frame sets with growing stamps, nanoseconds: header stamps in a bag, since the first row elsewhere.

        Raises:
            InputError: an unknown camera or joint source, files that cannot be read, stamps that go back; names the
                take's file.
        """
        names = list(self.cameras if cameras is None else cameras)
        if not names or len(set(names)) != len(names) or set(names) - set(self.cameras):
            raise InputError(f"{self.path}: cameras {names}; expected some of {', '.join(self.cameras)}, each once")
        source = self._reader.images({name: self._sources[name] for name in names})
        states = () if joints is None else self.joints(joints)
        return self._telling(frame_sets(source, names, rate_hz, within=self._within, joints=states, on_bad=on_bad))

    def joints(self, source: str | None = None) -> Iterator[JointItem]:
        """Joint samples in recorded order: nothing where there are none.

        Args:
            source: one of ``joint_sources``; may be None where there is at most one.

        Raises:
            InputError: an unknown source, several to choose from, or files that cannot be read.
        """
        if source is None and not self.joint_sources:
            return iter(())
        if source is None and len(self.joint_sources) > 1:
            raise InputError(f"{self.path}: several joint streams, choose one: {', '.join(self.joint_sources)}")
        if source is not None and source not in self.joint_sources:
            raise InputError(
                f"{self.path}: no joint stream {source!r}; it has {', '.join(self.joint_sources) or 'none'}"
            )
        return self._reader.joints(source or self.joint_sources[0])

    def _telling(self, frames: Iterator[FrameSet]) -> Iterator[FrameSet]:
        """Name the take in errors that come from a single frame."""
        try:
            yield from frames
        except InputError as error:
            if str(self.path) in str(error):
                raise
            raise InputError(f"{self.path}: take {self.id}: {error}") from error


def open_takes(
    folder: Path | str,
    *,
    task: str | None = None,
    cameras: Mapping[str, str] | Sequence[str] | None = None,
    labels: Path | str | None = None,
    leave_out: Callable[[str], None] | None = None,
    hdf5_rate_hz: float | None = None,
    hdf5_colour: Colour = "as-shown",
) -> list[Take]:
    """Find the takes in a folder; see docs/takes.md for the layouts.

    Args:
        folder: searched with all its folders; hidden ones (``.pending``) are left alone.
        task: instruction of all takes; what a take itself says stays in ``recorded_task``. None: as recorded.
        cameras: names of the cameras to use, the primary first, or source (topic, key or dataset) by the name it shall
            have. None: all, views from outside first; every take must then have the same.
        labels: CSV ``take,success``; goes before all other claims and erases none.
        leave_out: told, a line each, of takes that cannot be used; they are left out. None: such takes are an error.
        hdf5_rate_hz: rows per second of HDF5 files that do not say it.
        hdf5_colour: ``as-shown`` or ``swapped``, see `store.takes_hdf5`.

    Returns:
        Takes in the natural order of their ids; see `unlabelled` for those nobody judged.

    Raises:
        InputError: no takes, a take that cannot be read, has no frames or shows no motion, cameras that differ between
            takes, a label file with a mistake. Names the file and what to do.
        StoreError: a ``labels.jsonl`` in the folder that cannot be opened.
    """
    root = Path(folder)
    if not root.is_dir():
        raise InputError(f"{root}: expected a folder with takes: rosbag2, LeRobot datasets or HDF5 episodes")
    if hdf5_colour not in COLOURS:
        raise InputError(f"hdf5_colour {hdf5_colour!r}: expected one of {', '.join(COLOURS)}")
    known, unread = known_episodes(root)
    try:
        found, problems = _found(root, known, Hdf5Options(hdf5_rate_hz, hdf5_colour))
    except OSError as error:
        raise InputError(f"{error.filename or root}: cannot be read: {error.strerror or error}") from error
    _refuse(root, list(problems.values()), leave_out)
    if not found:
        raise InputError(_nothing(root, bool(problems)))
    named = _named(root, found)
    names = {name: name for name in problems} | _names(root, named)
    said = read_labels(Path(labels), names) if labels is not None else {}
    sources = _chosen_cameras(named, cameras)
    takes = [
        _take(root, name, named[name], sources[name], task, said.get(name), unread)
        for name in sorted(named, key=_natural)
    ]
    still = {take.id: reason for take in takes if (reason := _stillness(take))}
    _refuse(root, list(still.values()), leave_out)
    if len(still) == len(takes):
        raise InputError(_nothing(root, True))
    return [take for take in takes if take.id not in still]


def unlabelled(takes: Sequence[Take]) -> list[str]:
    """Ids of the takes of which nobody said whether they succeeded."""
    return [take.id for take in takes if take.success is None]


# --- what is there --------------------------------------------------------------------------------------------------


def _found(root: Path, known: KnownEpisodes, options: Hdf5Options) -> tuple[list[FoundTake], dict[str, str]]:
    """Takes that open, and what is wrong with the others, by the name they would have."""
    found: list[FoundTake] = []
    problems: dict[str, str] = {}
    for look in _places(root, known, options, set()):
        try:
            candidates = look.open()
        except InputError as error:
            problems[_joined(root, look.path, "")] = str(error)
            continue
        for candidate in candidates:
            try:
                found += candidate.open()
            except (InputError, OSError) as error:
                message = str(error) if str(candidate.path) in str(error) else f"{candidate.path}: {error}"
                problems[_joined(root, candidate.path, candidate.name)] = message
    return found, problems


@dataclass(frozen=True)
class _Place:
    """A path that holds takes, and how to list them."""

    path: Path
    open: Callable[[], list[Candidate]] = field(repr=False)


def _places(folder: Path, known: KnownEpisodes, options: Hdf5Options, seen: set[Path]) -> Iterator[_Place]:
    """Everything below a folder that looks like takes, in the order of names; links are followed, but once."""
    if folder.resolve() in seen:
        return
    seen.add(folder.resolve())
    if (folder / INFO).is_file():
        require_pyarrow(folder)
        yield _Place(folder, lambda: lerobot_candidates(folder))
        return
    bags = bags_in(folder)
    for bag in bags:
        yield _Place(bag, lambda bag=bag: [bag_candidate(bag, known)])  # type: ignore[misc]
    if bags == [folder]:
        return
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):
            continue
        if path.is_dir():
            yield from _places(path, known, options, seen)
        elif path.suffix.lower() in SUFFIXES and path.is_file():
            candidate = hdf5_candidate(path, options)
            yield _Place(path, lambda candidate=candidate: [candidate])  # type: ignore[misc]


def _refuse(root: Path, problems: list[str], leave_out: Callable[[str], None] | None) -> None:
    """Tell of takes that cannot be used, or refuse them."""
    if leave_out is not None:
        for problem in problems:
            leave_out(problem)
    elif problems:
        shown = "; ".join(problems[:_SHOWN])
        more = f"; and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
        raise InputError(
            f"{root}: {len(problems)} of the takes cannot be used: {shown}{more}. Repair or remove them, or ask "
            "to leave them out (leave_out)"
        )


def _nothing(root: Path, left_out: bool) -> str:
    if left_out:
        return f"{root}: no take is left that can be used"
    return (
        f"{root}: holds no takes; expected rosbag2 recordings (.mcap, .db3), LeRobot datasets (meta/info.json) or HDF5 "
        "episodes (.hdf5, .h5)"
    )


# --- names and labels -----------------------------------------------------------------------------------------------


def _named(root: Path, found: Sequence[FoundTake]) -> dict[str, FoundTake]:
    """Takes by id; where a file and a folder would share one, the file keeps its suffix."""
    plain = [_joined(root, one.path, one.name) for one in found]
    return {
        name if plain.count(name) == 1 else _joined(root, one.path, one.name, suffix=True): one
        for name, one in zip(plain, found, strict=True)
    }


def _names(root: Path, named: Mapping[str, FoundTake]) -> dict[str, str]:
    """Id by every name that a label file may use: the id itself, or the path with its suffix."""
    full = {_joined(root, one.path, one.name, suffix=True): name for name, one in named.items()}
    return full | {name: name for name in named}


def _joined(root: Path, path: Path, name: str, *, suffix: bool = False) -> str:
    if path == root:
        return name or path.resolve().name
    inside = path.relative_to(root)
    if not suffix and path.is_file():
        inside = inside.with_name(SUFFIX.sub("", inside.name) or inside.name)
    return f"{inside.as_posix()}/{name}" if name else inside.as_posix()


def _natural(name: str) -> list[tuple[bool, int, str]]:
    return [(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in re.split(r"([0-9]+)", name)]


def _folder_claim(root: Path, one: FoundTake) -> Claim | None:
    """What the nearest folder named after an outcome says."""
    folders = one.path if one.path.is_dir() else one.path.parent
    for part in reversed(folders.relative_to(root).parts):
        word = part.lower()
        if word in SUCCESS_FOLDERS | FAILURE_FOLDERS:
            return Claim(word in SUCCESS_FOLDERS, f"folder {part}", str(one.path))
    return None


def _take(
    root: Path,
    name: str,
    one: FoundTake,
    sources: Mapping[str, str],
    task: str | None,
    said: Claim | None,
    unread: Sequence[str],
) -> Take:
    claims = tuple(claim for claim in (said, *one.claims, _folder_claim(root, one)) if claim is not None)
    notes = [*one.notes, *(unread if one.kind is TakeKind.BAG else ())]
    if len({claim.success for claim in claims}) > 1:
        told = ", ".join(f"{claim.who}: {'success' if claim.success else 'failure'}" for claim in claims)
        notes.append(f"claims disagree ({told}); the first counts")
    if task is not None and one.task is not None and one.task != task:
        notes.append(f"recorded as {one.task!r}, taken for {task!r}")
    return Take(
        id=name,
        path=one.path,
        kind=one.kind,
        task=task if task is not None else one.task,
        recorded_task=one.task,
        claims=claims,
        cameras=tuple(sources),
        duration_s=one.duration_s,
        joint_sources=one.joint_sources,
        notes=tuple(notes),
        _sources=dict(sources),
        _reader=one.reader,
        _within=(one.first_ns, one.last_ns),
    )


# --- cameras and motion ---------------------------------------------------------------------------------------------


def _chosen_cameras(
    named: Mapping[str, FoundTake], cameras: Mapping[str, str] | Sequence[str] | None
) -> dict[str, dict[str, str]]:
    """Source by camera name for every take; the names and their order are the same for all."""
    if isinstance(cameras, str) or (cameras is not None and not cameras):
        raise InputError(f"cameras {cameras!r}: expected names, the primary first, or source by name")
    if isinstance(cameras, Mapping):
        wanted = dict(cameras)
    elif cameras is not None:
        wanted = {name: name for name in cameras}
    else:
        wanted = {name: name for one in named.values() for name in one.cameras}
    if wrong := [name for name in wanted if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,63}", name)]:
        raise InputError(f"camera name {wrong[0]!r}: expected a letter, then letters, digits or underscores")
    chosen: dict[str, dict[str, str]] = {name: {} for name in named}
    for camera, source in wanted.items():
        for name, one in named.items():
            if source in one.sources:
                chosen[name][camera] = source
            elif source in one.cameras:
                chosen[name][camera] = one.cameras[source]
        if missing := sorted((name for name in named if camera not in chosen[name]), key=_natural):
            raise InputError(_missing_camera(named, source, missing))
    return chosen


def _missing_camera(named: Mapping[str, FoundTake], camera: str, missing: Sequence[str]) -> str:
    shown = ", ".join(missing[:_SHOWN]) + (f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else "")
    common = [name for name in next(iter(named.values())).cameras if all(name in one.cameras for one in named.values())]
    remedy = f"choose among those that all have: {', '.join(common)}" if common else "no camera is in all of them"
    first = named[missing[0]]
    return (
        f"camera {camera!r} is missing in {len(missing)} of {len(named)} takes: {shown} ({first.path} has "
        f"{', '.join(first.cameras)}); {remedy}"
    )


def _stillness(take: Take) -> str | None:
    """What is wrong with a take in which nothing is to be seen, None where something moves.

    Looks at two frames a second or more of the primary camera until one differs from the first.
    """
    rate_hz = min(max(MOTION_RATE_HZ, MOTION_FRAMES / max(take.duration_s, 1e-3)), MOST_RATE_HZ)
    first: npt.NDArray[np.float32] | None = None
    seen = 0
    try:
        for frame in take.frames(rate_hz, cameras=take.cameras[:1], on_bad=lambda *_: None):
            seen += 1
            blocks = _blocks(frame.images[take.cameras[0]])
            if first is None:
                first = blocks
            elif float(np.abs(blocks - first).max()) >= MOTION_LEVELS:
                return None
    except InputError as error:
        return str(error)
    what = f"{take.path}: take {take.id}: camera {take.cameras[0]}"
    if seen == 0:
        return f"{what} shows no frame that can be read; remove the take or record it again"
    return f"{what} shows no motion in {take.duration_s:.1f} s (pictures all alike); remove the take"


def _blocks(picture: RgbImage) -> npt.NDArray[np.float32]:
    gray = cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY).astype(np.float32)
    return np.asarray(cv2.resize(gray, (MOTION_BLOCKS, MOTION_BLOCKS), interpolation=cv2.INTER_AREA), dtype=np.float32)
