"""Rows of cards with short texts: the pictures of games without a board."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from ragen_envs.pictures import drawing as d
from ragen_envs.pictures.font import measure, shorten, write

MARGIN: Final = 12

Card = tuple[str, d.Color]
"""What a card says, and its color."""


def draw_cards(rows: Sequence[Sequence[Card]], size: tuple[int, int], columns: int) -> d.Image:
    """Draw rows of cards of one size, each row from the left.

    Args:
        rows: The cards; texts are written as large as fits, and cut if they never do.
        size: Height and width of a card in pixels.
        columns: Cards for which a row has room.

    Returns:
        A fresh RGB image, uint8 (H, W, 3).
    """
    high, wide = size
    height = len(rows) * (high + MARGIN) + MARGIN
    width = columns * (wide + MARGIN) + MARGIN
    picture = d.Canvas(height, width, d.PAPER).image()
    for row, cards in enumerate(rows):
        for column, (text, color) in enumerate(cards):
            top, left = MARGIN + row * (high + MARGIN), MARGIN + column * (wide + MARGIN)
            picture[top : top + high, left : left + wide] = _card(text, color, high, wide)
    return picture


@lru_cache(maxsize=512)
def _card(text: str, color: d.Color, height: int, width: int) -> d.Image:
    canvas = d.Canvas(height, width, d.PAPER)
    canvas.fill(canvas.box(0, 0, width, height, radius=10), d.INK, 0.25)
    canvas.fill(canvas.box(1, 1, width - 1, height - 3, radius=9), color)
    picture = canvas.image()
    room = width - 12
    scale = next((scale for scale in (5, 4, 3, 2) if measure(text, scale) <= room), 1)
    light = sum(color) > 3 * 150
    shown = shorten(text, scale, room)
    write(picture, shown, width // 2, height // 2 - 1, scale, d.INK if light else d.WHITE)
    return picture
