"""The attempt in 3D beside the arm: a bar that grows upwards, milestones as ticks, state as text, an ERROR as a hoop.

Plain records after the rules of RViz: finite numbers, no side of zero length, ASCII only (its text goes byte by byte),
and one number per thing for as long as it exists, so that a new message replaces the last.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import TypeAlias

from rollout_monitor.report.overlay.symbols import GREY, ORANGE, RED, WHITE, state_look
from rollout_monitor.report.overlay.view import ViewState
from rollout_monitor.report.overlay.words import percent, state_word

MILESTONES = (0.25, 0.5, 0.75, 1.0)
THINNEST_M = 0.001
"""RViz warns of a box with a side of zero, and draws none."""

HOOP_CORNERS = 36
_WIDTH, _TEXT, _LINE, _TICK = 0.08, 0.1, 0.012, 0.9
"""Shares of the bar's height: its width, the letters, a line's width; and a tick's reach in bar widths."""

Point: TypeAlias = tuple[float, float, float]
Rgba: TypeAlias = tuple[float, float, float, float]


class Part(IntEnum):
    """The things there are; their values are the markers' ids and never change."""

    TRACK = 0
    FILL = 1
    TICKS = 2
    BEST = 3
    TEXT = 4
    HOOP = 5


class Shape(Enum):
    """How a part is drawn."""

    CUBE = "cube"
    LINE_LIST = "line list"
    LINE_STRIP = "line strip"
    TEXT = "text"


@dataclass(frozen=True)
class Place:
    """Where the bar stands.

    Attributes:
        frame: of the arm's base or tool.
        x, y, z: foot of the bar in that frame, m.
        height: of the full bar, m.
        hoop_radius: of the ring around the frame's origin on an ERROR, m.
    """

    frame: str
    x: float = 0.0
    y: float = 0.0
    z: float = 0.0
    height: float = 0.6
    hoop_radius: float = 0.35


@dataclass(frozen=True)
class Marker:
    """One thing to draw; lengths in m, colours 0..1."""

    part: Part
    shape: Shape
    position: Point
    scale: Point
    colour: Rgba
    points: tuple[Point, ...] = ()
    """Of lines, relative to ``position``."""
    text: str = ""


def markers(view: ViewState, place: Place) -> tuple[Marker, ...]:
    """What is to be seen now. A `Part` that is missing here is to be deleted.

    Args:
        view: what is shown; nothing where no monitor was heard.
        place: where.
    """
    if view.state is None:
        return ()
    made = [_track(place), _ticks(view, place), _text(view, place)]
    if view.progress is not None:
        made.append(_fill(view.progress, view, place))
        if view.mp is not None:
            made.append(_best(view.mp, place))
    if view.error:
        made.append(_hoop(place))
    return tuple(sorted(made, key=lambda marker: marker.part))


def _track(place: Place) -> Marker:
    width = place.height * _WIDTH
    middle = (place.x, place.y, place.z + place.height / 2)
    return Marker(Part.TRACK, Shape.CUBE, middle, (width, width, place.height), _rgba(GREY, 0.25))


def _fill(progress: float, view: ViewState, place: Place) -> Marker:
    width = place.height * _WIDTH * 0.8
    height = max(progress * place.height, THINNEST_M)
    colour = RED if view.error else state_look(view)[1]
    return Marker(
        Part.FILL, Shape.CUBE, (place.x, place.y, place.z + height / 2), (width, width, height), _rgba(colour, 0.9)
    )


def _ticks(view: ViewState, place: Place) -> Marker:
    """Rungs across the bar; those that were reached are longer."""
    points: list[Point] = []
    for milestone in MILESTONES:
        reached = view.mp is not None and view.mp >= milestone
        points += _rung(place, milestone, _TICK * (1.5 if reached else 1.0))
    return _lines(Part.TICKS, place, points, WHITE)


def _best(mp: float, place: Place) -> Marker:
    return _lines(
        Part.BEST, place, [*_rung(place, mp, 1.2 * _TICK), *_rung(place, mp, 1.2 * _TICK, turned=True)], ORANGE
    )


def _rung(place: Place, share: float, reach: float, turned: bool = False) -> list[Point]:
    half, z = reach * place.height * _WIDTH, share * place.height
    return [(0.0, -half, z), (0.0, half, z)] if turned else [(-half, 0.0, z), (half, 0.0, z)]


def _lines(part: Part, place: Place, points: list[Point], colour: tuple[int, int, int]) -> Marker:
    foot = (place.x, place.y, place.z)
    thick = place.height * _LINE
    return Marker(part, Shape.LINE_LIST, foot, (thick, thick, thick), _rgba(colour, 1.0), tuple(points))


def _text(view: ViewState, place: Place) -> Marker:
    size = place.height * _TEXT
    above = (place.x, place.y, place.z + place.height + 2 * size)
    text = f"{state_word(view)}\n{percent(view.progress)}"
    if view.old:
        text += "\nOLD DATA"
    return Marker(Part.TEXT, Shape.TEXT, above, (0.0, 0.0, size), _rgba(WHITE, 1.0), text=text)


def _hoop(place: Place) -> Marker:
    angles = [2 * math.pi * corner / HOOP_CORNERS for corner in range(HOOP_CORNERS)]
    ring = [(place.hoop_radius * math.cos(angle), place.hoop_radius * math.sin(angle), 0.0) for angle in angles]
    thick = place.height * _LINE * 2
    colour = _rgba((230, 20, 20), 1.0)
    return Marker(Part.HOOP, Shape.LINE_STRIP, (0.0, 0.0, place.z), (thick, thick, thick), colour, (*ring, ring[0]))


def _rgba(colour: tuple[int, int, int], alpha: float) -> Rgba:
    red, green, blue = colour
    return red / 255, green / 255, blue / 255, alpha
