"""Each detector on the smallest signal that must, and must not, make it speak."""

from __future__ import annotations

import math
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollout_monitor.errors import InputError
from rollout_monitor.events import calibration, inputs
from rollout_monitor.events.alarm import Finding
from rollout_monitor.events.motion import ContactDetector, RoughMotionDetector
from rollout_monitor.events.outcome import decide, time_budget
from rollout_monitor.events.progress import DrawdownDetector, PlateauDetector, StallDetector
from rollout_monitor.events.settings import (
    ContactSettings,
    DrawdownSettings,
    EventSettings,
    InputSettings,
    OutcomeSettings,
    PlateauSettings,
    RoughSettings,
    StallSettings,
    TimeoutSettings,
)
from rollout_monitor.events.window import RangeWindow
from rollout_monitor.records import (
    CameraHealth,
    EffortSpike,
    JointHealth,
    KinematicSummary,
    Label,
    MotionFigures,
    Outcome,
    Severity,
)

NS = 1_000_000_000
STEP = NS // 5


def stamps(n: int) -> list[int]:
    return [i * STEP for i in range(n)]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=100), st.integers(1, 20))
def test_range_window_is_the_plain_range(values: list[float], width: int) -> None:
    window = RangeWindow(width * STEP)
    for i, value in enumerate(values):
        window.update(i * STEP, value)
        kept = values[max(0, i - width) : i + 1]
        assert window.spread == max(kept) - min(kept)
        assert window.full == (i >= width)


def test_a_hole_as_long_as_the_window_empties_it() -> None:
    window = RangeWindow(10)
    for stamp in (0, 5, 10):
        window.update(stamp, 0.5)
    assert window.full
    window.update(25, 0.5)
    assert not window.full


def test_stall_says_still_or_moving_and_when_it_began() -> None:
    for moving, words in ((True, "MOVING"), (False, "STILL")):
        detector = StallDetector(StallSettings(window_s=2.0, eps=0.02))
        found = []
        for stamp in stamps(40):
            detector.update_motion(stamp, moving)
            found.append(detector.update(stamp, min(0.4, 0.1 * stamp / NS)))
        first = next(f for f in found if f.severity)
        assert words in first.reason
        assert first.values["moving_share"] == float(moving)
        assert first.onset_ns == first.stamp_ns - 2 * NS
        assert abs(first.onset_ns - 4 * NS) <= NS  # the curve stands from 4 s on


def test_a_stall_grows_to_an_error_and_ends_when_progress_moves() -> None:
    detector = StallDetector(StallSettings(window_s=2.0, eps=0.02, error_after_s=4.0))
    levels = [detector.update(stamp, 0.3).severity for stamp in stamps(31)]
    assert levels[9] is None and levels[10] is Severity.WARN and levels[20] is Severity.ERROR
    assert detector.update(31 * STEP, 0.4).over


def test_slow_progress_is_no_stall_and_a_finished_task_is_none() -> None:
    detector = StallDetector(StallSettings(window_s=2.0, eps=0.02))
    assert not any(detector.update(stamp, 0.012 * stamp / NS).severity for stamp in stamps(200))
    finished = StallDetector(StallSettings(window_s=2.0, eps=0.02, finished_at=0.9))
    assert not any(finished.update(stamp, 0.95).severity for stamp in stamps(100))


def test_stall_without_joints_says_nothing_about_the_arm() -> None:
    detector = StallDetector(StallSettings(window_s=1.0))
    found = [detector.update(stamp, 0.3) for stamp in stamps(10)][-1]
    assert found.severity and "arm" not in found.reason and "moving_share" not in found.values


def test_drawdown_names_its_peak_and_its_recovery() -> None:
    detector = DrawdownDetector(DrawdownSettings(warn=0.15, error=0.35), finished_at=0.9)
    curve = [0.2, 0.5, 0.6, 0.42, 0.2, 0.3, 0.58, 0.6]
    found = [detector.update(stamp, p) for stamp, p in zip(stamps(8), curve, strict=True)]
    assert [f.severity for f in found] == [None, None, None, Severity.WARN, Severity.ERROR, Severity.WARN, None, None]
    assert found[3].onset_ns == 2 * STEP and found[3].values["peak"] == 0.6
    assert found[6].over and found[6].values["recovered"] == pytest.approx(0.95)
    assert found[7].values["recovered"] == 1.0


def test_a_second_fall_forgets_the_first() -> None:
    detector = DrawdownDetector(DrawdownSettings(warn=0.1, error=0.5), finished_at=0.9)
    for stamp, p in zip(stamps(6), [0.5, 0.1, 0.5, 0.6, 0.4, 0.6], strict=True):
        last = detector.update(stamp, p)
    assert last.values["drawdown"] == pytest.approx(0.2)


def test_a_fall_from_a_finished_task_is_named() -> None:
    detector = DrawdownDetector(DrawdownSettings(), finished_at=0.9)
    detector.update(0, 0.95)
    assert detector.update(STEP, 0.5).reason.startswith("fell from a finished task")


def test_plateau_needs_high_and_flat() -> None:
    detector = PlateauDetector(PlateauSettings(level=0.9, eps=0.05, window_s=1.0))
    rising = [detector.update(stamp, 0.1 * i).severity for i, stamp in enumerate(stamps(10))]
    assert not any(rising)
    found = [detector.update((10 + i) * STEP, 0.95) for i in range(8)]
    assert found[-1].severity is Severity.INFO
    assert detector.update(18 * STEP, 0.5).over


def summary(stamp: int = 0, **window: object) -> KinematicSummary:
    figures = MotionFigures(samples=60, duration_s=2.0, **window)  # type: ignore[arg-type]
    return KinematicSummary(
        stamp_ns=stamp, grid_rate_hz=30.0, window=figures, episode=figures, moving=True, health=JointHealth()
    )


def test_rough_motion_names_the_joint() -> None:
    detector = RoughMotionDetector(RoughSettings(rms_jerk=100.0))
    found = detector.update(summary(rms_jerk=140.0, worst_joint_jerk="wrist_2_joint"))
    assert found.severity is Severity.WARN and "wrist_2_joint" in found.reason
    assert detector.update(summary(rms_jerk=90.0)).over
    assert detector.update(summary(reversals=100)).values["reversals_per_s"] == 50.0
    assert detector.update(summary()).severity is None


def test_contact_lasts_until_spikes_stay_away() -> None:
    detector = ContactDetector(ContactSettings(quiet_s=0.5))
    spike = EffortSpike(stamp_ns=90, joint="elbow_joint", value=9.0, baseline=1.0, deviations=12.0)
    found = detector.update(100, [spike])
    assert found.severity is Severity.WARN and found.onset_ns == 90 and "elbow_joint" in found.reason
    assert not detector.update(100 + NS // 4, []).over
    assert detector.update(100 + NS, []).over


def health(**fields: object) -> CameraHealth:
    return CameraHealth(camera="front", **fields)  # type: ignore[arg-type]


def test_camera_lost_frozen_dark() -> None:
    limits = InputSettings(camera_lost_s=1.0, camera_frozen_s=1.0, camera_dark_s=0.5)
    assert inputs.camera_lost(health(stamp_ns=3 * NS, last_frame_ns=NS), limits).onset_ns == NS
    assert inputs.camera_lost(health(stamp_ns=3 * NS, last_frame_ns=3 * NS - 1), limits).over
    never = inputs.camera_lost(health(stamp_ns=3 * NS), limits, start_ns=NS)
    assert never.severity is Severity.ERROR and never.onset_ns == NS, "a camera that never came is a lost one"
    frozen = health(stamp_ns=3 * NS, last_frame_ns=3 * NS, frozen_since_ns=NS)
    assert inputs.camera_frozen(frozen, limits).severity is Severity.ERROR
    assert inputs.camera_frozen(health(stamp_ns=3 * NS, last_frame_ns=3 * NS), limits).over
    dark = health(stamp_ns=3 * NS, last_frame_ns=3 * NS, dark_since_ns=2 * NS, luminance=2.0, contrast=1.0)
    assert inputs.camera_dark(dark, limits).values["luminance"] == 2.0


def test_joints_lost_only_once_seen() -> None:
    limits = InputSettings(joints_lost_s=0.5)
    assert inputs.joints_lost(10 * NS, None, limits).severity is None
    assert inputs.joints_lost(10 * NS, 9 * NS, limits).severity is Severity.ERROR
    assert inputs.joints_lost(10 * NS, 10 * NS, limits).over


def test_joints_invalid_by_share() -> None:
    detector = inputs.JointsInvalidDetector(InputSettings(joints_invalid_share=0.1))

    def judge(**counts: int) -> Finding:
        return detector.update(
            summary().model_copy(update={"health": JointHealth(**counts), "joint_names": ["a", "b"]})
        )

    judge(received=100, non_finite=50)
    assert judge(received=200, non_finite=50).over
    assert judge(received=300, non_finite=60).over, "10 values of 2 joints are 5 bad messages in 100"
    assert judge(received=400, non_finite=80).severity is Severity.ERROR


def test_model_late_then_lost_also_when_it_never_answers() -> None:
    assert inputs.model_silent(NS // 2, None, 0, 1.0).severity is None
    assert inputs.model_silent(2 * NS, None, 0, 1.0).severity is Severity.WARN
    assert inputs.model_silent(2 * NS, None, 0, 3.0, lost=True).severity is None
    assert inputs.model_silent(4 * NS, NS // 2, 0, 3.0, lost=True).severity is Severity.ERROR


def judged(
    progress: list[float],
    chance: list[float | None] | None = None,
    label: Label | None = None,
    by: Literal["progress", "probability"] = "progress",
) -> Outcome:
    chances = chance or [None] * len(progress)
    end = (len(progress) - 1) * STEP
    return decide(stamps(len(progress)), progress, chances, end, label, OutcomeSettings(decide_by=by)).outcome


def test_estimates_that_stopped_long_before_the_end_decide_nothing() -> None:
    decision = decide(stamps(10), [0.95] * 10, [None] * 10, 40 * NS, None, OutcomeSettings())
    assert decision.outcome is Outcome.UNDECIDED and "38.2 s older" in decision.reason
    slow = [i * 2 * NS for i in range(5)]
    assert decide(slow, [0.95] * 5, [None] * 5, 10 * NS, None, OutcomeSettings()).outcome is Outcome.SUCCESS


def test_a_label_wins_then_what_the_settings_name() -> None:
    assert judged([0.1] * 10, label=Label.SUCCESS) is Outcome.SUCCESS
    assert judged([0.95] * 10, [0.1] * 10) is Outcome.SUCCESS
    assert judged([0.95] * 10, [0.1] * 10, by="probability") is Outcome.FAILURE
    assert judged([0.5] * 10, [0.9] * 10, by="probability") is Outcome.SUCCESS
    assert judged([0.5] * 10, by="probability") is Outcome.FAILURE, "no probability: progress decides"
    assert judged([0.95] * 10) is Outcome.SUCCESS
    assert judged([]) is Outcome.UNDECIDED


def test_what_was_reached_and_lost_again_is_no_success() -> None:
    assert judged([0.2, 0.9, 1.0, 1.0, 1.0, 0.5, 0.3, 0.3, 0.3, 0.3, 0.3]) is Outcome.FAILURE


def test_time_budget() -> None:
    settings = TimeoutSettings(history_min_n=3, history_quantile=1.0, history_factor=2.0)
    assert time_budget([], settings) is None
    assert time_budget([10.0, 12.0, 11.0], settings) == 24.0
    assert time_budget([], TimeoutSettings(budget_s=7.0)) == 7.0
    with pytest.raises(InputError, match="duration 1"):
        time_budget([1.0, math.nan], settings)


@given(st.lists(st.floats(0, 1, allow_nan=False), min_size=9, max_size=60))
def test_conformal_quantile_is_the_stated_rank(scores: list[float]) -> None:
    threshold = calibration.conformal_quantile(scores, 0.1)
    rank = math.ceil(round((len(scores) + 1) * 0.9, 9))
    assert sum(score <= threshold for score in scores) >= rank
    assert threshold in scores


def test_conformal_quantile_refuses_too_few() -> None:
    with pytest.raises(InputError, match="at least 9"):
        calibration.conformal_quantile([0.1] * 8, 0.1)


def test_calibration_replaces_thresholds(tmp_path) -> None:  # type: ignore[no-untyped-def]
    learned = calibration.Calibration(
        task="lift", model="m", model_hash="h", alpha=0.1, n=20, thresholds={"drawdown.warn": 0.2, "settle_s": 0.5}
    )
    path = tmp_path / "lift.json"
    calibration.save(learned, path)
    assert calibration.load(path) == learned
    settings = calibration.apply(learned, EventSettings())
    assert settings.drawdown.warn == 0.2 and settings.settle_s == 0.5 and settings.stall == StallSettings()


@pytest.mark.parametrize("thresholds", [{"no.such": 1.0}, {"drawdown": 1.0}, {"drawdown.warn": 5.0}])
def test_calibration_refuses_what_it_does_not_know(thresholds: dict[str, float]) -> None:
    learned = calibration.Calibration(task="lift", model="m", model_hash="h", alpha=0.1, n=20, thresholds=thresholds)
    with pytest.raises(InputError, match="lift"):
        calibration.apply(learned, EventSettings())
