"""Boards in words: rows of symbols, by one table look-up, and the places of things."""

from abc import ABC, abstractmethod
from codecs import charmap_decode
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from struct import Struct
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from ragen_envs.errors import RagenError
from ragen_envs.game.arguments import read_count
from ragen_envs.game.text import COORDINATES, GRID, OwnText, Symbols

_END_OF_ROW: Final = b"\xff"
_END_OF_BOARD: Final = b"\xfe"
_SEPARATOR: Final = "\0"
_UNDEFINED: Final = "\ufffe"
_Write = Callable[[bytes | bytearray], str]


class BoardText(OwnText, ABC):
    """Base of the text faces of games on a board: the legend and the forms of the state."""

    cell_names: ClassVar[tuple[str, ...]]
    """Names of the cell codes, in their order."""
    _last: tuple[Symbols, int, int, _Write] = {}, 0, 0, str
    """Symbols, size and width of the last board, and what writes such boards."""

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without what writes boards, which cannot be pickled."""
        return {name: value for name, value in self.__dict__.items() if name != "_last"}

    def legend(self, symbols: Symbols) -> str:
        """Return one line that explains the symbols."""
        return ", ".join(f"{symbols[name]} {name}" for name in self.cell_names)

    def observation(self, env: Any, form: str, symbols: Symbols) -> str:
        """Return the board, its coordinates, or both."""
        cells, width = self.cells(env)
        known, size, row, write = self._last
        if known is not symbols or size != len(cells) or row != width:
            write = _writer(len(cells), width, signs_of(symbols, self.cell_names))
            self._last = symbols, len(cells), width, write
        if form == GRID:
            return write(cells)
        places = self.coordinates(env)
        return places if form == COORDINATES else f"{write(cells)}\n{places}"

    @abstractmethod
    def cells(self, env: Any) -> tuple[bytes | bytearray, int]:
        """Return the cell codes to show, row-major, and how many there are in a row."""

    @abstractmethod
    def coordinates(self, env: Any) -> str:
        """Return the state in words that need no symbols."""


def padded(board: NDArray[np.uint8], shape: tuple[int, int], fill: int) -> NDArray[np.uint8]:
    """Return a board of a shape that begins with the given one and has a cell code elsewhere."""
    larger = np.full(shape, fill, np.uint8)
    larger[: board.shape[0], : board.shape[1]] = board
    return larger


def oriented(level: str, orientation: int) -> str:
    """Return a level, rows joined by /, as one of its eight rotations and reflections.

    Args:
        level: The level in text form.
        orientation: From 0 to 7: modulo 4 the quarter turns counter-clockwise, which are mirrored left to
            right from 4 on.
    """
    rows = level.split("/")
    for _ in range(orientation & 3):
        rows = ["".join(column) for column in zip(*rows, strict=True)][::-1]
    return "/".join(row[::-1] if orientation & 4 else row for row in rows)


def read_orientation(orientation: Any, height: int, width: int, own_levels: bool) -> int:
    """Return an orientation; sides are those of levels, which must be square if they are drawn.

    Raises:
        RagenError: It is no number from 0 to 7, or would change the sides of drawn levels.
    """
    if read_count("orientation", orientation, 0, 7) & 1 and height != width and not own_levels:
        raise RagenError(f"orientation is {orientation}, but only square levels can make quarter turns")
    return int(orientation)


def signs_of(symbols: Symbols, cell_names: Sequence[str]) -> str:
    """Return the symbol of each cell code, in their order."""
    return "".join(map(symbols.__getitem__, cell_names))


def places_text(places: Mapping[str, Sequence[int]], height: int, width: int, note: str) -> str:
    """Return the places of things as (row, column), counted from 0, one line for each kind.

    Places are indices of cells; the note is a sentence about the cells that are not listed.
    """
    lines = [
        f"The board has {height} rows and {width} columns. Positions are (row, column), with row 0 at "
        f"the top and column 0 at the left. {note}"
    ]
    for name, cells in places.items():
        words = ", ".join(f"({cell // width}, {cell % width})" for cell in cells)
        lines.append(f"{name}: {words or 'none'}")
    return "\n".join(lines)


def rows_text(cells: bytes, width: int, names: Sequence[str]) -> str:
    """Return the names of cell codes (h*w,), one line for each row, counted from 1."""
    rows = [cells[first : first + width] for first in range(0, len(cells), width)]
    return "\n".join(
        f"row {number}: {', '.join(names[code] for code in row)}" for number, row in enumerate(rows, 1)
    )


def rewards_text(terms: Sequence[tuple[float, str]]) -> str:
    """Return the sentence about the rewards; terms of 0 are left out.

    Args:
        terms: Each amount, and what it is paid for.
    """
    paid = ", ".join(f"{amount:.10g} {reason}" for amount, reason in terms if amount)
    return f"Rewards: {paid or 'none'}."


def cells_with(board: Iterable[int], *codes: int) -> list[int]:
    """Return the cells of a board, (h*w,), that have one of some codes."""
    return [cell for cell, code in enumerate(board) if code in codes]


def grid_texts(boards: NDArray[np.uint8], signs: str) -> list[str]:
    """Return boards as texts, one line a row.

    Args:
        boards: Cell codes (n, h, w), each an index into ``signs``.
        signs: The symbol of each cell code.
    """
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
def _writer(size: int, width: int, signs: str) -> _Write:
    """Return a function that writes boards of a size."""
    cut, table = Struct(f"{width}s" * (size // width)).unpack, _table(signs)
    return lambda cells: charmap_decode(_END_OF_ROW.join(cut(cells)), "strict", table)[0]
