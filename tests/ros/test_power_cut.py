"""What is on the disk while a recording runs: a copy of the device is what a power cut would leave."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from graph import Graph
from rollout_monitor_nodes.recorder import SYNC_EVERY_S
from stack import NAMESPACE, Stack
from synthetic import Rollout

from rollout_monitor.errors import InputError
from rollout_monitor.store.bags import open_bag

IMAGE_BYTES = 64 * 1024 * 1024
BEFORE_THE_SYSTEM_S = 20.0
"""Left to itself the system writes new data after thirty seconds (vm.dirty_expire_centisecs)."""


class Device:
    """An ext4 file system on a file."""

    def __init__(self, folder: Path) -> None:
        self.image = folder / "disk.img"
        self.folder = folder / "disk"
        self.folder.mkdir()
        with self.image.open("wb") as file:
            file.truncate(IMAGE_BYTES)
        _do("mkfs.ext4", "-q", "-F", str(self.image))
        _do("mount", "-o", "loop", str(self.image), str(self.folder))

    def after_a_power_cut(self) -> Device:
        """What the device holds now, started again."""
        folder = self.image.parent / "cut"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        cut = object.__new__(Device)
        cut.image, cut.folder = folder / "disk.img", folder / "disk"
        cut.folder.mkdir()
        _do("cp", "--sparse=always", str(self.image), str(cut.image))
        _do("mount", "-o", "loop", str(cut.image), str(cut.folder))
        return cut

    def unmount(self) -> None:
        _do("umount", str(self.folder))


def _do(*command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        pytest.skip(f"no disk can be made here: {error}")
    if done.returncode != 0:
        pytest.skip(f"no disk can be made here: {' '.join(command)}: {done.stderr.strip()}")


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Device]:
    device = Device(tmp_path)
    yield device
    subprocess.run(["umount", "--lazy", str(device.folder)], check=True)


def joints_in(folder: Path) -> int:
    try:
        with open_bag(folder) as bag:
            return {topic.name: topic.count for topic in bag.topics}.get(f"{NAMESPACE}/joint_states", 0)
    except InputError:  # nothing there yet that can be read
        return 0


def test_a_power_cut_costs_the_last_seconds_only(device: Device, graph: Graph, endless: Rollout) -> None:
    """Closed bags are safe, and of the one being made all but what came after the last sync (ros2/rosbag2#2133)."""
    assert 2 * SYNC_EVERY_S < BEFORE_THE_SYSTEM_S
    stack = Stack(graph)
    stack.recordings = device.folder / "recordings"
    recorder = stack.start_recorder()
    stack.play(endless.folder, rate=1.0)
    recorder.said("recording episode endless")

    def survivors() -> int:
        cut = device.after_a_power_cut()
        try:
            return joints_in(cut.folder / "recordings" / "endless")
        finally:
            cut.unmount()

    graph.until("a thousand joint states on the disk itself", lambda: survivors() >= 1000, BEFORE_THE_SYSTEM_S)
    assert joints_in(stack.recordings / "endless") >= 1000
    recorder.signal(signal.SIGINT)
    assert recorder.wait() == 0
    closed = joints_in(stack.recordings / "endless")
    cut = device.after_a_power_cut()
    try:
        assert (cut.folder / "recordings" / "endless" / "metadata.yaml").exists()
        assert joints_in(cut.folder / "recordings" / "endless") == closed
    finally:
        cut.unmount()
