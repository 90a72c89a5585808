"""Which segments in shared memory are removed: those that nobody has locked, and no other file."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rollout_monitor.bringup import shared_memory

HOLDER = """
import fcntl, sys
held = open(sys.argv[1])
fcntl.flock(held, fcntl.LOCK_SH if held.name.endswith("_sl") else fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()
"""


def touch(path: Path, age_s: float = 60.0) -> None:
    """Make an empty file of that age."""
    path.touch()
    made = path.stat().st_mtime - age_s
    os.utime(path, (made, made))


def make_segment(folder: Path, name: str, age_s: float = 60.0) -> Path:
    """A segment and its lock file; returns the lock file."""
    (folder / name).write_bytes(b"data")
    lock = folder / f"{name}_el"
    touch(lock, age_s)
    return lock


@pytest.mark.parametrize("family", ["fastrtps", "fastdds"])
def test_a_segment_goes_when_its_owner_has_ended_and_never_before(tmp_path: Path, family: str) -> None:
    lock = make_segment(tmp_path, f"{family}_0123456789abcdef")
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None and owner.stdout.readline() == "locked\n"
        assert shared_memory.remove_dead(tmp_path) == []
        assert lock.exists()
        owner.kill()
    assert shared_memory.remove_dead(tmp_path) == [tmp_path / f"{family}_0123456789abcdef"]
    assert list(tmp_path.iterdir()) == []


def test_a_young_one_may_be_about_to_be_locked(tmp_path: Path) -> None:
    make_segment(tmp_path, "fastdds_0123456789abcdef", age_s=0.0)
    assert shared_memory.remove_dead(tmp_path) == []
    assert len(shared_memory.remove_dead(tmp_path, settled_s=0.0)) == 1


def test_what_is_no_segment_of_this_user_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A port that is young; a link may lead anywhere; a file of that name may be of a stranger."""
    for name in ("fastrtps_port7000", "sem.fastrtps_port7000_mutex", "fastdds_0123", "other_0123456789abcdef"):
        make_segment(tmp_path, name)
    aim = make_segment(tmp_path, "precious")
    (tmp_path / "fastdds_00000000000000aa_el").symlink_to(aim)
    before = sorted(tmp_path.iterdir())
    assert shared_memory.remove_dead(tmp_path) == []
    make_segment(tmp_path, "fastdds_0123456789abcdef")
    monkeypatch.setattr(os, "getuid", lambda: tmp_path.stat().st_uid + 1)
    assert shared_memory.remove_dead(tmp_path) == []
    assert set(before) < set(tmp_path.iterdir())


def test_a_process_removes_its_own_and_no_other(tmp_path: Path) -> None:
    own, other = (make_segment(tmp_path, f"fastdds_000000000000000{digit}") for digit in "12")
    with own.open():
        shared_memory.remove_own(tmp_path)
    assert sorted(tmp_path.iterdir()) == [other.with_name("fastdds_0000000000000002"), other]


def test_a_machine_without_such_a_folder_is_fine(tmp_path: Path) -> None:
    assert shared_memory.remove_dead(tmp_path / "none") == []


def make_port(folder: Path, number: int, age_s: float = 60.0) -> None:
    """A port with its mutex, as everybody leaves it."""
    port = folder / f"fastrtps_port{number}"
    port.write_bytes(b"data")
    (folder / f"sem.{port.name}_mutex").touch()
    made = port.stat().st_mtime - age_s
    os.utime(port, (made, made))


@pytest.mark.parametrize("lock", ["fastrtps_port7001_el", "fastrtps_port7000_sl", "fastdds_0123456789abcdef_el"])
def test_ports_go_when_nobody_holds_a_lock_and_never_before(tmp_path: Path, lock: str) -> None:
    """A process that starts has locked its segment before it opens a port."""
    make_port(tmp_path, 7000)
    make_port(tmp_path, 7001)
    touch(tmp_path / lock)
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None and owner.stdout.readline() == "locked\n"
        assert shared_memory.remove_dead(tmp_path) == []
        owner.kill()
    removed = [path.name for path in shared_memory.remove_dead(tmp_path)]
    assert [name for name in removed if "port" in name] == ["fastrtps_port7000", "fastrtps_port7001"]
    assert not [path for path in tmp_path.iterdir() if "port" in path.name]


@pytest.mark.parametrize("age_s", [0.0, 60.0])
def test_no_lock_of_a_port_is_tried_while_somebody_may_open_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, age_s: float
) -> None:
    """A node that found its port's lock taken for that moment was deaf: Failed init_port, open_and_lock_file failed."""
    make_port(tmp_path, 7000)
    lock = make_segment(tmp_path, "fastrtps_0123456789abcdef", age_s)
    touch(tmp_path / "fastrtps_port7000_el")
    tried: list[str] = []
    flock = fcntl.flock

    def note(descriptor: int, kind: int) -> None:
        tried.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        flock(descriptor, kind)

    with lock.open() as owner:
        flock(owner, fcntl.LOCK_EX)
        monkeypatch.setattr(fcntl, "flock", note)
        assert shared_memory.remove_dead(tmp_path) == []
    assert not [name for name in tried if "port" in name]
    assert age_s or not tried, "a young segment is about to be locked"


def test_a_young_port_stays(tmp_path: Path) -> None:
    make_port(tmp_path, 7000, age_s=0.0)
    assert shared_memory.remove_dead(tmp_path) == []
    assert (tmp_path / "sem.fastrtps_port7000_mutex").exists()
