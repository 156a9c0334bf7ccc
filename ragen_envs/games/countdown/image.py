"""Countdown as a picture: the target above the numbers that are left, on cards."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from ragen_envs.games.countdown.dynamics import Numbers
from ragen_envs.pictures import drawing as d
from ragen_envs.pictures.font import write_within

_HEIGHT, _WIDTH = 72, 96
_MARGIN: Final = 12
_FEWEST_COLUMNS: Final = 5

Card = tuple[str, d.Color]
"""Text of a card, and its color."""


def render(numbers: Numbers, target: int, given: int) -> d.Image:
    """Return the state as a fresh RGB image, uint8 (180, 552, 3), or (180, 660, 3) with six given numbers.

    All pictures of a level have one size, that of the numbers ``given`` at its start.
    """
    cards = [(str(number), d.TEAL if number == target else d.WHITE) for number in numbers]
    rows: Sequence[Sequence[Card]] = [[(str(target), d.GOLD)], cards]
    high, wide = _HEIGHT + _MARGIN, _WIDTH + _MARGIN
    columns = max(_FEWEST_COLUMNS, given)
    picture = d.Canvas(len(rows) * high + _MARGIN, columns * wide + _MARGIN, d.PAPER).image()
    for row, shown in enumerate(rows):
        for column, card in enumerate(shown):
            top, left = _MARGIN + row * high, _MARGIN + column * wide
            picture[top : top + _HEIGHT, left : left + _WIDTH] = _card(*card)
    return picture


@lru_cache(maxsize=512)
def _card(text: str, color: d.Color) -> d.Image:
    canvas = d.Canvas(_HEIGHT, _WIDTH, d.PAPER)
    canvas.fill(canvas.box(0, 0, _WIDTH, _HEIGHT, radius=10), d.INK, 0.25)
    canvas.fill(canvas.box(1, 1, _WIDTH - 1, _HEIGHT - 3, radius=9), color)
    picture = canvas.image()
    ink = d.INK if sum(color) > 3 * 150 else d.WHITE
    write_within(picture, text, _WIDTH // 2, _HEIGHT // 2 - 1, 5, _WIDTH - 12, ink)
    return picture
