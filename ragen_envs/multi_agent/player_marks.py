"""The seats' numbers on a board's picture."""

from collections.abc import Mapping
from typing import Final

from ragen_envs.pictures import drawing as d
from ragen_envs.pictures.font import write
from ragen_envs.pictures.tiles import TILE

_IN_A_ROW: Final = 3
"""Numbers that fit beside each other in a cell, which has room for three rows."""


def number_players(picture: d.Image, cells: Mapping[int, int], width: int) -> d.Image:
    """Write each seat's number into its cell, from the corner on, in place, and return the picture.

    Args:
        picture: A board's RGB image, uint8 (h * 48, w * 48, 3).
        cells: Index of the cell of each seat, a digit; up to nine seats may share one.
        width: Cells in a row.
    """
    marked: dict[int, int] = {}
    for seat, cell in cells.items():
        row, column = divmod(cell, width)
        line, place = divmod(marked.get(cell, 0), _IN_A_ROW)
        marked[cell] = marked.get(cell, 0) + 1
        x, y = column * TILE + 9 + 12 * place, row * TILE + 10 + 14 * line
        write(picture, str(seat), x, y, 2, d.CORAL_DARK)
    return picture
