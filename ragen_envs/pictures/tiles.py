"""Boards as pictures: a tile for each cell code, drawn once a size, and laid out side by side."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ragen_envs.pictures.drawing import Canvas, Color, Image

TILE: Final = 48
"""Height and width of a cell in pixels, where nothing else is asked for."""

Painter = Callable[[Canvas], None]
"""Draws one tile on a canvas one unit wide."""


class TileSet:
    """The pictures of a game's cells.

    Args:
        painters: What draws the tile of each cell code, from 0.
        background: Color of the empty canvas.
    """

    def __init__(self, painters: Sequence[Painter], background: Color) -> None:
        self._painters = tuple(painters)
        self._background = background
        self.draw = lru_cache(maxsize=8)(self._draw)
        """Return the tiles of a size in pixels, read-only uint8 (K, size, size, 3)."""

    def _draw(self, size: int) -> Image:
        drawn = []
        for paint in self._painters:
            canvas = Canvas(size, size, self._background, unit=size)
            paint(canvas)
            drawn.append(canvas.image())
        tiles = np.stack(drawn)
        tiles.setflags(write=False)
        return tiles

    def render(self, board: NDArray[np.uint8], tile: int = TILE) -> Image:
        """Draw a board.

        Args:
            board: Cell codes of the game, uint8 (H, W).
            tile: Height and width of a cell in pixels.

        Returns:
            A fresh RGB image, uint8 (H * tile, W * tile, 3).
        """
        return compose(self.draw(tile), board)


def compose(tiles: Image, board: NDArray[np.uint8]) -> Image:
    """Lay out tiles by cell code.

    Args:
        tiles: uint8 (K, T, T, 3).
        board: Codes below K, uint8 (H, W).

    Returns:
        A fresh array, uint8 (H*T, W*T, 3).
    """
    count, size = tiles.shape[:2]
    height, width = board.shape
    lines = tiles.reshape(count, size, size * 3)
    picked = lines[board[:, None, :], np.arange(size)[None, :, None]]
    return picked.reshape(height * size, width * size, 3)
