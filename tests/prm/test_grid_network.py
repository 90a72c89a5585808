"""Models of format 2: two views and joints that may be missing, a subtask, one step at a time."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest

from rollout_monitor.errors import ModelError
from rollout_monitor.frames import FrameSet, JointSample, RgbImage
from rollout_monitor.prm.embedded import EmbeddedModel
from rollout_monitor.prm.network import empty_step
from rollout_monitor.prm.protocol import Observation

TASK = "stack the red cube on the green cube"
UR5E = ("shoulder_pan_joint", "shoulder_lift_joint", "elbow_joint")


def picture(step: int) -> RgbImage:
    made = np.full((60, 80, 3), 150, dtype=np.uint8)
    made[20:40, 5 + 6 * step : 25 + 6 * step] = (200, 30, 30)
    return made


def sample(step: int, names: tuple[str, ...] = UR5E) -> JointSample:
    positions = tuple(0.3 * step + k for k in range(len(names)))
    return JointSample(names, positions, (0.1,) * len(names), step)


def play(
    model: EmbeddedModel, *, wrist: bool = True, joints: tuple[str, ...] | None = UR5E, steps: int = 8, task: str = TASK
) -> list[Observation]:
    model.reset(task)
    answers = []
    for step in range(steps):
        images = {"front": picture(step), "wrist": picture(7 - step)} if wrist else {"front": picture(step)}
        felt = None if joints is None else sample(step, joints)
        answers.append(model.observe(FrameSet(step, images, dict.fromkeys(images, step), felt)))
    return answers


def progress(answers: list[Observation]) -> list[float]:
    return [answer.progress for answer in answers if answer.progress is not None]


def test_every_answer_is_whole(tiny: EmbeddedModel) -> None:
    answers = play(tiny)
    for answer in answers:
        assert answer.progress is not None and answer.lower is not None and answer.upper is not None
        assert 0.0 <= answer.lower <= answer.progress <= answer.upper <= 1.0
        assert answer.subtask in range(5)
        assert answer.reason == ""
    assert len(set(progress(answers))) == len(answers), "the pictures differ"


def test_state_streams_and_reset_forgets(tiny: EmbeddedModel) -> None:
    whole = play(tiny)
    assert play(tiny) == whole
    assert play(tiny, steps=3) == whole[:3]
    tiny.reset(TASK)
    last = sample(7)
    images = {"front": picture(7), "wrist": picture(0)}
    alone = tiny.observe(FrameSet(7, images, dict.fromkeys(images, 7), last))
    assert alone.progress != whole[-1].progress


def test_task_wrist_and_joints_all_play_a_part_and_may_be_missing(tiny: EmbeddedModel) -> None:
    told = [
        progress(play(tiny)),
        progress(play(tiny, task="stack the green cube on the red cube")),
        progress(play(tiny, wrist=False)),
        progress(play(tiny, joints=None)),
        progress(play(tiny, wrist=False, joints=None)),
    ]
    for one in range(len(told)):
        assert len(told[one]) == 8
        for other in range(one):
            assert np.abs(np.subtract(told[one], told[other])).max() > 1e-4


def test_prefixes_and_the_order_of_publishing_change_nothing(tiny: EmbeddedModel) -> None:
    tiny.reset(TASK)
    images = {"front": picture(0)}
    plain = JointSample(UR5E, (0.1, 0.2, 0.3), (1.0, 2.0, math.nan), 0)
    other = JointSample(
        ("base_wheel", "robot0_elbow_joint", "robot0_shoulder_lift_joint", "robot0_shoulder_pan_joint"),
        (9.0, 0.3, 0.2, 0.1),
        (9.0, 0.0, 2.0, 1.0),
        0,
    )
    answers = []
    for joints in (plain, other):
        tiny.reset(TASK)
        answers.append(tiny.observe(FrameSet(0, images, {"front": 0}, joints)))
    assert answers[0] == answers[1]


def test_joints_of_an_unknown_arm_are_not_used_and_told_once(tiny: EmbeddedModel) -> None:
    names = tuple(f"axis_{k}" for k in range(6))
    unknown, without = play(tiny, joints=names), play(tiny, joints=None)
    assert progress(unknown) == progress(without)
    assert unknown[0].reason == (
        "joint states not used: axis_0, axis_1, axis_2, axis_3 and 2 more fit no arm that the model knows"
    )
    assert [answer.reason for answer in unknown[1:]] == [""] * 7
    assert play(tiny, joints=names)[0].reason != "", "told again in the next attempt"


def test_the_card_says_whether_joints_are_used(tiny: EmbeddedModel, root: Path) -> None:
    assert tiny.card.joints
    description = json.loads((root / "models" / "embedded" / "model.json").read_text(encoding="utf-8"))
    assert EmbeddedModel(root / "models" / "embedded").card.joints == bool(description.get("joint_orders"))


def test_a_step_costs_the_same_after_a_thousand(tiny: EmbeddedModel) -> None:
    """The state is all that is remembered: it has one shape, however long the attempt."""
    _, vector = tiny.read(TASK), tiny.network.task(np.array([1], dtype=np.int64))
    state = np.zeros((1, tiny.network.state_size), dtype=np.float32)
    step = empty_step(tiny.network, 1)
    for _ in range(1000):
        state = tiny.network.step(step, vector, state).state
    assert state.shape == (1, tiny.network.state_size) and np.isfinite(state).all()


def test_rollouts_side_by_side_do_not_mix(tiny: EmbeddedModel) -> None:
    task, _ = tiny.read(TASK)
    both = empty_step(tiny.network, 2)
    for row in (0, 1):
        both.show(row, 0, tiny.network.see([picture(3 * row)]))
    both.feel(1, np.full(32, 0.5, dtype=np.float32))
    state = np.zeros((2, tiny.network.state_size), dtype=np.float32)
    said = tiny.network.step(both, np.repeat(task, 2, axis=0), state)
    for row in (0, 1):
        one = empty_step(tiny.network, 1)
        one.show(0, 0, tiny.network.see([picture(3 * row)]))
        if row:
            one.feel(0, np.full(32, 0.5, dtype=np.float32))
        alone = tiny.network.step(one, task, state[:1])
        for whole, part in zip(said, alone, strict=True):
            assert whole is not None and part is not None
            np.testing.assert_allclose(whole[row], part[0], atol=1e-5)


@pytest.mark.parametrize(
    ("key", "value", "match"),
    [
        ("joint_orders", {"ur5e": ["elbow_joint"] * 2}, "each once"),
        ("joint_orders", {"ur5e": []}, "1 to 16 names"),
        ("joint_orders", None, "garbles"),
        ("format", 99, "lacks or garbles 99"),
        ("state_size", None, "garbles"),
    ],
)
def test_a_description_that_cannot_be_used_is_named(
    tiny_folder: Path, tmp_path: Path, key: str, value: object, match: str
) -> None:
    folder = Path(shutil.copytree(tiny_folder, tmp_path / "tiny"))
    description = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    (folder / "model.json").write_text(json.dumps({**description, key: value}), encoding="utf-8")
    with pytest.raises(ModelError, match=match):
        EmbeddedModel(folder)
