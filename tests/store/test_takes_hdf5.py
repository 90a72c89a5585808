"""HDF5 episodes of the ARX/ALOHA kind: pictures in every packing, colours, rates, files that do not fit together."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from take_making import TASK, h5py, joints, make_hdf5, pictures

from rollout_monitor.errors import InputError
from rollout_monitor.store.takes import open_takes
from rollout_monitor.store.takes_hdf5 import Hdf5Options, hdf5_candidate, stamp_of_row


@pytest.mark.parametrize("store", ["raw", "padded", "vlen"])
@pytest.mark.parametrize("swapped", [False, True])
def test_packings_and_colours(tmp_path: Path, store: str, swapped: bool) -> None:
    make_hdf5(tmp_path / "a.hdf5", store=store, swapped=swapped)
    (take,) = open_takes(tmp_path, hdf5_colour="swapped" if swapped else "as-shown")
    frames = list(take.frames(10.0))
    assert len(frames) == 20
    for frame, want in zip(frames, pictures(), strict=True):
        assert np.abs(frame.images["front"].astype(int) - want).mean() < (0.1 if store == "raw" else 5.0)
    wrong = next(open_takes(tmp_path, hdf5_colour="as-shown" if swapped else "swapped")[0].frames())
    red, blue = wrong.images["front"][20, 12, 0], wrong.images["front"][20, 12, 2]
    assert blue > red  # the square is red


def test_what_the_file_says(tmp_path: Path) -> None:
    make_hdf5(tmp_path / "a.hdf5", attrs={"frame_rate": 30, "task": TASK.encode(), "success": np.bool_(True)})
    (take,) = open_takes(tmp_path)
    assert take.task == TASK
    assert [(claim.who, claim.success) for claim in take.claims] == [("attribute success", True)]
    assert take.duration_s == pytest.approx(19 / 30)
    items = list(take.joints())
    assert [item.stamp_ns for item in items[:4]] == [0, 33_333_334, 66_666_667, 100_000_000]
    assert items[0].names == ("joint_0", "joint_1")


@pytest.mark.parametrize(
    ("value", "success"), [(1, True), (0, False), ("fail", False), (np.array([1]), True), ("", None)]
)
def test_success_attribute(tmp_path: Path, value: Any, success: bool | None) -> None:
    make_hdf5(tmp_path / "a.hdf5", attrs={"frame_rate": 10, "success": value})
    assert open_takes(tmp_path)[0].success is success


def test_success_that_is_neither(tmp_path: Path) -> None:
    make_hdf5(tmp_path / "a.hdf5", attrs={"frame_rate": 10, "success": 0.7})
    with pytest.raises(InputError, match=r"a\.hdf5: attribute success is '0\.7'; expected true or false"):
        open_takes(tmp_path)


def test_rate_must_be_known(tmp_path: Path) -> None:
    make_hdf5(tmp_path / "a.hdf5", attrs={"sim": False, "compress": False})
    with pytest.raises(InputError, match=r"a\.hdf5: has no attribute frame_rate; say how many"):
        open_takes(tmp_path)
    (take,) = open_takes(tmp_path, hdf5_rate_hz=50.0)
    assert take.duration_s == pytest.approx(19 / 50)
    assert take.task is None
    make_hdf5(tmp_path / "a.hdf5", attrs={"frame_rate": 25})
    assert open_takes(tmp_path, hdf5_rate_hz=50.0)[0].duration_s == pytest.approx(19 / 25)
    for wrong in (0, -3, np.nan, "fast"):
        make_hdf5(tmp_path / "a.hdf5", attrs={"frame_rate": wrong})
        with pytest.raises(InputError, match="frame rate"):
            open_takes(tmp_path)


def test_row_stamps_are_on_their_grid() -> None:
    for rate in (5, 7, 10, 25, 30, 50, 29.97):
        exact = Fraction(rate).limit_denominator(1001)
        for row in range(2000):
            assert stamp_of_row(row, rate) == ceil(row / exact * 1_000_000_000)


def change(name: str, value: Any) -> Callable[[Any], None]:
    def do(file: Any) -> None:
        if name in file:
            del file[name]
        if value is not None:
            file[name] = value

    return do


FRONT = "/observations/images/front"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (change("/observations/images", None), "no pictures in /observations/images"),
        (change("/observations/images", np.zeros(3)), "no pictures in /observations/images"),
        (change(FRONT, np.zeros((20, 48, 64, 3), dtype=np.float32)), "front is float32 of shape"),
        (change(FRONT, np.zeros((20, 48, 64, 4), dtype=np.uint8)), "front is uint8 of shape"),
        (change(f"{FRONT}/deeper", np.zeros(3)), "front is a group"),
        (change("/observations/qpos", np.zeros((19, 14))), "rows do not fit together"),
        (change("/observations/qpos", np.zeros(20)), "expected numbers of shape"),
    ],
)
def test_files_that_do_not_fit(tmp_path: Path, damage: Callable[[Any], None], message: str) -> None:
    path = make_hdf5(tmp_path / "a.hdf5")
    with h5py.File(path, "r+") as file:
        if "deeper" in message or "is a group" in message:
            del file[FRONT]
        damage(file)
    with pytest.raises(InputError) as error:
        open_takes(tmp_path)
    assert f"{path}: " in str(error.value)
    assert message in str(error.value)


def test_no_rows_and_no_joints(tmp_path: Path) -> None:
    path = make_hdf5(tmp_path / "a.hdf5", pictures(0), qpos=np.zeros((0, 7)))
    with pytest.raises(InputError, match=r"a\.hdf5: holds no frames"):
        open_takes(tmp_path)
    make_hdf5(path)
    with h5py.File(path, "r+") as file:
        del file["/observations/qpos"]
    (take,) = open_takes(tmp_path)
    assert take.joint_sources == ()
    assert list(take.joints()) == []


def test_cut_short(tmp_path: Path) -> None:
    path = make_hdf5(tmp_path / "a.hdf5")
    path.write_bytes(path.read_bytes()[:50_000])
    with pytest.raises(InputError, match=r"a\.hdf5: cannot be read as HDF5"):
        open_takes(tmp_path)


def test_frames_are_read_though_their_file_was_closed(tmp_path: Path) -> None:
    path = make_hdf5(tmp_path / "a.hdf5", cameras=("front", "wrist"))
    (take,) = hdf5_candidate(path, Hdf5Options()).open()
    frames = list(take.reader.images(take.cameras))
    assert [(frame.camera, frame.stamp_ns) for frame in frames[:3]] == [
        ("front", 0),
        ("wrist", 0),
        ("front", 100_000_000),
    ]
    assert np.array_equal(frames[-1].decode(), pictures()[-1])
    path.unlink()
    with pytest.raises(InputError, match=r"a\.hdf5: cannot be read as HDF5"):
        frames[-1].decode()


def test_colour_must_be_known(tmp_path: Path) -> None:
    make_hdf5(tmp_path / "a.hdf5", qpos=joints())
    with pytest.raises(InputError, match="hdf5_colour 'bgr': expected one of as-shown, swapped"):
        open_takes(tmp_path, hdf5_colour="bgr")  # type: ignore[arg-type]
