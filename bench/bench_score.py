"""Offline scoring: 100 videos of 75 s, one picture a second, 256x256 H.264. Makes the videos; judges nothing."""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

import av
import numpy as np

from rollout_monitor.cli.scoring import idle_cores, score_videos
from rollout_monitor.prm.embedded import EmbeddedModel

SIDE = 256
SECONDS = 75
DIFFERENT = 10
"""So many videos are encoded; each is read several times."""


def make_video(path: Path, fps: int, seed: int) -> None:
    """A square that wanders over a still scene, with a camera's noise."""
    rng = np.random.default_rng(seed)
    scene = rng.integers(0, 255, (SIDE // 8, SIDE // 8, 3)).repeat(8, axis=0).repeat(8, axis=1)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=fps)
        stream.width = stream.height = SIDE
        stream.pix_fmt = "yuv420p"
        for number in range(fps * SECONDS):
            x, y = (int(108 + 90 * wave(number / fps + seed)) for wave in (np.sin, np.cos))
            picture = scene + rng.integers(-6, 6, scene.shape)
            picture[y : y + 40, x : x + 40] = (200, 30, 30)
            frame = av.VideoFrame.from_ndarray(np.clip(picture, 0, 255).astype(np.uint8), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode())


def main() -> None:
    """Print one line per kind of source."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--videos", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=min(2, idle_cores()))
    parser.add_argument("--model", type=Path, default=None, help="folder of an embedded model")
    given = parser.parse_args()
    model = EmbeddedModel(given.model)
    for fps in (10, 1):
        with tempfile.TemporaryDirectory() as folder:
            made = [Path(folder) / f"{seed}.mp4" for seed in range(min(DIFFERENT, given.videos))]
            for seed, path in enumerate(made):
                make_video(path, fps, seed)
            videos = [made[number % len(made)] for number in range(given.videos)]
            start, cpu = time.perf_counter(), time.process_time()
            curves = score_videos(model, videos, "lift the red cube", 1.0, given.jobs)
            taken, cpu = time.perf_counter() - start, time.process_time() - cpu
        pictures = sum(len(curve.points) for curve in curves)
        peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"{model.card.name}: {len(videos)} videos of {SECONDS} s at {fps} fps, {SIDE}x{SIDE} H.264, {pictures} "
            f"pictures, {given.jobs} threads: {taken:.1f} s ({cpu:.1f} s of processor time), {peak_mb:.0f} MB at most"
        )


if __name__ == "__main__":
    main()
