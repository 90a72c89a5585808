"""The cards: a page gets what changed, once; nothing that comes from outside grows without bounds."""

from __future__ import annotations

import json

from rollout_monitor.dashboard import board as boards
from rollout_monitor.dashboard.board import Board, Cursor
from rollout_monitor.dashboard.cards import LONGEST_TEXT
from rollout_monitor.records import (
    CameraHealth,
    EpisodeState,
    Event,
    EventKind,
    KinematicSummary,
    MonitorStatus,
    MotionFigures,
    Severity,
)

NS = 1_000_000_000


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def status(elapsed_s: float, progress: float | None = 0.5, **fields: object) -> MonitorStatus:
    known = {"episode_id": "take_1", "state": EpisodeState.RUNNING, "task": "lift", "elapsed_s": elapsed_s}
    return MonitorStatus(stamp_ns=round((1000 + elapsed_s) * NS), progress=progress, **{**known, **fields})


def event(number: int, severity: Severity = Severity.WARN, **fields: object) -> Event:
    known = {"onset_ns": 1001 * NS, "detected_ns": 1001 * NS, "reason": "it fell"}
    return Event(event_id=number, episode_id="take_1", kind=EventKind.STALL, severity=severity, **{**known, **fields})


def test_a_page_gets_what_changed_and_only_once() -> None:
    board = Board(clock := Clock())
    first, second = Cursor(), Cursor()
    board.on_status("/a", status(1.0))
    board.on_event("/a", event(0))
    news = board.changes(first)["/a"]
    assert news["status"]["progress"] == 0.5 and news["curve"] == {"first": 0, "points": [(1.0, 0.5)]}
    assert news["events"][0]["at"] == 1.0
    assert board.changes(first) == {"/a": {"quiet": 0.0}}
    board.on_status("/a", status(1.1, 0.6))
    clock.now_s += 3.0
    news = board.changes(first)["/a"]
    assert set(news) == {"status", "curve", "quiet"} and news["quiet"] == 3.0
    assert news["curve"] == {"first": 1, "points": [(1.1, 0.6)]}
    assert board.changes(second)["/a"]["curve"]["points"] == [(1.0, 0.5), (1.1, 0.6)], "a page that comes later"


def test_another_attempt_begins_another_curve() -> None:
    board, cursor = Board(), Cursor()
    for elapsed_s in (1.0, 2.0, 3.0):
        board.on_status("/a", status(elapsed_s))
    board.changes(cursor)
    board.on_status("/a", status(0.5, 0.1))
    assert board.changes(cursor)["/a"]["curve"] == {"first": 0, "points": [(0.5, 0.1)]}, "the same name again"
    board.on_status("/a", status(0.7, 0.2, episode_id="take_2"))
    assert board.changes(cursor)["/a"]["curve"] == {"first": 0, "points": [(0.7, 0.2)]}
    board.on_status("/a", status(0.9, 0.2, episode_id="take_2", state=EpisodeState.ENDED))
    assert "curve" not in board.changes(cursor)["/a"], "an ended attempt's curve stays as it was"


def test_a_long_attempt_keeps_a_bounded_curve() -> None:
    board, cursor = Board(), Cursor()
    for tick in range(10 * 3600):
        board.on_status("/a", status(tick / 10))
    points = board.changes(cursor)["/a"]["curve"]["points"]
    assert boards.MOST_POINTS / 2 <= len(points) <= boards.MOST_POINTS
    assert points[0][0] == 0.0 and points[-1][0] > 3590


def test_an_event_keeps_its_place_when_it_clears() -> None:
    board, cursor = Board(), Cursor()
    board.on_status("/a", status(1.0))
    for number in range(boards.MOST_EVENTS + 5):
        board.on_event("/a", event(number))
    board.on_event("/a", event(20, Severity.ERROR, cleared_ns=1003 * NS))
    events = board.changes(cursor)["/a"]["events"]
    assert [one["id"] for one in events] == list(range(5, boards.MOST_EVENTS + 5))
    changed = next(one for one in events if one["id"] == 20)
    assert (changed["severity"], changed["over"], changed["lasted"]) == ("ERROR", True, 2.0)


def test_data_health_says_how_long_ago_it_was_said() -> None:
    board, cursor = Board(clock := Clock()), Cursor()
    board.on_camera("/a", CameraHealth(camera="front", stamp_ns=5 * NS, last_frame_ns=4 * NS, rate_hz=29.97, lost=3))
    clock.now_s += 1.5
    (row,) = board.changes(cursor)["/a"]["inputs"]
    assert (row["name"], row["rate"], row["age"], row["lost"], row["since"]) == ("front", 30.0, 1.0, 3, 1.5)
    assert row["trouble"] == []
    board.on_camera("/a", CameraHealth(camera="front", stamp_ns=6 * NS, frozen_since_ns=5 * NS, bad=2))
    (row,) = board.changes(cursor)["/a"]["inputs"]
    assert row["trouble"] == ["frozen", "no frame yet"] and row["counts"] == {"bad": 2}


def test_smoothness_is_by_joint_and_absent_where_lists_disagree() -> None:
    board, cursor = Board(), Cursor()
    figures = MotionFigures(samples=9, duration_s=1.0, sparc=-2.0, rms_jerk_per_joint=[0.5, 1.25])
    common = {"stamp_ns": NS, "grid_rate_hz": 100.0, "episode": figures, "moving": True, "health": {}}
    board.on_kinematics("/a", KinematicSummary(joint_names=["a", "b"], window=figures, **common))
    assert board.changes(cursor)["/a"]["motion"]["joints"] == [["a", 0.5], ["b", 1.25]]
    board.on_kinematics("/a", KinematicSummary(joint_names=["a"], window=figures, **common))
    assert board.changes(cursor)["/a"]["motion"]["joints"] == []


def test_what_comes_from_outside_is_bounded_and_valid_json() -> None:
    board, cursor = Board(), Cursor()
    long = "x" * 10_000
    active = [event(number, reason=long, subject=long) for number in range(500)]
    board.on_status("/a", status(1.0, task=long, episode_id=long, model=long, active_events=active))
    for number in range(200):
        board.on_camera("/a", CameraHealth(camera=f"{number}{long}", stamp_ns=NS))
        board.on_status(f"/robot_{number}", status(1.0))
    news = board.changes(cursor)
    assert len(news) == boards.MOST_ROBOTS
    card = news["/a"]["status"]
    assert len(card["task"]) == LONGEST_TEXT and card["task"].endswith("…")
    assert len(card["active"]) <= 32 and len(news["/a"]["inputs"]) == boards.MOST_INPUTS
    assert len(json.dumps(news, allow_nan=False)) < 200_000
