"""The same short take in every layout, for tests: a square that moves over a coloured background, and two joints."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
import numpy.typing as npt
import pytest
from bag_making import (
    EPISODE,
    IMAGE,
    JOINT_STATE,
    NS,
    START_NS,
    Message,
    compressed,
    image,
    joint_state,
    marker,
    record,
)

h5py = pytest.importorskip("h5py", reason="h5py is not installed: pip install '.[takes]'")
pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install '.[takes]'")
pq = pytest.importorskip("pyarrow.parquet")

Pictures = npt.NDArray[np.uint8]
FPS = 10
TASK = "move the square"
ROWS, COLUMNS = 48, 64


def pictures(frames: int = 20, *, seed: int = 0, still: bool = False) -> Pictures:
    """(frames, 48, 64, 3) RGB: the square is red, so that swapped colours are seen."""
    start = int(np.random.default_rng(seed).integers(0, 8))
    made = np.zeros((frames, ROWS, COLUMNS, 3), dtype=np.uint8)
    made[..., 1] = np.linspace(60, 120, ROWS, dtype=np.uint8)[None, :, None]
    made[..., 2] = 90
    for index in range(frames):
        left = start + (0 if still else 2 * index)
        made[index, 16:32, left : left + 16] = (200, 40, 30)
    return made


def joints(frames: int = 20) -> npt.NDArray[np.float32]:
    return np.stack([np.linspace(0, 1, frames), np.linspace(1, 0, frames)], axis=1).astype(np.float32)


def take_messages(
    shown: Pictures,
    *,
    episode: str | None = "take-1",
    label: int = 0,
    start_ns: int = START_NS,
    topics: Sequence[str] = ("/front/image_raw",),
    jpeg: bool = False,
) -> list[Message]:
    """A bag's messages: pictures of every topic and joints at 10 Hz, between markers unless ``episode`` is None."""
    made: list[Message] = []
    for index, picture in enumerate(shown):
        stamp = start_ns + index * NS // FPS
        for topic in topics:
            if jpeg:
                data = cv2.imencode(".jpg", picture[..., ::-1])[1].tobytes()
                made.append((topic, "sensor_msgs/msg/CompressedImage", stamp, compressed(stamp, data)))
            else:
                made.append((topic, IMAGE, stamp, image(stamp, picture)))
        made.append(("/joint_states", JOINT_STATE, stamp, joint_state(stamp, joints(len(shown))[index].tolist())))
    if episode is not None:
        end = start_ns + (len(shown) - 1) * NS // FPS
        made.insert(0, ("/rollout/episode", EPISODE, start_ns, marker(start_ns, 0, episode)))
        made.append(("/rollout/episode", EPISODE, end, marker(end, 1, episode, label)))
    return made


def make_bag(folder: Path, shown: Pictures | None = None, **how: Any) -> Path:
    return record(folder, take_messages(pictures() if shown is None else shown, **how))


def make_hdf5(
    path: Path,
    shown: Pictures | None = None,
    *,
    cameras: Sequence[str] = ("front",),
    store: str = "raw",
    swapped: bool = False,
    attrs: Mapping[str, Any] | None = None,
    qpos: npt.NDArray[Any] | None = None,
) -> Path:
    """An ARX/ALOHA episode; ``store`` is raw, padded or vlen, ``swapped`` as where OpenCV's encoder was given RGB."""
    shown = pictures() if shown is None else shown
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        file.attrs.update({"sim": False, "frame_rate": FPS, "task": TASK} if attrs is None else dict(attrs))
        file["/observations/qpos"] = joints(len(shown)) if qpos is None else qpos
        for camera in cameras:
            handed = shown if swapped else shown[..., ::-1]
            jpegs = [cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, 95])[1].reshape(-1) for picture in handed]
            key = f"/observations/images/{camera}"
            if store == "raw":
                file[key] = shown[..., ::-1] if swapped else shown
            elif store == "padded":
                rows = np.zeros((len(jpegs), max(map(len, jpegs)) + 7), dtype=np.uint8)
                for row, data in zip(rows, jpegs, strict=True):
                    row[: len(data)] = data
                file[key] = rows
            else:
                dataset = file.create_dataset(key, len(jpegs), dtype=h5py.vlen_dtype(np.uint8))
                for row, data in enumerate(jpegs):
                    dataset[row] = data
    return path


def make_mp4(path: Path, shown: Pictures, fps: int = FPS) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=fps, options={"crf": "10", "g": "5"})
        stream.width, stream.height, stream.pix_fmt = COLUMNS, ROWS, "yuv420p"
        stream.time_base = Fraction(1, fps)
        for index, picture in enumerate(shown):
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")
            frame.pts, frame.time_base = index, Fraction(1, fps)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def make_lerobot(
    root: Path,
    takes: Sequence[Pictures] | None = None,
    *,
    version: str = "v2.1",
    store: str = "video",
    columns: Mapping[str, Sequence[Any]] | None = None,
    metadata: Mapping[str, Sequence[Any]] | None = None,
    camera: str = "observation.images.front",
) -> Path:
    """A dataset of one episode per take; ``columns`` and ``metadata`` hold one value per episode."""
    takes = [pictures()] if takes is None else takes
    v3 = version.startswith("v3")
    tables, rows, at_s = [], [], 0.0
    for number, shown in enumerate(takes):
        count = len(shown)
        data: dict[str, Any] = {
            "observation.state": pa.array(joints(count).tolist(), type=pa.list_(pa.float32())),
            "timestamp": pa.array((np.arange(count) / FPS).astype(np.float32)),
            "frame_index": pa.array(range(count)),
            "episode_index": pa.array([number] * count),
            "task_index": pa.array([0] * count),
        }
        if store == "image":
            files = [cv2.imencode(".png", picture[..., ::-1])[1].tobytes() for picture in shown]
            kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
            data[camera] = pa.array([{"bytes": file, "path": f"{at}.png"} for at, file in enumerate(files)], type=kind)
        for name, values in (columns or {}).items():
            value = values[number]
            data[name] = pa.array(value if isinstance(value, list) else [value] * count)
        tables.append(pa.table(data))
        row: dict[str, Any] = {"episode_index": number, "tasks": [TASK], "length": count}
        row |= {name: values[number] for name, values in (metadata or {}).items()}
        if v3:
            row |= {"data/chunk_index": 0, "data/file_index": 0}
            if store == "video":
                row |= {f"videos/{camera}/chunk_index": 0, f"videos/{camera}/file_index": 0}
                row |= {f"videos/{camera}/from_timestamp": at_s, f"videos/{camera}/to_timestamp": at_s + count / FPS}
        at_s += count / FPS
        rows.append(row)
    _write_tables(root, v3, tables, rows)
    if store == "video" and v3:
        make_mp4(root / "videos" / camera / "chunk-000" / "file-000.mp4", np.concatenate(list(takes)))
    elif store == "video":
        for number, shown in enumerate(takes):
            make_mp4(root / "videos" / "chunk-000" / camera / f"episode_{number:06d}.mp4", shown)
    _write_info(root, version, store, camera)
    return root


def _write_tables(root: Path, v3: bool, tables: list[Any], rows: list[dict[str, Any]]) -> None:
    data, meta = root / "data" / "chunk-000", root / "meta"
    data.mkdir(parents=True)
    (meta / "episodes" / "chunk-000" if v3 else meta).mkdir(parents=True)
    if v3:
        with pq.ParquetWriter(data / "file-000.parquet", tables[0].schema) as writer:
            for table in tables:
                writer.write_table(table)
        pq.write_table(pa.Table.from_pylist(rows), meta / "episodes" / "chunk-000" / "file-000.parquet")
        # as pandas writes a table whose index is the text
        pq.write_table(pa.table({"task_index": [0], "__index_level_0__": [TASK]}), meta / "tasks.parquet")
        return
    for number, table in enumerate(tables):
        pq.write_table(table, data / f"episode_{number:06d}.parquet")
    (meta / "episodes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (meta / "tasks.jsonl").write_text(json.dumps({"task_index": 0, "task": TASK}) + "\n")


def _write_info(root: Path, version: str, store: str, camera: str) -> None:
    v3 = version.startswith("v3")
    info = {
        "codebase_version": version,
        "fps": FPS,
        "chunks_size": 1000,
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
        if v3
        else "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
        "video_path": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
        if v3
        else "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4",
        "features": {
            "observation.state": {"dtype": "float32", "shape": [2], "names": ["elbow", "wrist"]},
            camera: {"dtype": store, "shape": [ROWS, COLUMNS, 3], "names": ["height", "width", "channels"]},
        },
    }
    (root / "meta" / "info.json").write_text(json.dumps(info))
