"""Bags of every kind: whole, bare, compressed, cut short, damaged, of other people's making."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import yaml
from bag_making import (
    NAMES,
    NS,
    START_NS,
    STORE,
    Message,
    compressed,
    image,
    joint_state,
    marker,
    messages,
    record,
    storage_file,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcap.reader import make_reader
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin, Writer

from rollout_monitor.errors import InputError
from rollout_monitor.images import encode_jpeg
from rollout_monitor.records import Boundary, Label
from rollout_monitor.store import bags
from rollout_monitor.store.bags import DamagedBagError, ImageItem, JointItem, MarkerItem, open_bag
from rollout_monitor.store.messages import COMPRESSED_IMAGE, EPISODE, IMAGE, JOINT_STATE


def raw(path: Path, topics: list[str] | None = None) -> list[Message]:
    with open_bag(path) as bag:
        return [(m.topic, m.type, m.log_ns, m.raw) for m in bag.messages(topics)]


def write_foreign(
    folder: Path,
    made: list[Message],
    *,
    version: Literal[8, 9] = 9,
    plugin: StoragePlugin = StoragePlugin.MCAP,
    mode: CompressionMode = CompressionMode.NONE,
) -> Path:
    """A bag by rosbags' own writer."""
    writer = Writer(folder, version=version, storage_plugin=plugin)
    writer.set_compression(mode, CompressionFormat.ZSTD)
    with writer:
        connections = {}
        for topic, kind, log_ns, data in made:
            if topic not in connections:
                connections[topic] = writer.add_connection(topic, kind, typestore=STORE)
            writer.write(connections[topic], log_ns, data)
    return folder


@pytest.fixture(scope="module")
def made() -> list[Message]:
    return messages()


@pytest.fixture(scope="module")
def bag(made: list[Message], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("bags") / "episode", made)


def test_folder_bare_file_and_no_metadata_give_the_same(bag: Path, made: list[Message], tmp_path: Path) -> None:
    assert raw(bag) == made
    assert raw(storage_file(bag)) == made
    alone = tmp_path / "alone"
    alone.mkdir()
    (alone / "x.mcap").write_bytes(storage_file(bag).read_bytes())
    assert raw(alone) == made
    with open_bag(alone) as opened:
        assert opened.notes == ["alone has no metadata.yaml: read from the files in it"]


def test_topics(bag: Path) -> None:
    with open_bag(bag) as opened:
        told = [(topic.name, topic.type, topic.count) for topic in opened.topics]
        rates = {topic.name: topic.rate_hz for topic in opened.topics}
        assert opened.custom == {"task": "lift"}
        assert (opened.start_ns, opened.end_ns) == (START_NS, START_NS + 3 * NS)
        assert opened.duration_s == 3.0
    assert told == [
        ("/camera/image_raw", IMAGE, 30),
        ("/joint_states", JOINT_STATE, 300),
        ("/rollout/episode", EPISODE, 2),
    ]
    assert rates["/joint_states"] == pytest.approx(299 / 3)


def test_decoded_items(bag: Path, made: list[Message]) -> None:
    with open_bag(bag) as opened:
        items = list(opened.decoded())
    assert [item.log_ns for item in items] == [message[2] for message in made]
    joints = [item for item in items if isinstance(item, JointItem)]
    rng = np.random.default_rng(0)
    first = rng.normal(size=3)
    assert joints[0].names == tuple(NAMES)
    assert joints[0].stamp_ns == START_NS
    np.testing.assert_array_equal(joints[0].positions, first)
    np.testing.assert_array_equal(joints[0].velocities, first * 0.1)
    assert joints[1].velocities.size == joints[1].efforts.size == 0
    frames = [item for item in items if isinstance(item, ImageItem)]
    picture = rng.integers(0, 256, (24, 32, 3), dtype=np.uint8)
    np.testing.assert_array_equal(frames[0].decode(), picture)
    assert len({frame.fingerprint for frame in frames}) == len(frames)
    markers = [item.marker for item in items if isinstance(item, MarkerItem)]
    assert [m.boundary for m in markers] == [Boundary.START, Boundary.END]
    assert [m.label for m in markers] == [None, Label.SUCCESS]
    assert markers[0].task == "lift the cube"
    assert markers[1].stamp_ns == START_NS + 3 * NS


def test_compressed_images_and_repeated_frames(tmp_path: Path) -> None:
    picture = np.random.default_rng(1).integers(0, 256, (16, 16, 3), dtype=np.uint8)
    jpeg = encode_jpeg(picture)
    frames = [
        ("/c", COMPRESSED_IMAGE, START_NS + i, compressed(START_NS + i, data))
        for i, data in enumerate([jpeg, jpeg, jpeg[:-50]])
    ]
    with open_bag(record(tmp_path / "b", frames)) as opened:
        first, second, cut = (item for item in opened.decoded() if isinstance(item, ImageItem))
    assert first.fingerprint == second.fingerprint != cut.fingerprint
    assert first.decode().shape == (16, 16, 3)
    assert (first.trouble, second.trouble) == ("", "")
    assert "cut short" in cut.trouble, "seen without decoding"
    with pytest.raises(InputError, match="cut short"):
        cut.decode()


def test_topic_choice(bag: Path, made: list[Message]) -> None:
    assert raw(bag, ["/camera/image_raw"]) == [m for m in made if m[0] == "/camera/image_raw"]
    with open_bag(bag) as opened:
        with pytest.raises(InputError, match="no topic /nope; it has /camera/image_raw, /joint_states"):
            opened.messages(["/nope"])
        assert {type(item) for item in opened.decoded(["/joint_states"])} == {JointItem}


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("plugin", list(StoragePlugin))
@pytest.mark.parametrize(
    "mode", [CompressionMode.NONE, CompressionMode.FILE, CompressionMode.MESSAGE, CompressionMode.STORAGE]
)
def test_bags_of_another_writer(
    made: list[Message], tmp_path: Path, version: Literal[8, 9], plugin: StoragePlugin, mode: CompressionMode
) -> None:
    if plugin is StoragePlugin.SQLITE3 and mode is CompressionMode.STORAGE:
        with pytest.raises(Exception, match="SQLITE3"):
            write_foreign(tmp_path / "b", made, version=version, plugin=plugin, mode=mode)
        return
    folder = write_foreign(tmp_path / "b", made, version=version, plugin=plugin, mode=mode)
    assert raw(folder) == made
    with open_bag(folder) as opened:
        assert sum(isinstance(item, MarkerItem) for item in opened.decoded()) == 2


def test_split_bags_are_merged_by_log_time(made: list[Message], tmp_path: Path) -> None:
    whole = tmp_path / "split"
    whole.mkdir()
    thirds = [made[0::3], made[1::3], made[2::3]]  # interleaved: worse than any recorder splits
    for index, part in enumerate(thirds):
        one = write_foreign(tmp_path / f"part{index}", part)
        (whole / f"split_{index + 9}.mcap").write_bytes(storage_file(one).read_bytes())
    times = [m[2] for m in raw(whole)]
    assert times == sorted(times)
    assert sorted(raw(whole)) == sorted(made)


def test_trailing_bytes_of_serialize_message(tmp_path: Path) -> None:
    """rclpy may leave up to 8 stray bytes behind a message that ends in empty arrays; rosbags alone refuses them."""
    clean = joint_state(START_NS, [1.0, 2.0, 3.0], with_rates=False)
    made = [("/joint_states", JOINT_STATE, START_NS + n, clean + b"\xab" * n) for n in range(9)]
    with open_bag(record(tmp_path / "b", made)) as opened:
        items = list(opened.decoded())
    assert [item.positions.tolist() for item in items if isinstance(item, JointItem)] == [[1.0, 2.0, 3.0]] * 9


def test_messages_that_do_not_fit_are_named(tmp_path: Path) -> None:
    good = joint_state(START_NS, [1.0])
    broken = {
        "too long": good + b"\0" * 40,
        "cut": good[:-9],
        "no cdr": b"\x07\x07\0\0" + good[4:],
        "nothing": b"",
    }
    for name, data in broken.items():
        folder = record(tmp_path / name, [("/joint_states", JOINT_STATE, START_NS, data)])
        with (
            open_bag(folder) as opened,
            pytest.raises(InputError, match=r"/joint_states .*JointState.* at log time 1780000000"),
        ):
            list(opened.decoded())
    wrong = [
        ("boundary 7", marker(START_NS, 7)),
        ("episode_id", marker(START_NS, 0, "../x")),
        ("label 3", marker(START_NS, 0, label=3)),
    ]
    for told, data in wrong:
        with (
            open_bag(record(tmp_path / told, [("/e", EPISODE, START_NS, data)])) as opened,
            pytest.raises(InputError, match=told),
        ):
            list(opened.decoded())


# --- cut and damaged files ---------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(part=st.floats(0, 1))
def test_a_file_cut_anywhere_reads_up_to_the_cut(bag: Path, made: list[Message], tmp_path: Path, part: float) -> None:
    content = storage_file(bag).read_bytes()
    size = int(part * len(content))
    cut = tmp_path / "cut.mcap"
    cut.write_bytes(content[:size])
    try:
        read = raw(cut)
    except InputError as error:
        assert "cut.mcap" in str(error)
        assert size < 20_000, "only a file without a single whole chunk is refused"
        return
    assert read == made[: len(read)]
    with open_bag(cut) as opened:
        counted = sum(topic.count for topic in opened.topics)
        assert counted == len(read)
        if len(read) < len(made):
            (note,) = opened.notes
            assert f"{len(read)} messages up to log time {read[-1][2]} ns were read" in note


def test_what_a_cut_costs_is_less_than_a_second(bag: Path, made: list[Message], tmp_path: Path) -> None:
    content = storage_file(bag).read_bytes()
    data_end = content.rindex(b"rosbag2")  # the closing metadata record, behind the last chunk
    cut = tmp_path / "cut.mcap"
    for size in np.linspace(25_000, data_end, 12).astype(int):
        cut.write_bytes(content[:size])
        read = raw(cut)
        share = size / data_end
        assert read[-1][2] - START_NS > share * 3 * NS - 1.0 * NS


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32 - 1))
def test_flipped_bytes_are_an_input_error_or_harmless(
    bag: Path, made: list[Message], tmp_path: Path, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    content = bytearray(storage_file(bag).read_bytes())
    for position in rng.integers(0, len(content), 3):
        content[position] ^= int(rng.integers(1, 256))
    damaged = tmp_path / "damaged.mcap"
    damaged.write_bytes(content)
    try:
        with open_bag(damaged) as opened:
            read = {m.raw for m in opened.messages()}
    except InputError as error:
        assert "damaged.mcap" in str(error)
    else:
        assert read <= {message[3] for message in made}, "a checksum stands between damaged bytes and a figure"


def damage_a_chunk(file: Path, number: int) -> tuple[int, int]:
    """Turn over a byte in the middle of a chunk; return the chunk's time span."""
    with file.open("rb") as stream:
        summary = make_reader(stream).get_summary()
    assert summary is not None
    chunk = summary.chunk_indexes[number]
    content = bytearray(file.read_bytes())
    content[chunk.chunk_start_offset + chunk.chunk_length // 2] ^= 0xFF
    file.write_bytes(content)
    return chunk.message_start_time, chunk.message_end_time


def test_a_damaged_chunk_costs_only_itself_and_is_told(bag: Path, made: list[Message], tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.mcap"
    damaged.write_bytes(storage_file(bag).read_bytes())
    first_ns, last_ns = damage_a_chunk(damaged, 1)
    read: list[Message] = []
    with open_bag(damaged) as opened, pytest.raises(DamagedBagError) as error:
        read.extend((m.topic, m.type, m.log_ns, m.raw) for m in opened.messages())
    lost = [message for message in made if first_ns <= message[2] <= last_ns]
    assert 0 < len(lost) < len(made) / 2
    assert read == [message for message in made if message not in lost]
    assert str(damaged) in str(error.value)
    assert f"log time {first_ns} to {last_ns} ns, is damaged" in str(error.value)
    assert f"{len(lost)} of {len(made)} messages could not be read" in str(error.value)


def test_a_damaged_chunk_of_other_topics_is_no_damage(tmp_path: Path, made: list[Message]) -> None:
    """Images and joints in chunks of their own: the joints are whole."""
    joints = [message for message in made if message[0] == "/joint_states"]
    later = [(topic, kind, log_ns + 9 * NS, data) for topic, kind, log_ns, data in made if topic == "/camera/image_raw"]
    folder = record(tmp_path / "b", joints + later)
    damage_a_chunk(storage_file(folder), -1)
    assert raw(folder, ["/joint_states"]) == joints
    with open_bag(folder) as opened, pytest.raises(DamagedBagError, match="of 30 messages could not be read"):
        list(opened.decoded(["/camera/image_raw"]))


def test_a_damaged_chunk_in_a_file_that_is_cut_too(bag: Path, made: list[Message], tmp_path: Path) -> None:
    """A killed recorder's file has no index: the damaged chunk is left out, the rest is read up to the break."""
    damaged = tmp_path / "damaged.mcap"
    damaged.write_bytes(storage_file(bag).read_bytes())
    first_ns, last_ns = damage_a_chunk(damaged, 1)
    content = damaged.read_bytes()
    damaged.write_bytes(content[: content.rindex(b"rosbag2") - 40])
    read = raw(damaged)
    whole = [message for message in made if not first_ns <= message[2] <= last_ns]
    assert 0 < len(read) <= len(whole) and read == whole[: len(read)] and read[-1][2] > last_ns
    with open_bag(damaged) as opened:
        (note,) = opened.notes
        assert sum(topic.count for topic in opened.topics) == len(read)
    assert note.startswith("the chunk at byte") and "is damaged" in note and f"{len(read)} messages" in note


@pytest.mark.parametrize("plugin", list(StoragePlugin))
def test_metadata_is_not_needed(made: list[Message], tmp_path: Path, plugin: StoragePlugin) -> None:
    """MCAP and sqlite3: the folder, the folder without metadata.yaml, and the bare file hold the same messages."""
    folder = write_foreign(tmp_path / "b", made, plugin=plugin)
    (file,) = (path for path in folder.iterdir() if path.suffix in (".mcap", ".db3"))
    assert raw(folder) == raw(file) == made
    (folder / "metadata.yaml").unlink()
    assert raw(folder) == made
    with open_bag(folder) as opened:
        assert opened.notes == ["b has no metadata.yaml: read from the files in it"]


def test_damage_in_one_file_of_a_split_bag_leaves_the_others(made: list[Message], tmp_path: Path) -> None:
    whole = tmp_path / "split"
    whole.mkdir()
    half = len(made) // 2
    for index, part in enumerate((made[:half], made[half:])):
        one = record(tmp_path / f"part{index}", part)
        (whole / f"split_{index}.mcap").write_bytes(storage_file(one).read_bytes())
    damage_a_chunk(whole / "split_0.mcap", 0)
    read: list[Message] = []
    with open_bag(whole) as opened, pytest.raises(DamagedBagError, match=r"split_0\.mcap"):
        read.extend((m.topic, m.type, m.log_ns, m.raw) for m in opened.messages())
    assert read[-(len(made) - half) :] == made[half:]


def test_an_active_recording_can_be_read(made: list[Message], tmp_path: Path, bag: Path) -> None:
    folder = tmp_path / "running"
    folder.mkdir()
    (folder / "running_0.mcap.active").write_bytes(storage_file(bag).read_bytes()[:40_000])
    assert raw(folder) == made[: len(raw(folder))]
    assert raw(folder)


def test_sqlite_with_a_left_over_write_ahead_log(made: list[Message], tmp_path: Path) -> None:
    folder = write_foreign(tmp_path / "b", made, plugin=StoragePlugin.SQLITE3)
    file = next(folder.glob("*.db3"))
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA journal_mode=WAL")
    extra = joint_state(START_NS, [9.0])
    topic = connection.execute("SELECT id FROM topics WHERE name = '/joint_states'").fetchone()[0]
    connection.execute(
        "INSERT INTO messages (topic_id, timestamp, data) VALUES (?, ?, ?)", (topic, START_NS + 9 * NS, extra)
    )
    connection.commit()
    killed = tmp_path / "killed"
    killed.mkdir()
    for name in (file.name, file.name + "-wal"):
        (killed / name).write_bytes((folder / name).read_bytes())
    connection.close()
    before = {path.name: path.read_bytes() for path in killed.iterdir()}
    assert raw(killed)[-1] == ("/joint_states", JOINT_STATE, START_NS + 9 * NS, extra)
    assert {path.name: path.read_bytes() for path in killed.iterdir()} == before, "reading changes nothing"


def test_damaged_sqlite_is_refused_with_its_name(made: list[Message], tmp_path: Path) -> None:
    folder = write_foreign(tmp_path / "b", made, plugin=StoragePlugin.SQLITE3)
    content = next(folder.glob("*.db3")).read_bytes()
    for size in (100, 5000, len(content) // 2, len(content) - 4096):
        file = tmp_path / f"{size}.db3"
        file.write_bytes(content[:size])
        with pytest.raises(InputError, match=f"{size}.db3"):
            raw(file)
    other = tmp_path / "other.db3"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE t (x)")
    with pytest.raises(InputError, match="expected a rosbag2 sqlite3 file"):
        open_bag(other)


# --- what is refused ---------------------------------------------------------------------------------------------


def test_refusals_name_the_file_and_the_expectation(tmp_path: Path, bag: Path) -> None:
    empty, text, ros1 = tmp_path / "empty.mcap", tmp_path / "notes.mcap", tmp_path / "old.bag"
    empty.write_bytes(b"")
    text.write_text("hello")
    ros1.write_bytes(b"#ROSBAG V2.0\n")
    (tmp_path / "nothing").mkdir()
    cases = {
        tmp_path / "missing": "no such file or folder; expected a rosbag2 folder",
        empty: "expected an MCAP or rosbag2 sqlite3 file, but it is empty",
        text: "starts with 68 65 6c",
        ros1: "a ROS 1 bag; `rosbags-convert`",
        tmp_path / "nothing": "neither metadata.yaml nor .mcap or .db3 files",
    }
    for path, told in cases.items():
        with pytest.raises(InputError) as error:
            open_bag(path)
        assert told in str(error.value)
        assert path.name in str(error.value)


def test_metadata_that_is_wrong(bag: Path, made: list[Message], tmp_path: Path) -> None:
    good = yaml.safe_load((bag / "metadata.yaml").read_text())
    folder = tmp_path / "b"
    folder.mkdir()
    (folder / storage_file(bag).name).write_bytes(storage_file(bag).read_bytes())

    def rewrite(**changes: object) -> None:
        information = {**good["rosbag2_bagfile_information"], **changes}
        (folder / "metadata.yaml").write_text(yaml.safe_dump({"rosbag2_bagfile_information": information}))

    rewrite(version=10)
    with pytest.raises(InputError, match="version 10 is newer than 9"):
        open_bag(folder)
    rewrite(relative_file_paths=["gone.mcap"])
    with pytest.raises(InputError, match=r"lists gone\.mcap, which is not there"):
        open_bag(folder)
    for torn in ("rosbag2_bagfile_info", "a: [", "\x00\x01", ""):
        (folder / "metadata.yaml").write_text(torn)
        assert raw(folder) == made
        with open_bag(folder) as opened:
            assert "metadata.yaml cannot be read" in opened.notes[0]


def test_a_type_nobody_defined(tmp_path: Path) -> None:
    file = tmp_path / "old.db3"
    with sqlite3.connect(file) as connection:  # as Foxy wrote it: no definitions
        connection.execute(
            "CREATE TABLE topics(id INTEGER PRIMARY KEY, name TEXT, type TEXT, serialization_format TEXT)"
        )
        connection.execute(
            "CREATE TABLE messages(id INTEGER PRIMARY KEY, topic_id INTEGER, timestamp INTEGER, data BLOB)"
        )
        connection.execute(
            "INSERT INTO topics VALUES (1, '/x', 'my_msgs/msg/Own', 'cdr'), (2, '/e', ?, 'cdr')", (EPISODE,)
        )
        connection.execute("INSERT INTO messages VALUES (1, 1, 5, ?), (2, 2, 6, ?)", (b"\0\1\0\0", marker(6, 0)))
    with open_bag(file) as opened:
        with pytest.raises(InputError, match="does not define my_msgs/msg/Own"):
            [opened.decode(message) for message in opened.messages(["/x"])]
        assert [item.marker.episode_id for item in opened.decoded() if isinstance(item, MarkerItem)] == ["lift-1"]
        with pytest.raises(InputError, match="/x is my_msgs/msg/Own, which is not decoded"):
            opened.decoded(["/x"])


# --- public recordings -------------------------------------------------------------------------------------------


def test_public_ur10_bag(public_data: Path) -> None:
    folder = public_data / "recordings" / "ur10_bag"
    for path in (folder, folder / "ur10_exciting_trajectory.db3"):
        with open_bag(path) as opened:
            (topic,) = opened.topics
            joints = [item for item in opened.decoded() if isinstance(item, JointItem)]
        assert (topic.count, len(joints)) == (3441, 3441)
        assert topic.rate_hz == pytest.approx(125.0)
        assert all(len(item.names) == 6 == item.efforts.size for item in joints)


def test_foreign_qos_numbers_become_words(public_data: Path) -> None:
    with open_bag(public_data / "recordings" / "small_mcap" / "testdata" / "base_msgs") as opened:
        (profile,) = yaml.safe_load(opened.topics[0].qos_yaml)
    assert (profile["durability"], profile["reliability"], profile["history"]) == (
        "transient_local",
        "reliable",
        "unknown",
    )


def test_image_bytes_are_not_copied_per_item(tmp_path: Path) -> None:
    """A frame of 0.9 MB is decoded when it is asked for, and the same way twice."""
    picture = np.random.default_rng(2).integers(0, 256, (480, 640, 3), dtype=np.uint8)
    folder = record(tmp_path / "b", [("/c", IMAGE, START_NS, image(START_NS, picture))])
    with open_bag(folder) as opened:
        (item,) = opened.decoded()
    assert isinstance(item, ImageItem)
    np.testing.assert_array_equal(item.decode(), picture)
    np.testing.assert_array_equal(item.decode(), item.decode())


def test_files_with_any_digits_in_their_names_are_put_in_order() -> None:
    """A superscript is a digit to str.isdigit, and no number to int."""
    names = ["run1²3_10.mcap", "run1²3_9.mcap", "run1²3_1.mcap"]
    assert [file.name for file in bags._in_number_order(map(Path, names))] == names[::-1]
