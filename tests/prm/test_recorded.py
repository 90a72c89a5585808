"""A recorded curve as a model: by stamp, by count, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from rollout_monitor.errors import InputError, ModelError
from rollout_monitor.frames import FrameSet
from rollout_monitor.prm.protocol import ProgressModel
from rollout_monitor.prm.recorded import RecordedModel

PICTURE = np.zeros((4, 4, 3), dtype=np.uint8)
BASE = 1_700_000_000_000_000_000


def frames(stamp_ns: int) -> FrameSet:
    return FrameSet(stamp_ns, {"front": PICTURE}, {"front": stamp_ns})


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_rows_without_stamps_are_counted(tmp_path: Path) -> None:
    model = RecordedModel(write(tmp_path, "curve.json", "[0.1, 0.5, 1]"))
    assert isinstance(model, ProgressModel)
    for _ in range(2):
        model.reset("anything")
        assert [model.observe(frames(BASE + k)).progress for k in range(3)] == [0.1, 0.5, 1.0]
    with pytest.raises(ModelError, match="no row for frame set 4"):
        model.observe(frames(BASE + 3))


def test_rows_with_relative_stamps_follow_the_rollout(tmp_path: Path) -> None:
    model = RecordedModel(write(tmp_path, "curve.csv", "stamp_s,progress,lower\n0,0.0,\n0.4,0.3,0.2\n1.0,0.9,0.8\n"))
    model.reset("lift")
    seen = [model.observe(frames(BASE + ms * 1_000_000)) for ms in (0, 200, 400, 800, 1200)]
    assert [o.progress for o in seen] == [0.0, 0.0, 0.3, 0.3, 0.9]
    assert [o.lower for o in seen] == [None, None, 0.2, 0.2, 0.8]


def test_absolute_stamps_are_taken_as_they_are(tmp_path: Path) -> None:
    rows = [{"stamp_ns": BASE + k * 100, "progress": k / 10, "success_probability": 0.5} for k in range(1, 4)]
    model = RecordedModel(write(tmp_path, "curve.json", json.dumps({"curve": rows})))
    model.reset("lift")
    assert model.observe(frames(BASE + 250)).progress == 0.2
    with pytest.raises(ModelError, match="no row"):
        model.observe(frames(BASE))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "progress\n", "holds no sample"),
        ("a.csv", "progress\n0.1\n1.2\n", "row 2: progress is 1.2, outside"),
        ("a.csv", "progress\n0.1\nnan\n", "row 2: progress is 'nan', not a number"),
        ("a.csv", "value\n0.1\n", "row 1: no value under 'progress'"),
        ("a.csv", "stamp_s,progress\n0,0\n0,0.1\n", "stamps do not rise"),
        ("a.csv", "stamp_s,progress\n0,0\n,0.1\n", "some rows have a stamp"),
        ("a.json", "{", "cannot be read"),
        ("a.json", '{"values": [1]}', "expected a list"),
        ("a.json", "[true]", "True, not a number"),
        ("a.json", "[null]", "no value under 'progress'"),
    ],
)
def test_bad_files_are_refused(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        RecordedModel(write(tmp_path, name, text))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.csv"):
        RecordedModel(tmp_path / "nowhere.csv")
