"""Which of a robot's joints are the model's, whatever stands before their names."""

from __future__ import annotations

import numpy as np
import pytest

from rollout_monitor.errors import ModelError
from rollout_monitor.frames import JointSample
from rollout_monitor.prm.joint_names import JointOrders
from rollout_monitor.prm.posture import SLOTS, posture


def found(orders: dict[str, list[str]], *names: str) -> list[float] | None:
    """Positions in the model's order; joint k of those given is at (k + 1) / 10."""
    positions = tuple((k + 1) / 10 for k in range(len(names)))
    features = JointOrders(orders).features(JointSample(names, positions, (0.0,) * len(names), 0))
    if features is None:
        return None
    scaled = features[:SLOTS] * np.pi
    return [round(float(value), 3) for value in np.trim_zeros(scaled, "b")]


ARM = {"arm": ["pan_joint", "lift_joint", "finger_joint?"]}


def test_names_are_found_after_any_prefix_in_the_order_of_the_model() -> None:
    assert found(ARM, "lift_joint", "pan_joint") == [0.2, 0.1]
    assert found(ARM, "robot0_lift_joint", "x", "robot0_pan_joint", "gripper0_right_finger_joint") == [0.3, 0.1, 0.4]
    assert found(ARM, "left/lift_joint", "left/pan_joint") == [0.2, 0.1]


def test_an_ending_is_a_whole_word() -> None:
    assert found({"arm": ["joint1"]}, "xjoint1") is None
    assert found({"arm": ["joint1"]}, "joint11") is None
    assert found({"arm": ["joint1"]}, "x_joint1") == [0.1]


def test_a_required_joint_that_is_missing_or_twice_there_fits_nothing() -> None:
    assert found(ARM, "lift_joint") is None
    assert found(ARM, "left_lift_joint", "left_pan_joint", "right_lift_joint", "right_pan_joint") is None
    assert found(ARM, "finger_joint") is None


def test_an_optional_joint_may_be_missing_and_counts_as_zero() -> None:
    order = {"arm": ["finger_joint?", "pan_joint"]}
    assert found(order, "pan_joint") == [0.0, 0.1]
    assert found(order, "pan_joint", "finger_joint") == [0.2, 0.1]


def test_a_prefix_beyond_doubt_tells_joints_of_one_ending_apart() -> None:
    panda = {"panda": ["joint1", "joint2", "joint3"]}
    names = ("panda_finger_joint1", "panda_finger_joint2", "panda_joint1", "panda_joint2", "panda_joint3")
    assert found(panda, *names) == [0.3, 0.4, 0.5]


def test_of_several_orders_the_one_that_finds_most_is_taken() -> None:
    both = {"two": ["left_pan_joint", "right_pan_joint"], "left": ["left_pan_joint"], "none": ["z"]}
    assert found(both, "right_pan_joint", "left_pan_joint") == [0.2, 0.1]
    assert found(both, "left_pan_joint") == [0.1]


def test_features_are_those_of_training() -> None:
    sample = JointSample(("b", "a"), (0.1, 0.2), (0.3, float("nan")), 0)
    features = JointOrders({"arm": ["a", "b"]}).features(sample)
    assert features is not None
    np.testing.assert_array_equal(features, posture([0.2, 0.1], [0.0, 0.3]))


@pytest.mark.parametrize("order", [[], ["a", "a?"], ["?"], [f"j{k}" for k in range(17)]])
def test_an_order_that_cannot_be_is_refused(order: list[str]) -> None:
    with pytest.raises(ModelError, match="joint order 'arm'"):
        JointOrders({"arm": order})
