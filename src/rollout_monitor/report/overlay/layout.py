"""Where things are on the picture, for any size of it: made for 640x360, scaled from there."""

from __future__ import annotations

from dataclasses import dataclass

REFERENCE_WIDTH = 640
TALLEST, FLATTEST = 1.0, 0.4
"""Height of the drawn picture as a share of its width, at most and at least; a camera's picture beyond is boxed."""


@dataclass(frozen=True)
class Rect:
    """Pixels from the upper left corner; ``x1`` and ``y1`` are outside."""

    x0: int
    y0: int
    x1: int
    y1: int

    @property
    def width(self) -> int:
        """Columns."""
        return self.x1 - self.x0

    @property
    def height(self) -> int:
        """Rows."""
        return self.y1 - self.y0

    def at(self, share: float) -> int:
        """Column at a share of the width, 0..1."""
        return self.x0 + round(min(max(share, 0.0), 1.0) * self.width)


@dataclass(frozen=True)
class Layout:
    """Rectangles of one picture size, and the scale of letters and lines."""

    width: int
    height: int
    scale: float

    @staticmethod
    def of(width: int, camera_height: int, camera_width: int) -> Layout:
        """The layout for a camera's picture drawn ``width`` pixels wide."""
        share = min(max(camera_height / camera_width, FLATTEST), TALLEST)
        return Layout(width, round(width * share), width / REFERENCE_WIDTH)

    def px(self, pixels: float) -> int:
        """Pixels at 640 wide as pixels here; at least 1."""
        return max(1, round(pixels * self.scale))

    @property
    def head(self) -> Rect:
        """Upper panel: state, time, task, age of the data."""
        return Rect(0, 0, self.width, self.px(46))

    @property
    def foot(self) -> Rect:
        """Lower panel: curve, figures, smoothness, bar."""
        return Rect(0, self.height - self.px(104), self.width, self.height)

    @property
    def bar(self) -> Rect:
        """The progress bar, without its frame: 0 is its left edge, 1 its right edge."""
        return Rect(self.px(12), self.height - self.px(26), self.width - self.px(12), self.height - self.px(10))

    @property
    def plot(self) -> Rect:
        """The live curve."""
        return Rect(self.px(44), self.foot.y0 + self.px(8), self.width - self.px(262), self.bar.y0 - self.px(10))

    @property
    def figures(self) -> Rect:
        """Progress, MP, drawdown, smoothness in figures."""
        return Rect(self.plot.x1 + self.px(14), self.plot.y0, self.width - self.px(12), self.plot.y1)

    @property
    def gauge(self) -> Rect:
        """The smoothness gauge."""
        right = self.figures.x1 - self.px(38)
        return Rect(right - self.px(96), self.figures.y1 - self.px(11), right, self.figures.y1 - self.px(3))

    @property
    def alarms(self) -> Rect:
        """Between the panels."""
        return Rect(0, self.head.y1 + self.px(4), self.width, self.foot.y0 - self.px(4))
