"""Cost of the joint stream: per message, all included, as the live node pays it. Prints, asserts nothing.

Run: python bench/bench_motion.py
"""

from __future__ import annotations

import time

import numpy as np

from rollout_monitor.motion import JointStream, MotionSettings, figures

REPEATS = 7
SECONDS = 30


def messages(rate_hz: float, joints: int, arms: int) -> list[tuple[int, list[str], list[float], list[float]]]:
    """(stamp, names, positions, efforts) of arms that publish by turns, with 0.2 ms of jitter."""
    rng = np.random.default_rng(0)
    t = np.arange(int(rate_hz * SECONDS)) / rate_hz
    out = []
    for arm in range(arms):
        names = [f"arm{arm}_joint_{j}" for j in range(joints)]
        positions = np.stack([0.5 * np.sin(2.0 * np.pi * (0.3 + 0.1 * j) * t) for j in range(joints)], axis=1)
        efforts = 3.0 * positions + rng.normal(0.0, 0.2, positions.shape)
        stamps = ((100.0 + t + arm * 0.3 / rate_hz + rng.normal(0.0, 2e-4, len(t))) * 1e9).astype(np.int64)
        out += list(zip(stamps.tolist(), [names] * len(t), positions.tolist(), efforts.tolist(), strict=True))
    return sorted(out, key=lambda message: message[0])


def run(stream_of: list[tuple[int, list[str], list[float], list[float]]]) -> float:
    """Seconds for the whole stream."""
    stream = JointStream(MotionSettings())
    stream.begin_episode("bench", 0)
    begin = time.perf_counter()
    for stamp, names, positions, efforts in stream_of:
        stream.add(stamp, names, positions, (), efforts)
    return time.perf_counter() - begin


def main() -> None:
    """Run all."""
    for what, rate_hz, joints, arms in (
        ("one arm, 7 joints, 500 Hz", 500.0, 7, 1),
        ("two arms, 7 joints each, 500 Hz each", 500.0, 7, 2),
        ("one arm, 6 joints, 125 Hz", 125.0, 6, 1),
        ("one arm, 7 joints, 1000 Hz", 1000.0, 7, 1),
    ):
        stream_of = messages(rate_hz, joints, arms)
        run(stream_of)
        times = np.array([run(stream_of) for _ in range(REPEATS)])
        each = times / len(stream_of) * 1e6
        load = 100.0 * times / SECONDS
        print(
            f"{what:40s} {np.median(each):6.1f} us a message ({each.min():.1f} .. {each.max():.1f}), "
            f"{np.median(load):.2f} % of a core ({load.min():.2f} .. {load.max():.2f}, n={REPEATS})"
        )
    rows = np.cumsum(np.random.default_rng(0).normal(0.0, 0.01, (9000, 7)), axis=0)
    names = [f"joint_{j}" for j in range(7)]
    figures(rows, 30.0, names)
    times = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        figures(rows, 30.0, names)
        times.append((time.perf_counter() - begin) * 1e3)
    print(
        f"{'final figures, 5 minutes at 30 Hz':40s} {np.median(times):6.1f} ms ({min(times):.1f} .. {max(times):.1f})"
    )


if __name__ == "__main__":
    main()
