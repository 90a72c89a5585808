"""`rollout-monitor score`: many videos at once, the numbers of the live model."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import av
import numpy as np
import pyarrow.parquet as pq
import pytest

from rollout_monitor.cli.main import main
from rollout_monitor.frames import FrameSet
from rollout_monitor.prm.embedded import EmbeddedModel
from rollout_monitor.store.videos import read_video

TASK = "stack the red cube on the green cube"


@pytest.fixture
def model_folder(root: Path) -> Path:
    return root / "tests" / "prm" / "data" / "tiny_model"


def make_video(path: Path, seconds: int, seed: int) -> Path:
    path.parent.mkdir(exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=5)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        scene = np.random.default_rng(seed).integers(0, 200, (48, 64, 3))
        for number in range(5 * seconds):
            picture = np.clip(scene + 3 * number, 0, 255).astype(np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode(None))
    return path


@pytest.fixture
def videos(tmp_path: Path) -> Path:
    folder = tmp_path / "videos"
    for seed, seconds in enumerate((6, 2, 4)):
        make_video(folder / f"{seed}.mp4", seconds, seed)
    (folder / "notes.txt").write_text("no video")
    return folder


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["score", *map(str, arguments)])
    return int(ended.value.code or 0)


def test_curves_are_those_of_the_live_model(videos: Path, model_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "curves.csv"
    given = ("--task", TASK, "--model-path", model_folder, "--rate", 2.5, "--jobs", 2)
    assert run(videos, *given, "--out", out) == 0
    with out.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    model = EmbeddedModel(model_folder)
    assert sorted({row["video"] for row in rows}) == [str(videos / f"{k}.mp4") for k in range(3)]
    for path in sorted(videos.glob("*.mp4")):
        model.reset(TASK)
        mine = [row for row in rows if row["video"] == str(path)]
        pictures = list(read_video(path, 2.5))
        assert [int(row["stamp_ns"]) for row in mine] == [stamp for stamp, _ in pictures]
        for row, (stamp, picture) in zip(mine, pictures, strict=True):
            want = model.observe(FrameSet(stamp, {"front": picture}, {"front": stamp}))
            for name in ("progress", "lower", "upper", "success_probability"):
                assert float(row[name]) == pytest.approx(getattr(want, name), abs=1e-5)
            assert (row["direction"], int(row["subtask"])) == (want.direction.value, want.subtask)


def test_parquet_holds_the_same(videos: Path, model_folder: Path, tmp_path: Path) -> None:
    given = (videos / "0.mp4", videos / "1.mp4", "--task", TASK, "--model-path", model_folder, "--jobs", 1)
    for name in ("curves.csv", "curves.parquet"):
        assert run(*given, "--out", tmp_path / name) == 0
    table = pq.read_table(tmp_path / "curves.parquet").to_pylist()
    with (tmp_path / "curves.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(table) == len(rows) == 8
    for one, other in zip(table, rows, strict=True):
        assert {name: str(value) for name, value in one.items()} == other


def test_the_summary_tells_of_each_video(videos: Path, model_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(videos, "--task", f"{TASK} gently", "--model-path", model_folder, "--json") == 0
    told = capsys.readouterr()
    summaries = json.loads(told.out)
    assert [(Path(one["video"]).name, one["pictures"]) for one in summaries] == [
        ("0.mp4", 6),
        ("1.mp4", 2),
        ("2.mp4", 4),
    ]
    for one in summaries:
        assert 0.0 <= one["last_progress"] <= one["highest_progress"] <= 1.0
    assert "'gently'" in told.err, "a word the model never saw"
    assert run(videos, "--task", TASK, "--model-path", model_folder) == 0
    assert "pictures" in capsys.readouterr().out


def test_a_video_that_cannot_be_read_costs_no_other(
    videos: Path, model_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (videos / "1.mp4").write_bytes(b"this is no video at all")
    assert run(videos, "--task", TASK, "--model-path", model_folder, "--json") == 1
    told = capsys.readouterr()
    assert [one["pictures"] for one in json.loads(told.out)] == [6, 0, 4]
    assert "1.mp4" in told.err


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (["--rate", "0"], "--rate"),
        (["--jobs", "0"], "--jobs"),
        (["--out", "curves.txt"], "curves.txt"),
        (["--out", "nowhere/curves.csv"], "nowhere"),
        (["missing.mp4"], "missing.mp4: no such file"),
        (["--task", " "], "the task text is empty"),
        (["empty"], "empty: no video in this folder"),
    ],
)
def test_refusals_come_before_any_work(
    videos: Path,
    model_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    match: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    assert run(videos, "--task", TASK, "--model-path", model_folder, *arguments) == 2
    told = capsys.readouterr()
    assert match in told.err and told.out == ""
