"""The camera's picture with everything an operator needs to know drawn over it, readable at 640x360.

Nothing is told by colour alone: states, alarms and directions have shapes and words, a drawdown is hatched, and an
ERROR frames the whole picture with a striped border.
"""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt

from rollout_monitor.errors import InputError
from rollout_monitor.frames import RgbImage
from rollout_monitor.report.overlay.layout import Layout, Rect
from rollout_monitor.report.overlay.letters import Colour, fitted, text_width, write
from rollout_monitor.report.overlay.symbols import (
    BLACK,
    DIRECTION_SYMBOLS,
    GREY,
    ORANGE,
    RED,
    SEVERITY_LOOKS,
    SKY,
    WHITE,
    YELLOW,
    Symbol,
    draw_symbol,
    state_look,
)
from rollout_monitor.report.overlay.view import ViewState
from rollout_monitor.report.overlay.words import age_line, alarm_text, ascii_text, old_text, percent, state_word

MILESTONES = (0.25, 0.5, 0.75)
"""The q of MC@q below 1."""

SHORTEST_AXIS_S = 10.0
"""The curve's axis is at least this long, so that an attempt's first second does not fill it."""

ROUGHEST, SMOOTHEST = -8.0, -1.4
"""Ends of the smoothness gauge in SPARC: one minimum-jerk reach is about -1.4, tremor over it is below -8."""

PANEL_SHADE = 0.2
"""What is left of the picture's brightness under a panel: white and yellow stay readable over any picture."""

EMPTY: Colour = (46, 46, 50)
"""Where there is no camera picture."""

MOST_ALARMS = 3
_TRACK: Colour = (20, 20, 20)
_REACHED: Colour = WHITE


def draw_overlay(view: ViewState, picture: RgbImage | None, width: int = 640) -> RgbImage:
    """Draw one picture.

    Args:
        view: what is shown.
        picture: the camera's, shape (rows, columns, 3), uint8, RGB; not changed. None: there is none.
        width: columns of the result; its rows follow from the camera's picture, 9/16 where there is none.

    Returns:
        Picture of shape (rows, width, 3), uint8, RGB, contiguous.

    Raises:
        InputError: the picture is not of that shape and type.
    """
    canvas, layout = _background(picture, width)
    _panel(canvas, layout.head)
    _panel(canvas, layout.foot)
    _head(canvas, layout, view)
    _plot(canvas, layout, view)
    _figures(canvas, layout, view)
    _smoothness(canvas, layout, view)
    _bar(canvas, layout, view)
    if picture is None:
        _centred(canvas, layout, "no camera picture")
    _alarms(canvas, layout, view)
    if view.error:
        _error_frame(canvas, layout)
    return canvas


def _background(picture: RgbImage | None, width: int) -> tuple[RgbImage, Layout]:
    if picture is None:
        layout = Layout.of(width, 9, 16)
        return np.full((layout.height, layout.width, 3), EMPTY, dtype=np.uint8), layout
    if picture.ndim != 3 or picture.shape[2] != 3 or picture.dtype != np.uint8 or 0 in picture.shape:
        raise InputError(f"picture of shape {picture.shape}, {picture.dtype}: expected (rows, columns, 3), uint8, RGB")
    rows, columns = picture.shape[:2]
    layout = Layout.of(width, rows, columns)
    scale = min(layout.width / columns, layout.height / rows)
    size = (max(1, round(columns * scale)), max(1, round(rows * scale)))
    smaller = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
    fitting = picture if size == (columns, rows) else cv2.resize(picture, size, interpolation=smaller)
    if size == (layout.width, layout.height):
        return np.array(fitting, dtype=np.uint8, order="C"), layout
    canvas = np.full((layout.height, layout.width, 3), EMPTY, dtype=np.uint8)
    left, top = (layout.width - size[0]) // 2, (layout.height - size[1]) // 2
    canvas[top : top + size[1], left : left + size[0]] = fitting
    return canvas, layout


def _panel(canvas: RgbImage, rect: Rect) -> None:
    """Darken what is under a rectangle."""
    region = canvas[rect.y0 : rect.y1, rect.x0 : rect.x1]
    if region.size:
        region[:] = cv2.convertScaleAbs(region, alpha=PANEL_SHADE)


# --- the upper panel ---------------------------------------------------------------------------------------------


def _head(canvas: RgbImage, layout: Layout, view: ViewState) -> None:
    px = layout.px
    right = _age(canvas, layout, view)
    symbol, colour = state_look(view)
    draw_symbol(canvas, symbol, px(10), px(5), px(18), colour)
    x = px(36)
    word = state_word(view)
    write(canvas, word, x, px(21), px(20), WHITE, bold=True)
    if view.state is not None:
        x += text_width(word, px(20), bold=True) + px(14)
        moving = {True: "moving", False: "standing still", None: "no arm"}[view.moving]
        line = fitted(f"{view.elapsed_s:.1f} s   {moving}", px(15), right - px(10) - x)
        write(canvas, line, x, px(20), px(15), WHITE)
    task = ascii_text(view.task) if view.task else "no attempt is running"
    write(canvas, fitted(task, px(14), layout.width - px(22)), px(12), px(40), px(14), WHITE)


def _age(canvas: RgbImage, layout: Layout, view: ViewState) -> int:
    """The age of the data in the upper right corner; returns the column it begins at."""
    px = layout.px
    old, text = bool(view.old), age_line(view)
    left = layout.width - px(10) - text_width(text, px(14), bold=old)
    write(canvas, text, left, px(20), px(14), YELLOW if old else WHITE, bold=old)
    if old:
        left -= px(20)
        draw_symbol(canvas, "triangle", left, px(6), px(15), YELLOW)
    return left


# --- the lower panel ---------------------------------------------------------------------------------------------


def _bar(canvas: RgbImage, layout: Layout, view: ViewState) -> None:
    """The progress bar: filled up to now, hatched up to the best, milestones as ticks over its whole height."""
    rect, px = layout.bar, layout.px
    edge = px(2)
    cv2.rectangle(canvas, (rect.x0 - edge, rect.y0 - edge), (rect.x1 + edge - 1, rect.y1 + edge - 1), GREY, edge)
    canvas[rect.y0 : rect.y1, rect.x0 : rect.x1] = _TRACK
    if view.progress is not None:
        now, best = rect.at(view.progress), rect.at(view.progress if view.mp is None else view.mp)
        canvas[rect.y0 : rect.y1, rect.x0 : now] = SKY
        if best > now:
            _hatch(canvas[rect.y0 : rect.y1, now:best], px(4))
            canvas[rect.y0 : rect.y1, best - px(2) : best] = WHITE
    for milestone in MILESTONES:
        column = rect.at(milestone)
        reached = view.mp is not None and view.mp >= milestone
        canvas[rect.y0 - px(5) : rect.y0, column - px(1) : column + px(1)] = _REACHED if reached else GREY
        canvas[rect.y1 - px(4) : rect.y1, column - px(1) : column] = BLACK if reached else GREY


def _hatch(region: RgbImage, pitch: int) -> None:
    """Diagonal stripes: what was reached and lost again."""
    rows, columns = np.indices(region.shape[:2])
    region[(rows + columns) % (2 * pitch) < pitch] = ORANGE


def _plot(canvas: RgbImage, layout: Layout, view: ViewState) -> None:
    """The live curve with a line for each milestone; a milestone that was reached has a filled mark."""
    rect, px = layout.plot, layout.px
    if rect.width < px(40) or rect.height < px(20):
        return
    canvas[rect.y0 : rect.y1, rect.x0 : rect.x1] //= 2
    for milestone in MILESTONES:
        row = _row(rect, milestone)
        reached = view.mp is not None and view.mp >= milestone
        canvas[row, rect.x0 : rect.x1 : 1 if reached else 4] = (120, 120, 120)
        write(canvas, f"{100 * milestone:.0f}", px(24), row + px(4), px(12), WHITE if reached else GREY)
        size = px(9)
        draw_symbol(canvas, "square" if reached else "ring", px(11), row - size // 2, size, WHITE if reached else GREY)
    span_s = max(SHORTEST_AXIS_S, view.elapsed_s)
    if view.mp is not None:
        canvas[_row(rect, view.mp), rect.x0 : rect.x1 : 2] = ORANGE
    if view.curve:
        points = np.array(view.curve)
        xs = rect.x0 + np.clip(points[:, 0] / span_s, 0.0, 1.0) * (rect.width - 1)
        ys = rect.y1 - 1 - np.clip(points[:, 1], 0.0, 1.0) * (rect.height - 1)
        line: npt.NDArray[np.int32] = np.round(np.stack([xs, ys], axis=1)).astype(np.int32)
        cv2.polylines(canvas, [line], False, SKY, px(2), cv2.LINE_AA)
        cv2.circle(canvas, [int(line[-1, 0]), int(line[-1, 1])], px(3), WHITE, cv2.FILLED, cv2.LINE_AA)


def _row(rect: Rect, share: float) -> int:
    return rect.y1 - 1 - round(min(max(share, 0.0), 1.0) * (rect.height - 1))


def _figures(canvas: RgbImage, layout: Layout, view: ViewState) -> None:
    rect, px = layout.figures, layout.px
    baseline = rect.y0 + px(26)
    now = percent(view.progress)
    write(canvas, now, rect.x0, baseline, px(30), WHITE, bold=True)
    symbol = DIRECTION_SYMBOLS.get(view.direction)
    if symbol is not None:
        draw_symbol(canvas, symbol, rect.x0 + px(88), rect.y0 + px(8), px(15), WHITE)
    x = rect.x0 + px(114)
    write(canvas, f"best (MP) {percent(view.mp)}", x, rect.y0 + px(12), px(15), WHITE)
    write(canvas, f"drawdown {percent(view.drawdown)}", x, rect.y0 + px(30), px(15), WHITE)


def _smoothness(canvas: RgbImage, layout: Layout, view: ViewState) -> None:
    """A scale from rough to smooth with a pointer, and the figure."""
    rect, px = layout.gauge, layout.px
    baseline = rect.y1 + px(1)
    write(canvas, "smoothness", layout.figures.x0, baseline, px(13), WHITE)
    middle = (rect.y0 + rect.y1) // 2
    canvas[middle - px(1) : middle + px(1), rect.x0 : rect.x1] = GREY
    for share in (0.0, 0.5, 1.0):
        column = rect.at(share)
        canvas[rect.y0 : rect.y1, column - px(1) : column] = GREY
    if view.smoothness is None:
        write(canvas, "--", rect.x1 + px(8), baseline, px(15), GREY)
        return
    column = rect.at((view.smoothness - ROUGHEST) / (SMOOTHEST - ROUGHEST))
    half = px(5)
    draw_symbol(canvas, "down", column - half, rect.y0 - px(5), 2 * half, WHITE)
    write(canvas, f"{view.smoothness:.1f}", rect.x1 + px(8), baseline, px(15), WHITE)


# --- alarms ------------------------------------------------------------------------------------------------------


def _alarms(canvas: RgbImage, layout: Layout, view: ViewState) -> None:
    """One line each, the most severe first, then what is too old to be taken for live."""
    entries: list[tuple[Symbol, Colour, str]] = [("triangle", YELLOW, old_text(age)) for age in view.old]
    entries = [*((*SEVERITY_LOOKS[event.severity], alarm_text(event)) for event in view.alarms), *entries]
    rect, px = layout.alarms, layout.px
    pitch = px(25)
    most = min(MOST_ALARMS, rect.height // pitch)
    hidden = len(entries) - most
    for index, (symbol, colour, text) in enumerate(entries[:most]):
        if index == most - 1 and hidden > 0:
            text = f"(+{hidden} more)  {text}"  # noqa: PLW2901 - said on the last line there is room for
        top = rect.y0 + index * pitch
        line = fitted(text, px(15), layout.width - px(48))
        _panel(canvas, Rect(0, top, min(layout.width, px(42) + text_width(line, px(15))), top + pitch - px(2)))
        draw_symbol(canvas, symbol, px(10), top + px(3), px(17), colour)
        write(canvas, line, px(34), top + px(17), px(15), WHITE)


def _centred(canvas: RgbImage, layout: Layout, text: str) -> None:
    size = layout.px(16)
    middle = (layout.alarms.y0 + layout.alarms.y1) // 2
    write(canvas, text, (layout.width - text_width(text, size)) // 2, middle + size // 3, size, GREY)


def _error_frame(canvas: RgbImage, layout: Layout) -> None:
    """A striped border: seen from across the room, and by those who see no red."""
    thick, pitch = layout.px(5), layout.px(16)
    height, width = canvas.shape[:2]
    across = np.where((np.arange(width) // pitch % 2 == 0)[:, None], RED, WHITE)
    down = np.where((np.arange(height) // pitch % 2 == 0)[:, None], RED, WHITE)
    canvas[:thick] = canvas[-thick:] = across
    canvas[:, :thick] = canvas[:, -thick:] = down[:, None]
