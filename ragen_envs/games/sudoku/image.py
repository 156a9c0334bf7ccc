"""The tiles of Sudoku: a cell with its digit."""

from functools import partial
from typing import Final

from ragen_envs.pictures import drawing as d
from ragen_envs.pictures.font import draw_character
from ragen_envs.pictures.tiles import TileSet


def _cell(digit: str, canvas: d.Canvas) -> None:
    canvas.fill(canvas.box(0.02, 0.02, 0.98, 0.98, radius=0.06), d.WHITE if digit else d.PAPER)
    if digit:
        draw_character(canvas, digit, 0.32, 0.24, 0.09, d.INK)


TILES: Final = TileSet([partial(_cell, digit) for digit in ("", *"1234")], d.SLATE_PALE)
"""The tiles of the cell codes, in their order."""
