"""Every public recording opens, or is refused with its reason and its path: one test per file, found by walking."""

from __future__ import annotations

from pathlib import Path

import pytest

from rollout_monitor.errors import InputError
from rollout_monitor.store.bags import open_bag
from rollout_monitor.store.videos import read_video

PUBLIC = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "public"
VIDEOS = {".mp4", ".mkv", ".webm", ".avi", ".mov"}
FILES = sorted(path for path in PUBLIC.rglob("*") if path.is_file())
NAMES = [str(path.relative_to(PUBLIC)) for path in FILES]
WHOLE = {
    "recordings/small_mcap/testdata/base_msgs/base_msgs_0.mcap",
    "recordings/small_mcap/testdata/array_msgs/array_msgs_0.mcap",
    "recordings/ur10_bag/ur10_exciting_trajectory.db3",
}
"""The bags among them; all videos are whole."""


@pytest.mark.usefixtures("public_data")
def test_the_walk_found_bags_and_videos() -> None:
    """What the following tests go through; without it an empty folder would pass."""
    assert set(NAMES) >= WHOLE
    assert sum(path.suffix in VIDEOS for path in FILES) > 25


def bag_fate(path: Path) -> str:
    """Read a bag to its end, each message decoded."""
    try:
        with open_bag(path) as bag:
            messages = [bag.decode(message) for message in bag.messages()]
            assert len(messages) == sum(topic.count for topic in bag.topics)
    except InputError as error:
        assert str(path) in str(error)
        return f"refused: {error}"
    return f"{len(messages)} messages"


def video_fate(path: Path) -> str:
    """Read a video to its end, a frame per second."""
    frames = 0
    try:
        for stamp_ns, picture in read_video(path, 1.0):
            assert picture.ndim == 3 and stamp_ns >= frames * 1_000_000_000
            frames += 1
    except InputError as error:
        assert str(path) in str(error)
        return f"refused: {error}"
    return f"{frames} frames"


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_a_public_file(path: Path, record_property: pytest.RecordProperty) -> None:
    """Bags and videos are read whole; anything else is refused by both readers, never with another error."""
    fates = {"as a bag": bag_fate(path), "as a video": video_fate(path)}
    for how, fate in fates.items():
        record_property(how, fate)
        print(f"{path.relative_to(PUBLIC)} {how}: {fate}")
    assert fates["as a bag"].startswith("refused") is (str(path.relative_to(PUBLIC)) not in WHOLE)
    assert fates["as a video"].startswith("refused") is (path.suffix not in VIDEOS)


@pytest.mark.parametrize(
    "path", sorted({path.parent for path in FILES}), ids=lambda path: str(path.relative_to(PUBLIC))
)
def test_a_public_folder(path: Path) -> None:
    """A folder is a bag where it holds one, with or without metadata.yaml."""
    fate = bag_fate(path)
    assert fate.startswith("refused") is (not any(Path(name).parent == path.relative_to(PUBLIC) for name in WHOLE)), (
        fate
    )
