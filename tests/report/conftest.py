"""A site of a few hundred synthetic episodes, built once."""

from __future__ import annotations

import pytest
from episodes_making import HOSTILE_POLICY, HOSTILE_TASK, Made, many, store_all, synthetic_report

from rollout_monitor.report.html import render
from rollout_monitor.report.site import build
from rollout_monitor.store.episodes import PAGE


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Six policies at two simulated and three real tasks, and one episode with hostile names."""
    root = tmp_path_factory.mktemp("episodes")
    stores = {
        "sim": many(6, 2, 8, robot="simulated UR5e", prefix="s"),
        "real": many(6, 3, 6, prefix="rr"),
        "odd": [synthetic_report("odd", HOSTILE_POLICY, HOSTILE_TASK, skill=0.2, seed=5)],
    }
    reports = {}
    for store, given in stores.items():
        kept = store_all(root / store, given)
        reports |= {f"{store}/{name}": report for name, report in kept.items()}
    for name in ("real/rr00107", "odd/odd"):
        (root / name / PAGE).write_text(render(reports[name], {}), encoding="utf-8")
    rows = [f"{name},real,lab:a night" for name in reports if name.startswith("real/")]
    (root / "tags.csv").write_text("\n".join(["episode,where,tags", *rows]), encoding="utf-8")
    return Made(root, reports, build(root))
