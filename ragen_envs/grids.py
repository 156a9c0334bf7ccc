"""From cell codes to rows of symbols, one board or many, by one table look-up."""

from codecs import charmap_decode
from collections.abc import Callable
from functools import lru_cache
from struct import Struct
from typing import Final

import numpy as np
from numpy.typing import NDArray

_END_OF_ROW: Final = b"\xff"
_UNDEFINED: Final = "\ufffe"


def grid_text(cells: bytes | bytearray, width: int, signs: str) -> str:
    """Return a board as text, one line a row.

    Args:
        cells: Cell codes (h*w,), row-major, each an index into ``signs``.
        width: Cells in a row, at least 1.
        signs: The symbol of each cell code.
    """
    rows = _cut(len(cells) // width, width)(cells)
    return charmap_decode(_END_OF_ROW.join(rows), "strict", _table(signs))[0]


def grid_texts(boards: NDArray[np.uint8], signs: str) -> list[str]:
    """Return ``grid_text`` of each of the boards, (n, h, w)."""
    count, height, width = boards.shape
    rows = np.full((count, height, width + 1), ord(_END_OF_ROW), np.uint8)
    rows[:, :, :width] = boards
    text = charmap_decode(rows.data, "strict", _table(signs))[0]
    size = height * (width + 1)
    return [text[first : first + size - 1] for first in range(0, len(text), size)]


@lru_cache(maxsize=256)
def _table(signs: str) -> str:
    """Return the sign of each code from 0 to 255; a table of this length decodes fastest."""
    return signs.ljust(ord(_END_OF_ROW), _UNDEFINED) + "\n"


@lru_cache(maxsize=1024)
def _cut(height: int, width: int) -> Callable[[bytes | bytearray], tuple[bytes, ...]]:
    """Return what cuts a board into its rows."""
    return Struct(f"{width}s" * height).unpack
