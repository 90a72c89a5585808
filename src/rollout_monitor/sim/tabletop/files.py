"""Takes on disk: an MCAP episode as the product's own recorder writes it, the truth beside it, a Parquet index of all.

    <out>/takes/<id>/<id>_0.mcap, metadata.yaml    pictures (JPEG), joint states at 100 Hz, episode markers
    <out>/takes/<id>/truth.npz                     privileged states, qpos per frame, events; no pickle
    <out>/takes/<id>/take.json                     its line of the index
    <out>/index.parquet                            one row per take

A take's folder is made elsewhere and renamed, so that one that is there is whole: the same command again makes only
what is missing. ``truth.npz`` holds what `goals.judge` needs for any instruction of the scene, and what `rerender`
needs for any look.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from rollout_monitor.errors import InputError, RolloutMonitorError
from rollout_monitor.frames import RgbImage
from rollout_monitor.sim.tabletop.alternatives import alternatives
from rollout_monitor.sim.tabletop.goals import Judgement, SceneFacts, States, judge
from rollout_monitor.sim.tabletop.looks import Look, draw_look
from rollout_monitor.sim.tabletop.takes import PICTURE, Event, Take, TakeSpec, run, ticks_per_frame
from rollout_monitor.sim.tabletop.world import VIEWS, Layout, shared_world
from rollout_monitor.store.messages import (
    COMPRESSED_IMAGE,
    EPISODE,
    EPISODE_DEFINITION,
    JOINT_STATE,
)
from rollout_monitor.store.recording import EpisodeRecording
from rollout_monitor.trends import Trend, intervals, trends

START_NS = 1_700_000_000 * 1_000_000_000
NAMESPACE = "/cell"
TAKES, INDEX = "takes", "index.parquet"
MAKING = ".making-"
INDEX_EVERY = 100
"""The index is written anew after so many takes."""


@dataclass(frozen=True)
class TakeRow:
    """One row of the index. Durations in seconds, rates in hertz."""

    id: str
    plan: str
    seed: int
    arms: str
    task: str
    goals: int
    mode: str
    text: str
    phrasing: str
    look: str
    look_seed: int
    outcome: str
    progress_end: float
    progress_max: float
    drops: int
    frames: int
    frame_rate_hz: float
    duration_s: float
    alternatives: list[str]


@dataclass(frozen=True)
class Truth:
    """What is known of a stored take: n frames.

    Attributes:
        row: its index row.
        stamps_ns: frame stamps from 0, int64 (n,).
        states: privileged states.
        facts: what stays the same.
        layout: the scene at its start.
        qpos: generalised positions, float32 (n, nq).
        events: grasps, releases, drops, shoves, bumps.
    """

    row: TakeRow
    stamps_ns: npt.NDArray[np.int64]
    states: States
    facts: SceneFacts
    layout: Layout
    qpos: npt.NDArray[np.float32]
    events: list[Event]

    def judge(self, task: str | None = None) -> Judgement:
        """Ground truth under the take's own instruction or another one of its scene."""
        return judge(task or self.row.task, self.states, self.facts)

    def directions(self, task: str | None = None) -> npt.NDArray[np.int64]:
        """Falling (-1), flat (0) or rising (1) at every frame, by `rollout_monitor.trends`; int64 (n,)."""
        return trends(self.judge(task).progress)

    def intervals(self, wanted: Trend, task: str | None = None) -> list[tuple[int, int]]:
        """Runs of one direction, from the last frame before it to its last frame, in ns from the take's start."""
        stamps = self.stamps_ns.tolist()
        runs = intervals(self.directions(task), wanted)
        return [(stamps[max(begin - 1, 0)], stamps[end - 1]) for begin, end in runs]


# --- making ---------------------------------------------------------------------------------------------------------


def generate(
    out: Path,
    specs: list[TakeSpec],
    *,
    frame_rate_hz: float = 5.0,
    jobs: int = 1,
    report: Callable[[TakeRow], None] = lambda _: None,
) -> list[TakeRow]:
    """Make the takes that are not there yet and write the index.

    Args:
        out: folder of the data set; made if missing.
        specs: what to make.
        frame_rate_hz: camera rate: 20 Hz divided by a whole number.
        jobs: processes.
        report: called with every take that is ready.

    Returns:
        The rows of all ``specs``, in their order.

    Raises:
        InputError: the frame rate does not fit, or ``out`` holds takes of another one.
        RolloutMonitorError: the simulation does not run here.
    """
    ticks_per_frame(frame_rate_hz)
    (out / TAKES).mkdir(parents=True, exist_ok=True)
    _sweep(out)
    rows = []
    for row in _run(out, specs, frame_rate_hz, jobs):
        if row.frame_rate_hz != frame_rate_hz:
            raise InputError(
                f"{out} holds {row.id} at {row.frame_rate_hz} Hz, not {frame_rate_hz} Hz: use another folder"
            )
        rows.append(row)
        report(row)
        if len(rows) % INDEX_EVERY == 0:
            write_index(out)
    write_index(out)
    return rows


def _sweep(out: Path) -> None:
    """Remove what processes that are gone left half made."""
    for left in out.glob(f"{MAKING}*"):
        if not Path("/proc", left.name.removeprefix(MAKING)).exists():
            shutil.rmtree(left, ignore_errors=True)


def _run(out: Path, specs: list[TakeSpec], rate: float, jobs: int) -> Iterator[TakeRow]:
    if jobs == 1:
        yield from (make_take(out, spec, rate) for spec in specs)
        return
    with ProcessPoolExecutor(max_workers=jobs) as pool:
        yield from pool.map(make_take, [out] * len(specs), specs, [rate] * len(specs))


def make_take(out: Path, spec: TakeSpec, frame_rate_hz: float) -> TakeRow:
    """Make one take's folder unless it is there; returns its row."""
    folder = out / TAKES / spec.id
    if folder.exists():
        return read_row(folder)
    take = run(spec, frame_rate_hz=frame_rate_hz)
    row = _row(take, frame_rate_hz)
    making = out / f"{MAKING}{os.getpid()}"
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir(parents=True)
    try:
        made = _record(take, row, making)
        _write_truth(made / "truth.npz", take)
        (made / "take.json").write_text(json.dumps(asdict(row)), encoding="utf-8")
        made.rename(folder)
    finally:
        shutil.rmtree(making, ignore_errors=True)
    return row


def _row(take: Take, frame_rate_hz: float) -> TakeRow:
    truth = take.truth
    spec = take.spec
    return TakeRow(
        id=spec.id,
        plan=spec.plan,
        seed=spec.seed,
        arms=spec.arms,
        task=spec.task,
        goals=spec.task.count(">") + 1,
        mode=spec.mode,
        text=spec.text,
        phrasing=spec.phrasing,
        look=spec.look,
        look_seed=spec.look_seed,
        outcome=take.outcome,
        progress_end=round(float(truth.progress[-1]), 4),
        progress_max=round(float(truth.progress.max()), 4),
        drops=sum(event.kind == "drop" for event in take.events),
        frames=len(take.stamps_ns),
        frame_rate_hz=frame_rate_hz,
        duration_s=round(float(take.joint_stamps_ns[-1]) / 1e9, 2),
        alternatives=alternatives(spec.task, take.states, take.facts, spec.seed),
    )


def _write_truth(path: Path, take: Take) -> None:
    facts, truth = take.facts, take.truth
    arrays: dict[str, npt.NDArray[Any]] = {
        "stamps_ns": take.stamps_ns,
        "qpos": take.qpos.astype(np.float32),
        "progress": truth.progress,
        "done": truth.done,
        "subtask": truth.subtask,
        "direction": trends(truth.progress).astype(np.int8),
        "half": facts.half,
        "fixtures": facts.fixtures,
        "table_z": np.array(facts.table_z),
        "present": np.array(sorted(facts.present), dtype=np.str_),
        "layout": np.array(json.dumps(asdict(take.layout))),
        "events": np.array([(e.begin_ns, e.end_ns) for e in take.events], dtype=np.int64).reshape(-1, 2),
        "event_names": np.array([f"{e.kind}:{e.what}" for e in take.events], dtype="U24"),
    }
    for field in fields(States):
        values = getattr(take.states, field.name)
        arrays[f"state_{field.name}"] = values.astype(np.float32) if values.dtype == np.float64 else values
    with path.open("xb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


# --- the episode ----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _types() -> Any:
    from rosbags.typesys import Stores, get_types_from_msg, get_typestore  # noqa: PLC0415 - slow to load

    store = get_typestore(Stores.ROS2_JAZZY)
    store.register(get_types_from_msg(EPISODE_DEFINITION, EPISODE))
    return store


def _record(take: Take, row: TakeRow, parent: Path) -> Path:
    """Write the bag folder of a take below ``parent``."""
    recording = EpisodeRecording(parent / row.id, custom_data={"seed": str(row.seed), "plan": row.plan})
    bag = _Bag(recording, take.joint_names)
    end = int(take.joint_stamps_ns[-1])
    bag.marker(0, row.id, 0, row.text)
    frame = 0
    for number, stamp in enumerate(take.joint_stamps_ns):
        while frame < len(take.stamps_ns) and take.stamps_ns[frame] <= stamp:
            for view in VIEWS:
                bag.picture(view, int(take.stamps_ns[frame]), take.pictures[view][frame])
            frame += 1
        bag.joints(int(stamp), take.joints[number])
    for late in range(frame, len(take.stamps_ns)):  # the last frame comes after the last joint sample
        end = int(take.stamps_ns[late])
        for view in VIEWS:
            bag.picture(view, end, take.pictures[view][late])
    bag.marker(end, row.id, 1, "")
    return recording.close()


class _Bag:
    """Writes a take's samples as ROS messages."""

    def __init__(self, recording: EpisodeRecording, names: list[str]) -> None:
        self._recording, self._names = recording, names
        types = _types()
        self._classes = types.types
        self._topics = {view: f"{NAMESPACE}/camera_{view}/color/image_raw/compressed" for view in VIEWS}
        self._joint_topic, self._marker_topic = f"{NAMESPACE}/joint_states", f"{NAMESPACE}/rollout/episode"
        for topic, kind in (
            *((topic, COMPRESSED_IMAGE) for topic in self._topics.values()),
            (self._joint_topic, JOINT_STATE),
            (self._marker_topic, EPISODE),
        ):
            text = EPISODE_DEFINITION if kind == EPISODE else types.generate_msgdef(kind, ros_version=2)[0]
            recording.add_topic(topic, kind, text)

    def _header(self, stamp_ns: int, frame: str) -> Any:
        seconds, rest = divmod(START_NS + stamp_ns, 1_000_000_000)
        stamp = self._classes["builtin_interfaces/msg/Time"](sec=seconds, nanosec=rest)
        return self._classes["std_msgs/msg/Header"](stamp=stamp, frame_id=frame)

    def _write(self, topic: str, kind: str, stamp_ns: int, message: Any) -> None:
        raw = bytes(_types().serialize_cdr(message, kind))
        self._recording.write(topic, START_NS + stamp_ns, START_NS + stamp_ns, raw)

    def picture(self, view: str, stamp_ns: int, data: bytes) -> None:
        """One picture as JPEG."""
        header = self._header(stamp_ns, f"camera_{view}_color_optical_frame")
        array = np.frombuffer(data, dtype=np.uint8)
        message = self._classes[COMPRESSED_IMAGE](header=header, format="jpeg", data=array)
        self._write(self._topics[view], COMPRESSED_IMAGE, stamp_ns, message)

    def joints(self, stamp_ns: int, sample: npt.NDArray[np.float64]) -> None:
        """One joint sample, shape (3, joints)."""
        position, velocity, effort = (np.ascontiguousarray(row) for row in sample)
        message = self._classes[JOINT_STATE](
            header=self._header(stamp_ns, "base_link"),
            name=self._names,
            position=position,
            velocity=velocity,
            effort=effort,
        )
        self._write(self._joint_topic, JOINT_STATE, stamp_ns, message)

    def marker(self, stamp_ns: int, episode: str, boundary: int, text: str) -> None:
        """Start (0) or end (1) of the episode; how it went is left to the monitor."""
        message = self._classes[EPISODE](
            header=self._header(stamp_ns, ""),
            episode_id=episode,
            boundary=boundary,
            task=text,
            label=0,
            source="simulated table",
        )
        self._write(self._marker_topic, EPISODE, stamp_ns, message)


# --- reading --------------------------------------------------------------------------------------------------------


def read_row(folder: Path) -> TakeRow:
    """The index row in a take's folder.

    Raises:
        InputError: not a take's folder.
    """
    try:
        return TakeRow(**json.loads((folder / "take.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"{folder} is no simulated take ({error}); delete it and generate again") from error


def read_truth(folder: Path) -> Truth:
    """Everything known of a stored take.

    Raises:
        InputError: not a take's folder.
    """
    row = read_row(folder)
    try:
        with np.load(folder / "truth.npz") as arrays:
            present = frozenset(str(name) for name in arrays["present"])
            half, fixtures = arrays["half"], arrays["fixtures"]
            facts = SceneFacts(present, half, fixtures, float(arrays["table_z"]))
            layout = Layout(**json.loads(str(arrays["layout"])))
            states = States(**{f.name: _wide(arrays[f"state_{f.name}"]) for f in fields(States)})
            events = [
                Event(int(begin), int(end), *str(name).split(":", 1))
                for (begin, end), name in zip(arrays["events"], arrays["event_names"], strict=True)
            ]
            return Truth(row, arrays["stamps_ns"], states, facts, layout, arrays["qpos"], events)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{folder / 'truth.npz'} cannot be read ({error}); delete {folder} and generate again"
        ) from error


def _wide(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return values.astype(np.float64) if values.dtype == np.float32 else values


def read_pictures(folder: Path, view: str) -> list[RgbImage]:
    """The recorded pictures of one view, in order, RGB uint8 (height, width, 3).

    Raises:
        InputError: no such view, or a picture that cannot be decoded.
    """
    from mcap.reader import make_reader  # noqa: PLC0415 - only here

    if view not in VIEWS:
        raise InputError(f"unknown view {view!r}; known views: {', '.join(VIEWS)}")
    topic = f"{NAMESPACE}/camera_{view}/color/image_raw/compressed"
    pictures = []
    (path,) = folder.glob("*.mcap")
    with path.open("rb") as stream:
        for _, _, message in make_reader(stream).iter_messages(topics=[topic]):
            data = _types().deserialize_cdr(message.data, COMPRESSED_IMAGE).data
            picture = cv2.imdecode(np.asarray(data), cv2.IMREAD_COLOR)
            if picture is None:
                raise InputError(f"{path}: a picture of {view} cannot be decoded: generate the take again")
            pictures.append(np.asarray(cv2.cvtColor(picture, cv2.COLOR_BGR2RGB), dtype=np.uint8))
    return pictures


def rerender(
    take: Path | Truth,
    look: Look | None = None,
    *,
    views: tuple[str, ...] = VIEWS,
    rows: npt.NDArray[np.int64] | None = None,
) -> dict[str, list[RgbImage]]:
    """Draw a stored take again: as it was recorded, or under another look; nothing is simulated.

    Args:
        take: its folder or its truth.
        look: cameras, light and colours; None for the recorded ones. `looks.draw_look` makes others.
        views: which cameras.
        rows: which frames; None for all.

    Returns:
        By view the pictures, RGB uint8 (height, width, 3).

    Raises:
        RolloutMonitorError: robosuite is missing.
    """
    truth = read_truth(take) if isinstance(take, Path) else take
    world = shared_world(truth.row.arms, PICTURE)
    world.lay_out(truth.layout)
    world.dress(look or draw_look(truth.row.look_seed, truth.row.look))
    pictures: dict[str, list[RgbImage]] = {view: [] for view in views}
    for row in range(len(truth.qpos)) if rows is None else rows:
        world.show(truth.qpos[row].astype(np.float64))
        for view in views:
            pictures[view].append(world.render(view))
    return pictures


def read_joints(folder: Path) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """The recorded joint states: stamps from the take's start, ns, (m,), and position and velocity (m, 2, joints).

    Raises:
        InputError: not a take's folder.
    """
    from mcap.reader import make_reader  # noqa: PLC0415 - only here

    stamps, rows = [], []
    (path,) = folder.glob("*.mcap")
    with path.open("rb") as stream:
        for _, _, message in make_reader(stream).iter_messages(topics=[f"{NAMESPACE}/joint_states"]):
            state = _types().deserialize_cdr(message.data, JOINT_STATE)
            stamps.append(state.header.stamp.sec * 1_000_000_000 + state.header.stamp.nanosec - START_NS)
            rows.append((state.position, state.velocity))
    if not rows:
        raise InputError(f"{path} holds no joint state: generate the take again")
    return np.array(stamps, dtype=np.int64), np.array(rows, dtype=np.float64)


def project(truth: Truth, look: Look, points: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Where points of the world lie in the pictures of a stored take.

    Args:
        truth: the take.
        look: where its cameras are.
        points: metres, world frame, shape (n, k, 3); NaN for what is not there.

    Returns:
        Shape (n, views, k, 3): x and y from -1 (left, top) to 1 (right, bottom), and 1 where the point lies in front of
        the camera and inside the picture, else 0 with x and y 0. What hides it plays no part.
    """
    world = shared_world(truth.row.arms, PICTURE)
    world.lay_out(truth.layout)
    world.dress(look)
    out = np.zeros((len(points), len(VIEWS), points.shape[1], 3))
    for row, qpos in enumerate(truth.qpos):
        world.show(qpos.astype(np.float64))
        for number, view in enumerate(VIEWS):
            out[row, number] = world.project(view, points[row])
    return out


# --- index ----------------------------------------------------------------------------------------------------------


def write_index(out: Path) -> list[TakeRow]:
    """Write ``index.parquet`` anew from the takes that are there, sorted by plan and seed; returns its rows.

    Raises:
        RolloutMonitorError: pyarrow is not installed.
    """
    rows = sorted((read_row(folder) for folder in (out / TAKES).iterdir()), key=lambda row: (row.plan, row.seed))
    pyarrow, parquet = _parquet()
    temporary = out / f"{INDEX}.tmp"
    parquet.write_table(pyarrow.Table.from_pylist([asdict(row) for row in rows]), temporary)
    temporary.replace(out / INDEX)
    return rows


def read_index(out: Path) -> list[TakeRow]:
    """All rows of a data set.

    Raises:
        InputError: no data set there.
        RolloutMonitorError: pyarrow is not installed.
    """
    path = out / INDEX
    if not path.is_file():
        raise InputError(
            f"no {INDEX} in {out}: make takes with `rollout-monitor sim generate --out {out} --plan train`"
        )
    _, parquet = _parquet()
    return [TakeRow(**row) for row in parquet.read_table(path).to_pylist()]


def _parquet() -> tuple[Any, Any]:
    try:
        import pyarrow  # noqa: PLC0415 - heavy, optional
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError as error:
        raise RolloutMonitorError(f"the index of takes needs pyarrow ({error}); run scripts/install_sim.sh") from error
    return pyarrow, parquet
