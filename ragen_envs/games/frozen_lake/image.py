"""FrozenLake as a picture."""

from typing import Final

from ragen_envs.pictures import drawing as d
from ragen_envs.pictures.tiles import TileSet

_SHINE = (((0.14, 0.36), (0.36, 0.14)), ((0.2, 0.48), (0.3, 0.38)), ((0.7, 0.86), (0.86, 0.7)))
_WAVES = (((0.3, 0.56), (0.46, 0.56)), ((0.56, 0.7), (0.68, 0.7)))


def _frozen(canvas: d.Canvas) -> None:
    canvas.fill(~canvas.box(0.015, 0.015, 0.985, 0.985, radius=0.04), d.ICE_LINE)
    for ends in _SHINE:
        canvas.fill(canvas.line(ends, 0.05), d.ICE_LIGHT)


def _hole(canvas: d.Canvas) -> None:
    _frozen(canvas)
    canvas.fill(_opening(canvas, 0.04), d.ICE_LIGHT)
    canvas.fill(_opening(canvas, 0.0), d.WATER_LIGHT)
    canvas.fill(_water(canvas), d.WATER)
    for ends in _WAVES:
        canvas.fill(canvas.line(ends, 0.05), d.WATER_LIGHT)


def _opening(canvas: d.Canvas, margin: float) -> d.Mask:
    return canvas.ellipse(0.5, 0.52, 0.4 + margin, 0.36 + margin)


def _water(canvas: d.Canvas) -> d.Mask:
    return _opening(canvas, 0.0) & canvas.ellipse(0.5, 0.6, 0.4, 0.36)


def _goal(canvas: d.Canvas) -> None:
    _frozen(canvas)
    _flag(canvas, 0.36)


def _flag(canvas: d.Canvas, x: float) -> None:
    canvas.fill(canvas.ellipse(x, 0.86, 0.17, 0.055), d.INK, 0.2)
    canvas.fill(canvas.line(((x, 0.15), (x, 0.85)), 0.07), d.INK)
    cloth = canvas.polygon(((x + 0.03, 0.13), (x + 0.45, 0.34), (x + 0.03, 0.55)))
    canvas.fill(cloth, d.CORAL)
    canvas.fill(cloth & (canvas.y > 0.34), d.CORAL_DARK)


def _player(canvas: d.Canvas) -> None:
    _frozen(canvas)
    d.draw_player(canvas, 0.5, 0.49, 0.34)


def _player_in_hole(canvas: d.Canvas) -> None:
    _hole(canvas)
    d.draw_head(canvas, 0.5, 0.42, 0.3)
    canvas.fill(canvas.ellipse(0.5, 0.54, 0.065, 0.075), d.INK)
    body = canvas.ellipse(0.5, 0.58, 0.27, 0.08)
    around = _water(canvas) & (canvas.y > 0.58) & ~body
    canvas.fill(around, d.WATER)
    canvas.fill(around & canvas.ellipse(0.5, 0.58, 0.32, 0.13), d.WATER_LIGHT)


def _player_on_goal(canvas: d.Canvas) -> None:
    _frozen(canvas)
    _flag(canvas, 0.5)
    d.draw_player(canvas, 0.34, 0.61, 0.27)


TILES: Final = TileSet((_frozen, _hole, _goal, _player, _player_in_hole, _player_on_goal), d.ICE)
"""The tiles of the cell codes, in their order."""
