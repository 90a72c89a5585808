"""A disk that fills while an episode is recorded, on a real small one where this machine lets it be mounted.

The same with what stands in for it everywhere: `test_faults` (a limit on the size of files) and `tests/store`.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest
from graph import Graph, Process
from mcap.reader import make_reader
from mcap_ros2.decoder import DecoderFactory
from rollout_monitor_nodes.common.cdr import header_stamp_ns
from rosbags.highlevel import AnyReader
from stack import NAMESPACE, Stack
from synthetic import NS, Rollout, make_rollout

from rollout_monitor.records import EpisodeReport, EpisodeState
from rollout_monitor.store.bags import open_bag

MIB = 1024 * 1024
JOINTS = f"{NAMESPACE}/joint_states"
END = (f"{NAMESPACE}/rollout/end_episode", "rollout_monitor_msgs/srv/EndEpisode")


class Disk:
    """A file system of 32 MiB in memory, with something that can fill it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    @property
    def free(self) -> int:
        found = os.statvfs(self.folder)
        return found.f_bavail * found.f_frsize

    def fill(self, leave: int = 0) -> None:
        """Somebody else's file takes all room but this."""
        size = self._ballast.stat().st_size if self._ballast.exists() else 0
        with self._ballast.open("ab") as file, suppress(OSError):
            os.posix_fallocate(file.fileno(), 0, max(1, size + self.free - leave))

    def fill_all(self) -> None:
        """To the last byte, against those who write at the same time."""
        with self._ballast.open("ab", buffering=0) as file, suppress(OSError):
            while file.write(bytes(4096)):
                pass

    def make_room(self) -> None:
        """That file goes."""
        self._ballast.unlink()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    except OSError as error:
        pytest.skip(f"no small disk can be mounted here: {error}")
    if mounted.returncode != 0:
        pytest.skip(f"no small disk can be mounted here: {mounted.stderr.strip()}")
    try:
        yield Disk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture
def rescue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where reports go that have no room; set before the nodes start."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Rollout:
    return make_rollout(tmp_path_factory.mktemp("bag") / "short", episode_id="short", seconds=1.0, camera_hz=10)


@pytest.fixture
def stack(disk: Disk, graph: Graph) -> Stack:
    """monitor_node and recorder with everything on the small disk."""
    stack = Stack(graph)
    stack.episodes = disk.folder / "episodes"
    stack.recordings = stack.episodes / "recordings"
    stack.start_recorder()
    stack.start_monitor(end_wait_s=0.5)
    stack.wait_until_connected()
    return stack


def contents(*folders: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for folder in folders for file in folder.rglob("*") if file.is_file()}


def until_recording(stack: Stack, episode: str) -> Process:
    recorder = stack.nodes["recorder"]
    recorder.said(f"recording episode {episode}")
    return recorder


def end(stack: Stack, episode: str) -> EpisodeReport:
    answer = stack.graph.call(*END)
    assert answer.success, answer.message
    return stack.report(episode)


def assert_whole_bag(folder: Path) -> None:
    """Two strangers read the same from it: every joint state from the first to the last."""
    with AnyReader([folder]) as reader:
        stamps = [header_stamp_ns(raw) for connection, _, raw in reader.messages() if connection.topic == JOINTS]
    with next(folder.glob("*.mcap")).open("rb") as stream:
        decoded = make_reader(stream, decoder_factories=[DecoderFactory()]).iter_decoded_messages(topics=[JOINTS])
        found = [msg.header.stamp.sec * NS + msg.header.stamp.nanosec for _, _, _, msg in decoded]
    assert len(stamps) > 100 and stamps == found
    assert {later - earlier for earlier, later in pairwise(stamps)} == {NS // 500}


def test_a_disk_that_fills_ends_the_recording_and_nothing_else(
    stack: Stack, disk: Disk, short: Rollout, endless: Rollout
) -> None:
    """What was kept is whole, the report is there, the operator knows (ros2/rosbag2#2477, fastlabel/open-lutra#95)."""
    recorder = stack.nodes["recorder"]
    stack.play(short.folder, rate=2.0).wait(60.0)
    stack.report("short")
    recorder.said("recording of episode short closed")
    before = contents(stack.episodes / "short", stack.recordings / "short")

    player = stack.play(endless.folder, rate=2.0)
    until_recording(stack, "endless")
    disk.fill(leave=MIB // 2)
    recorder.said("ended early: No space left on device")
    recorder.said("the rest of this episode is not recorded; make room before the next one")
    said = len(stack.statuses.messages)
    stack.graph.until("the monitor goes on", lambda: len(stack.statuses.messages) > said + 3)
    report = end(stack, "endless")
    assert report.state is EpisodeState.ENDED
    assert report.bag == "endless"
    assert [note for note in report.notes if "the recording ends before the episode does: No space left" in note]
    kept = EpisodeReport.model_validate_json((stack.episodes / "endless" / "report.json").read_bytes())
    assert kept.notes == report.notes
    assert_whole_bag(stack.recordings / "endless")
    assert contents(stack.episodes / "short", stack.recordings / "short") == before

    player.signal(signal.SIGINT)
    player.wait()
    disk.make_room()
    stack.play(short.folder, rate=2.0)
    recorder.said("recording of episode short closed (its report has come): " + str(stack.recordings / "short-2"))
    with open_bag(stack.recordings / "short-2") as bag:
        assert not bag.notes
    recorder.signal(signal.SIGINT)
    assert recorder.wait() == 1
    assert "not recorded to the end: recording to" in recorder.text.splitlines()[-1]


def test_a_report_without_room_is_kept_elsewhere(rescue: Path, disk: Disk, stack: Stack, endless: Rollout) -> None:
    """Not one byte is left for it (ros2/rosbag2#2477): it goes where it can be written, and that is said."""
    stack.play(endless.folder, rate=2.0)
    recorder = until_recording(stack, "endless")
    disk.fill(leave=MIB // 2)
    recorder.said("ended early")
    disk.fill_all()
    end(stack, "endless")
    path = Path(stack.report_message("endless").report_path)
    assert path.is_relative_to(rescue)
    kept = EpisodeReport.model_validate_json((path / "report.json").read_bytes())
    assert kept.state is EpisodeState.ENDED and kept.episode_id == "endless"
    monitor = stack.nodes["monitor_node"]
    monitor.said("could not be written (No space left on device)")
    monitor.said(f"is safe in {path}: make room, move it there")
    monitor.signal(signal.SIGINT)
    assert monitor.wait() == 0


def test_without_room_for_a_recording_none_is_begun(stack: Stack, disk: Disk, endless: Rollout) -> None:
    """Said at the START; the attempt is watched and reported all the same, in the room that was left for that."""
    disk.fill(leave=4 * MIB)
    stack.play(endless.folder, rate=2.0)
    recorder = stack.nodes["recorder"]
    recorder.said("cannot record to")
    assert "No space left on device; nothing was written" in recorder.text
    stack.graph.until("the attempt", lambda: stack.status.episode_id == "endless" and stack.status.elapsed_s > 1.0)
    assert end(stack, "endless").state is EpisodeState.ENDED
    assert (stack.episodes / "endless" / "report.json").exists()
    assert not (stack.recordings / "endless").exists()
    recorder.signal(signal.SIGINT)
    assert recorder.wait() == 1
