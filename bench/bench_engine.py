"""Cost of the engine around the model over a long episode: time per estimate and resident memory. Judges nothing.

Both halves run in this process as they do offline: joint states at 125 Hz, one camera at 10 Hz with a picture for the
report every half second, a recorded curve in the model's place. Two hours are stream time.
"""

from __future__ import annotations

import argparse
import gc
import math
import os
import tempfile
import time
from pathlib import Path

import numpy as np

from rollout_monitor.episode.monitor import Monitor
from rollout_monitor.episode.rollout import RolloutMonitor
from rollout_monitor.episode.settings import GateSettings, MonitorSettings
from rollout_monitor.prm.recorded import RecordedModel
from rollout_monitor.records import Boundary, EpisodeMarker, EstimateStatus, ProgressEstimate

PERIOD_NS = 100_000_000
JOINT_NS = 8_000_000
NAMES = [f"joint_{number}" for number in range(7)]
START = EpisodeMarker(boundary=Boundary.START, stamp_ns=0, episode_id="long", task="wait")
SETTLED_S = 900
"""The report's pictures are all there, and thinned once, after a quarter of an hour."""


def resident_mb() -> float:
    """Resident memory of this process, MB."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def cost_per_estimate(steps: int) -> None:
    """The monitor alone, estimate by estimate."""
    monitor = Monitor(MonitorSettings())
    monitor.on_marker(START)
    rng = np.random.default_rng(0)
    values = np.clip(np.cumsum(rng.normal(0, 0.01, steps)) % 1.0, 0.0, 1.0)
    taken = []
    for step in range(steps):
        estimate = ProgressEstimate(
            stamp_ns=step * PERIOD_NS, episode_id="long", status=EstimateStatus.OK, progress=float(values[step])
        )
        start = time.perf_counter()
        monitor.on_estimate(estimate)
        taken.append((time.perf_counter() - start) * 1e6)
    low, median, high = np.percentile(taken, (10, 50, 90))
    first, last = np.median(taken[: steps // 10]), np.median(taken[-steps // 10 :])
    print(
        f"monitor, {steps} estimates at 10 Hz: median {median:.0f} us (10-90 %: {low:.0f}-{high:.0f}); "
        f"last tenth / first tenth {last / first:.2f}"
    )


def memory(hours: float, folder: Path) -> None:
    """Both halves over ``hours``; prints resident memory at twelve moments."""
    steps = int(hours * 36_000)
    curve = folder / "curve.csv"
    curve.write_text("progress\n" + "\n".join(f"{0.5 + 0.4 * math.sin(k / 700):.4f}" for k in range(steps + 1)))
    engine = RolloutMonitor(RecordedModel(curve, rate_hz=10.0), GateSettings(rate_hz=10.0))
    picture = np.random.default_rng(0).integers(0, 255, (120, 160, 3), dtype=np.uint8)
    engine.on_marker(START)
    marks, began_s, joint_ns = [], time.perf_counter(), 0
    for step in range(steps):
        stamp = step * PERIOD_NS
        while joint_ns <= stamp:
            phase = joint_ns / 1e9
            engine.on_joints(joint_ns, NAMES, [math.sin(phase + k) for k in range(7)])
            joint_ns += JOINT_NS
        engine.on_image("front", stamp, lambda: picture, step)
        if step % max(1, steps // 12) == 0:
            marks.append((stamp / 1e9, resident_mb()))
    marks.append((steps * PERIOD_NS / 1e9, resident_mb()))
    settled = [mb for second, mb in marks if second >= SETTLED_S] or [marks[-1][1]]
    print(f"engine over {hours:g} h of stream time: {(time.perf_counter() - began_s) / steps * 1e6:.0f} us per 0.1 s")
    print("  resident MB: " + "  ".join(f"{second / 3600:.2f} h {mb:.1f}" for second, mb in marks))
    print(f"  from {SETTLED_S / 60:.0f} min to the end: {100 * (settled[-1] / settled[0] - 1):+.1f} %")


def main() -> None:
    """Both parts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, default=2.0, help="stream time of the memory part")
    hours = parser.parse_args().hours
    cost_per_estimate(9000)
    with tempfile.TemporaryDirectory() as folder:
        memory(hours, Path(folder))


if __name__ == "__main__":
    main()
