"""Takes at the simulated table; needs the extra [sim]."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

os.environ.setdefault("MUJOCO_GL", "egl")
os.environ.setdefault("PYOPENGL_PLATFORM", "egl")
pytest.importorskip("robosuite", reason="the extra [sim] is not installed (scripts/install_sim.sh)")
pytest.importorskip("pyarrow", reason="pyarrow is not installed (scripts/install_sim.sh)")

from rollout_monitor.errors import InputError, RolloutMonitorError
from rollout_monitor.sim.tabletop.arms import JOINT_ORDERS
from rollout_monitor.sim.tabletop.files import generate, read_index, read_pictures, read_truth, rerender
from rollout_monitor.sim.tabletop.goals import judge
from rollout_monitor.sim.tabletop.looks import draw_look
from rollout_monitor.sim.tabletop.plans import plan_takes
from rollout_monitor.sim.tabletop.takes import CameraFrame, JointSample, LiveTake, Take, TakeSpec, run
from rollout_monitor.sim.tabletop.world import check_picture


def spec(task: str, mode: str = "success", seed: int = 3, arm: str = "ur5e") -> TakeSpec:
    return plan_takes("val", 1, seed, task=task, mode=mode, arm=arm)[0]


def fingerprint(take: Take) -> str:
    digest = hashlib.sha256(take.qpos.tobytes() + take.joints.tobytes())
    for pictures in take.pictures.values():
        digest.update(b"".join(pictures))
    return digest.hexdigest()


def test_the_same_take_comes_out_whatever_ran_before() -> None:
    first = run(spec("lift:red", "drop"), frame_rate_hz=1.0)
    run(spec("on:blue:yellow", "slip", 4), frame_rate_hz=1.0, pictures=False)
    second = run(spec("lift:red", "drop"), frame_rate_hz=1.0)
    assert fingerprint(first) == fingerprint(second)
    assert first.events == second.events
    assert first.outcome == "failure"


def test_a_success_rises_to_one_and_its_streams_keep_their_rates() -> None:
    take = run(spec("on:red:green"), frame_rate_hz=2.0, pictures=False)
    truth = take.truth
    assert take.outcome == "success"
    assert truth.progress[0] < 0.1
    assert truth.progress[-1] == 1.0
    assert truth.subtask.tolist()[-1] == 1
    assert set(np.diff(take.joint_stamps_ns).tolist()) == {10_000_000}
    assert set(np.diff(take.stamps_ns).tolist()) == {500_000_000}
    assert take.joints.shape[1:] == (3, len(take.joint_names)) == (3, 7)
    moved = np.diff(take.joints[:, 0, :6], axis=0) / 0.01
    np.testing.assert_allclose(moved, take.joints[1:, 1, :6], atol=0.12)
    kinds = [event.kind for event in take.events if event.what == "red"]
    assert kinds.index("grasp") < kinds.index("release")
    assert "drop" not in kinds


def test_a_live_take_streams_what_the_whole_one_holds() -> None:
    whole = run(spec("lift:red"), frame_rate_hz=2.0)
    live = LiveTake(spec("lift:red"), frame_rate_hz=2.0)
    with pytest.raises(RolloutMonitorError, match="not ended"):
        _ = live.outcome
    samples = list(live.stream())
    assert (live.outcome, live.joint_names) == (whole.outcome, whole.joint_names)
    assert [s.stamp_ns for s in samples] == sorted(s.stamp_ns for s in samples)
    joints = [sample for sample in samples if isinstance(sample, JointSample)]
    np.testing.assert_array_equal([sample.values for sample in joints], whole.joints)
    frames = [sample for sample in samples if isinstance(sample, CameraFrame)]
    assert Counter(frame.view for frame in frames) == dict.fromkeys(("front", "wrist"), len(whole.stamps_ns))
    assert [frame.stamp_ns for frame in frames[::2]] == whole.stamps_ns.tolist()
    first = samples.index(joints[0])
    assert {frame.view for frame in samples[:first] if isinstance(frame, CameraFrame)} == {"front", "wrist"}


def test_an_empty_picture_is_refused() -> None:
    with pytest.raises(RolloutMonitorError, match="empty picture"):
        check_picture(np.full((24, 32, 3), 200, np.uint8), "front")


def test_one_arm_names_its_joints_as_its_driver_does() -> None:
    names = LiveTake(spec("lift:red"), pictures=False).joint_names
    assert names[0] == "shoulder_pan_joint"
    assert names[-1] == "finger_joint"
    for arm, order in JOINT_ORDERS.items():
        task = "both:pot" if arm == "two_ur5e" else "lift:red"
        made = LiveTake(spec(task, arm=arm), pictures=False).joint_names
        assert made == [entry.removesuffix("?") for entry in order]


def test_labels_come_from_the_state() -> None:
    """The mode asks for a success; a hand that holds nothing ends in a failure all the same."""
    dropped = run(spec("lift:red", "drop"), frame_rate_hz=5.0, pictures=False)
    (fall,) = [event for event in dropped.events if event.kind == "drop"]
    before = dropped.truth.progress[dropped.stamps_ns <= fall.begin_ns][-1]
    after = dropped.truth.progress[dropped.stamps_ns >= fall.end_ns][0]
    assert before - after > 0.2
    renamed = replace(dropped, spec=replace(dropped.spec, mode="success"))
    assert renamed.outcome == "failure"


@pytest.mark.parametrize("arm", ["ur5e", "panda"])
def test_a_slip_takes_its_time_and_costs_progress(arm: str) -> None:
    take = run(spec("in:red:bin", "slip", seed=5, arm=arm), frame_rate_hz=10.0, pictures=False)
    falls = [event for event in take.events if event.kind in ("release", "drop") and event.what == "red"]
    assert falls
    row = int(np.searchsorted(take.stamps_ns, falls[0].begin_ns))
    height = take.states.objects[:, 0, 2]
    tool = take.states.tools[:, 0, 2]
    hang = (tool - height)[max(0, row - 6) : row]
    assert hang[-1] - hang[0] > 0.008, "it has to slide before it falls"
    assert take.truth.progress[row - 7] > take.truth.progress[min(row + 5, len(tool) - 1)] + 0.2


def test_wrong_order_and_wrong_object_are_seen() -> None:
    task = "in:red:bin>on:blue:green"
    mixed = run(spec(task, "wrong_order"), frame_rate_hz=2.0, pictures=False)
    assert mixed.outcome == "failure"
    assert mixed.truth.progress.max() <= 0.5
    assert judge("on:blue:green>in:red:bin", mixed.states, mixed.facts).done[-1]


def test_two_arms_have_fourteen_joints() -> None:
    take = run(spec("both:pot"), frame_rate_hz=2.0, pictures=False)
    assert take.outcome == "success"
    assert len(take.joint_names) == 14
    assert {name[:6] for name in take.joint_names if name.startswith("robot")} == {"robot0", "robot1"}


def test_generation_can_be_stopped_goes_on_and_can_be_drawn_again(tmp_path: Path) -> None:
    specs = [spec("lift:red", "miss", 11), spec("open:drawer", "success", 12)]
    generate(tmp_path, specs[:1], frame_rate_hz=1.0)
    folder = tmp_path / "takes" / specs[0].id
    stamp = (folder / "truth.npz").stat().st_mtime_ns
    (tmp_path / ".making-999999999").mkdir()  # as a killed process leaves it
    rows = generate(tmp_path, specs, frame_rate_hz=1.0)
    assert (folder / "truth.npz").stat().st_mtime_ns == stamp
    assert read_index(tmp_path) == rows
    assert [row.outcome for row in rows] == ["failure", "success"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index.parquet", "takes"]
    with pytest.raises(InputError, match="another folder"):
        generate(tmp_path, specs, frame_rate_hz=2.0)
    with pytest.raises(InputError, match=r"7\.0 Hz"):
        generate(tmp_path, specs, frame_rate_hz=7.0)
    _check_drawn_again(tmp_path / "takes" / specs[1].id)


def _check_drawn_again(folder: Path) -> None:
    truth = read_truth(folder)
    again = rerender(truth)
    other = rerender(truth, draw_look(99), views=("front",), rows=np.array([0, 2]))
    for view in ("front", "wrist"):
        stored = read_pictures(folder, view)
        assert len(stored) == len(again[view]) == truth.row.frames
        for one, two in zip(stored, again[view], strict=True):
            assert one.shape == two.shape == (224, 224, 3)
            assert np.abs(one.astype(int) - two).mean() < 6.0, "more than JPEG loses"
    assert len(other["front"]) == 2
    assert np.abs(other["front"][0].astype(int) - again["front"][0]).mean() > 15.0


def test_a_take_that_broke_says_what_to_do(tmp_path: Path) -> None:
    folder = tmp_path / "takes" / "val-000001"
    folder.mkdir(parents=True)
    (folder / "take.json").write_text(json.dumps({"id": "val-000001"}), encoding="utf-8")
    with pytest.raises(InputError, match="generate again"):
        read_truth(folder)
    with pytest.raises(InputError, match="--plan train"):
        read_index(tmp_path)
