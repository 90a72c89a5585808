"""Text on pictures, put together from kept glyphs: a line that was there before costs next to nothing.

The font is Aileron, which Pillow carries for `ImageFont.load_default`: no font file of ours, the same glyphs on every
machine, and legible from 11 pixels on, where OpenCV's stroked Hershey letters are not. It knows ASCII; see
`words.ascii_text`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from rollout_monitor.frames import RgbImage

Colour: TypeAlias = tuple[int, int, int]
Mask = npt.NDArray[np.uint8]

ELLIPSIS = "..."
LINES_KEPT = 256
"""Most lines of a picture are those of the one before."""


@dataclass(frozen=True)
class _Glyph:
    mask: Mask
    """Coverage, 0..255."""
    left: int
    """From the pen to the mask's first column, pixels."""
    top: int
    """From the baseline up (negative) to the mask's first row, pixels."""
    advance: int


@cache
def _font(size: int) -> ImageFont.FreeTypeFont:
    font = ImageFont.load_default(size)
    assert isinstance(font, ImageFont.FreeTypeFont)  # noqa: S101 - given a size, it is one
    return font


@cache
def _glyph(letter: str, size: int, bold: bool) -> _Glyph:
    font = _font(size)
    left, top, right, bottom = (int(edge) for edge in font.getbbox(letter, anchor="ls"))
    image = Image.new("L", (max(right - left, 1), max(bottom - top, 1)))
    ImageDraw.Draw(image).text((-left, -top), letter, font=font, fill=255, anchor="ls")
    mask = np.asarray(image, dtype=np.uint8)
    thick = max(1, size // 16) if bold else 0
    if thick:
        mask = np.maximum(np.pad(mask, ((0, 0), (0, thick))), np.pad(mask, ((0, 0), (thick, 0))))
    return _Glyph(mask, left, top, round(font.getlength(letter)) + thick)


def text_width(text: str, size: int, bold: bool = False) -> int:
    """Width in pixels."""
    return sum(_glyph(letter, size, bold).advance for letter in text)


def fitted(text: str, size: int, width: int, bold: bool = False) -> str:
    """The text, cut with an ellipsis where it is wider than ``width`` pixels."""
    if text_width(text, size, bold) <= width:
        return text
    room = width - text_width(ELLIPSIS, size, bold)
    kept = 0
    while kept < len(text) and (room := room - _glyph(text[kept], size, bold).advance) >= 0:
        kept += 1
    return text[:kept].rstrip() + ELLIPSIS


def write(canvas: RgbImage, text: str, x: int, baseline: int, size: int, colour: Colour, bold: bool = False) -> None:
    """Write ASCII text into a picture; what would lie outside is cut off.

    Args:
        canvas: picture (height, width, 3), uint8; changed.
        text: printable ASCII.
        x: left edge, pixels.
        baseline: row of the letters' feet.
        size: of the font, pixels.
        colour: RGB.
        bold: one pixel more of stroke for every 16 of size.
    """
    mask, left, top = _line(text, size, bold)
    left, top = left + x, top + baseline
    height, width = canvas.shape[:2]
    rows, columns = mask.shape
    x0, y0, x1, y1 = max(left, 0), max(top, 0), min(left + columns, width), min(top + rows, height)
    if x0 >= x1 or y0 >= y1:
        return
    cover = mask[y0 - top : y1 - top, x0 - left : x1 - left, None].astype(np.int32)
    under = canvas[y0:y1, x0:x1]
    canvas[y0:y1, x0:x1] = under + (np.array(colour, dtype=np.int32) - under) * cover // 255


@lru_cache(maxsize=LINES_KEPT)
def _line(text: str, size: int, bold: bool) -> tuple[Mask, int, int]:
    """Coverage of a line, and where its upper left corner lies from the pen's first position."""
    glyphs = [_glyph(letter, size, bold) for letter in text]
    if not glyphs:
        return np.zeros((0, 0), dtype=np.uint8), 0, 0
    pens = np.cumsum([0, *(glyph.advance for glyph in glyphs)]).tolist()
    corners = [(pen + glyph.left, glyph.top, *glyph.mask.shape) for pen, glyph in zip(pens, glyphs, strict=False)]
    left, top = min(corner[0] for corner in corners), min(corner[1] for corner in corners)
    right, bottom = max(x + columns for x, _, _, columns in corners), max(y + rows for _, y, rows, _ in corners)
    mask = np.zeros((bottom - top, right - left), dtype=np.uint8)
    for glyph, (x, y, rows, columns) in zip(glyphs, corners, strict=True):
        place = mask[y - top : y - top + rows, x - left : x - left + columns]
        np.maximum(place, glyph.mask, out=place)
    return mask, left, top
