"""LeRobot datasets of both layouts, read without LeRobot: several episodes a file, AV1, image columns, damage."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from take_making import TASK, Pictures, make_lerobot, pa, pictures, pq

from rollout_monitor.errors import InputError
from rollout_monitor.store.takes import open_takes, unlabelled
from rollout_monitor.store.takes_grid import frame_sets
from rollout_monitor.store.takes_lerobot import lerobot_candidates

FRONT = "observation.images.front"
V2, V3 = "v2.1", "v3.0"


def three() -> list[Pictures]:
    return [pictures(12, seed=1), pictures(7, seed=2), pictures(15, seed=3)]


def rewrite(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    info = json.loads(path.read_text())
    change(info)
    path.write_text(json.dumps(info))


@pytest.mark.parametrize("store", ["video", "image"])
@pytest.mark.parametrize("version", [V2, V3])
def test_every_episode_has_its_own_frames(tmp_path: Path, version: str, store: str) -> None:
    make_lerobot(tmp_path, three(), version=version, store=store)
    takes = open_takes(tmp_path)
    assert [take.id for take in takes] == ["episode_000000", "episode_000001", "episode_000002"]
    assert {take.task for take in takes} == {TASK}
    for take, want in zip(takes, three(), strict=True):
        for rate_hz, every in ((10.0, 1), (5.0, 2)):
            frames = list(take.frames(rate_hz))
            assert [frame.stamp_ns for frame in frames] == [index * 100_000_000 for index in range(0, len(want), every)]
            for frame, picture in zip(frames, want[::every], strict=True):
                difference = np.abs(frame.images["front"].astype(int) - picture).mean()
                assert difference == 0.0 if store == "image" else difference < 4.0
        items = list(take.joints())
        assert [item.stamp_ns for item in items] == [index * 100_000_000 for index in range(len(want))]
        assert items[0].names == ("elbow", "wrist")
        assert items[-1].positions == pytest.approx([1.0, 0.0])


@pytest.mark.parametrize("rows_per_group", [1, 5, 100])
def test_pictures_of_episodes_that_share_row_groups(tmp_path: Path, rows_per_group: int) -> None:
    make_lerobot(tmp_path, three(), version=V3, store="image")
    path = tmp_path / "data/chunk-000/file-000.parquet"
    pq.write_table(pq.read_table(path), path, row_group_size=rows_per_group)
    for take, want in zip(open_takes(tmp_path), three(), strict=True):
        assert np.array_equal([frame.images["front"] for frame in take.frames(10.0)], want)


def test_timestamps_in_float32_stay_on_their_grid(tmp_path: Path) -> None:
    """Row 7 of 10 Hz is at 0.69999999 s in float32, before the tick of 0.7 s."""
    assert float(np.float32(0.7)) < 0.7
    make_lerobot(tmp_path, [pictures(20)])
    assert len(list(open_takes(tmp_path)[0].frames(10.0))) == 20


def test_timestamps_of_an_uneven_recording_are_kept(tmp_path: Path) -> None:
    times = [0.0, 0.13, 0.2, 0.31, 0.4]
    make_lerobot(tmp_path, [pictures(5)], store="image", columns={"timestamp": [times]})
    stamps = [frame.stamp_ns for frame in open_takes(tmp_path)[0].frames(30.0)]
    assert stamps == [0, 130_000_000, 200_000_000, 310_000_000, 400_000_000]


@pytest.mark.parametrize("version", [V2, V3])
@pytest.mark.parametrize("column", ["success", "next.success"])
def test_success_column(tmp_path: Path, version: str, column: str) -> None:
    nothing = [float("nan")] * 15  # as pandas writes a column without values
    make_lerobot(tmp_path, three(), version=version, columns={column: [[0.0] * 11 + [1.0], [0.0] * 7, nothing]})
    takes = open_takes(tmp_path)
    assert [take.success for take in takes] == [True, False, None]
    assert [take.said_by for take in takes] == [f"column {column}", f"column {column}", None]
    assert unlabelled(takes) == ["episode_000002"]


@pytest.mark.parametrize("version", [V2, V3])
def test_success_in_the_metadata_comes_after_the_column(tmp_path: Path, version: str) -> None:
    make_lerobot(
        tmp_path,
        three()[:2],
        version=version,
        columns={"next.success": [[True] * 12, [False] * 7]},
        metadata={"success": [False, False]},
    )
    first, second = open_takes(tmp_path)
    assert [(claim.who, claim.success) for claim in first.claims] == [
        ("column next.success", True),
        ("episode metadata", False),
    ]
    assert first.claims[1].where.endswith(": success")
    assert (first.success, second.success) == (True, False)
    assert "claims disagree" in first.notes[0]


def test_success_that_is_neither(tmp_path: Path) -> None:
    make_lerobot(tmp_path, columns={"success": [0.5]})
    with pytest.raises(InputError, match=r"column success is '0\.5'; expected true or false"):
        open_takes(tmp_path)


@pytest.mark.parametrize("version", [V2, V3])
def test_task_by_its_number(tmp_path: Path, version: str) -> None:
    make_lerobot(tmp_path, version=version, metadata={"tasks": [[]]})
    assert open_takes(tmp_path)[0].task == TASK


def test_several_tasks(tmp_path: Path) -> None:
    make_lerobot(tmp_path, metadata={"tasks": [["one", "two"]]})
    (take,) = open_takes(tmp_path)
    assert take.task == "one"
    assert take.notes == ("has 2 tasks; the first is taken: 'one'",)


def test_depth_is_no_camera(tmp_path: Path) -> None:
    make_lerobot(tmp_path)
    depth = {"dtype": "video", "shape": [48, 64, 3], "info": {"video.is_depth_map": True}}
    rewrite(tmp_path / "meta" / "info.json", lambda info: info["features"].update({"observation.images.top": depth}))
    assert open_takes(tmp_path)[0].cameras == ("front",)


def without(key: str) -> Callable[[dict[str, Any]], None]:
    return lambda info: info.pop(key)


def put(key: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda info: info.update({key: value})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("codebase_version", "v1.6"), "codebase_version 'v1.6'; v2.x and v3.x are read"),
        (put("codebase_version", "v4.0"), "codebase_version 'v4.0'"),
        (put("fps", 0), "fps 0; expected frames per second"),
        (put("fps", "10"), "fps '10'"),
        (put("features", []), "features: expected a table"),
        (put("features", {}), "no camera among the features"),
        (put("data_path", "../{episode_index}.parquet"), "expected a path within the dataset"),
        (put("video_path", "/etc/{episode_index}"), "expected a path within the dataset"),
        (put("video_path", "{nobody}"), "cannot be filled in"),
        (without("data_path"), "data_path None"),
        (put("data_path", "data/{episode_index}.parquet"), "0.parquet: is not there; download the whole dataset"),
    ],
)
def test_info_that_cannot_be_used(tmp_path: Path, change: Callable[[dict[str, Any]], None], message: str) -> None:
    make_lerobot(tmp_path)
    rewrite(tmp_path / "meta" / "info.json", change)
    with pytest.raises(InputError) as error:
        open_takes(tmp_path)
    assert message in str(error.value)
    assert str(tmp_path) in str(error.value)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def shorter_video(root: Path) -> None:
    longer = make_lerobot(root.parent / "other", [pictures(9)])
    video = f"videos/chunk-000/{FRONT}/episode_000000.mp4"
    (longer / video).replace(root / video)
    for path in sorted(longer.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda root: cut(root / "data/chunk-000/episode_000000.parquet"), "cannot be read as parquet"),
        (lambda root: cut(root / f"videos/chunk-000/{FRONT}/episode_000000.mp4"), "cannot be read as a video"),
        (lambda root: (root / f"videos/chunk-000/{FRONT}/episode_000000.mp4").unlink(), "the video of episode_000000"),
        (shorter_video, "0.90 s long, but episode_000000 goes to 1.90 s"),
        (lambda root: (root / "meta/episodes.jsonl").unlink(), "episodes.jsonl: is not there"),
        (lambda root: (root / "meta/episodes.jsonl").write_text(""), "the dataset lists no episodes"),
        (lambda root: (root / "meta/episodes.jsonl").write_text("{}\n"), "episode_index is None; expected a number"),
        (lambda root: (root / "meta/episodes.jsonl").write_text("\n[1]\n"), "line 2: expected a JSON object"),
        (lambda root: (root / "meta/episodes.jsonl").write_text("{\n"), "line 1: no JSON"),
        (
            lambda root: (root / "meta/episodes.jsonl").write_text('{"episode_index": 0, "length": 21}'),
            "20 rows of episode 0, but episodes.jsonl says 21",
        ),
        (lambda root: (root / "meta/info.json").write_bytes(b"\xff"), "info.json: cannot be read"),
    ],
)
def test_damaged_files(tmp_path: Path, damage: Callable[[Path], Any], message: str) -> None:
    root = make_lerobot(tmp_path / "set")
    damage(root)
    with pytest.raises(InputError) as error:
        open_takes(tmp_path)
    assert message in str(error.value)
    assert str(root) in str(error.value)


def test_missing_episode_is_left_out_by_name(tmp_path: Path) -> None:
    make_lerobot(tmp_path, three())
    (tmp_path / "data/chunk-000/episode_000001.parquet").unlink()
    told: list[str] = []
    takes = open_takes(tmp_path, leave_out=told.append)
    assert [take.id for take in takes] == ["episode_000000", "episode_000002"]
    assert len(told) == 1
    assert "episode_000001.parquet: is not there" in told[0]


def test_rows_of_another_episode_in_between(tmp_path: Path) -> None:
    make_lerobot(tmp_path, [pictures(4), pictures(4)], version=V3)
    path = tmp_path / "data/chunk-000/file-000.parquet"
    table = pq.read_table(path)
    pq.write_table(table.take([0, 4, 1, 5, 2, 6, 3, 7]), path)
    with pytest.raises(InputError, match="the rows of episode 0 do not lie together"):
        open_takes(tmp_path)


def test_picture_outside_the_dataset_is_not_read(tmp_path: Path) -> None:
    make_lerobot(tmp_path / "set", store="image")
    path = tmp_path / "set/data/chunk-000/episode_000000.parquet"
    table = pq.read_table(path)
    kind = table.schema.field(FRONT).type
    outside = pa.array([{"bytes": None, "path": "../secret.png"}] * table.num_rows, type=kind)
    pq.write_table(table.set_column(table.column_names.index(FRONT), FRONT, outside), path)
    take = lerobot_candidates(tmp_path / "set")[0].open()[0]
    with pytest.raises(InputError, match=r"'\.\./secret\.png': expected a path within the dataset"):
        list(frame_sets(take.reader.images(take.cameras), ["front"], 10.0))


@pytest.fixture(scope="module", params=[V2, V3])
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    root = make_lerobot(tmp_path_factory.mktemp("fuzz") / "set", version=request.param)
    return root, (root / "meta" / "info.json").read_text()


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=4,
)


@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_strange_info_is_an_input_error(whole: tuple[Path, str], data: st.DataObject) -> None:
    root, text = whole
    info = json.loads(text)
    place = data.draw(st.sampled_from([info, info["features"], *info["features"].values()]))
    place[data.draw(st.sampled_from([*sorted(place), "info"]))] = data.draw(ANYTHING)
    (root / "meta" / "info.json").write_text(json.dumps(info))
    try:
        takes = open_takes(root)
        assert [len(list(take.frames(10.0))) for take in takes] == [20]
        assert all(len(list(take.joints())) == 20 for take in takes)
    except InputError as error:
        assert str(root) in str(error)


@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_strange_episodes_are_an_input_error(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    root = tmp_path_factory.getbasetemp() / "strange"
    if not root.exists():
        make_lerobot(root)
    row = {"episode_index": 0, "tasks": [TASK], "length": 20, "success": True}
    row[data.draw(st.sampled_from(sorted(row)))] = data.draw(ANYTHING)
    (root / "meta" / "episodes.jsonl").write_text(json.dumps(row))
    try:
        assert len(open_takes(root)) == 1
    except InputError as error:
        assert str(root) in str(error)


# --- public recordings ----------------------------------------------------------------------------------------------


def test_public_av1_episode(public_data: Path) -> None:
    """A dataset of which one episode of a hundred was downloaded; its video is AV1."""
    root = public_data / "recordings" / "lerobot_v21_av1"
    with pytest.raises(InputError, match=r"99 of the takes cannot be used: .*episode_000000\.parquet: is not there"):
        open_takes(root)
    told: list[str] = []
    (take,) = open_takes(root, leave_out=told.append)
    assert len(told) == 99
    assert (take.id, take.task) == ("episode_000001", "Pick up the yellow bottle on the table.")
    assert take.cameras == ("cam_high",)
    frames = list(take.frames(1.0))
    assert [frame.stamp_ns for frame in frames] == [index * 1_000_000_000 for index in range(14)]
    assert frames[0].images["cam_high"].shape == (480, 640, 3)
    items = list(take.joints())
    assert len(items) == 393
    assert items[0].names[:2] == ("kLeftShoulderPitch", "kLeftShoulderRoll")
    assert items[0].positions[0] == pytest.approx(-0.5860406)


@pytest.mark.parametrize(
    ("name", "colour"), [("lerobotv2", (0, 0, 254)), ("lerobotv2-image", (0, 100, 255)), ("lerobotv3", (0, 0, 254))]
)
def test_public_small_datasets(public_data: Path, name: str, colour: tuple[int, int, int]) -> None:
    """Three frames of one colour in each of two episodes: read well, and refused as takes."""
    root = public_data / "recordings" / "lerobot_fixtures" / "tests" / "fixtures" / "datasets" / name
    with pytest.raises(InputError, match=r"2 of the takes cannot be used: .*camera cam shows no motion"):
        open_takes(root)
    for candidate in lerobot_candidates(root):
        (take,) = candidate.open()
        assert take.task == "pick cube"
        frames = list(frame_sets(take.reader.images(take.cameras), ["cam"], 10.0))
        assert [frame.stamp_ns for frame in frames] == [0, 100_000_000, 200_000_000]
        assert tuple(frames[1].images["cam"][32, 32].tolist()) == colour
        items = list(take.reader.joints("observation.state"))
        assert [(item.stamp_ns, item.names) for item in items] == [(frame.stamp_ns, ("joint1",)) for frame in frames]
        assert [item.positions.shape for item in items] == [(1,)] * 3
