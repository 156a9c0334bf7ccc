"""The cube as a picture: unfolded."""

from functools import partial
from typing import Final

from ragen_envs.pictures import drawing as d
from ragen_envs.pictures.tiles import TileSet

_YELLOW: Final = (250, 214, 58)
_ORANGE: Final = (240, 142, 40)
_RED: Final = (200, 48, 48)
_GREEN: Final = (52, 152, 84)
_STICKERS: Final = (d.WHITE, _ORANGE, _GREEN, _RED, d.BLUE, _YELLOW)


def _sticker(color: d.Color, canvas: d.Canvas) -> None:
    canvas.fill(canvas.box(0, 0, 1, 1), d.INK)
    canvas.fill(canvas.box(0.05, 0.05, 0.95, 0.95, radius=0.14), color)


def _nothing(canvas: d.Canvas) -> None:
    """Leave the background."""


TILES: Final = TileSet([*(partial(_sticker, color) for color in _STICKERS), _nothing], d.PAPER)
"""The tiles of the cell codes of the unfolded cube, in their order."""
