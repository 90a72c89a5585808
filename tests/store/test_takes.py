"""A folder of takes, whatever recorded them: the same frames, names, labels by precedence, refusals with a reason."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from bag_making import START_NS
from take_making import TASK, joints, make_bag, make_hdf5, make_lerobot, pictures

from rollout_monitor.errors import InputError
from rollout_monitor.frames import FrameSet
from rollout_monitor.store.takes import Take, TakeKind, open_takes, unlabelled


def tree(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in sorted(folder.rglob("*"))}


def since_start(frames: list[FrameSet]) -> list[int]:
    return [frame.stamp_ns - frames[0].stamp_ns for frame in frames]


@pytest.fixture
def three_kinds(tmp_path: Path) -> Path:
    make_bag(tmp_path / "bag", episode=None)
    make_lerobot(tmp_path / "lerobot")
    make_hdf5(tmp_path / "episode.hdf5")
    return tmp_path


@pytest.mark.parametrize("rate_hz", [1.0, 5.0, 10.0])
def test_same_take_in_every_layout(three_kinds: Path, rate_hz: float) -> None:
    before = tree(three_kinds)
    takes = open_takes(three_kinds)
    assert [(take.id, take.kind) for take in takes] == [
        ("bag", TakeKind.BAG),
        ("episode", TakeKind.HDF5),
        ("lerobot/episode_000000", TakeKind.LEROBOT),
    ]
    frames = [list(take.frames(rate_hz)) for take in takes]
    every = round(10 / rate_hz)
    assert frames[0][0].stamp_ns == START_NS
    assert frames[1][0].stamp_ns == frames[2][0].stamp_ns == 0
    for one in frames:
        assert since_start(one) == [100_000_000 * index for index in range(0, 20, every)]
        for at, frame in enumerate(one):
            assert list(frame.images) == ["front"]
            assert dict(frame.stamps_ns) == {"front": frame.stamp_ns}
            shown = frame.images["front"]
            assert (shown.shape, shown.dtype) == ((48, 64, 3), np.uint8)
            assert np.abs(shown.astype(int) - pictures()[every * at]).mean() < 4.0
    for at in range(len(frames[0])):
        assert np.array_equal(frames[0][at].images["front"], frames[1][at].images["front"])
    for take in takes:
        assert take.cameras == ("front",)
        assert take.duration_s == pytest.approx(1.9)
        assert take.success is None
        positions = np.array([item.positions for item in take.joints()])
        assert np.allclose(positions, joints(), atol=1e-6)
    assert unlabelled(takes) == [take.id for take in takes]
    assert tree(three_kinds) == before


def test_task_given_and_recorded(three_kinds: Path) -> None:
    assert [take.task for take in open_takes(three_kinds)] == [None, TASK, TASK]
    takes = open_takes(three_kinds, task="push the square")
    assert {take.task for take in takes} == {"push the square"}
    assert [take.recorded_task for take in takes] == [None, TASK, TASK]
    assert [len(take.notes) for take in takes] == [0, 1, 1]
    assert takes[1].notes == (f"recorded as {TASK!r}, taken for 'push the square'",)


def test_names_are_paths_in_natural_order(tmp_path: Path) -> None:
    for name in ("take_10.hdf5", "take_9.h5", "monday/take_1.hdf5", ".pending/take_2.hdf5"):
        make_hdf5(tmp_path / name)
    make_bag(tmp_path / "take_9", episode=None)
    (tmp_path / "notes.txt").write_text("not a take")
    assert [take.id for take in open_takes(tmp_path)] == ["monday/take_1", "take_9", "take_9.h5", "take_10"]


def test_linked_folders_are_takes_too_but_once(tmp_path: Path) -> None:
    make_bag(tmp_path / "disk" / "take_1", episode=None)
    folder = tmp_path / "takes"
    folder.mkdir()
    (folder / "monday").symlink_to(tmp_path / "disk")
    (folder / "monday_again").symlink_to(tmp_path / "disk")
    (folder / "round").symlink_to(folder)
    assert [take.id for take in open_takes(folder)] == ["monday/take_1"]


def test_the_folder_itself_is_a_bag_or_a_dataset(tmp_path: Path) -> None:
    assert [take.id for take in open_takes(make_bag(tmp_path / "bag"))] == ["bag"]
    assert [take.id for take in open_takes(make_lerobot(tmp_path / "set"))] == ["episode_000000"]


def test_labels_go_before_all_else_and_erase_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "takes"
    make_hdf5(folder / "fail" / "a.hdf5", attrs={"frame_rate": 10, "success": True})
    make_hdf5(folder / "fail" / "b.hdf5")
    make_hdf5(folder / "c.hdf5")
    labels = tmp_path / "labels.csv"
    labels.write_text("take,success\nfail/a,no\nfail/b.hdf5,yes\n")
    a, b, c = (next(take for take in open_takes(folder, labels=labels) if take.id.endswith(name)) for name in "abc")
    assert [(claim.who, claim.success) for claim in a.claims] == [
        ("label file", False),
        ("attribute success", True),
        ("folder fail", False),
    ]
    assert a.claims[0].where == f"{labels} line 2"
    assert (a.success, a.said_by) == (False, "label file")
    assert any("claims disagree" in note for note in a.notes)
    assert (b.success, [claim.who for claim in b.claims]) == (True, ["label file", "folder fail"])
    assert (c.success, c.said_by, c.notes) == (None, None, ())
    assert unlabelled([a, b, c]) == ["c"]
    without = {take.id: (take.success, take.said_by) for take in open_takes(folder)}
    assert without == {"fail/a": (True, "attribute success"), "fail/b": (False, "folder fail"), "c": (None, None)}


def test_nearest_folder_name_counts(tmp_path: Path) -> None:
    make_hdf5(tmp_path / "success" / "Failed" / "a.hdf5")
    make_hdf5(tmp_path / "fail" / "succeeded" / "day 2" / "b.hdf5")
    make_bag(tmp_path / "success" / "c", episode=None)
    make_lerobot(tmp_path / "FAIL")
    said = {take.id: (take.success, take.said_by) for take in open_takes(tmp_path)}
    assert said == {
        "FAIL/episode_000000": (False, "folder FAIL"),
        "fail/succeeded/day 2/b": (True, "folder succeeded"),
        "success/Failed/a": (False, "folder Failed"),
        "success/c": (True, "folder success"),
    }


def test_label_for_a_take_that_is_not_there(tmp_path: Path) -> None:
    make_hdf5(tmp_path / "take_1.hdf5")
    labels = tmp_path / "labels.csv"
    labels.write_text("take,success\ntake_2,yes\n")
    with pytest.raises(InputError, match=r"labels\.csv line 2: there is no take 'take_2'; names look like 'take_1"):
        open_takes(tmp_path, labels=labels)


# --- cameras --------------------------------------------------------------------------------------------------------


def test_camera_that_some_takes_lack(tmp_path: Path) -> None:
    for number in range(9):
        make_hdf5(tmp_path / f"take_{number}.hdf5", cameras=("front", "wrist") if number < 2 else ("front",))
    with pytest.raises(InputError) as error:
        open_takes(tmp_path)
    message = str(error.value)
    assert "camera 'wrist' is missing in 7 of 9 takes: take_2, take_3, take_4, take_5, take_6 and 2 more" in message
    assert message.endswith("choose among those that all have: front")
    assert [take.cameras for take in open_takes(tmp_path, cameras=["front"])] == [("front",)] * 9
    with pytest.raises(InputError, match="camera 'side' is missing in 9 of 9 takes"):
        open_takes(tmp_path, cameras=["front", "side"])


def test_outside_view_is_primary_unless_said_otherwise(tmp_path: Path) -> None:
    make_hdf5(tmp_path / "a.hdf5", cameras=("a_wrist", "front"))
    assert open_takes(tmp_path)[0].cameras == ("front", "a_wrist")
    take = open_takes(tmp_path, cameras=["a_wrist", "front"])[0]
    assert take.cameras == ("a_wrist", "front")
    assert list(next(take.frames()).images) == ["a_wrist", "front"]
    assert list(next(take.frames(cameras=["front"])).images) == ["front"]
    for wrong in (["top"], [], ["front", "front"]):
        with pytest.raises(InputError, match="expected some of a_wrist, front, each once"):
            take.frames(cameras=wrong)


def test_cameras_by_source(tmp_path: Path) -> None:
    make_bag(tmp_path / "bag", topics=("/cell/cam_a/image_raw", "/cell/cam_b/image_raw"))
    cameras = {"scene": "/cell/cam_b/image_raw", "near": "cam_a"}
    assert open_takes(tmp_path, cameras=cameras)[0].cameras == ("scene", "near")
    with pytest.raises(InputError, match="camera name 'my cam'"):
        open_takes(tmp_path, cameras={"my cam": "cam_a"})
    with pytest.raises(InputError, match="expected names"):
        open_takes(tmp_path, cameras="cam_a")


# --- refusals -------------------------------------------------------------------------------------------------------


def test_no_takes(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected a folder with takes"):
        open_takes(tmp_path / "nowhere")
    (tmp_path / "movie.mp4").write_bytes(b"")
    with pytest.raises(InputError, match="holds no takes; expected rosbag2"):
        open_takes(tmp_path)


@pytest.mark.parametrize(("missing", "kind"), [("h5py", "HDF5"), ("pyarrow.parquet", "a LeRobot dataset")])
def test_missing_extra_is_an_error_and_no_take_to_leave_out(
    three_kinds: Path, monkeypatch: pytest.MonkeyPatch, missing: str, kind: str
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(InputError, match=rf"reading {kind} needs .*; pip install 'rollout-monitor\[takes\]'"):
        open_takes(three_kinds, leave_out=lambda _: None)


def test_unreadable_take_is_named_and_left_out_only_when_asked(tmp_path: Path) -> None:
    make_hdf5(tmp_path / "good.hdf5")
    (tmp_path / "bad.hdf5").write_bytes(b"\x89HDF\r\n\x1a\nnothing more")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "empty_0.mcap").write_bytes(b"")
    with pytest.raises(InputError, match="2 of the takes cannot be used") as error:
        open_takes(tmp_path)
    assert str(tmp_path / "bad.hdf5") in str(error.value)
    assert str(tmp_path / "empty") in str(error.value)
    told: list[str] = []
    assert [take.id for take in open_takes(tmp_path, leave_out=told.append)] == ["good"]
    assert len(told) == 2
    labels = tmp_path / "labels.csv"
    labels.write_text("take,success\ngood,yes\nbad,no\n")  # a label of a take that is left out is no mistake
    assert open_takes(tmp_path, labels=labels, leave_out=told.append)[0].success is True
    (tmp_path / "good.hdf5").unlink()
    with pytest.raises(InputError, match="no take is left that can be used"):
        open_takes(tmp_path, leave_out=told.append)


@pytest.mark.parametrize("store", ["raw", "padded"])
def test_take_without_motion(tmp_path: Path, store: str) -> None:
    rng = np.random.default_rng(1)
    noisy = np.clip(pictures(still=True) + rng.integers(-1, 2, (20, 48, 64, 3)), 0, 255).astype(np.uint8)
    make_hdf5(tmp_path / "moves.hdf5", store=store)
    make_hdf5(tmp_path / "still.hdf5", noisy, store=store)
    with pytest.raises(InputError, match=r"still\.hdf5: take still: camera front shows no motion in 1\.9 s"):
        open_takes(tmp_path)
    told: list[str] = []
    assert [take.id for take in open_takes(tmp_path, leave_out=told.append)] == ["moves"]
    assert len(told) == 1


def test_motion_late_in_a_take_is_motion(tmp_path: Path) -> None:
    shown = np.concatenate([np.repeat(pictures()[:1], 30, axis=0), pictures()])
    make_hdf5(tmp_path / "late.hdf5", shown)
    assert len(open_takes(tmp_path)) == 1


def test_short_take_is_looked_at_closely(tmp_path: Path) -> None:
    make_hdf5(tmp_path / "short.hdf5", attrs={"frame_rate": 50})
    assert open_takes(tmp_path)[0].duration_s == pytest.approx(0.38)


def test_frame_that_does_not_decode_names_the_take(tmp_path: Path) -> None:
    path = make_hdf5(tmp_path / "a.hdf5", store="padded")
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "r+") as file:
        file["/observations/images/front"][12] = 0
    take = open_takes(tmp_path)[0]
    with pytest.raises(InputError, match=r"a\.hdf5: take a: camera front at 1200000000 ns"):
        list(take.frames())
    told: list[str] = []
    assert len(list(take.frames(on_bad=lambda _, line: told.append(line)))) == 9
    assert len(told) == 1


def test_joint_streams_to_choose_from(tmp_path: Path) -> None:
    make_hdf5(tmp_path / "a.hdf5")
    take = open_takes(tmp_path)[0]
    assert take.joint_sources == ("/observations/qpos",)
    with pytest.raises(InputError, match=r"no joint stream 'qvel'; it has /observations/qpos"):
        take.joints("qvel")
    two = Take(**{**vars(take), "joint_sources": ("left", "right")})
    with pytest.raises(InputError, match="several joint streams, choose one: left, right"):
        two.joints()
