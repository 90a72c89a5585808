"""The newest state of every robot, written by who hears the robots and read by as many pages as there are.

Each part of a card remembers the number of the change that made it; a page asks for what changed after the last number
it got, so that a slow page gets less and a page that comes back gets what it missed. Safe to use from any thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rollout_monitor.dashboard.cards import (
    Card,
    camera_row,
    event_card,
    joints_row,
    model_row,
    motion_card,
    report_card,
    rounded,
    short,
    status_card,
)
from rollout_monitor.records import (
    CameraHealth,
    EpisodeReport,
    EpisodeState,
    Event,
    KinematicSummary,
    MonitorStatus,
    ProgressEstimate,
)

MOST_ROBOTS = 64
"""Robots beyond these are not shown: names come from the network."""

MOST_EVENTS = 40
"""Events that a card keeps, the newest."""

MOST_INPUTS = 20
"""Lines in the table of data health."""

POINT_SPACING_S = 0.05
MOST_POINTS = 3000
"""A curve that has as many points loses every second one: ten hours of an attempt fit, with a point every 24 s."""

_NS = 1_000_000_000


@dataclass
class Cursor:
    """What one page has got."""

    change: int = 0
    curves: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By robot: which curve, and how many of its points."""


@dataclass
class _Trace:
    """The curve of the running or newest episode."""

    number: int = 0  # another one when points were taken away or another episode began
    episode: str = ""
    spacing_s: float = POINT_SPACING_S
    points: list[tuple[float, float]] = field(default_factory=list)

    def begin(self, episode: str) -> None:
        self.number, self.episode, self.spacing_s, self.points = self.number + 1, episode, POINT_SPACING_S, []

    def add(self, elapsed_s: float, progress: float) -> None:
        if self.points and elapsed_s - self.points[-1][0] < self.spacing_s:
            return
        self.points.append((round(elapsed_s, 2), round(progress, 4)))
        if len(self.points) >= MOST_POINTS:
            self.number, self.spacing_s, self.points = self.number + 1, 2 * self.spacing_s, self.points[::2]


class _Robot:
    def __init__(self, now_s: float) -> None:
        self.parts: dict[str, tuple[int, Card | Sequence[Any]]] = {}
        self.trace = _Trace()
        self.heard_s = now_s
        self.start_ns: int | None = None
        self.events: list[Card] = []
        self.inputs: dict[str, Card] = {}
        self.inputs_s: dict[str, float] = {}


class Board:
    """See the module's text. Every method that names a robot makes its card where it is new."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._lock = threading.RLock()
        self._robots: dict[str, _Robot] = {}
        self._change = 0

    # --- written ------------------------------------------------------------------------------------------------

    def on_status(self, name: str, status: MonitorStatus) -> None:
        """The monitor's newest status; while an episode runs its curve grows with it."""
        with self._lock:
            robot = self._heard(name)
            if robot is None:
                return
            robot.start_ns = status.stamp_ns - round(status.elapsed_s * _NS)
            if status.state is EpisodeState.RUNNING:
                trace = robot.trace
                went_back = bool(trace.points) and status.elapsed_s < trace.points[-1][0]
                if trace.episode != status.episode_id or went_back:
                    trace.begin(status.episode_id)
                if status.progress is not None:
                    trace.add(status.elapsed_s, status.progress)
            self._set(robot, "status", status_card(status))

    def on_event(self, name: str, event: Event) -> None:
        """An event as it is raised, grows or clears; it keeps its place in the list."""
        with self._lock:
            robot = self._heard(name)
            if robot is None:
                return
            card = event_card(event, robot.start_ns)
            same = (card["episode"], card["id"])
            index = next((i for i, one in enumerate(robot.events) if (one["episode"], one["id"]) == same), None)
            if index is None:
                robot.events = [*robot.events[-MOST_EVENTS + 1 :], card]
            else:
                robot.events = [*robot.events[:index], card, *robot.events[index + 1 :]]
            self._set(robot, "events", robot.events)

    def on_kinematics(self, name: str, summary: KinematicSummary) -> None:
        """How the arm moves, and what came in on the joint stream."""
        with self._lock:
            robot = self._heard(name)
            if robot is not None:
                self._set(robot, "motion", motion_card(summary))
                self._set_input(robot, "joints", joints_row(summary.health, summary.stamp_ns))

    def on_camera(self, name: str, health: CameraHealth) -> None:
        """The state of one camera stream."""
        with self._lock:
            robot = self._heard(name)
            if robot is not None:
                self._set_input(robot, short(health.camera), camera_row(health))

    def on_progress(self, name: str, estimate: ProgressEstimate) -> None:
        """What the model says about itself; the curve comes with the status."""
        with self._lock:
            robot = self._heard(name)
            if robot is not None:
                self._set_input(robot, "model", model_row(estimate))

    def on_report(self, name: str, report: EpisodeReport, link: str | None) -> None:
        """An episode's report is on disk."""
        with self._lock:
            robot = self._heard(name)
            if robot is not None:
                self._set(robot, "report", report_card(report, link))

    def set_part(self, name: str, part: str, card: Card | Sequence[Any]) -> None:
        """A part that is not the robot's own word: ``presence``, ``cameras``, ``band``, ``diagnostics``."""
        with self._lock:
            robot = self._robot(name)
            if robot is not None:
                self._set(robot, part, card)

    # --- read ---------------------------------------------------------------------------------------------------

    def robots(self) -> Sequence[str]:
        """Names of all robots, in the order in which they were found."""
        with self._lock:
            return list(self._robots)

    def part(self, name: str, part: str) -> Card | Sequence[Any] | None:
        """A part of a card as it is now; None where there is none."""
        with self._lock:
            robot = self._robots.get(name)
            return robot.parts[part][1] if robot is not None and part in robot.parts else None

    def changes(self, cursor: Cursor) -> dict[str, Card]:
        """What a page has not got yet, by robot; moves the page's cursor on.

        Each entry has ``quiet``, the seconds since the robot was last heard; the parts that changed; and ``curve``
        with ``points`` from number ``first`` on, where there are new ones (``first`` 0: a new curve).
        """
        with self._lock:
            now_s = self._now_s()
            news: dict[str, Card] = {}
            for name, robot in self._robots.items():
                entry: Card = {key: card for key, (change, card) in robot.parts.items() if change > cursor.change}
                if "inputs" in entry:
                    entry["inputs"] = [
                        {"name": key, **row, "since": rounded(now_s - robot.inputs_s[key], 1)}
                        for key, row in robot.inputs.items()
                    ]
                number, count = cursor.curves.get(name, (-1, 0))
                trace = robot.trace
                first = count if number == trace.number else 0
                if number != trace.number or len(trace.points) > first:
                    entry["curve"] = {"first": first, "points": trace.points[first:]}
                    cursor.curves[name] = (trace.number, len(trace.points))
                entry["quiet"] = rounded(now_s - robot.heard_s, 1)
                news[name] = entry
            cursor.change = self._change
            return news

    # --- inside -------------------------------------------------------------------------------------------------

    def _robot(self, name: str) -> _Robot | None:
        robot = self._robots.get(name)
        if robot is None and len(self._robots) < MOST_ROBOTS:
            robot = self._robots[name] = _Robot(self._now_s())
        return robot

    def _heard(self, name: str) -> _Robot | None:
        robot = self._robot(name)
        if robot is not None:
            robot.heard_s = self._now_s()
        return robot

    def _set_input(self, robot: _Robot, name: str, row: Card) -> None:
        if name in robot.inputs or len(robot.inputs) < MOST_INPUTS:
            robot.inputs[name] = row
            robot.inputs_s[name] = self._now_s()
            self._change += 1
            robot.parts["inputs"] = (self._change, [])  # put together when it is read

    def _set(self, robot: _Robot, part: str, card: Card | Sequence[Any]) -> None:
        if part in robot.parts and robot.parts[part][1] == card:
            return
        self._change += 1
        robot.parts[part] = (self._change, card)
