"""The simulated cell itself; needs the extra [sim]."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import numpy as np
import pytest

os.environ.setdefault("MUJOCO_GL", "egl")
os.environ.setdefault("PYOPENGL_PLATFORM", "egl")
pytest.importorskip("robosuite", reason="the extra [sim] is not installed (scripts/install_sim.sh)")

from rollout_monitor.errors import InputError, RolloutMonitorError
from rollout_monitor.sim.cell import CameraFrame, JointSample, SimCell
from rollout_monitor.sim.generate import RolloutPlan, decode_pictures, generate, read_index


def fingerprint(task: str, mode: str, seed: int) -> tuple[str, str]:
    cell = SimCell(task, mode, seed, frame_rate_hz=1.0)
    digest = hashlib.sha256()
    for sample in cell.run():
        digest.update(sample.rgb.tobytes() if isinstance(sample, CameraFrame) else sample.positions.tobytes())
    return digest.hexdigest(), cell.outcome


def test_the_same_attempt_comes_out_whatever_ran_before() -> None:
    first = fingerprint("lift", "drop", 3)
    fingerprint("lift", "success", 4)
    assert fingerprint("lift", "drop", 3) == first
    assert first[1] == "failure"


def test_the_stream_is_in_order_at_its_rates() -> None:
    cell = SimCell("stack_red_on_green", "success", 5)
    with pytest.raises(RolloutMonitorError, match="not begun"):
        _ = cell.truth
    joints: list[JointSample] = []
    frames: list[CameraFrame] = []
    last = 0
    for sample in cell.run():
        assert sample.stamp_ns >= last
        last = sample.stamp_ns
        (frames if isinstance(sample, CameraFrame) else joints).append(sample)  # type: ignore[arg-type]
    assert {int(step) for step in np.diff([j.stamp_ns for j in joints])} == {2_000_000}
    fronts = [f for f in frames if f.camera == "front"]
    assert [f.stamp_ns for f in fronts] == [f.stamp_ns for f in frames if f.camera == "wrist"]
    assert {int(step) for step in np.diff([f.stamp_ns for f in fronts])} == {100_000_000}
    assert fronts[0].stamp_ns == joints[0].stamp_ns == 0
    assert fronts[0].rgb.shape == (240, 320, 3)
    assert all(20 < f.rgb.mean() < 240 and f.rgb.std() > 10 for f in frames)
    assert len(cell.joint_names) == joints[0].positions.shape[0] == joints[0].efforts.shape[0] == 7
    # Velocities belong to positions, and somebody moved.
    positions = np.array([j.positions for j in joints])
    velocities = np.array([j.velocities for j in joints])
    np.testing.assert_allclose(np.diff(positions[:, :6], axis=0) / 0.002, velocities[1:, :6], atol=0.05)
    assert np.abs(velocities).max() > 0.2
    truth = cell.truth
    assert len(truth.progress) == len(fronts)
    assert cell.outcome == "success"
    assert truth.progress[0] < 0.1
    assert truth.progress[-1] == 1.0


def test_a_drop_costs_progress_and_is_marked() -> None:
    cell = SimCell("lift", "drop", 3, frame_rate_hz=10.0)
    for _ in cell.run():
        pass
    truth = cell.truth
    ((begin, end),) = truth.drops
    before = truth.progress[truth.stamps_ns <= begin][-1]
    after = truth.progress[truth.stamps_ns >= end][0]
    assert 0 < end - begin < 1_000_000_000
    assert before - after > 0.2


def test_a_frame_rate_that_does_not_fit_is_refused() -> None:
    with pytest.raises(InputError, match=r"7\.0 Hz"):
        SimCell("lift", "success", 1, frame_rate_hz=7.0)


def test_generation_can_be_stopped_and_goes_on(tmp_path: Path) -> None:
    plans = [RolloutPlan("lift", "drop", 11), RolloutPlan("lift", "miss", 12)]
    generate(tmp_path, plans[:1], frame_rate_hz=1.0)
    path = tmp_path / "rollouts" / f"{plans[0].id}.npz"
    stamp = path.stat().st_mtime_ns
    metas = generate(tmp_path, plans, frame_rate_hz=1.0)
    assert path.stat().st_mtime_ns == stamp
    assert read_index(tmp_path) == metas
    assert [meta.outcome for meta in metas] == ["failure", "failure"]
    with np.load(path) as arrays:
        assert len(list(decode_pictures(arrays, "front"))) == metas[0].frames == len(arrays["progress"])
        assert arrays["joints"].shape[1:] == (3, 7)
    with pytest.raises(InputError, match="another folder"):
        generate(tmp_path, plans, frame_rate_hz=2.0)
