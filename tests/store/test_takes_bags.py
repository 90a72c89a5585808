"""Takes in bags: by markers or whole, in any storage, with what reports and labels beside them say."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bag_making import (
    EPISODE,
    NS,
    START_NS,
    STORE,
    Message,
    definition,
    image,
    marker,
    record,
    storage_file,
)
from rosbags.rosbag2 import StoragePlugin, Writer
from take_making import make_bag, pictures, take_messages

from rollout_monitor.episode.gate import FrameGate
from rollout_monitor.episode.settings import GateSettings
from rollout_monitor.errors import InputError
from rollout_monitor.records import EpisodeReport, EpisodeState, Label, OutcomeDecision
from rollout_monitor.store.bags import ImageItem, open_bag
from rollout_monitor.store.episodes import EpisodeStore
from rollout_monitor.store.takes import open_takes, unlabelled

STEP = NS // 10


def report(episode_id: str, start_ns: int, **fields: Any) -> EpisodeReport:
    return EpisodeReport(
        episode_id=episode_id,
        task="t",
        state=EpisodeState.ENDED,
        start_ns=start_ns,
        end_ns=start_ns + NS,
        duration_s=1.0,
        outcome=OutcomeDecision(outcome="success", decided_by="model", reason="the monitor's own opinion"),
        **fields,
    )


def several(*attempts: tuple[str, int, int]) -> list[Message]:
    """One bag with an attempt per (episode, label, start in seconds)."""
    made: list[Message] = []
    for episode, label, start_s in attempts:
        made += take_messages(pictures(), episode=episode, label=label, start_ns=START_NS + start_s * NS)
    return made


def test_one_take_per_pair_of_markers(tmp_path: Path) -> None:
    record(tmp_path / "shift", several(("lift-1", 1, 0), ("lift-2", 2, 4), ("lift-1", 0, 8)))
    takes = open_takes(tmp_path)
    assert [take.id for take in takes] == ["shift/lift-1", "shift/lift-1-2", "shift/lift-2"]
    assert [take.success for take in takes] == [True, None, False]
    assert [take.said_by for take in takes] == ["episode marker", None, "episode marker"]
    assert {take.task for take in takes} == {"lift the cube"}
    assert unlabelled(takes) == ["shift/lift-1-2"]
    for take, start_s in zip(takes, (0, 8, 4), strict=True):
        stamps = [frame.stamp_ns - START_NS - start_s * NS for frame in take.frames(5.0)]
        assert stamps == [2 * index * STEP for index in range(10)]
        joints = [item.stamp_ns - START_NS - start_s * NS for item in take.joints()]
        assert joints == [index * STEP for index in range(20)]
        assert take.duration_s == pytest.approx(1.9)


def test_a_bag_with_one_attempt_goes_by_its_own_name(tmp_path: Path) -> None:
    make_bag(tmp_path / "take_7", label=2)
    (take,) = open_takes(tmp_path)
    assert (take.id, take.success) == ("take_7", False)


def test_attempts_without_an_end(tmp_path: Path) -> None:
    made = [message for message in several(("a", 1, 0), ("b", 1, 4)) if message[1] != EPISODE]
    made += [
        ("/rollout/episode", EPISODE, START_NS + s * NS, marker(START_NS + s * NS, 0, e))
        for e, s in (("a", 0), ("b", 4))
    ]
    record(tmp_path / "bag", sorted(made, key=lambda message: message[2]))
    a, b = open_takes(tmp_path)
    assert a.notes == ("has no END marker; it ends where the next one starts",)
    assert b.notes == ("has no END marker; it ends with the bag",)
    assert (a.success, b.success) == (None, None)
    assert [len(list(take.frames(10.0))) for take in (a, b)] == [20, 20]


def test_marker_without_a_start(tmp_path: Path) -> None:
    make_bag(tmp_path / "bag")
    made = [message for message in take_messages(pictures()) if message[2] > START_NS]
    record(tmp_path / "late", made)
    with pytest.raises(InputError, match="late: has episode markers but no START"):
        open_takes(tmp_path)


@pytest.mark.parametrize("kind", [StoragePlugin.SQLITE3, StoragePlugin.MCAP])
@pytest.mark.parametrize("bare", [False, True])
def test_storages(tmp_path: Path, kind: StoragePlugin, bare: bool) -> None:
    folder = tmp_path / "in" / "take_1"
    folder.parent.mkdir()
    with Writer(folder, version=9, storage_plugin=kind) as writer:
        connections: dict[str, Any] = {}
        for topic, name, log_ns, raw in take_messages(pictures(), jpeg=True):
            if topic not in connections:
                connections[topic] = writer.add_connection(topic, name, msgdef=definition(name), typestore=STORE)
            writer.write(connections[topic], log_ns, raw)
    if bare:
        file = next(file for file in folder.iterdir() if file.suffix in (".db3", ".mcap"))
        shutil.copy(file, folder.parent / f"other{file.suffix}")
        shutil.rmtree(folder)
    (take,) = open_takes(tmp_path / "in")
    assert take.id == ("other" if bare else "take_1")
    frames = list(take.frames(5.0))
    assert len(frames) == 10
    assert np.abs(frames[3].images["front"].astype(int) - pictures()[6]).mean() < 4.0


def test_files_of_a_killed_recorder_are_one_take_and_others_one_each(tmp_path: Path) -> None:
    split = tmp_path / "split"
    split.mkdir()
    made = take_messages(pictures(40), episode=None)
    for number, part in enumerate((made[:40], made[40:])):
        shutil.copy(storage_file(record(tmp_path / "parts" / str(number), part)), split / f"split_{number}.mcap")
    shutil.rmtree(tmp_path / "parts")
    for name in ("monday", "tuesday"):
        shutil.copy(split / "split_0.mcap", tmp_path / f"{name}.mcap")
    takes = open_takes(tmp_path)
    assert [take.id for take in takes] == ["monday", "split", "tuesday"]
    assert [len(list(take.frames(10.0))) for take in takes] == [20, 40, 20]
    assert "split has no metadata.yaml: read from the files in it" in takes[1].notes


def test_reports_and_labels_beside_the_bags(tmp_path: Path) -> None:
    for name in "abcd":
        make_bag(tmp_path / name, episode=name, label=1)
    make_bag(tmp_path / "whole", episode=None)
    store = EpisodeStore(tmp_path / "reports")
    store.write(report("a", START_NS, label=Label.FAILURE), {})
    store.write(report("b", START_NS), {})
    store.write(report("c", START_NS + 1, label=Label.FAILURE), {})  # another attempt of that name
    store.write(report("e", START_NS, bag="whole", label=Label.SUCCESS), {})
    store.labels.add("b", Label.SUCCESS, "ann", stamp_ns=1)
    store.labels.add("b", Label.FAILURE, "bob", stamp_ns=2)
    store.labels.add("b", None, "cy", note="good light", stamp_ns=3)
    takes = {take.id: take for take in open_takes(tmp_path)}
    said = {name: [(claim.who, claim.success) for claim in take.claims] for name, take in takes.items()}
    assert said == {
        "a": [("report", False), ("episode marker", True)],
        "b": [("bob", False), ("ann", True), ("episode marker", True)],
        "c": [("episode marker", True)],
        "d": [("episode marker", True)],
        "whole": [("report", True)],
    }
    assert takes["a"].claims[0].where.endswith("reports/a/report.json")
    assert takes["b"].claims[0].where.endswith("reports/labels.jsonl")


def test_what_the_monitor_decided_is_no_label(tmp_path: Path) -> None:
    make_bag(tmp_path / "a", episode="a")
    EpisodeStore(tmp_path / "reports").write(report("a", START_NS), {})
    assert open_takes(tmp_path)[0].success is None


def test_report_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    make_bag(tmp_path / "a")
    (tmp_path / "reports" / "a").mkdir(parents=True)
    (tmp_path / "reports" / "a" / "report.json").write_text("{}")
    assert "report.json: no episode report" in open_takes(tmp_path)[0].notes[0]


def test_two_cameras_as_the_gate_sees_them(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    made: list[Message] = []
    for topic, period_ms, offset_ms in (("/front/image_raw", 70, 0), ("/wrist/image_raw", 110, 35)):
        for index, picture in enumerate(pictures(24)):
            stamp = START_NS + (offset_ms + index * period_ms) * 1_000_000
            late = int(rng.integers(0, 150)) * 1_000_000
            made.append((topic, "sensor_msgs/msg/Image", stamp + late, image(stamp, picture)))
    path = record(tmp_path / "bag", sorted(made, key=lambda message: message[2]))
    gate, live = FrameGate(GateSettings(cameras=("front", "wrist"), rate_hz=5.0)), []
    with open_bag(path) as bag:
        for item in bag.decoded():
            assert isinstance(item, ImageItem)
            live += gate.on_image(item.topic.split("/")[1], item.stamp_ns, item.decode, item.fingerprint)[0]
    live += gate.finish()
    frames = list(open_takes(tmp_path)[0].frames(5.0))
    assert [dict(frame.stamps_ns) for frame in frames] == [
        {camera: one.stamp_ns for camera, one in selected.frames.items()} for selected in live
    ]
    assert all(
        np.array_equal(frame.images[camera], selected.frames[camera].decode())
        for frame, selected in zip(frames, live, strict=True)
        for camera in selected.frames
    )


def test_depth_and_second_topics_are_not_cameras_unless_named(tmp_path: Path) -> None:
    topics = ("/cam/color/image_raw", "/cam/color/image_raw/copy/compressed", "/cam/depth/image_rect_raw")
    make_bag(tmp_path / "a", topics=(topics[0], topics[2]))
    (take,) = open_takes(tmp_path)
    assert take.cameras == ("cam",)
    assert take.notes == ("image topics not used: /cam/depth/image_rect_raw",)
    (take,) = open_takes(tmp_path, cameras={"depth": topics[2], "cam": "cam"})
    assert take.cameras == ("depth", "cam")
    make_bag(tmp_path / "b", topics=(topics[2],))
    with pytest.raises(InputError, match=r"b: holds only depth or infrared \(/cam/depth/image_rect_raw\)"):
        open_takes(tmp_path)


def test_frames_without_a_stamp_are_left_out(tmp_path: Path) -> None:
    """Zero stamps as drivers without a clock give them: ros_comm#60."""
    made = take_messages(pictures(), episode=None)
    made.insert(0, ("/front/image_raw", "sensor_msgs/msg/Image", START_NS, image(0, pictures()[5])))
    record(tmp_path / "bag", made)
    (take,) = open_takes(tmp_path)
    assert next(take.frames()).stamp_ns == START_NS


def test_bag_without_pictures(tmp_path: Path) -> None:
    record(tmp_path / "bag", [message for message in take_messages(pictures()) if "image" not in message[0]])
    with pytest.raises(InputError, match="bag: holds no image topic with messages"):
        open_takes(tmp_path)


def test_recorded_demo(root: Path) -> None:
    takes = open_takes(root / "demo")
    assert [take.id for take in takes] == ["lift_drop_recover", "lift_success", "stack_stall"]
    assert {take.cameras for take in takes} == {("front", "wrist")}
    assert [take.task for take in takes][::2] == ["lift the red cube", "stack the red cube on the green cube"]
    assert [len(list(take.frames(1.0))) for take in takes] == [10, 7, 11]


def test_public_bags_without_pictures(public_data: Path) -> None:
    told: list[str] = []
    with pytest.raises(InputError, match="no take is left"):
        open_takes(public_data / "recordings" / "ur10_bag", leave_out=told.append)
    assert len(told) == 1
    assert "holds no image topic" in told[0]


def test_clock_set_back_for_every_attempt(tmp_path: Path) -> None:
    """A simulator starts each attempt at the same stamp; log times go on."""
    made: list[Message] = []
    for number, seconds in enumerate((20, 12, 25)):
        shown = pictures(seconds, seed=number)
        offset = (number * 4) * NS
        attempt = take_messages(shown, episode=f"run-{number}", start_ns=START_NS)
        made += [(topic, kind, log_ns + offset, raw) for topic, kind, log_ns, raw in attempt]
    record(tmp_path / "sim", made)
    takes = open_takes(tmp_path)
    for number, (take, count) in enumerate(zip(takes, (20, 12, 25), strict=True)):
        frames = list(take.frames(10.0))
        assert [frame.stamp_ns - START_NS for frame in frames] == [index * STEP for index in range(count)]
        shown = pictures(count, seed=number)
        assert all(np.array_equal(frame.images["front"], shown[at]) for at, frame in enumerate(frames))
        assert len(list(take.joints())) == count


def test_frames_before_a_start_on_a_clock_that_was_set_back(tmp_path: Path) -> None:
    """The stamps of the attempt before are near the START too; those after the clock was set back hold the grid."""
    made = take_messages(pictures(20, seed=1), episode="a")
    second = take_messages(pictures(20, seed=2), episode="b")
    early = take_messages(pictures(7, seed=3), episode=None, start_ns=START_NS - 7 * STEP + STEP // 2)
    made += [(topic, kind, log_ns + 6 * NS, raw) for topic, kind, log_ns, raw in early + second]
    record(tmp_path / "sim", made)
    take = open_takes(tmp_path)[1]
    frames = list(take.frames(5.0))
    assert [frame.stamp_ns - START_NS for frame in frames] == [2 * index * STEP for index in range(10)]
    assert np.array_equal(frames[0].images["front"], pictures(20, seed=2)[0])


def test_attempts_cut_off_by_a_clock_that_was_set_back(tmp_path: Path) -> None:
    """Simulated stamps from 0, log times of today, no END: how long each lasted is known by log time alone."""
    made: list[Message] = []
    for number in range(2):
        attempt = take_messages(pictures(20, seed=number), episode=f"run-{number}", start_ns=STEP)[:-1]
        shift = START_NS + number * 4 * NS
        made += [(topic, kind, log_ns + shift, raw) for topic, kind, log_ns, raw in attempt]
    record(tmp_path / "sim", made)
    takes = open_takes(tmp_path)
    assert [take.duration_s for take in takes] == pytest.approx([4.0, 1.9])
    for number, take in enumerate(takes):
        frames = list(take.frames(10.0))
        assert [frame.stamp_ns for frame in frames] == [STEP + index * STEP for index in range(20)]
        assert np.array_equal(frames[-1].images["front"], pictures(20, seed=number)[-1])


def test_someone_elses_metadata_hides_no_takes(tmp_path: Path) -> None:
    make_bag(tmp_path / "take_1")
    (tmp_path / "metadata.yaml").write_text("title: our takes\n")
    assert [take.id for take in open_takes(tmp_path)] == ["take_1"]


def test_markers_recorded_late_or_all_at_the_front(tmp_path: Path) -> None:
    made = take_messages(pictures(80), episode="a")
    markers = [message for message in made if message[1] == EPISODE]
    others = [message for message in made if message[1] != EPISODE]
    late = [(topic, kind, log_ns + 1_200_000_000, raw) for topic, kind, log_ns, raw in markers]
    record(tmp_path / "late", sorted(others + late, key=lambda message: message[2]))
    front = [(topic, kind, START_NS - NS, raw) for topic, kind, _, raw in markers]
    record(tmp_path / "front", front + others)
    for take in open_takes(tmp_path):
        assert [frame.stamp_ns - START_NS for frame in take.frames(10.0)] == [index * STEP for index in range(80)]
        assert len(list(take.joints())) == 80


def test_attempt_without_frames(tmp_path: Path) -> None:
    made = take_messages(pictures(), episode="a")
    empty = START_NS + 60 * NS
    made += [("/rollout/episode", EPISODE, empty + at * NS, marker(empty + at * NS, at, "b")) for at in (0, 1)]
    record(tmp_path / "bag", made)
    with pytest.raises(InputError, match="bag: take bag/b: camera front shows no frame that can be read"):
        open_takes(tmp_path)
    told: list[str] = []
    assert [take.id for take in open_takes(tmp_path, leave_out=told.append)] == ["bag/a"]
    assert len(told) == 1


def test_stray_stamp_beyond_the_end_is_passed_over(tmp_path: Path) -> None:
    made = take_messages(pictures(), episode="a")
    made.insert(
        20, ("/front/image_raw", "sensor_msgs/msg/Image", made[20][2], image(START_NS + 3600 * NS, pictures()[0]))
    )
    record(tmp_path / "bag", made)
    (take,) = open_takes(tmp_path)
    assert len(list(take.frames(10.0))) == 20


def test_bag_that_is_cut_short_says_so(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (60, 48, 64, 3), dtype=np.uint8)
    path = storage_file(make_bag(tmp_path / "bag", noise, label=1))
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])
    (take,) = open_takes(tmp_path)
    assert take.success is None
    assert any("anything later is lost" in note for note in take.notes)
    assert take.notes[-1] == "has no END marker; it ends with the bag"
    assert 0 < len(list(take.frames(10.0))) < 60
