"""What a report says of the whole attempt: falls with frames, stalls by motion, where it failed, what made it."""

from __future__ import annotations

import math

import pytest
from engine_help import NS, T0, ScriptedModel, Streams, events, feed, reports

from rollout_monitor.episode.rollout import RolloutMonitor
from rollout_monitor.episode.settings import GateSettings
from rollout_monitor.records import EpisodeReport, EventKind, Label


def report_of(curve: dict[float, float], **streams: object) -> EpisodeReport:
    """A rollout whose progress goes straight from (second, value) to the next."""
    times, values = list(curve), list(curve.values())

    def progress(t: float) -> float:
        after = next((i for i, time in enumerate(times) if time > t), len(times))
        if after == len(times):
            return values[-1]
        share = (t - times[after - 1]) / (times[after] - times[after - 1])
        return values[after - 1] + share * (values[after] - values[after - 1])

    engine = RolloutMonitor(ScriptedModel(progress), GateSettings(cameras=("front", "wrist"), rate_hz=5.0))
    (report,) = reports(feed(engine, Streams(**streams).build()))  # type: ignore[arg-type]
    return report


def seconds(stamp_ns: int) -> float:
    return (stamp_ns - T0) / NS


def test_a_fall_has_frames_before_and_after() -> None:
    report = report_of({0: 0.0, 4: 0.6, 6: 0.2, 9: 0.95, 12: 0.97}, duration_s=12.0)
    (fall,) = report.drawdowns
    assert seconds(fall.peak_ns) == pytest.approx(4, abs=0.5)
    assert seconds(fall.trough_ns) == pytest.approx(6, abs=0.5)
    assert fall.recovery == 1.0
    kept = {frame.file: frame for frame in report.key_frames}
    for name, stamp_ns in (
        (fall.before, fall.peak_ns),
        (fall.after, fall.trough_ns),
        (fall.regained, fall.recovered_ns),
    ):
        assert name is not None
        assert stamp_ns is not None
        assert 0 <= stamp_ns - kept[name].stamp_ns <= 0.6 * NS, "the newest picture at that moment"
    told = next(event for event in report.events if event.kind is EventKind.DRAWDOWN)
    assert fall.event_id == told.event_id
    assert report.failed_at is None
    assert report.traces is not None
    assert [trace.joint for trace in report.traces.joints] == report.joint_names
    assert report.versions["rollout-monitor"]


def test_a_stall_is_split_by_motion() -> None:
    curve = {0: 0.0, 3: 0.5, 20: 0.5}
    report = report_of(curve, duration_s=16.0, moving=lambda t: t < 9, label=Label.FAILURE)
    (stall,) = report.stalls
    assert seconds(stall.end_ns) == 16.0
    onset = seconds(stall.onset_ns)
    assert stall.moving_s == pytest.approx(9 - onset, abs=0.8)
    assert stall.still_s == pytest.approx(7, abs=0.8)
    assert stall.unseen_s < 0.25
    assert math.isclose(stall.moving_s + stall.still_s + stall.unseen_s, 16 - onset, abs_tol=1e-6)
    assert report.failed_at is not None
    assert report.failed_at.event_id == stall.event_id
    assert "no progress" in report.failed_at.reason
    assert report.failed_at.picture in {frame.file for frame in report.key_frames}


def test_where_a_fall_was_never_made_good() -> None:
    report = report_of({0: 0.0, 4: 0.6, 6: 0.3, 7: 0.35, 8: 0.42, 9: 0.36}, duration_s=9.0, label=Label.FAILURE)
    failed = report.failed_at
    assert failed is not None
    assert seconds(failed.stamp_ns) == pytest.approx(4, abs=0.5)
    assert failed.progress == pytest.approx(0.6, abs=0.05)
    assert report.drawdowns[0].recovered_ns is None
    assert failed.event_id == report.drawdowns[0].event_id


def test_at_its_best_when_it_ended() -> None:
    report = report_of({0: 0.0, 10: 0.5}, duration_s=8.0, label=Label.FAILURE)
    assert report.failed_at is not None
    assert report.failed_at.event_id is None
    assert "at its best when it ended" in report.failed_at.reason


def test_pictures_for_a_film_are_those_of_the_episode() -> None:
    engine = RolloutMonitor(ScriptedModel(lambda t: t / 10), GateSettings(cameras=("front", "wrist"), rate_hz=5.0))
    out = feed(engine, Streams(duration_s=5.0).build())
    closed = next(item for item in out if hasattr(item, "shown"))
    stamps = [seconds(picture.stamp_ns) for picture in closed.shown]
    assert stamps == pytest.approx([k / 2 for k in range(10)])
    assert not events(out) or closed.report.events
