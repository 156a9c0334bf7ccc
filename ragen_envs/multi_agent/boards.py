"""Places on a board in words: what the text faces of the board games share."""

from collections.abc import Sequence

from ragen_envs.game.errors import InstanceError


def seats_of(cells: Sequence[int], seat: int) -> dict[str, list[int]]:
    """Return the place of each player as one of them names them."""
    others = {f"player_{i}": [cell] for i, cell in enumerate(cells) if i != seat}
    return {"you": [cells[seat]], **others}


def encode_places(cells: Sequence[int], width: int) -> list[str]:
    """Return the text form of cells: row:column each."""
    return [f"{cell // width}:{cell % width}" for cell in cells]


def decode_places(places: Sequence[str], height: int, width: int) -> list[int]:
    """Return the indices of cells in text form.

    Raises:
        InstanceError: One is not row:column on the board, or is there twice.
    """
    cells = []
    for place in places:
        row, _, column = place.partition(":")
        if not (
            row.isdecimal() and column.isdecimal() and int(row) < height and int(column) < width
        ):
            raise InstanceError(
                f"place {place!r} must be row:column on a board of {height}x{width}"
            )
        cells.append(int(row) * width + int(column))
    if len(set(cells)) < len(cells):
        raise InstanceError(f"places {' '.join(places)} must differ")
    return cells
