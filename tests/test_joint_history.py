"""Which joint states belong to a frame set."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from rollout_monitor.joint_history import KEEP_NS, MAX_PUBLISHERS, JointHistory

MS = 1_000_000
T0 = 1_780_000_000_000 * MS
ARM, GRIPPER = ("pan", "lift"), ("finger",)


def history(*messages: tuple[int, tuple[str, ...], list[float]]) -> JointHistory:
    made = JointHistory(0.1)
    for at_ms, names, positions in messages:
        made.add(T0 + at_ms * MS, names, positions, [])
    return made


def positions(made: JointHistory, at_ms: int) -> dict[str, float] | None:
    sample = made.at(T0 + at_ms * MS)
    return None if sample is None else dict(zip(sample.names, sample.positions, strict=True))


def test_the_newest_that_is_not_newer_and_young_enough() -> None:
    made = history((0, ARM, [0.0, 0.1]), (10, ARM, [1.0, 1.1]), (20, ARM, [2.0, 2.1]))
    assert positions(made, 15) == {"pan": 1.0, "lift": 1.1}
    assert positions(made, 20) == {"pan": 2.0, "lift": 2.1}
    assert positions(made, 120) == {"pan": 2.0, "lift": 2.1}
    assert positions(made, 121) is None
    assert positions(made, -1) is None


def test_publishers_of_other_joints_are_put_together() -> None:
    made = history((0, ARM, [0.0, 0.1]), (4, GRIPPER, [0.5]), (30, ARM, [3.0, 3.1]))
    sample = made.at(T0 + 30 * MS)
    assert sample is not None
    assert dict(zip(sample.names, sample.positions, strict=True)) == {"finger": 0.5, "pan": 3.0, "lift": 3.1}
    assert sample.stamp_ns == T0 + 30 * MS
    assert all(math.isnan(velocity) for velocity in sample.velocities), "nobody said how fast"
    assert positions(made, 110) == {"pan": 3.0, "lift": 3.1}


def test_of_two_messages_about_one_joint_the_newer_counts() -> None:
    made = history((5, ("pan", "finger"), [5.0, 0.5]), (3, ("pan", "lift"), [3.0, 3.1]))
    assert positions(made, 6) == {"pan": 5.0, "lift": 3.1, "finger": 0.5}


def test_what_says_nothing_is_passed_over() -> None:
    made = history((0, ARM, [0.0, 0.1]), (5, ARM, [1.0]), (10, ARM, [math.nan, 1.0]))
    made.add(T0 + 12 * MS, ARM, [1.0, 2.0], [0.1])
    made.add(T0 + 13 * MS, (), [], [])
    assert positions(made, 14) == {"pan": 0.0, "lift": 0.1}


def test_stamps_that_do_not_advance_are_dropped_and_a_clock_set_back_starts_again() -> None:
    made = history((0, ARM, [0.0, 0.1]), (0, ARM, [9.0, 9.0]), (-500, ARM, [9.0, 9.0]))
    assert positions(made, 0) == {"pan": 0.0, "lift": 0.1}
    made.add(T0 - 5000 * MS, ARM, [7.0, 7.1], [])
    assert positions(made, -5000) == {"pan": 7.0, "lift": 7.1}
    assert positions(made, 0) is None


def test_reached_waits_for_every_publisher_that_is_not_silent() -> None:
    made = history((0, ARM, [0.0, 0.1]), (100, GRIPPER, [0.5]))
    assert not JointHistory(0.1).reached(T0, 0)
    assert not made.reached(T0 + 100 * MS, 500 * MS)
    assert made.reached(T0, 500 * MS)
    made.add(T0 + 700 * MS, GRIPPER, [0.5], [])
    assert made.reached(T0 + 700 * MS, 500 * MS), "the arm has been silent for too long to be waited for"


def test_memory_is_bounded() -> None:
    made = JointHistory(0.1)
    for k in range(10_000):
        made.add(T0 + k * MS, ARM, [0.0, 0.1], [])
    assert [len(messages) for messages in made._publishers.values()] == [KEEP_NS // MS + 1]
    for k in range(1000):
        made.add(T0 + k * MS, (f"joint_{k}",), [0.0], [])
    assert len(made._publishers) <= MAX_PUBLISHERS


@given(st.lists(st.integers(0, 300), min_size=1, max_size=40, unique=True), st.integers(0, 400))
def test_it_is_the_newest_of_those_that_may_be_used(stamps: list[int], at_ms: int) -> None:
    made = history(*((stamp, GRIPPER, [float(stamp)]) for stamp in sorted(stamps)))
    usable = [stamp for stamp in stamps if at_ms - 100 <= stamp <= at_ms]
    assert positions(made, at_ms) == ({"finger": float(max(usable))} if usable else None)
