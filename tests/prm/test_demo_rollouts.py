"""The bundled recordings: what is in them, and what the embedded model sees in them."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
import pytest
from rosbags.highlevel import AnyReader

from rollout_monitor.frames import FrameSet
from rollout_monitor.prm.embedded import EmbeddedModel

NAMES = ("lift_success", "lift_drop_recover", "stack_stall")
START_NS = 1_700_000_000_000_000_000
CAMERAS = {name: f"/ur5e/camera_{name}/color/image_raw/compressed" for name in ("front", "wrist")}


class Recording:
    """One bag, read once."""

    def __init__(self, folder: Path) -> None:
        self.stamps: dict[str, list[int]] = {}
        self.markers: list[tuple[int, int, str, int]] = []
        self.frames: dict[str, list[tuple[int, npt.NDArray[np.uint8]]]] = {name: [] for name in CAMERAS}
        self.joint_names: set[tuple[str, ...]] = set()
        with AnyReader([folder]) as reader:
            for connection, stamp, raw in reader.messages():
                message = reader.deserialize(raw, connection.msgtype)
                header = message.header.stamp.sec * 1_000_000_000 + message.header.stamp.nanosec
                assert header == stamp
                self.stamps.setdefault(connection.topic, []).append(stamp)
                if connection.topic == "/ur5e/rollout/episode":
                    self.markers.append((stamp, message.boundary, message.task, message.label))
                elif connection.topic == "/ur5e/joint_states":
                    self.joint_names.add(tuple(message.name))
                else:
                    camera = next(name for name, topic in CAMERAS.items() if topic == connection.topic)
                    assert message.format == "jpeg" and message.header.frame_id
                    picture = cv2.imdecode(message.data, cv2.IMREAD_COLOR)
                    self.frames[camera].append((stamp, cv2.cvtColor(picture, cv2.COLOR_BGR2RGB)))


@pytest.fixture(scope="module", params=NAMES)
def recording(request: pytest.FixtureRequest, root: Path) -> tuple[str, Recording]:
    return request.param, Recording(root / "demo" / request.param)


def test_the_recordings_are_whole(recording: tuple[str, Recording]) -> None:
    _, bag = recording
    assert set(bag.stamps) == {*CAMERAS.values(), "/ur5e/joint_states", "/ur5e/rollout/episode"}
    joints = bag.stamps["/ur5e/joint_states"]
    assert joints[0] == START_NS
    assert joints[-1] - joints[0] <= 11_000_000_000
    assert {int(step) for step in np.diff(joints)} == {2_000_000}
    for topic in CAMERAS.values():
        assert bag.stamps[topic][0] == START_NS
        assert {int(step) for step in np.diff(bag.stamps[topic])} == {100_000_000}
    (begin, first, task, _), (end, last, _, label) = bag.markers
    assert (begin, first, last, label) == (START_NS, 0, 1, 0)
    assert task
    assert end == joints[-1]
    (names,) = bag.joint_names
    assert len(names) == 7 and "elbow_joint" in names


def test_the_model_sees_what_happens(recording: tuple[str, Recording], root: Path) -> None:
    name, bag = recording
    model = EmbeddedModel(root / "models" / "embedded")
    assert model.reset(bag.markers[0][2]).notes == ()
    answers = []
    for (stamp, front), (_, wrist) in list(zip(bag.frames["front"], bag.frames["wrist"], strict=True))[::2]:
        images = {"front": front, "wrist": wrist}
        answers.append(model.observe(FrameSet(stamp, images, dict.fromkeys(images, stamp))))
    progress = np.array([answer.progress for answer in answers])
    success = np.median([answer.success_probability for answer in answers[-5:]])
    fall = float((np.maximum.accumulate(progress) - progress).max())
    if name == "stack_stall":
        still = progress[-20:]  # the last four seconds
        assert float(np.ptp(still)) < 0.15
        assert progress.max() < 0.9
        assert success < 0.5
    else:
        assert progress[0] < 0.3
        assert np.median(progress[-5:]) >= 0.9
        assert success >= 0.5
        assert (fall > 0.2) == (name == "lift_drop_recover")


def test_they_are_small(root: Path) -> None:
    assert sum(path.stat().st_size for path in (root / "demo").rglob("*") if path.is_file()) < 15e6
