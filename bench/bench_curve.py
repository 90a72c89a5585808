"""Cost of the OPD metrics: one live update, the live record, 10,000 curves at once. Prints, asserts nothing.

Run: python bench/bench_curve.py
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from rollout_monitor.curve import CONVENTIONS, OpdSettings, StreamingOpd, compute, compute_many

REPEATS = 9


def timed(what: str, unit: str, scale: float, work: Callable[[], object]) -> None:
    """Print the median and the range of some repeats, after one that is not counted."""
    work()
    times = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        work()
        times.append((time.perf_counter() - begin) * scale)
    print(f"{what:55s} {np.median(times):9.3f} {unit}  ({min(times):.3f} .. {max(times):.3f}, n={REPEATS})")


def main() -> None:
    """Run all."""
    rng = np.random.default_rng(0)
    samples = rng.random(100_000).tolist()
    live = StreamingOpd()

    def update() -> None:
        for p in samples:
            live.update(p)

    timed("StreamingOpd.update, per sample", "us", 1e6 / len(samples), update)
    timed(f"StreamingOpd.metrics after {live.count} samples", "us", 1e6, live.metrics)
    curve = rng.random(100)
    timed("compute, one curve of 100 samples", "us", 1e6, lambda: compute(curve))
    block = rng.random((10_000, 100))
    for convention in CONVENTIONS:
        settings = OpdSettings.for_convention(convention)
        timed(f"compute_many, 10,000 x 100, {convention}", "ms", 1e3, lambda s=settings: compute_many(block, s))
    ragged = [rng.random(int(n)) for n in rng.integers(50, 150, 10_000)]
    timed("compute_many, 10,000 curves of 50..149 samples", "ms", 1e3, lambda: compute_many(ragged))


if __name__ == "__main__":
    main()
