"""`rollout-monitor evaluate` on recordings with damage: what can be read is judged, and what is missing is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from mcap.reader import make_reader
from rosbags.typesys import Stores, get_typestore
from test_evaluate import make_bag
from typer.testing import CliRunner

from rollout_monitor.cli.main import build_app
from rollout_monitor.records import EpisodeReport
from rollout_monitor.store.bags import open_bag
from rollout_monitor.store.messages import COMPRESSED_IMAGE
from rollout_monitor.store.recording import EpisodeRecording

STORE = get_typestore(Stores.ROS2_JAZZY)
UNREADABLE_FROM, UNREADABLE_TO = 20, 30


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    curve = tmp_path / "curve.csv"
    curve.write_text("progress\n" + "\n".join(f"{i / 40:.3f}" for i in range(40)) + "\n", encoding="utf-8")
    return ["--task", "lift", "--model", "recorded", "--curve", str(curve), "--curve-rate", "5", "--json"]


def judged(bag: Path, arguments: list[str]) -> tuple[EpisodeReport, str]:
    result = CliRunner().invoke(build_app(["evaluate"]), ["evaluate", str(bag), *arguments])
    assert result.exit_code == 0, result.exception
    (report,) = (EpisodeReport.model_validate(one) for one in json.loads(result.stdout))
    return report, result.stderr


def recorded_again(bag: Path, folder: Path, *, cut_frames: bool = False) -> Path:
    """The same messages by the recorder, which writes several chunks; ten frames cut short where asked for."""
    frames = 0
    with open_bag(bag) as source, EpisodeRecording(folder) as target:
        for message in source.messages():
            raw = message.raw
            if message.type == COMPRESSED_IMAGE:
                frames += 1
                if cut_frames and UNREADABLE_FROM < frames <= UNREADABLE_TO:
                    fields = source.decode(message)
                    fields = STORE.types[message.type](
                        header=fields.header, format=fields.format, data=fields.data[:-40]
                    )
                    raw = bytes(STORE.serialize_cdr(fields, message.type))
            target.add_topic(message.topic, message.type, STORE.generate_msgdef(message.type, ros_version=2)[0])
            target.write(message.topic, message.log_ns, message.log_ns, raw)
    return folder


def test_a_damaged_chunk_is_told_on_the_screen_and_in_the_report(tmp_path: Path, arguments: list[str]) -> None:
    bag = recorded_again(make_bag(tmp_path / "made"), tmp_path / "take")
    whole, _ = judged(bag, arguments)
    (file,) = bag.glob("*.mcap")
    with file.open("rb") as stream:
        summary = make_reader(stream).get_summary()
    assert summary is not None and len(summary.chunk_indexes) > 3
    chunk = summary.chunk_indexes[2]
    content = bytearray(file.read_bytes())
    content[chunk.chunk_start_offset + chunk.chunk_length // 2] ^= 0xFF
    file.write_bytes(content)
    report, screen = judged(bag, arguments)
    (note,) = [note for note in report.notes if "the recording is damaged" in note]
    assert str(chunk.message_start_time) in note and "messages could not be read" in note
    assert not [note for note in whole.notes if "damaged" in note]
    assert "warning: the recording is damaged" in screen
    assert 0.5 * whole.estimates < report.estimates < whole.estimates
    assert (report.start_ns, report.end_ns) == (whole.start_ns, whole.end_ns)


def test_a_file_cut_short_is_told_on_the_screen_and_in_the_report(tmp_path: Path, arguments: list[str]) -> None:
    bag = recorded_again(make_bag(tmp_path / "made"), tmp_path / "take")
    (file,) = bag.glob("*.mcap")
    file.write_bytes(file.read_bytes()[: file.stat().st_size * 2 // 3])
    report, screen = judged(bag, arguments)
    assert [note for note in report.notes if "is cut short" in note and "anything later is lost" in note]
    assert "warning: " in screen and "is cut short" in screen


def test_unreadable_frames_are_counted_and_the_next_ones_taken(tmp_path: Path, arguments: list[str]) -> None:
    bag = recorded_again(make_bag(tmp_path / "made"), tmp_path / "take", cut_frames=True)
    report, _ = judged(bag, arguments)
    (camera,) = report.cameras
    assert camera.bad == UNREADABLE_TO - UNREADABLE_FROM
    assert report.missing_estimates == 0, "no unreadable frame was offered to the model"
    assert report.estimates == 30 - (UNREADABLE_TO - UNREADABLE_FROM) // 2


def test_a_depth_camera_is_not_taken_for_the_front_view(tmp_path: Path, arguments: list[str]) -> None:
    """By its name it would come first: /camera/aligned_depth... before /camera/color...."""
    bag = recorded_again(make_bag(tmp_path / "made"), tmp_path / "take")
    with_depth = tmp_path / "with_depth"
    with open_bag(bag) as source, EpisodeRecording(with_depth) as target:
        for message in source.messages():
            names = [message.topic]
            if message.type == COMPRESSED_IMAGE:
                names.append("/aligned_depth/image_raw/compressedDepth")
            for name in names:
                target.add_topic(name, message.type, STORE.generate_msgdef(message.type, ros_version=2)[0])
                target.write(name, message.log_ns, message.log_ns, message.raw)
    report, screen = judged(with_depth, arguments)
    assert len(report.cameras) == 1
    assert "not looked at without --camera: /aligned_depth/image_raw/compressedDepth" in screen
