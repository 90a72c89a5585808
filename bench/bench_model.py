"""The embedded model: a 640x480 frame per camera in, an estimate out. Prints time and memory, judges nothing."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from rollout_monitor.frames import FrameSet
from rollout_monitor.prm.embedded import EmbeddedModel

PERIOD_NS = 200_000_000
WARM_UP = 10


def resident_mb() -> float:
    """Resident memory of this process, MB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096 / 1e6


def measure(model: EmbeddedModel, cameras: tuple[str, ...], steps: int) -> np.ndarray:
    """Milliseconds per `observe` call, after a warm-up."""
    rng = np.random.default_rng(0)
    pictures = [rng.integers(0, 255, (480, 640, 3), dtype=np.uint8) for _ in range(8)]
    model.reset("lift the red cube")
    taken = []
    for step in range(steps + WARM_UP):
        stamp = step * PERIOD_NS
        images = {camera: pictures[(step + place) % len(pictures)] for place, camera in enumerate(cameras)}
        frames = FrameSet(stamp, images, dict.fromkeys(cameras, stamp))
        start = time.perf_counter()
        model.observe(frames)
        taken.append((time.perf_counter() - start) * 1e3)
    return np.asarray(taken[WARM_UP:])


def main() -> None:
    """Print one line per number of cameras, and one on memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--model", type=Path, default=None, help="folder of an embedded model")
    given = parser.parse_args()
    before_mb = resident_mb()
    model = EmbeddedModel(given.model)
    for cameras in (("front",), ("front", "wrist")):
        taken = measure(model, cameras, given.steps)
        low, median, high = np.percentile(taken, (10, 50, 90))
        print(
            f"{model.card.name}, {len(cameras)} camera(s) of 640x480, {given.steps} steps, one thread: "
            f"median {median:.1f} ms (10-90 %: {low:.1f}-{high:.1f}), {median / len(cameras):.1f} ms per camera"
        )
    print(f"{model.card.name}: {resident_mb():.0f} MB resident, {before_mb:.0f} MB of them before it was loaded")


if __name__ == "__main__":
    main()
