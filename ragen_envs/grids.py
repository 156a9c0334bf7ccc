"""From cell codes to rows of symbols, one board or many, by one table look-up."""

from codecs import charmap_decode
from collections.abc import Callable
from functools import lru_cache
from struct import Struct
from typing import Final

import numpy as np
from numpy.typing import NDArray

_END_OF_ROW: Final = b"\xff"
_END_OF_BOARD: Final = b"\xfe"
_SEPARATOR: Final = "\0"
_UNDEFINED: Final = "\ufffe"
_Cut = Callable[[bytes | bytearray], tuple[bytes, ...]]


def grid_text(cells: bytes | bytearray, width: int, signs: str) -> str:
    """Return a board as text, one line a row.

    Args:
        cells: Cell codes (h*w,), row-major, each an index into ``signs``.
        width: Cells in a row, at least 1.
        signs: The symbol of each cell code.
    """
    cut, table = _plan(len(cells), width, signs)
    return charmap_decode(_END_OF_ROW.join(cut(cells)), "strict", table)[0]


def grid_texts(boards: NDArray[np.uint8], signs: str) -> list[str]:
    """Return ``grid_text`` of each of the boards, (n, h, w)."""
    count, height, width = boards.shape
    rows = np.empty((count, height, width + 1), np.uint8)
    rows[:, :, :width] = boards
    rows[:, :, width] = ord(_END_OF_ROW)
    rows[:, -1, width] = ord(_END_OF_BOARD)
    texts = charmap_decode(rows.data, "strict", _table(signs))[0].split(_SEPARATOR)
    texts.pop()
    return texts


@lru_cache(maxsize=256)
def _table(signs: str) -> str:
    """Return the sign of each code from 0 to 255; a table of this length decodes fastest."""
    return signs.ljust(ord(_END_OF_BOARD), _UNDEFINED) + _SEPARATOR + "\n"


@lru_cache(maxsize=1024)
def _plan(size: int, width: int, signs: str) -> tuple[_Cut, str]:
    """Return what cuts a board into its rows, and the table."""
    return Struct(f"{width}s" * (size // width)).unpack, _table(signs)
