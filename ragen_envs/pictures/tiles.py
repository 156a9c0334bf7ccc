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

    def render(self, board: NDArray[np.uint8]) -> Image:
        """Draw a board of cell codes, uint8 (H, W), as a fresh image, uint8 (H * 48, W * 48, 3)."""
        tiles, (height, width) = self.draw(TILE), board.shape
        lines = tiles.reshape(len(tiles), TILE, TILE * 3)
        picked = lines[board[:, None, :], np.arange(TILE)[None, :, None]]
        return picked.reshape(height * TILE, width * TILE, 3)
