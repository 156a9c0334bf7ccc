"""The tiles of Minesweeper: closed cells, numbers and mines."""

from functools import partial
from typing import Final

from ragen_envs.pictures import drawing as d
from ragen_envs.pictures.font import draw_character
from ragen_envs.pictures.tiles import TileSet

_COLORS: Final = (d.BLUE, d.TEAL_DARK, d.CORAL, d.WATER, d.CORAL_DARK, d.TEAL, d.INK, d.SLATE)


def _number(number: int, canvas: d.Canvas) -> None:
    canvas.fill(canvas.box(0.02, 0.02, 0.98, 0.98, radius=0.06), d.WHITE)
    if number:
        draw_character(canvas, str(number), 0.32, 0.24, 0.09, _COLORS[number - 1])


def _closed(canvas: d.Canvas) -> None:
    canvas.fill(canvas.box(0.02, 0.02, 0.98, 0.98, radius=0.1), d.SLATE)
    canvas.fill(canvas.box(0.02, 0.02, 0.98, 0.9, radius=0.1), d.SLATE_LIGHT)


def _mine(canvas: d.Canvas) -> None:
    canvas.fill(canvas.box(0.02, 0.02, 0.98, 0.98, radius=0.06), d.CORAL)
    for ends in (((0.5, 0.18), (0.5, 0.82)), ((0.18, 0.5), (0.82, 0.5))):
        canvas.fill(canvas.line(ends, 0.07), d.INK)
    canvas.fill(canvas.disc(0.5, 0.5, 0.23), d.INK)
    canvas.fill(canvas.disc(0.42, 0.42, 0.06), d.WHITE)


TILES: Final = TileSet([*(partial(_number, n) for n in range(9)), _closed, _mine], d.SLATE_PALE)
"""The tiles of the cell codes, in their order."""
