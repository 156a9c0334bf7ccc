"""Sokoban as a picture."""

from typing import Final

from ragen_envs.pictures import drawing as d
from ragen_envs.pictures.tiles import TileSet


def _wall(canvas: d.Canvas) -> None:
    canvas.fill(canvas.box(0, 0, 1, 1), d.SLATE_DARK)
    for top, lefts in ((0.0, (0.0,)), (0.5, (-0.5, 0.5))):
        for left in lefts:
            edges = left + 0.03, top + 0.03, left + 0.97, top + 0.47
            brick = canvas.box(*edges, radius=0.07)
            canvas.fill(brick, d.SLATE)
            canvas.fill(brick & (canvas.y < top + 0.1), d.SLATE_LIGHT)


def _floor(canvas: d.Canvas) -> None:
    canvas.fill(~canvas.box(0.02, 0.02, 0.98, 0.98, radius=0.05), d.PAPER_LINE)


def _target(canvas: d.Canvas) -> None:
    _floor(canvas)
    canvas.fill(canvas.disc(0.5, 0.5, 0.42), d.CORAL, 0.14)
    canvas.fill(canvas.ring(0.5, 0.5, 0.42, 0.08), d.CORAL)
    canvas.fill(canvas.disc(0.5, 0.5, 0.13), d.CORAL)


def _crate(canvas: d.Canvas, light: d.Color, middle: d.Color, dark: d.Color) -> None:
    _floor(canvas)
    canvas.fill(canvas.box(0.1, 0.14, 0.9, 0.95, radius=0.1), d.INK, 0.16)
    canvas.fill(canvas.box(0.09, 0.09, 0.91, 0.91, radius=0.1), dark)
    canvas.fill(canvas.box(0.14, 0.14, 0.86, 0.86, radius=0.06), light)
    canvas.fill(canvas.box(0.23, 0.23, 0.77, 0.77, radius=0.03), dark)
    canvas.fill(canvas.box(0.26, 0.26, 0.74, 0.74, radius=0.02), middle)


def _box(canvas: d.Canvas) -> None:
    _crate(canvas, d.WOOD_LIGHT, d.WOOD, d.WOOD_DARK)
    inside = canvas.box(0.26, 0.26, 0.74, 0.74, radius=0.02)
    brace = (0.2, 0.8), (0.8, 0.2)
    canvas.fill(inside & canvas.line(brace, 0.2), d.WOOD_DARK)
    canvas.fill(inside & canvas.line(brace, 0.13), d.WOOD_LIGHT)


def _box_on_target(canvas: d.Canvas) -> None:
    _crate(canvas, d.TEAL_LIGHT, d.TEAL, d.TEAL_DARK)
    canvas.fill(canvas.line(((0.36, 0.51), (0.46, 0.61), (0.65, 0.39)), 0.1), d.WHITE)


def _player(canvas: d.Canvas) -> None:
    _floor(canvas)
    d.draw_player(canvas, 0.5, 0.49, 0.34)


def _player_on_target(canvas: d.Canvas) -> None:
    _target(canvas)
    d.draw_player(canvas, 0.5, 0.49, 0.29)


TILES: Final = TileSet((_wall, _floor, _target, _box_on_target, _box, _player, _player_on_target), d.PAPER)
"""The tiles of the cell codes, in their order."""
