"""A real UR10 at 125 Hz: time from 0, six joints, efforts in N m, a trajectory made to excite every joint."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from rollout_monitor.motion import JointStream, MotionSettings, figures
from rollout_monitor.records import KinematicSummary

rosbags = pytest.importorskip("rosbags.typesys", reason="rosbags is not installed")

S = 1_000_000_000


@pytest.fixture(scope="module")
def messages(public_data: Path) -> list[tuple[int, list[str], list[float], list[float], list[float]]]:
    path = public_data / "recordings" / "ur10_bag" / "ur10_exciting_trajectory.db3"
    return list(read(path))


def read(path: Path) -> Iterator[tuple[int, list[str], list[float], list[float], list[float]]]:
    store = rosbags.get_typestore(rosbags.Stores.ROS2_HUMBLE)
    database = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    for (data,) in database.execute("SELECT data FROM messages ORDER BY timestamp"):
        m = store.deserialize_cdr(data, "sensor_msgs/msg/JointState")
        stamp = m.header.stamp.sec * S + m.header.stamp.nanosec
        yield stamp, m.name, m.position.tolist(), m.velocity.tolist(), m.effort.tolist()
    database.close()


def play(messages, bump: tuple[int, int, float] | None = None) -> tuple[list[KinematicSummary], KinematicSummary]:
    stream = JointStream(MotionSettings())
    stream.begin_episode("ur10", 0)
    out = []
    for stamp, names, q, v, effort in messages:
        struck = bump is not None and bump[0] <= stamp < bump[1]
        felt = [*effort[:2], effort[2] + bump[2], *effort[3:]] if struck else effort
        summary = stream.add(stamp, names, q, v, felt)
        out += [summary] if summary else []
    return out, stream.end_episode(messages[-1][0])


def test_the_whole_recording_is_used(messages) -> None:
    summaries, last = play(messages)
    assert last.health.received == last.health.used == len(messages) == 3441
    assert (last.health.gaps, last.health.clock_jumps, last.segment) == (0, 0, 0)
    assert last.health.rate_hz == pytest.approx(125.0, rel=1e-3)
    assert last.joint_names == sorted(messages[0][1])
    rows = [row.positions for one in [*summaries, last] for row in one.rows]
    assert len(rows) == pytest.approx((messages[-1][0] / S - 8 / 30) * 30, abs=1.5)
    final = figures(np.array(rows), 30.0, last.joint_names)
    assert last.episode.u_v == pytest.approx(final.u_v, rel=1e-9)
    assert last.episode.rms_jerk == pytest.approx(final.rms_jerk, rel=1e-9)


def test_grid_speeds_agree_with_the_published_velocities(messages) -> None:
    summaries, _ = play(messages)
    rows = [row for one in summaries for row in one.rows]
    speed = np.diff(np.array([row.positions for row in rows]), axis=0) * 30.0
    middle = np.array([(a.stamp_ns + b.stamp_ns) / 2 for a, b in pairwise(rows)])
    order = np.argsort(messages[0][1])
    published = np.array([np.array(m[3])[order] for m in messages])
    stamps = np.array([m[0] for m in messages])
    wanted = np.stack([np.interp(middle, stamps, column) for column in published.T], axis=1)
    assert np.abs(speed - wanted).max() < 0.05  # rad/s, of up to 2.2; they are noisy
    assert np.sqrt(np.mean((speed - wanted) ** 2)) < 0.015


def test_vigorous_motion_is_no_contact_but_a_blow_is(messages) -> None:
    quiet, _ = play(messages)
    assert [spike for one in quiet for spike in one.spikes] == []
    struck, _ = play(messages, bump=(15 * S, 15 * S + S // 10, 40.0))
    (spike,) = [spike for one in struck for spike in one.spikes]
    assert spike.joint == messages[0][1][2] == "elbow_joint"
    assert 0 <= spike.stamp_ns - 15 * S < S // 20
