"""Latency of the embedded model: a 640x480 frame per camera in, an estimate out. Prints medians, judges nothing."""

from __future__ import annotations

import argparse
import time

import numpy as np

from rollout_monitor.frames import FrameSet
from rollout_monitor.prm.registry import create

PERIOD_NS = 200_000_000


def measure(cameras: tuple[str, ...], steps: int) -> np.ndarray:
    """Milliseconds per `observe` call, after a warm-up."""
    rng = np.random.default_rng(0)
    pictures = [rng.integers(0, 255, (480, 640, 3), dtype=np.uint8) for _ in range(8)]
    model = create("embedded")
    model.reset("lift the red cube")
    taken = []
    for step in range(steps + 10):
        stamp = step * PERIOD_NS
        images = {camera: pictures[step % len(pictures)] for camera in cameras}
        frames = FrameSet(stamp, images, dict.fromkeys(cameras, stamp))
        start = time.perf_counter()
        model.observe(frames)
        taken.append((time.perf_counter() - start) * 1e3)
    return np.asarray(taken[10:])


def main() -> None:
    """Print one line per number of cameras."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    steps = parser.parse_args().steps
    for cameras in (("front",), ("front", "wrist")):
        taken = measure(cameras, steps)
        low, median, high = np.percentile(taken, (10, 50, 90))
        print(
            f"embedded model, {len(cameras)} camera(s) of 640x480, {steps} steps, one thread: "
            f"median {median:.1f} ms (10-90 %: {low:.1f}-{high:.1f}), {median / len(cameras):.1f} ms per camera"
        )


if __name__ == "__main__":
    main()
