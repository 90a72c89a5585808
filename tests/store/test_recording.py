"""Recordings: the bytes as they came, rosbag2's metadata to the letter, a kill and a full disk survived."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Literal

import pytest
import yaml
from bag_making import NS, START_NS, definition, joint_state, messages, record, storage_file
from mcap.reader import make_reader
from mcap_ros2.decoder import DecoderFactory
from rosbags.highlevel import AnyReader

from rollout_monitor.errors import InputError, StoreError
from rollout_monitor.store import recording as recording_module
from rollout_monitor.store.bags import open_bag
from rollout_monitor.store.definitions import rihs01, schema_text_from_share
from rollout_monitor.store.messages import EPISODE, EPISODE_DEFINITION, JOINT_STATE
from rollout_monitor.store.qos import dump_qos, parse_qos, qos_yaml
from rollout_monitor.store.recording import ENDED_EARLY, RESERVE_BYTES, EpisodeRecording

JOINT_STATE_HASH = "RIHS01_a13ee3a330e346c9d87b5aa18d24e11690752bd33a0350f11c5882bc9179260e"
"""As ROS 2 itself publishes it (Jazzy, sensor_msgs 5.3.6)."""
INFINITE = {"sec": 9223372036, "nsec": 854775807}


def test_read_back_by_rosbags_and_by_mcap_ros2(tmp_path: Path) -> None:
    made = messages()
    folder = record(tmp_path / "episode", made)
    with AnyReader([folder]) as reader:
        by_rosbags = [(c.topic, c.msgtype, t, bytes(raw)) for c, t, raw in reader.messages()]
        stamps = [reader.deserialize(raw, c.msgtype).header.stamp.sec for c, _, raw in reader.messages()]
    assert by_rosbags == made
    assert set(stamps) <= set(range(START_NS // NS, START_NS // NS + 4))
    with storage_file(folder).open("rb") as stream:
        reader2 = make_reader(stream, validate_crcs=True, decoder_factories=[DecoderFactory()])
        decoded = list(reader2.iter_decoded_messages())
    assert [(channel.topic, message.log_time, message.data) for _, channel, message, _ in decoded] == [
        (topic, log_ns, raw) for topic, _, log_ns, raw in made
    ]
    assert all(message.publish_time == message.log_time - 500_000 for _, _, message, _ in decoded)
    assert next(m for s, _, _, m in decoded if s.name == EPISODE).task == "lift the cube"


def test_metadata_is_rosbag2s_version_9(tmp_path: Path) -> None:
    with EpisodeRecording(
        tmp_path / "lift-7", ros_distro="jazzy", custom_data={"task": "lift", "note": "a: b\n#c"}
    ) as recording:
        recording.add_topic(
            "/joint_states", JOINT_STATE, definition(JOINT_STATE), qos_yaml(reliability="best_effort", depth=5)
        )
        recording.add_topic("/silent", JOINT_STATE, definition(JOINT_STATE))
        for index in range(3):
            recording.write("/joint_states", START_NS + index * NS, START_NS, joint_state(START_NS, [0.0]))
    text = (recording.path / "metadata.yaml").read_text()
    profile = {
        "history": "keep_last",
        "depth": 5,
        "reliability": "best_effort",
        "durability": "volatile",
        "deadline": INFINITE,
        "lifespan": INFINITE,
        "liveliness": "automatic",
        "liveliness_lease_duration": INFINITE,
        "avoid_ros_namespace_conventions": False,
    }
    topic = {"type": JOINT_STATE, "serialization_format": "cdr", "type_description_hash": JOINT_STATE_HASH}
    span = {
        "starting_time": {"nanoseconds_since_epoch": START_NS},
        "duration": {"nanoseconds": 2 * NS},
        "message_count": 3,
    }
    information = {
        "version": 9,
        "storage_identifier": "mcap",
        **span,
        "topics_with_message_count": [
            {
                "topic_metadata": {"name": "/joint_states", **topic, "offered_qos_profiles": [profile]},
                "message_count": 3,
            },
            {"topic_metadata": {"name": "/silent", **topic, "offered_qos_profiles": []}, "message_count": 0},
        ],
        "compression_format": "",
        "compression_mode": "",
        "relative_file_paths": ["lift-7_0.mcap"],
        "files": [{"path": "lift-7_0.mcap", **span}],
        "custom_data": {"task": "lift", "note": "a: b\n#c"},
        "ros_distro": "jazzy",
    }
    assert yaml.safe_load(text) == {"rosbag2_bagfile_information": information}
    assert "&" not in text, "yaml-cpp reads anchors, but rosbag2 never writes them"
    with storage_file(recording.path).open("rb") as stream:
        reader = make_reader(stream)
        (header, summary), records = (reader.get_header(), reader.get_summary()), list(reader.iter_metadata())
    assert header.profile == "ros2"
    assert yaml.safe_load(records[-1].metadata["serialized_metadata"]) == information
    assert yaml.safe_load(records[0].metadata["serialized_metadata"])["version"] == 9, "there from the first moment"
    assert summary is not None
    channel = next(c for c in summary.channels.values() if c.topic == "/joint_states")
    assert yaml.safe_load(channel.metadata["offered_qos_profiles"]) == [profile]
    assert channel.metadata["topic_type_hash"] == JOINT_STATE_HASH
    assert {schema.encoding for schema in summary.schemas.values()} == {"ros2msg"}
    assert len(summary.schemas) == 1
    assert sorted(path.name for path in recording.path.iterdir()) == ["lift-7_0.mcap", "metadata.yaml"]


@pytest.mark.parametrize("compression", ["zstd", "lz4", "none"])
def test_every_compression_is_read_back(tmp_path: Path, compression: Literal["zstd", "lz4", "none"]) -> None:
    made = messages(0.5)
    with EpisodeRecording(tmp_path / "b", compression=compression) as recording:
        for topic, kind, log_ns, raw in made:
            recording.add_topic(topic, kind, definition(kind))
            recording.write(topic, log_ns, log_ns, raw)
    with AnyReader([recording.path]) as reader:
        assert [(c.topic, c.msgtype, t, bytes(raw)) for c, t, raw in reader.messages()] == made
    with open_bag(recording.path) as bag:
        assert [(m.topic, m.type, m.log_ns, m.raw) for m in bag.messages()] == made


def test_an_existing_folder_is_never_touched(tmp_path: Path) -> None:
    paths = [record(tmp_path / "episode", messages(0.1)) for _ in range(3)]
    assert [path.name for path in paths] == ["episode", "episode-2", "episode-3"]
    assert storage_file(paths[2]).name == "episode-3_0.mcap"


def test_an_empty_recording_is_a_bag(tmp_path: Path) -> None:
    with EpisodeRecording(tmp_path / "empty") as recording:
        pass
    with open_bag(recording.path) as bag:
        assert (bag.topics, bag.start_ns, list(bag.messages())) == ([], None, [])
    with AnyReader([recording.path]) as reader:
        assert reader.message_count == 0


def test_readable_while_it_runs(tmp_path: Path) -> None:
    recording = EpisodeRecording(tmp_path / "running")
    recording.add_topic("/joint_states", JOINT_STATE, definition(JOINT_STATE))
    for index in range(400):
        recording.write("/joint_states", START_NS + index * 10_000_000, 0, joint_state(START_NS, [float(index)]))
    with open_bag(recording.path) as bag:
        read = sum(1 for _ in bag.messages())
        assert any("is cut short" in note for note in bag.notes)
    assert 300 < read <= 400, "less than a second is on its way"
    recording.flush()
    with open_bag(recording.path) as bag:
        assert sum(1 for _ in bag.messages()) == 400
    recording.close()
    assert recording.close() == recording.path
    with pytest.raises(StoreError, match="is closed"):
        recording.write("/joint_states", 0, 0, b"")


def test_a_clock_that_goes_back_is_recorded_as_it_came(tmp_path: Path) -> None:
    times = [5 * NS, 6 * NS, 1 * NS, 2 * NS]
    with EpisodeRecording(tmp_path / "back") as recording:
        recording.add_topic("/j", JOINT_STATE, definition(JOINT_STATE))
        for index, log_ns in enumerate(times):
            recording.write("/j", log_ns, 0, joint_state(index, [0.0]))
    with open_bag(recording.path) as bag:
        assert [m.log_ns for m in bag.messages()] == sorted(times)


def test_misuse_is_refused(tmp_path: Path) -> None:
    with EpisodeRecording(tmp_path / "b") as recording:
        recording.add_topic("/j", JOINT_STATE, definition(JOINT_STATE))
        recording.add_topic("/j", JOINT_STATE, definition(JOINT_STATE))
        with pytest.raises(InputError, match="it cannot also be"):
            recording.add_topic("/j", EPISODE, EPISODE_DEFINITION)
        with pytest.raises(InputError, match="was not announced"):
            recording.write("/x", 0, 0, b"")
        with pytest.raises(InputError, match="negative times"):
            recording.write("/j", -1, 0, b"")
        with pytest.raises(InputError, match="the definition of a/msg/B cannot be read"):
            recording.add_topic("/b", "a/msg/B", "int32 = = x")
        with pytest.raises(InputError, match="QoS reliability 'perfect'"):
            recording.add_topic("/c", JOINT_STATE, definition(JOINT_STATE), "[{reliability: perfect}]")
    with pytest.raises(StoreError, match=r"cannot record to .*; nothing was written"):
        EpisodeRecording(Path("/proc/nowhere/b"))


# --- what happens to a process ------------------------------------------------------------------------------------

CHILD = """
    import sys
    sys.path.insert(0, {tests!r})
    from bag_making import *
    from rollout_monitor.errors import StoreError
    recording = EpisodeRecording(Path({folder!r}))
    recording.add_topic("/j", JOINT_STATE, definition(JOINT_STATE))
"""


def child(folder: Path, body: str) -> subprocess.Popen[str]:
    program = textwrap.dedent(CHILD).format(tests=str(Path(__file__).parent), folder=str(folder)) + textwrap.dedent(
        body
    )
    source = str(Path(__file__).parents[2] / "src")
    path = os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )


def test_a_kill_costs_less_than_a_second(tmp_path: Path) -> None:
    process = child(
        tmp_path / "killed",
        """
        import time
        index = 0
        while True:
            stamp = START_NS + index * 10_000_000
            recording.write("/j", stamp, stamp, joint_state(stamp, [float(index), 0.0, 1.0]))
            index += 1
            if index % 100 == 0:
                print(index, flush=True)
                time.sleep(0.01)
        """,
    )
    try:
        assert process.stdout is not None
        written = 0
        while written < 700:
            written = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
    finally:
        process.kill()
        process.wait(30)
        process.stderr and process.stderr.close()
    written = int(([str(written), *process.stdout.read().split()])[-1])
    process.stdout.close()
    with open_bag(tmp_path / "killed") as bag:
        read = list(bag.messages())
        values = [float(bag.decode(message).position[0]) for message in read]
    assert values == [float(index) for index in range(len(values))]
    assert len(read) > written - 100, "100 messages are a second of log time"
    assert [path.name for path in (tmp_path / "killed").iterdir()] == ["killed_0.mcap.active"]


def test_a_full_disk_keeps_what_was_written(tmp_path: Path) -> None:
    process = child(
        tmp_path / "full",
        """
        import resource, signal
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
        for index in range(10_000):
            stamp = START_NS + index * 10_000_000
            try:
                recording.write("/j", stamp, stamp, joint_state(stamp, [float(index * 1.37 % 1)] * 3))
            except StoreError as error:
                print(index, error)
                break
        try:
            recording.write("/j", 0, 0, b"")
        except StoreError as again:
            print("again", again)
        print(recording.close())
        """,
    )
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    first, again, closed = output.strip().splitlines()
    count = int(first.split()[0])
    assert "File too large" in first
    assert "full_0.mcap.active, which opens like a bag" in first
    assert again.startswith("again recording to")
    assert closed == str(tmp_path / "full")
    with open_bag(tmp_path / "full") as bag:
        read = sum(1 for _ in bag.messages())
    assert count - 100 < read <= count


def test_without_room_the_recording_ends_as_a_whole_bag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk says it is full until the room held back is given up; a real disk does so in tests/ros."""
    write_out = recording_module._Sink._write

    def on_a_small_disk(sink: recording_module._Sink, data: bytes) -> None:
        if not sink._reserve.closed and sink.tell() + len(data) > 60_000:
            raise OSError(errno.ENOSPC, "No space left on device")
        write_out(sink, data)

    monkeypatch.setattr(recording_module._Sink, "_write", on_a_small_disk)
    recording = EpisodeRecording(tmp_path / "full")
    recording.add_topic("/j", JOINT_STATE, definition(JOINT_STATE))
    written = 0
    with pytest.raises(
        StoreError, match=r"ended early: No space left on device; its \d+ messages so far are safe in a"
    ):
        while True:
            stamp = START_NS + written * 10_000_000
            written += 1
            recording.write("/j", stamp, stamp, joint_state(stamp, [written * 1.37 % 1] * 3))
    with pytest.raises(StoreError, match="the rest of this episode is not recorded; make room before the next one"):
        recording.write("/j", 0, 0, b"")
    assert recording.close() == tmp_path / "full"
    with open_bag(tmp_path / "full") as bag:
        assert not bag.notes
        assert sum(1 for _ in bag.messages()) == written
        assert bag.custom == {ENDED_EARLY: "No space left on device"}
    with AnyReader([tmp_path / "full"]) as reader:
        assert reader.message_count == written
    assert sorted(path.name for path in (tmp_path / "full").iterdir()) == ["full_0.mcap", "metadata.yaml"]


def test_the_room_held_back_is_real_and_is_given_back(tmp_path: Path) -> None:
    """Without a name: a kill gives it back as well."""
    with EpisodeRecording(tmp_path / "take") as recording:
        held = recording._sink._reserve
        assert os.fstat(held.fileno()).st_blocks * 512 >= RESERVE_BYTES
        assert len(list(recording.path.iterdir())) == 1
    assert held.closed


def test_without_room_to_hold_back_nothing_is_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(StoreError, match=r"cannot record to .*take: No space left on device; nothing was written"):
        EpisodeRecording(tmp_path / "take")
    assert list(tmp_path.iterdir()) == []


def test_what_a_refusing_disk_leaves_ends_with_a_whole_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a record is taken back, so that plain MCAP readers get through to the end."""
    recording = EpisodeRecording(tmp_path / "torn", compression="none")
    recording.add_topic("/j", JOINT_STATE, definition(JOINT_STATE))
    stream = recording._sink._stream

    class Torn:
        """Takes 20,000 bytes, the last write only in part."""

        left = 20_000

        def write(self, data: memoryview) -> int:
            if not self.left:
                raise OSError(errno.EIO, "Input/output error")
            taken = stream.write(data[: self.left]) or 0
            self.left -= taken
            return taken

        def __getattr__(self, name: str) -> object:
            return getattr(stream, name)

    monkeypatch.setattr(recording._sink, "_stream", Torn())
    with pytest.raises(StoreError, match="Input/output error"):
        for index in range(1000):
            stamp = START_NS + index * 10_000_000
            recording.write("/j", stamp, stamp, joint_state(stamp, [float(index)] * 3))
    recording.close()
    data = (tmp_path / "torn" / "torn_0.mcap.active").read_bytes()
    assert len(data) < 20_000
    position = 8
    while position < len(data):
        position += 9 + int.from_bytes(data[position + 1 : position + 9], "little")
    assert position == len(data)
    with open_bag(tmp_path / "torn") as bag:
        values = [float(bag.decode(message).position[0]) for message in bag.messages()]
    assert len(values) >= 50 and values == [float(index) for index in range(len(values))]


def test_sync_waits_for_the_disk_from_any_thread_and_a_refusal_ends_the_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with EpisodeRecording(tmp_path / "take") as recording:
        synced: list[int] = []
        monkeypatch.setattr(os, "fdatasync", lambda descriptor: synced.append(os.fstat(descriptor).st_size))
        thread = threading.Thread(target=recording.sync)
        thread.start()
        thread.join()
        assert synced == [(tmp_path / "take" / "take_0.mcap.active").stat().st_size]

        def refuse(_: int) -> None:
            raise OSError(errno.EIO, "Input/output error")

        monkeypatch.setattr(os, "fdatasync", refuse)
        with pytest.raises(StoreError, match="Input/output error"):
            recording.sync()
        with pytest.raises(StoreError, match="Input/output error"):
            recording.flush()
    recording.sync()  # closed: nothing is left to wait for


def test_a_process_that_only_exits_leaves_a_readable_file(tmp_path: Path) -> None:
    process = child(tmp_path / "gone", 'recording.write("/j", 1, 1, joint_state(1, [1.0])); recording.flush()')
    assert process.wait(60) == 0
    process.communicate()
    deadline = time.monotonic() + 10
    while not list((tmp_path / "gone").iterdir()) and time.monotonic() < deadline:
        pass
    with open_bag(tmp_path / "gone") as bag:
        assert [m.log_ns for m in bag.messages()] == [1]


# --- definitions and profiles -------------------------------------------------------------------------------------


@pytest.fixture
def share(tmp_path: Path) -> list[Path]:
    """Two roots with a few .msg files; the first overrides one of the second's."""
    texts = {
        "one/share/my_msgs/msg/State.msg": (
            "# a comment with std_msgs/Header in it\nuint8 MODE_A=1 # not a field type: Other\nstd_msgs/Header header\n"
            'Joint[] joints\nfloat64[<=3] limits\nstring<=10 name "std_msgs/Empty"\nbool[4] flags\nchar letter\n'
        ),
        "one/share/my_msgs/msg/Joint.msg": "string name\nfloat64 position 1.5\nbuiltin_interfaces/Time stamp\n",
        "two/share/my_msgs/msg/Joint.msg": "int8 shadowed\n",
        "two/share/std_msgs/msg/Header.msg": "builtin_interfaces/Time stamp\nstring frame_id\n",
        "two/share/builtin_interfaces/msg/Time.msg": "int32 sec\nuint32 nanosec\n",
    }
    for name, text in texts.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return [tmp_path / "one", tmp_path / "two"]


def test_schema_text_is_the_type_and_all_it_uses(share: list[Path]) -> None:
    text = schema_text_from_share("my_msgs/msg/State", share)
    parts = text.split("=" * 80 + "\n")
    assert [part.splitlines()[0] for part in parts[1:]] == [
        "MSG: std_msgs/Header",
        "MSG: my_msgs/Joint",
        "MSG: builtin_interfaces/Time",
    ]
    assert parts[0] == (share[0] / "share/my_msgs/msg/State.msg").read_text() + "\n"
    assert "shadowed" not in text
    assert rihs01("my_msgs/msg/State", text) == rihs01("my_msgs/msg/State", text.replace("char letter", "uint8 letter"))


def test_schema_text_names_what_is_missing(share: list[Path]) -> None:
    (share[1] / "share/std_msgs/msg/Header.msg").unlink()
    with pytest.raises(InputError, match=r"no std_msgs/msg/Header\.msg below share/ of .*one.*two"):
        schema_text_from_share("my_msgs/msg/State", share)
    with pytest.raises(InputError, match="expected package/msg/Name"):
        schema_text_from_share("State", share)


def test_hashes_of_installed_types_agree() -> None:
    """Against the hashes that ROS 2 ships, for every message type there."""
    roots = [Path(root) for root in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep) if root]
    files = [file for root in roots for file in root.glob("share/*/msg/*.json") if file.with_suffix(".msg").is_file()]
    if not files:
        pytest.skip("no ROS 2 installation is sourced (AMENT_PREFIX_PATH has no message packages)")
    for file in files:
        name = f"{file.parent.parent.name}/msg/{file.stem}"
        hashes = {entry["type_name"]: entry["hash_string"] for entry in json.loads(file.read_text())["type_hashes"]}
        assert rihs01(name, schema_text_from_share(name, roots)) == hashes[name], name


def test_joint_state_hash_is_ros_own() -> None:
    assert rihs01(JOINT_STATE, definition(JOINT_STATE)) == JOINT_STATE_HASH


def test_qos_of_old_metadata_comes_in_words() -> None:
    old = (
        "- history: 1\n  depth: 7\n  reliability: 2\n  durability: 1\n  deadline: {sec: 0, nsec: 5}\n  liveliness: 1\n"
    )
    (profile,) = parse_qos(old)
    assert profile["deadline"] == {"sec": 0, "nsec": 5}
    words = [profile[key] for key in ("history", "depth", "reliability", "durability", "liveliness")]
    assert words == ["keep_last", 7, "best_effort", "transient_local", "automatic"]
    assert parse_qos(dump_qos([profile])) == [profile]
    assert parse_qos("") == parse_qos("[]") == []
    for wrong in ("a: b", "- 3", "- {history: 17}", "- {deadline: 3}", "- {speed: 3}", "[", "- {history: true_last}"):
        with pytest.raises(InputError, match="QoS"):
            parse_qos(wrong)
