"""Settings that are refused, and the fixed wording of I_phys."""

from __future__ import annotations

import math

import numpy as np
import pytest
from pydantic import ValidationError

from rollout_monitor.errors import InputError
from rollout_monitor.motion import MotionSettings, figures, i_phys


@pytest.mark.parametrize(
    "wrong",
    [
        {"grid_rate_hz": 0.0},
        {"grid_rate_hz": math.nan},
        {"window_s": -1.0},
        {"window_s": 0.1},
        {"gap_limit_s": 0.0},
        {"idle_speed": math.inf},
        {"joints": ("a", "a")},
        {"gripper_joints": ("",)},
        {"joints": ("a",), "gripper_joints": ("a",)},
        {"grid_rate": 30.0},
    ],
)
def test_wrong_settings_are_refused(wrong) -> None:
    with pytest.raises(ValidationError):
        MotionSettings(**wrong)


def test_every_setting_says_what_it_is() -> None:
    assert all(field.description for field in MotionSettings.model_fields.values())


def test_i_phys_has_its_wording() -> None:
    t = np.arange(91) / 30.0
    rows = np.stack([0.5 * np.sin(2.0 * t), 0.2 * t], axis=1)
    assert i_phys(figures(rows, 30.0, ["elbow", "wrist"]), ["elbow", "wrist"]) == (
        "Kinematic summary of 2 joints over 3.0 s at 30 Hz, in radians per sample: "
        "worst velocity variance U_v = 5.281e-04 (elbow); "
        "worst acceleration variance U_a = 2.604e-06 (elbow); "
        "mean absolute velocity mu_v = 1.366e-02. "
        "Larger variances mean less smooth motion."
    )


def test_i_phys_of_a_still_arm_has_no_rate_to_tell() -> None:
    text = i_phys(figures(np.zeros((10, 1)), 30.0, ["elbow"]), ["elbow"])
    assert text.startswith("Kinematic summary of 1 joint over 0.3 s, in radians per sample: ")


def test_i_phys_of_too_little_is_an_error() -> None:
    with pytest.raises(InputError, match="at least 3"):
        i_phys(figures(np.zeros((2, 1)), 30.0, ["elbow"]), ["elbow"])
    with pytest.raises(InputError, match="2 names"):
        i_phys(figures(np.zeros((9, 1)), 30.0, ["elbow"]), ["elbow", "wrist"])
