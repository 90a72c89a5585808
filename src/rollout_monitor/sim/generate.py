"""Makes a data set of simulated rollouts: deterministic by seed, resumable, one process per core where asked.

On disk: ``index.jsonl`` (one line per rollout: id, task, mode, seed, split, outcome, text, files) and
``rollouts/<id>.npz``. A rollout file is written under a temporary name and renamed, so that one that exists is whole;
running the same command again makes only what is missing. Splits go by seed alone: the same seed is never in two.

Arrays of a rollout file (n frames, m joint samples):
    ``<camera>_jpeg`` uint8 (bytes,), ``<camera>_offsets`` int64 (n + 1,): the pictures as JPEG, quality 85
    ``stamps_ns`` int64 (n,); ``progress`` float64 (n,); ``done`` bool (n,); ``drops`` int64 (k, 2) stamps
    ``tool``, ``cubes``, ``flags``: the privileged states, see `rollout_monitor.sim.progress.pack`
    ``half`` float64 (2,), ``table_z`` float64 (): sizes by colour (NaN: absent), table height, metres
    ``qpos`` float32 (n, nq); ``joint_stamps_ns`` int64 (m,); ``joints`` float32 (m, 3, 7): position, velocity, effort
    ``meta``: the index line as JSON text
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from rollout_monitor.errors import InputError, RolloutMonitorError
from rollout_monitor.frames import RgbImage
from rollout_monitor.sim.cell import CAMERA_NAMES, CameraFrame, JointSample, SimCell
from rollout_monitor.sim.modes import MODE_SHARES, check_mode, modes_of
from rollout_monitor.sim.progress import pack
from rollout_monitor.sim.tasks import COLOURS, TASKS, get_task

JPEG_QUALITY = 85
TASK_SHARES = {"lift": 0.34, "stack_red_on_green": 0.33, "stack_green_on_red": 0.33}
INDEX = "index.jsonl"


@dataclass(frozen=True)
class RolloutPlan:
    """What one rollout shall be."""

    task: str
    mode: str
    seed: int

    @property
    def id(self) -> str:
        """File name and identifier."""
        return f"{self.task}-{self.mode}-{self.seed:06d}"


@dataclass(frozen=True)
class RolloutMeta:
    """One line of the index. Durations in seconds."""

    id: str
    task: str
    mode: str
    seed: int
    split: str
    text: str
    outcome: str
    frames: int
    duration_s: float
    frame_rate_hz: float


def split_of(seed: int) -> str:
    """``train`` (seven seeds of ten), ``val`` (one) or ``test`` (two), by the seed's last digit."""
    digit = seed % 10
    return "train" if digit < 7 else "val" if digit == 7 else "test"


def plan_rollouts(count: int, seed: int, task: str | None = None, mode: str | None = None) -> list[RolloutPlan]:
    """Decide tasks and modes of ``count`` rollouts with the seeds ``seed``, ``seed + 1``, ...

    A rollout's plan depends on its own seed only: a longer run begins with the shorter one.

    Raises:
        InputError: nothing to make, an unknown task, or a mode that does not fit.
    """
    if count < 1 or seed < 0:
        raise InputError(f"rollouts must be at least 1 and the seed at least 0, not {count} and {seed}")
    if task is not None:
        get_task(task)
    if mode is not None:
        check_mode(get_task(task or "stack_red_on_green"), mode)
    return [_plan_one(number, task, mode) for number in range(seed, seed + count)]


def _plan_one(seed: int, task: str | None, mode: str | None) -> RolloutPlan:
    rng = np.random.default_rng([seed, 7])
    names = [name for name in TASKS if mode is None or mode in modes_of(TASKS[name])]
    chosen = task or _draw(rng, {name: TASK_SHARES[name] for name in names})
    return RolloutPlan(chosen, mode or _draw(rng, {m: MODE_SHARES[m] for m in modes_of(TASKS[chosen])}), seed)


def _draw(rng: np.random.Generator, shares: dict[str, float]) -> str:
    weights = np.array(list(shares.values()))
    return list(shares)[int(rng.choice(len(weights), p=weights / weights.sum()))]


def generate(
    out: Path,
    plans: list[RolloutPlan],
    *,
    frame_rate_hz: float = 10.0,
    jobs: int = 1,
    report: Callable[[RolloutMeta], None] = lambda _: None,
) -> list[RolloutMeta]:
    """Make the rollouts that are not there yet and write the index.

    Args:
        out: folder of the data set; made if missing.
        plans: what to make.
        frame_rate_hz: camera rate.
        jobs: processes.
        report: called with every rollout that is ready.

    Returns:
        The index lines of all ``plans``, in their order.

    Raises:
        InputError: ``out`` holds rollouts of another frame rate.
        RolloutMonitorError: the simulation does not run here.
    """
    (out / "rollouts").mkdir(parents=True, exist_ok=True)
    metas = []
    for meta in _run(out, plans, frame_rate_hz, jobs):
        if meta.frame_rate_hz != frame_rate_hz:
            raise InputError(
                f"{out} holds {meta.id} at {meta.frame_rate_hz} Hz, not {frame_rate_hz} Hz: use another folder"
            )
        metas.append(meta)
        report(meta)
    write_index(out)
    return metas


def _run(out: Path, plans: list[RolloutPlan], rate: float, jobs: int) -> Iterator[RolloutMeta]:
    if jobs == 1:
        yield from (make_rollout(out, plan, rate) for plan in plans)
        return
    with ProcessPoolExecutor(max_workers=jobs) as pool:
        yield from pool.map(make_rollout, [out] * len(plans), plans, [rate] * len(plans))


def make_rollout(out: Path, plan: RolloutPlan, frame_rate_hz: float) -> RolloutMeta:
    """Make one rollout file unless it is there; returns its index line."""
    path = out / "rollouts" / f"{plan.id}.npz"
    if path.exists():
        return read_meta(path)
    cell = SimCell(plan.task, plan.mode, plan.seed, frame_rate_hz=frame_rate_hz)
    pictures: dict[str, list[bytes]] = {camera: [] for camera in CAMERA_NAMES}
    joints: list[JointSample] = []
    for sample in cell.run():
        if isinstance(sample, CameraFrame):
            pictures[sample.camera].append(encode_jpeg(sample.rgb, JPEG_QUALITY))
        else:
            joints.append(sample)
    meta = RolloutMeta(
        id=plan.id,
        task=plan.task,
        mode=plan.mode,
        seed=plan.seed,
        split=split_of(plan.seed),
        text=cell.task_text,
        outcome=cell.outcome,
        frames=len(cell.truth.stamps_ns),
        duration_s=joints[-1].stamp_ns / 1e9,
        frame_rate_hz=frame_rate_hz,
    )
    _write(path, _arrays(cell, pictures, joints), meta)
    return meta


def _arrays(cell: SimCell, pictures: dict[str, list[bytes]], joints: list[JointSample]) -> dict[str, npt.NDArray[Any]]:
    truth = cell.truth
    arrays: dict[str, npt.NDArray[Any]] = {
        "stamps_ns": truth.stamps_ns,
        "progress": truth.progress,
        "done": truth.done,
        "drops": np.array(truth.drops, dtype=np.int64).reshape(-1, 2),
        "half": np.array([truth.start.half.get(colour, np.nan) for colour in COLOURS]),
        "table_z": np.array(truth.start.table_z),
        "qpos": truth.qpos.astype(np.float32),
        "joint_stamps_ns": np.array([s.stamp_ns for s in joints], dtype=np.int64),
        "joints": np.array([(s.positions, s.velocities, s.efforts) for s in joints], dtype=np.float32),
    }
    arrays.update(pack(truth.states))
    for camera, encoded in pictures.items():
        arrays[f"{camera}_jpeg"] = np.frombuffer(b"".join(encoded), dtype=np.uint8)
        arrays[f"{camera}_offsets"] = np.cumsum([0, *(len(data) for data in encoded)], dtype=np.int64)
    return arrays


def _write(path: Path, arrays: dict[str, npt.NDArray[Any]], meta: RolloutMeta) -> None:
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    with temporary.open("wb") as file:
        np.savez(file, allow_pickle=False, meta=np.array(json.dumps(asdict(meta))), **arrays)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def read_meta(path: Path) -> RolloutMeta:
    """The index line inside a rollout file.

    Raises:
        InputError: not a rollout file.
    """
    try:
        with np.load(path) as arrays:
            return RolloutMeta(**json.loads(str(arrays["meta"])))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is not a rollout file ({error}); delete it and generate again") from error


def write_index(out: Path) -> list[RolloutMeta]:
    """Write ``index.jsonl`` anew from the files that are there, sorted by seed; returns its lines."""
    metas = sorted((read_meta(path) for path in (out / "rollouts").glob("*.npz")), key=lambda m: (m.seed, m.id))
    temporary = out / f"{INDEX}.tmp"
    temporary.write_text("".join(json.dumps(asdict(meta)) + "\n" for meta in metas), encoding="utf-8")
    temporary.replace(out / INDEX)
    return metas


def read_index(out: Path) -> list[RolloutMeta]:
    """All index lines of a data set.

    Raises:
        InputError: no data set there.
    """
    path = out / INDEX
    if not path.is_file():
        raise InputError(f"no {INDEX} in {out}: make a data set with `rollout-monitor sim generate --out {out}`")
    return [RolloutMeta(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def encode_jpeg(picture: RgbImage, quality: int) -> bytes:
    """RGB picture to JPEG bytes."""
    fine, data = cv2.imencode(".jpg", cv2.cvtColor(picture, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, quality])
    if not fine:
        raise RolloutMonitorError("a picture could not be encoded as JPEG")
    return data.tobytes()


def decode_pictures(arrays: Any, camera: str) -> Iterator[RgbImage]:
    """The pictures of one camera of an opened rollout file, RGB uint8 (height, width, 3)."""
    data, offsets = arrays[f"{camera}_jpeg"], arrays[f"{camera}_offsets"]
    for begin, end in itertools.pairwise(offsets):
        picture = cv2.imdecode(data[begin:end], cv2.IMREAD_COLOR)
        if picture is None:
            raise InputError(f"a picture of camera {camera} cannot be decoded: generate the rollout again")
        yield np.asarray(cv2.cvtColor(picture, cv2.COLOR_BGR2RGB), dtype=np.uint8)
