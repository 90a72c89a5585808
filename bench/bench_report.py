"""The episode report: size of the page and seconds to make it, for 75 s with two cameras of 640x480 at 30 Hz.

    python bench/bench_report.py [--seconds 75] [--videos FILE FILE]

Pictures are synthetic, with a camera's noise, or those of two videos of your own. Measures, judges nothing.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeVar

import cv2
import numpy as np

from rollout_monitor.episode.monitor import Closed
from rollout_monitor.episode.rollout import RolloutMonitor
from rollout_monitor.episode.settings import GateSettings
from rollout_monitor.images import decode_compressed, encode_jpeg
from rollout_monitor.prm.recorded import RecordedModel
from rollout_monitor.records import Boundary, EpisodeMarker
from rollout_monitor.report.html import render
from rollout_monitor.report.markdown import summary
from rollout_monitor.store.episodes import EpisodeStore
from rollout_monitor.store.film import Film, Shot, make_film
from rollout_monitor.store.videos import read_video

NS = 1_000_000_000
START_NS = 1_700_000_000 * NS
CAMERAS = ("front", "wrist")
CAMERA_HZ, JOINTS_HZ = 30, 125
JOINTS = [f"joint_{number}" for number in range(1, 8)]
DIFFERENT = 150
"""Pictures that are made; they are shown in turn."""

T = TypeVar("T")


def pictures(seed: int) -> list[bytes]:
    """JPEGs of a square that wanders over a still scene."""
    rng = np.random.default_rng(seed)
    scene = cv2.resize(rng.integers(40, 220, (24, 32, 3), dtype=np.uint8), (640, 480), interpolation=cv2.INTER_CUBIC)
    made = []
    for number in range(DIFFERENT):
        angle = 2 * math.pi * number / DIFFERENT
        picture = scene.astype(np.int16) + rng.integers(-4, 5, scene.shape)
        x, y = int(260 + 200 * math.cos(angle)), int(190 + 140 * math.sin(2 * angle))
        picture[y : y + 100, x : x + 100] = (200, 60, 40)
        made.append(encode_jpeg(np.clip(picture, 0, 255).astype(np.uint8)))
    return made


def judged(frames: dict[str, list[bytes]], seconds: float, folder: Path) -> Closed:
    """Run the engine over the attempt: it falls at a third, stalls at the end and fails."""
    curve = folder / "curve.csv"
    shares = [k / 5 / seconds for k in range(int(5 * seconds))]
    values = [min(0.6, 1.8 * share) - (0.3 if share > 0.4 else 0.0) for share in shares]
    curve.write_text("progress\n" + "\n".join(f"{max(0.0, value):.4f}" for value in values) + "\n")
    engine = RolloutMonitor(RecordedModel(curve, rate_hz=5.0), GateSettings(cameras=CAMERAS, rate_hz=5.0))
    start = EpisodeMarker(boundary=Boundary.START, stamp_ns=START_NS, episode_id="bench", task="lift the red cube")
    end = start.model_copy(update={"boundary": Boundary.END, "stamp_ns": START_NS + round(seconds * NS)})
    out = engine.on_marker(start)
    joints = iter(range(int(seconds * JOINTS_HZ)))
    for number in range(int(seconds * CAMERA_HZ)):
        stamp_ns = START_NS + number * NS // CAMERA_HZ
        for tick in joints:
            t = tick / JOINTS_HZ
            positions = [0.5 * math.sin(0.4 * t + index) for index in range(len(JOINTS))]
            out += engine.on_joints(START_NS + round(t * NS), JOINTS, positions)
            if t > number / CAMERA_HZ:
                break
        for camera in CAMERAS:
            jpeg = frames[camera][number % len(frames[camera])]
            out += engine.on_image(camera, stamp_ns, partial(decode_compressed, "jpeg", jpeg), number)
    out += engine.on_marker(end) + engine.finish()
    return next(item for item in out if isinstance(item, Closed))


def timed(what: str, work: Callable[[], T]) -> T:
    """Do it and print how long it took."""
    start, cpu = time.perf_counter(), time.process_time()
    done = work()
    print(f"  {what}: {time.perf_counter() - start:.2f} s ({time.process_time() - cpu:.2f} s of processor time)")
    return done


def report(closed: Closed, film: Film | None, folder: Path) -> None:
    """Draw and keep everything; print what it weighs."""
    page = timed("page", lambda: render(closed.report, closed.pictures, film=film))
    text = timed("Markdown", lambda: summary(closed.report))
    mp4 = film.mp4 if film else None
    kept = timed("kept", lambda: EpisodeStore(folder).write(closed.report, closed.pictures, page, text=text, film=mp4))
    sizes = {file.name: file.stat().st_size for file in sorted(kept.iterdir()) if file.is_file()}
    print("  " + ", ".join(f"{name} {size / 1e6:.2f} MB" for name, size in sizes.items()))


def main() -> None:
    """Measure a page with the film of a recording, and one with the film that the monitor makes live."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=75.0)
    parser.add_argument("--videos", type=Path, nargs=2, default=None, help="two videos, in the place of made pictures")
    given = parser.parse_args()
    frames = {camera: _frames(given.videos, index, given.seconds) for index, camera in enumerate(CAMERAS)}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        closed = judged(frames, given.seconds, folder)
        start_ns, end_ns = closed.report.start_ns, closed.report.end_ns

        def recorded() -> Iterator[Shot]:
            for number in range(int(given.seconds * CAMERA_HZ)):
                for camera in CAMERAS:
                    jpeg = frames[camera][number % len(frames[camera])]
                    decode = partial(decode_compressed, "jpeg", jpeg)
                    yield Shot(camera, START_NS + number * NS // CAMERA_HZ, decode)

        def kept_live() -> Iterator[Shot]:
            for picture in closed.shown:
                yield Shot(picture.camera, picture.stamp_ns, partial(decode_compressed, "jpeg", picture.jpeg))

        print(f"{given.seconds:.0f} s, two cameras of 640x480, from a recording:")
        report(closed, timed("film", lambda: make_film(recorded, CAMERAS, start_ns, end_ns)), folder / "recorded")
        print("live, two pictures a second of one camera:")
        report(
            closed, timed("film", lambda: make_film(kept_live, ["front"], start_ns, end_ns, rate_hz=2)), folder / "live"
        )


def _frames(videos: list[Path] | None, index: int, seconds: float) -> list[bytes]:
    if videos is None:
        return pictures(index)
    return [encode_jpeg(rgb) for _, rgb in islice(read_video(videos[index], CAMERA_HZ), int(seconds * CAMERA_HZ))]


if __name__ == "__main__":
    main()
