"""The rules of Minesweeper on 5x5 cells, as sets of cells in the bits of an integer."""

from functools import lru_cache
from typing import Final

from ragen_envs.game.places import read_place
from ragen_envs.game.word_game import LEGAL, Legality, illegal, quoted

SIDE: Final = 5
CELLS: Final = 25
ALL: Final = (1 << CELLS) - 1

Cells = int
"""A set of cells: bit i for cell i, row by row."""


def _around(cell: int) -> Cells:
    y, x = divmod(cell, SIDE)
    near = [
        row * SIDE + column
        for row in range(max(0, y - 1), min(SIDE, y + 2))
        for column in range(max(0, x - 1), min(SIDE, x + 2))
    ]
    return sum(1 << other for other in near if other != cell)


AROUND: Final = tuple(map(_around, range(CELLS)))
"""The neighbors of each cell."""


def members(cells: Cells) -> list[int]:
    """Return the cells of a set, in ascending order."""
    numbers = []
    while cells:
        low = cells & -cells
        numbers.append(low.bit_length() - 1)
        cells ^= low
    return numbers


def number(mines: Cells, cell: int) -> int:
    """Count the neighbors of a cell that have a mine."""
    return (mines & AROUND[cell]).bit_count()


@lru_cache(maxsize=1 << 16)
def opened_by(mines: Cells, cell: int) -> Cells:
    """Return the cells that opening a safe cell opens: around a 0, all neighbors, and so on."""
    opened, border = 0, 1 << cell
    while border:
        opened |= border
        following = 0
        for each in members(border):
            if not mines & AROUND[each]:
                following |= AROUND[each]
        border = following & ~opened
    return opened


def cell_of(action: str) -> int | None:
    """Return the cell that an action opens, or None if it names none."""
    words = action.strip()
    if words[:5].casefold() == "open ":
        words = words[5:]
    return read_place(words, SIDE, SIDE)


def legality(action: str) -> Legality:
    """Return whether an action names a cell; opening an open one does nothing."""
    if cell_of(action) is None:
        return illegal(f"{quoted(action)} is not a cell of the board, such as r2c3")
    return LEGAL
