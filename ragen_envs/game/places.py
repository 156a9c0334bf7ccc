"""Cells as words: ``r2c3`` is row 2, column 3, counted from 1 at the top left."""

import re
from typing import Final

PLACE: Final = r"r(?:ow)?\s*([0-9]{1,2})\s*,?\s*c(?:ol(?:umn)?)?\s*([0-9]{1,2})"
"""A pattern of a cell, whatever its case: two groups, the row and the column."""

_PLACE: Final = re.compile(PLACE, re.IGNORECASE)


def place_name(cell: int, width: int) -> str:
    """Return the name of a cell, counted row by row from 0."""
    return f"r{cell // width + 1}c{cell % width + 1}"


def cell_of(row: str, column: str, height: int, width: int) -> int | None:
    """Return the cell of a row and a column as written, or None outside the board."""
    y, x = int(row) - 1, int(column) - 1
    return y * width + x if 0 <= y < height and 0 <= x < width else None


def read_place(text: str, height: int, width: int) -> int | None:
    """Return the cell that a text names, or None if it names none on the board."""
    match = _PLACE.fullmatch(text.strip())
    return None if match is None else cell_of(match[1], match[2], height, width)
