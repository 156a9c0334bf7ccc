"""The seats' numbers on a board's picture."""

from collections.abc import Mapping

from ragen_envs import drawing as d
from ragen_envs.drawing_font import write
from ragen_envs.tiles import TILE


def number_players(picture: d.Image, cells: Mapping[int, int], width: int) -> d.Image:
    """Write each seat's number into the corner of its cell, in place, and return the picture.

    Args:
        picture: A board's RGB image, uint8 (h * 48, w * 48, 3).
        cells: Index of the cell of each seat; several seats may share one.
        width: Cells in a row.
    """
    corners: dict[int, int] = {}
    for seat, cell in cells.items():
        row, column = divmod(cell, width)
        shift = corners.get(cell, 0)
        corners[cell] = shift + 12
        write(picture, str(seat), column * TILE + 9 + shift, row * TILE + 10, 2, d.CORAL_DARK)
    return picture
