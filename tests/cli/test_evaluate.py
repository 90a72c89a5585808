"""`rollout-monitor evaluate` as a user calls it: on a bag made here, on public videos, and on what it must refuse."""

from __future__ import annotations

import json
from pathlib import Path

import av
import numpy as np
import pytest
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore
from typer.testing import CliRunner

from rollout_monitor.cli.main import build_app
from rollout_monitor.errors import InputError
from rollout_monitor.images import encode_jpeg
from rollout_monitor.records import EpisodeReport

NS = 1_000_000_000
T0 = 1_700_000_000 * NS


def run(*arguments: str) -> tuple[int, str, BaseException | None]:
    result = CliRunner().invoke(build_app(["evaluate"]), ["evaluate", *arguments])
    return result.exit_code, result.stdout, result.exception


def make_bag(path: Path, *, joints: int = 1, seconds: float = 6.0) -> Path:
    """A bag without episode markers: one JPEG camera at 10 Hz, joint states at 50 Hz."""
    store = get_typestore(Stores.ROS2_JAZZY)
    types = store.types
    header = types["std_msgs/msg/Header"]
    time = types["builtin_interfaces/msg/Time"]
    rng = np.random.default_rng(1)

    def head(stamp: int) -> object:
        return header(stamp=time(sec=stamp // NS, nanosec=stamp % NS), frame_id="")

    with Writer(path, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        kind = "sensor_msgs/msg/CompressedImage"
        camera = writer.add_connection("/cam/color/image_raw/compressed", kind, typestore=store)
        for i in range(int(seconds * 10)):
            stamp = T0 + i * NS // 10
            picture = encode_jpeg(rng.integers(0, 255, (48, 64, 3), dtype=np.uint8))
            msg = types[kind](header=head(stamp), format="jpeg", data=np.frombuffer(picture, dtype=np.uint8))
            writer.write(camera, stamp, store.serialize_cdr(msg, kind))
        kind = "sensor_msgs/msg/JointState"
        for j in range(joints):
            topic = writer.add_connection(f"/arm_{j}/joint_states", kind, typestore=store)
            for i in range(int(seconds * 50)):
                stamp = T0 + i * NS // 50
                msg = types[kind](
                    header=head(stamp),
                    name=["a", "b"],
                    position=np.array([np.sin(i / 50), np.cos(i / 50)]),
                    velocity=np.array([]),
                    effort=np.array([]),
                )
                writer.write(topic, stamp, store.serialize_cdr(msg, kind))
    return path


@pytest.fixture
def curve(tmp_path: Path) -> Path:
    path = tmp_path / "curve.csv"
    path.write_text("progress\n" + "\n".join(f"{min(1.0, i / 20):.3f}" for i in range(40)) + "\n", encoding="utf-8")
    return path


def recorded(curve: Path, rate: float = 5.0) -> list[str]:
    return ["--model", "recorded", "--curve", str(curve), "--curve-rate", str(rate)]


def test_a_bag_without_markers_is_judged_as_one_attempt(tmp_path: Path, curve: Path) -> None:
    bag = make_bag(tmp_path / "take_7")
    code, out, error = run(str(bag), "--task", "lift", *recorded(curve), "--json", "--out", str(tmp_path / "kept"))
    assert code == 0, error
    (report,) = (EpisodeReport.model_validate(one) for one in json.loads(out))
    assert report.episode_id == "take_7" and report.estimates == 30 and report.outcome.outcome.value == "success"
    assert report.joint_names == ["a", "b"] and report.motion is not None
    kept = tmp_path / "kept" / "take_7"
    assert EpisodeReport.model_validate_json((kept / "report.json").read_text(encoding="utf-8")) == report
    assert (kept / "report.html").read_text(encoding="utf-8").lstrip().lower().startswith("<!doctype html>")


def test_the_same_bag_gives_the_same_report(tmp_path: Path, curve: Path) -> None:
    bag = make_bag(tmp_path / "take")
    runs = [run(str(bag), "--task", "lift", *recorded(curve), "--json")[1] for _ in range(2)]
    assert runs[0] == runs[1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--task", "x", "--camera", "front"], "NAME=TOPIC"),
        (["--task", "x", "--camera", "front=/nope"], "/nope"),
        (["--task", "x", "--joints", "/nope"], "/nope"),
        ([], "--task"),
    ],
)
def test_what_cannot_be_judged_is_refused_with_the_remedy(
    tmp_path: Path, curve: Path, arguments: list[str], words: str
) -> None:
    code, _, error = run(str(make_bag(tmp_path / "take")), *arguments, *recorded(curve))
    assert code != 0 and isinstance(error, InputError) and words in str(error)


def test_several_arms_must_be_chosen_from(tmp_path: Path, curve: Path) -> None:
    bag = make_bag(tmp_path / "take", joints=2)
    _, _, error = run(str(bag), "--task", "x", *recorded(curve))
    assert isinstance(error, InputError) and "--joints" in str(error)
    code, _, error = run(str(bag), "--task", "x", "--joints", "/arm_1/joint_states", *recorded(curve))
    assert code == 0, error


def test_a_missing_file_and_a_missing_curve(tmp_path: Path, curve: Path) -> None:
    assert "no such file" in str(run(str(tmp_path / "none.mcap"), *recorded(curve))[2])
    assert "--curve" in str(run(str(tmp_path), "--model", "recorded")[2])


def seconds(video: Path) -> float:
    with av.open(str(video)) as container:
        stream = container.streams.video[0]
        return float(stream.duration * stream.time_base)


def test_every_public_demo_video_runs_through(public_data: Path, tmp_path: Path) -> None:
    videos = sorted(public_data.glob("prm_as_a_judge_demos/*/*/episode.mp4"))
    assert len(videos) == 10
    for video in videos:
        rows = (video.parent / "step_metrics.csv").read_text(encoding="utf-8").split()
        progress = [row.split(",")[1] for row in rows[1:]]
        curve = tmp_path / "curve.csv"
        curve.write_text("progress\n" + "\n".join(progress) + "\n", encoding="utf-8")
        task = (video.parent / "task.txt").read_text(encoding="utf-8").strip()
        code, out, error = run(str(video), "--task", task, *recorded(curve, len(progress) / seconds(video)), "--json")
        assert code == 0, (video, error)
        (report,) = (EpisodeReport.model_validate(one) for one in json.loads(out))
        assert report.estimates >= 0.9 * len(progress), video
        assert report.metrics_final is not None and report.state.value == "ENDED"
