"""The published per-step metrics of ten public rollouts, recomputed at every prefix (convention toolkit-1.0)."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from rollout_monitor.curve import OpdSettings, prefixes
from rollout_monitor.curve.source import read_curve
from rollout_monitor.records import Label, OpdMetrics

ROUNDING = 0.005 + 1e-9  # two decimals of a percentage


def rollouts(public_data: Path) -> list[Path]:
    files = sorted((public_data / "prm_as_a_judge_demos").glob("*/*/step_metrics.csv"))
    assert len(files) == 10
    return files


def compare(path: Path) -> list[tuple[int, str, float, float]]:
    """(samples, metric, published, ours) wherever the two differ by more than the rounding; ours in percent."""
    held = read_curve(path)
    with path.open(newline="") as file:
        published = list(csv.DictReader(file))
    ours = list(prefixes(held.progress, OpdSettings.for_convention("toolkit-1.0"), held.label))
    assert len(ours) == len(published) > 0
    differences = []
    for row, metrics in zip(published, ours, strict=True):
        for name, value in percent(metrics).items():
            if abs(value - float(row[name])) > ROUNDING:
                differences.append((metrics.samples, name, float(row[name]), value))
    return differences


def percent(m: OpdMetrics) -> dict[str, float]:
    shares = {"M25": m.mc25, "M50": m.mc50, "M75": m.mc75, "M100": m.mc100}
    shares |= {"MP": m.mp, "PPL": m.ppl, "CRA": m.cra, "STR": m.str_}
    return {name: 100.0 * value for name, value in shares.items()}


def test_every_prefix_comes_out_to_the_rounding(public_data: Path) -> None:
    compared = 0
    for path in rollouts(public_data):
        if path.parent.name != "hang_mug":
            assert compare(path) == [], path.parent.name
            compared += 1
    assert compared == 9


def test_hang_mug_differs_in_one_step_whose_size_the_published_rounding_hides(public_data: Path) -> None:
    """Its last step goes from 0.172 to 0.167 as published with three decimals.

    As floats these differ by less than eps = 0.005, so the step counts as stagnant. The judge answers in fractions of
    its sub-steps; 5/29 = 0.1724 and 1/6 = 0.1667 round to the two and lie further apart than eps, and the published
    STR does not count the step. All other prefixes and metrics agree.
    """
    path = next(p for p in rollouts(public_data) if p.parent.name == "hang_mug")
    differences = compare(path)
    assert [(samples, name) for samples, name, _, _ in differences] == [(90, "STR")]
    _, _, published, ours = differences[0]
    assert ours - published == pytest.approx(100.0 / 90.0, abs=ROUNDING)  # exactly one step of 90
    before, last = read_curve(path).progress[-2:]
    assert (before, last) == (0.172, 0.167)
    assert abs(last - before) < 0.005 < abs(1 / 6 - 5 / 29)


def test_the_given_outcome_is_read_with_the_curve(public_data: Path) -> None:
    labels = {path.parent.name: read_curve(path).label for path in rollouts(public_data)}
    assert labels["scan_qr_code"] is Label.SUCCESS  # although its curve ends at 0.048
    assert labels["put_the_bowl_on_the_stove"] is Label.FAILURE  # although it peaked at 0.875
