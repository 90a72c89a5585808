"""Synthetic episodes for tests and measurements of the site: invented curves of invented policies, seeded.

They are written through the product's own store. Nothing about them was measured on a robot or in a simulation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import numpy as np

from rollout_monitor.curve import OpdSettings, compute
from rollout_monitor.records import (
    CurvePoint,
    EpisodeReport,
    EpisodeState,
    Label,
    Outcome,
    OutcomeDecision,
)
from rollout_monitor.report.site import Built
from rollout_monitor.store.episodes import EpisodeStore

START_NS = 1_780_000_000_000_000_000
NS = 1_000_000_000
RATE_HZ = 5


HOSTILE_POLICY = '<script>document.title="owned"</script>'
HOSTILE_TASK = 'a"><img src=x onerror=alert(1)>\n</table>\u2028 \N{ROBOT FACE} \u202egnp.exe ' + "x" * 10_000


@dataclass(frozen=True)
class Made:
    """Synthetic episodes and their site.

    Attributes:
        root: the folder that was read.
        reports: by name within it; those of ``sim/`` are simulated, those of ``real/`` tagged real, ``odd/`` hostile.
        built: what `build` told.
    """

    root: Path
    reports: dict[str, EpisodeReport]
    built: Built

    @property
    def site(self) -> Path:
        return self.built.folder


def synthetic_report(
    episode_id: str,
    policy: str,
    task: str,
    *,
    skill: float,
    seed: int,
    robot: str = "ur5e",
    seconds: float = 10.0,
    samples: int | None = None,
    speed: bool = False,
) -> EpisodeReport:
    """A random walk towards 1 with falls; ``skill`` in 0..1 moves it on."""
    rng = np.random.default_rng(seed)
    count = samples or max(int(seconds * RATE_HZ), 2)
    steps = rng.normal((0.4 + 0.9 * skill) / count, 0.02, count)
    for _ in range(rng.integers(0, 3)):
        steps[rng.integers(count // 3, count)] -= rng.uniform(0.05, 0.4)
    steps[rng.random(count) < 0.3] = 0.0
    final = np.clip(np.cumsum(steps), 0.0, 1.0)
    success = bool(final[-1] > 0.55 and rng.random() < 0.3 + 0.7 * skill)
    metrics = compute(final, OpdSettings(), Label.SUCCESS if success else Label.FAILURE)
    start = START_NS + seed * 60 * NS
    times = [start + round(second * NS) for second in np.linspace(0.0, seconds, count)]
    curve = [
        CurvePoint(stamp_ns=time, raw=float(v), live=float(v), final=float(v), subtask=int(v * 3))
        for time, v in zip(times, final, strict=True)
    ]
    outcome = Outcome.SUCCESS if success else Outcome.FAILURE
    grid = np.linspace(0.0, seconds, int(seconds * 30)) if speed else np.array([])
    return EpisodeReport(
        episode_id=episode_id,
        task=task,
        state=EpisodeState.ENDED,
        start_ns=start,
        end_ns=times[-1],
        duration_s=seconds,
        source=policy,
        robot=robot,
        label=Label(outcome.value),
        outcome=OutcomeDecision(outcome=outcome, decided_by="label", reason="labelled so"),
        metrics_final=metrics,
        metrics_live=metrics,
        curve=curve,
        estimates=count,
        speed=[(start + round(t * NS), 0.1) for t in grid.tolist()],
        settings={f"opd.{name}": value for name, value in OpdSettings().model_dump().items()},
        model="synthetic-1",
        model_hash="5f" * 32,
    )


def many(
    policies: int,
    tasks: int,
    each: int,
    *,
    robot: str = "ur5e",
    prefix: str = "e",
    seconds: float = 10.0,
    speed: bool = False,
) -> Iterator[EpisodeReport]:
    """``each`` episodes of every policy at every task; policy 0 is the best, task 0 the easiest."""
    number = 0
    for policy in range(policies):
        for task in range(tasks):
            for _ in range(each):
                skill = float(np.clip(0.95 - 0.8 * policy / policies - 0.2 * task / tasks, 0.0, 1.0))
                yield synthetic_report(
                    f"{prefix}{number:05d}",
                    f"policy-{policy}",
                    f"task {task}: put the thing away",
                    skill=skill,
                    seed=number + 7919 * len(prefix),
                    robot=robot,
                    seconds=seconds,
                    speed=speed,
                )
                number += 1


def store_each(root: Path, reports: Iterable[EpisodeReport]) -> Iterator[tuple[str, EpisodeReport]]:
    """Write reports through the store one by one; (folder, report). What is invented need not survive a power cut."""
    store = EpisodeStore(root)
    for report in reports:
        with mock.patch("os.fsync"):
            folder = store.write(report, {})
        yield folder.name, report


def store_all(root: Path, reports: Iterable[EpisodeReport]) -> dict[str, EpisodeReport]:
    """The same, as a table."""
    return dict(store_each(root, reports))
