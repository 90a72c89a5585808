"""Radar charts of portraits as SVG coordinates: 0 in the middle, 1 on the rim, the first axis upwards."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rollout_monitor.curve.aggregate import Figure

RADIUS = 100.0
FEW = 5
"""A corner that stands on fewer episodes is drawn hollow."""

RINGS = (0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class Corner:
    """One axis: its end, its name's place and the figure's point; ``few`` where it stands on fewer than FEW."""

    label: str
    end: tuple[float, float]
    text: tuple[float, float]
    anchor: str
    point: tuple[float, float] | None
    few: bool


@dataclass(frozen=True)
class Radar:
    """A chart: its corners, the outline through the figures that are there, and that of the reference."""

    corners: list[Corner]
    outline: str
    reference: str
    rings: list[str]


def draw(labels: Sequence[str], figures: Sequence[Figure], reference: Sequence[Figure]) -> Radar:
    """A radar chart.

    Args:
        labels: name of each axis.
        figures: one per axis, 0..1; an absent one has no corner.
        reference: the same over all policies, drawn faintly.
    """
    corners = []
    for index, (label, figure) in enumerate(zip(labels, figures, strict=True)):
        end, text = _at(index, len(labels), 1.0), _at(index, len(labels), 1.13)
        point = None if figure.value is None else _at(index, len(labels), figure.value)
        anchor = "middle" if abs(end[0]) < 1.0 else "start" if end[0] > 0 else "end"
        corners.append(Corner(label, end, text, anchor, point, figure.n < FEW))
    rings = [_outline([_at(index, len(labels), ring) for index in range(len(labels))]) for ring in RINGS]
    return Radar(
        corners,
        _outline([corner.point for corner in corners if corner.point is not None]),
        _outline([_at(i, len(labels), one.value) for i, one in enumerate(reference) if one.value is not None]),
        rings,
    )


def _at(index: int, count: int, share: float) -> tuple[float, float]:
    angle = 2.0 * math.pi * index / count - math.pi / 2.0
    return round(RADIUS * share * math.cos(angle), 1), round(RADIUS * share * math.sin(angle), 1)


def _outline(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:g},{y:g}" for x, y in points)
