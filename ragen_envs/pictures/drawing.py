"""Flat drawings in numpy: an anti-aliased canvas, the palette and the figure that walks the boards."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Color = tuple[int, int, int]
Image = NDArray[np.uint8]
Mask = NDArray[np.bool_]

INK: Color = (31, 42, 68)
WHITE: Color = (255, 255, 255)
PAPER: Color = (242, 243, 246)
PAPER_LINE: Color = (230, 232, 238)
SLATE: Color = (112, 124, 148)
SLATE_LIGHT: Color = (132, 145, 168)
SLATE_DARK: Color = (92, 103, 126)
SLATE_PALE: Color = (190, 198, 212)
CORAL: Color = (224, 94, 62)
CORAL_DARK: Color = (188, 70, 44)
BLUE: Color = (46, 116, 196)
BLUE_DARK: Color = (33, 88, 156)
WOOD: Color = (238, 180, 84)
WOOD_LIGHT: Color = (248, 204, 124)
WOOD_DARK: Color = (186, 124, 40)
TEAL: Color = (34, 160, 134)
TEAL_LIGHT: Color = (72, 190, 164)
TEAL_DARK: Color = (16, 110, 96)
ICE: Color = (214, 234, 246)
ICE_LIGHT: Color = (236, 247, 253)
ICE_LINE: Color = (186, 214, 233)
WATER: Color = (24, 58, 104)
WATER_LIGHT: Color = (62, 110, 164)
GOLD: Color = (250, 196, 60)
GOLD_DARK: Color = (206, 146, 20)

SUPERSAMPLING = 4


class Canvas:
    """A drawing surface, drawn at four times the resolution of the image it gives.

    Shapes are masks, bool (rows, columns) at the high resolution, made from coordinates in units of
    ``unit`` pixels, x to the right and y down. They combine with ``&``, ``|`` and ``~``.
    """

    def __init__(self, height: int, width: int, color: Color, unit: int = 1) -> None:
        """Start with a height x width image (pixels) of one color."""
        scale = SUPERSAMPLING
        self.y = ((np.arange(height * scale) + 0.5) / (scale * unit))[:, None]
        self.x = ((np.arange(width * scale) + 0.5) / (scale * unit))[None, :]
        self._planes = np.empty((3, height * scale, width * scale), np.float32)
        self._planes[:] = np.reshape(color, (3, 1, 1))

    def average(self) -> NDArray[np.float32]:
        """Return the drawing, averaged down, float32 (height, width, 3)."""
        _, rows, columns = self._planes.shape
        scale = SUPERSAMPLING
        lines = self._planes.reshape(3, rows // scale, scale, columns).mean(axis=2)
        blocks = lines.reshape(3, rows // scale, columns // scale, scale)
        average: NDArray[np.float32] = blocks.mean(axis=3).transpose(1, 2, 0)
        return average

    def image(self) -> Image:
        """Return the drawing, averaged down, uint8 (height, width, 3)."""
        return (self.average() + 0.5).astype(np.uint8, order="C")

    def fill(self, shape: Mask, color: Color, opacity: float = 1.0) -> None:
        """Paint a shape over what is there."""
        for plane, value in zip(self._planes, color, strict=True):
            paint = value if opacity == 1.0 else plane + (value - plane) * opacity
            np.copyto(plane, paint, where=shape)

    def disc(self, x: float, y: float, radius: float) -> Mask:
        """Return the disc around a point."""
        return self.ellipse(x, y, radius, radius)

    def ellipse(self, x: float, y: float, across: float, down: float) -> Mask:
        """Return the ellipse around a point with the given half-axes."""
        return ((self.x - x) / across) ** 2 + ((self.y - y) / down) ** 2 <= 1.0

    def ring(self, x: float, y: float, radius: float, width: float) -> Mask:
        """Return the circle line of a width, with ``radius`` to its outer edge."""
        return self.disc(x, y, radius) & ~self.disc(x, y, radius - width)

    def box(self, left: float, top: float, right: float, bottom: float, radius: float = 0) -> Mask:
        """Return the rectangle with rounded corners."""
        past_x = np.maximum(np.maximum(left + radius - self.x, self.x - right + radius), 0.0)
        past_y = np.maximum(np.maximum(top + radius - self.y, self.y - bottom + radius), 0.0)
        inside: Mask = past_x**2 + past_y**2 <= radius**2
        return inside

    def line(self, points: Sequence[tuple[float, float]], width: float) -> Mask:
        """Return the line through points, with round caps."""
        shape = np.zeros(self._planes.shape[1:], np.bool_)
        for (x0, y0), (x1, y1) in pairwise(points):
            dx, dy = x1 - x0, y1 - y0
            along = ((self.x - x0) * dx + (self.y - y0) * dy) / (dx * dx + dy * dy)
            along = np.clip(along, 0.0, 1.0)
            off = (self.x - x0 - along * dx) ** 2 + (self.y - y0 - along * dy) ** 2
            shape |= off <= (width / 2) ** 2
        return shape

    def polygon(self, points: Sequence[tuple[float, float]]) -> Mask:
        """Return the convex polygon with these corners, listed clockwise as seen."""
        shape = np.ones(self._planes.shape[1:], np.bool_)
        for (x0, y0), (x1, y1) in zip(points, [*points[1:], points[0]], strict=True):
            shape &= (x1 - x0) * (self.y - y0) - (y1 - y0) * (self.x - x0) >= 0
        return shape


def draw_player(canvas: Canvas, x: float, y: float, radius: float) -> None:
    """Draw the friendly figure that walks the boards."""
    canvas.fill(canvas.ellipse(x, y + 0.95 * radius, 0.8 * radius, 0.2 * radius), INK, 0.2)
    draw_head(canvas, x, y, radius)
    smile = canvas.ring(x, y + 0.14 * radius, 0.46 * radius, 0.13 * radius)
    canvas.fill(smile & (canvas.y > y + 0.34 * radius), WHITE)


def draw_head(canvas: Canvas, x: float, y: float, radius: float) -> None:
    """Draw the figure without its mouth and shadow."""
    body = canvas.disc(x, y, radius)
    canvas.fill(body, BLUE_DARK)
    canvas.fill(body & canvas.disc(x, y - 0.14 * radius, radius), BLUE)
    for side in (-0.36, 0.36):
        eye = canvas.ellipse(x + side * radius, y - 0.16 * radius, 0.26 * radius, 0.3 * radius)
        canvas.fill(eye, WHITE)
        canvas.fill(canvas.disc(x + 0.9 * side * radius, y - 0.1 * radius, 0.15 * radius), INK)
