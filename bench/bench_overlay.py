"""Cost of one drawn picture, the camera's picture already decoded. Prints, asserts nothing. Budget: 8 ms.

Run: python bench/bench_overlay.py
"""

from __future__ import annotations

import time

import cv2
import numpy as np

from rollout_monitor.frames import RgbImage
from rollout_monitor.records import EpisodeState, Event, EventKind, MonitorStatus, Severity
from rollout_monitor.report.overlay.markers import Place, markers
from rollout_monitor.report.overlay.picture import draw_overlay
from rollout_monitor.report.overlay.view import Age, LiveView, ViewState

REPEATS = 200
SECONDS = 120


def busy_views() -> list[ViewState]:
    """The last moments of a long attempt with a full curve and three alarms; every picture has new figures."""
    alarms = [
        Event(
            event_id=number,
            episode_id="bench",
            kind=kind,
            severity=severity,
            onset_ns=0,
            detected_ns=0,
            subject="wrist",
            reason="lost 18% of the task, from 64% to 46%",
        )
        for number, (kind, severity) in enumerate(
            [
                (EventKind.CAMERA_LOST, Severity.ERROR),
                (EventKind.DRAWDOWN, Severity.WARN),
                (EventKind.ROUGH_MOTION, Severity.WARN),
            ]
        )
    ]
    live, views = LiveView(), []
    for tick in range(SECONDS * 10):
        progress = 0.5 + 0.4 * np.sin(tick / 60)
        live.on_status(
            MonitorStatus(
                stamp_ns=tick * 100_000_000,
                episode_id="bench",
                state=EpisodeState.RUNNING,
                task="put the red cube on the green cube and then close the drawer",
                elapsed_s=tick / 10,
                progress=progress,
                mp=0.9,
                drawdown=0.9 - progress,
                smoothness=-3.0 + np.sin(tick / 7),
                moving=True,
                active_events=alarms,
            )
        )
        if tick >= SECONDS * 10 - REPEATS:
            views.append(live.view([Age("camera picture", tick / 7 % 1), Age("estimate", 0.3)]))
    return views


def measure(what: str, views: list[ViewState], picture: RgbImage, width: int) -> None:
    draw_overlay(views[0], picture, width)
    wall, cpu = [], []
    for view in views:
        wall_s, cpu_s = time.perf_counter(), time.thread_time()
        draw_overlay(view, picture, width)
        wall.append(time.perf_counter() - wall_s)
        cpu.append(time.thread_time() - cpu_s)
    report(what, wall, cpu)


def report(what: str, wall: list[float], cpu: list[float]) -> None:
    words = []
    for name, times in (("wall", wall), ("cpu", cpu)):
        low, middle, high = np.percentile(times, [5, 50, 95]) * 1e3
        words.append(f"{name} median {middle:5.2f} ms ({low:.2f} .. {high:.2f}, 5..95 %)")
    print(f"{what:34s} {', '.join(words)}, n={len(wall)}")


def main() -> None:
    """Run all."""
    cv2.setNumThreads(1)  # as the node does
    views = busy_views()
    rng = np.random.default_rng(0)
    for what, shape, width in (
        ("640x360, drawn as it is", (360, 640), 640),
        ("640x480, drawn as it is", (480, 640), 640),
        ("1280x720 to 640", (720, 1280), 640),
        ("1920x1080 to 640 (the default)", (1080, 1920), 640),
        ("1920x1080 to 1280", (1080, 1920), 1280),
    ):
        measure(what, views, rng.integers(0, 256, (*shape, 3), dtype=np.uint8), width)
    wall, cpu = [], []
    for view in views:
        wall_s, cpu_s = time.perf_counter(), time.thread_time()
        markers(view, Place("base_link"))
        wall.append(time.perf_counter() - wall_s)
        cpu.append(time.thread_time() - cpu_s)
    report("markers", wall, cpu)


if __name__ == "__main__":
    main()
