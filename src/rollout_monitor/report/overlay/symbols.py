"""Symbols that are told apart by their shape, with or without colour, and the colours.

The colours are those of Okabe and Ito (https://jfly.uni-koeln.de/color/), which people of every colour vision tell
apart; the darker ones are lightened, for they lie on dark panels.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import cv2
import numpy as np
import numpy.typing as npt

from rollout_monitor.frames import RgbImage
from rollout_monitor.records import Direction, EpisodeState, Outcome, Severity
from rollout_monitor.report.overlay.letters import Colour
from rollout_monitor.report.overlay.view import ViewState

Symbol: TypeAlias = Literal[
    "play", "square", "ring", "pause", "tick", "cross", "circle", "triangle", "octagon", "up", "down", "flat", "unknown"
]

WHITE: Colour = (255, 255, 255)
BLACK: Colour = (0, 0, 0)
GREY: Colour = (170, 170, 170)
SKY: Colour = (86, 180, 233)
GREEN: Colour = (0, 190, 140)
YELLOW: Colour = (240, 228, 66)
ORANGE: Colour = (240, 170, 20)
RED: Colour = (235, 110, 40)

SEVERITY_LOOKS: dict[Severity, tuple[Symbol, Colour]] = {
    Severity.INFO: ("circle", SKY),
    Severity.WARN: ("triangle", YELLOW),
    Severity.ERROR: ("octagon", RED),
}
STATE_LOOKS: dict[EpisodeState | None, tuple[Symbol, Colour]] = {
    None: ("unknown", GREY),
    EpisodeState.IDLE: ("ring", GREY),
    EpisodeState.RUNNING: ("play", SKY),
    EpisodeState.ENDED: ("square", WHITE),
    EpisodeState.INTERRUPTED: ("pause", ORANGE),
}
_OUTCOME_LOOKS: dict[Outcome, tuple[Symbol, Colour]] = {
    Outcome.SUCCESS: ("tick", GREEN),
    Outcome.FAILURE: ("cross", RED),
    Outcome.UNDECIDED: ("unknown", GREY),
}
DIRECTION_SYMBOLS: dict[Direction, Symbol] = {
    Direction.RISING: "up",
    Direction.FALLING: "down",
    Direction.FLAT: "flat",
}

_OUTLINES: dict[Symbol, list[tuple[float, float]]] = {
    "play": [(0.12, 0.0), (1.0, 0.5), (0.12, 1.0)],
    "square": [(0.08, 0.08), (0.92, 0.08), (0.92, 0.92), (0.08, 0.92)],
    "triangle": [(0.5, 0.0), (1.0, 0.95), (0.0, 0.95)],
    "octagon": [(0.3, 0.0), (0.7, 0.0), (1.0, 0.3), (1.0, 0.7), (0.7, 1.0), (0.3, 1.0), (0.0, 0.7), (0.0, 0.3)],
    "up": [(0.5, 0.1), (1.0, 0.9), (0.0, 0.9)],
    "down": [(0.0, 0.1), (1.0, 0.1), (0.5, 0.9)],
    "flat": [(0.0, 0.4), (1.0, 0.4), (1.0, 0.6), (0.0, 0.6)],
}
_STROKES: dict[Symbol, list[list[tuple[float, float]]]] = {
    "pause": [[(0.28, 0.05), (0.28, 0.95)], [(0.72, 0.05), (0.72, 0.95)]],
    "tick": [[(0.05, 0.55), (0.38, 0.9), (0.95, 0.1)]],
    "cross": [[(0.1, 0.1), (0.9, 0.9)], [(0.9, 0.1), (0.1, 0.9)]],
    "unknown": [[(0.15, 0.5), (0.25, 0.5)], [(0.45, 0.5), (0.55, 0.5)], [(0.75, 0.5), (0.85, 0.5)]],
}
_INSIDE: dict[Symbol, list[list[tuple[float, float]]]] = {
    "circle": [[(0.5, 0.22), (0.5, 0.26)], [(0.5, 0.45), (0.5, 0.8)]],
    "triangle": [[(0.5, 0.3), (0.5, 0.62)], [(0.5, 0.8), (0.5, 0.81)]],
    "octagon": [[(0.3, 0.3), (0.7, 0.7)], [(0.7, 0.3), (0.3, 0.7)]],
}
_SHIFT = 4
"""Bits of a pixel's fraction that OpenCV draws with."""


def state_look(view: ViewState) -> tuple[Symbol, Colour]:
    """Symbol and colour of the state; an outcome takes the place of ENDED."""
    if view.outcome is not None and view.state is EpisodeState.ENDED:
        return _OUTCOME_LOOKS[view.outcome]
    return STATE_LOOKS[view.state]


def draw_symbol(canvas: RgbImage, symbol: Symbol, x: int, y: int, size: int, colour: Colour) -> None:
    """Draw a symbol into the square of ``size`` pixels whose upper left corner is (x, y)."""
    thick = max(2, round(size * 0.18))
    middle = [round((x + size / 2) * 2**_SHIFT), round((y + size / 2) * 2**_SHIFT)]
    radius = round(size / 2 * 2**_SHIFT)
    if symbol == "ring":
        cv2.circle(canvas, middle, radius - thick * 2 ** (_SHIFT - 1), colour, thick, cv2.LINE_AA, _SHIFT)
    elif symbol == "circle":
        cv2.circle(canvas, middle, radius, colour, cv2.FILLED, cv2.LINE_AA, _SHIFT)
    elif symbol in _OUTLINES:
        cv2.fillPoly(canvas, [_points(_OUTLINES[symbol], x, y, size)], colour, cv2.LINE_AA, _SHIFT)
    for strokes, paint, width in (
        (_STROKES.get(symbol, []), colour, thick),
        (_INSIDE.get(symbol, []), BLACK, max(2, round(size * 0.12))),
    ):
        for stroke in strokes:
            cv2.polylines(canvas, [_points(stroke, x, y, size)], False, paint, width, cv2.LINE_AA, _SHIFT)


def _points(unit: list[tuple[float, float]], x: int, y: int, size: int) -> npt.NDArray[np.int32]:
    points: npt.NDArray[np.float64] = (np.array(unit) * size + (x, y)) * 2**_SHIFT
    return np.round(points).astype(np.int32)
