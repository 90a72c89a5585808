"""Cost of the engine around the model: the monitor per estimate, and its memory over a long episode. Judges nothing."""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np

from rollout_monitor.episode.monitor import Monitor
from rollout_monitor.episode.settings import MonitorSettings
from rollout_monitor.records import Boundary, EpisodeMarker, EstimateStatus, ProgressEstimate

PERIOD_NS = 100_000_000


def main() -> None:
    """Feed estimates at 10 Hz of stream time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, default=0.25, help="simulated time")
    hours = parser.parse_args().hours
    monitor = Monitor(MonitorSettings())
    monitor.on_marker(EpisodeMarker(boundary=Boundary.START, stamp_ns=0, episode_id="long", task="wait"))
    steps = int(hours * 36_000)
    rng = np.random.default_rng(0)
    values = np.clip(np.cumsum(rng.normal(0, 0.01, steps)) % 1.0, 0.0, 1.0)
    taken = []
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for step in range(steps):
        estimate = ProgressEstimate(
            stamp_ns=step * PERIOD_NS, episode_id="long", status=EstimateStatus.OK, progress=float(values[step])
        )
        start = time.perf_counter()
        monitor.on_estimate(estimate)
        taken.append((time.perf_counter() - start) * 1e6)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    low, median, high = np.percentile(taken, (10, 50, 90))
    first, last = np.median(taken[: steps // 10]), np.median(taken[-steps // 10 :])
    print(
        f"monitor, {steps} estimates ({hours:g} h at 10 Hz): median {median:.0f} us (10-90 %: {low:.0f}-{high:.0f}); "
        f"last tenth / first tenth {last / first:.2f}; peak memory grew by {grown:.1f} MB"
    )


if __name__ == "__main__":
    main()
