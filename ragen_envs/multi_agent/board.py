"""Share what multi-agent games on a board have: a seat's view in numbers, words and pictures."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ragen_envs.errors import InstanceError
from ragen_envs.game.grids import BoardText
from ragen_envs.multi_agent.base import MultiAgentEnv
from ragen_envs.pictures.drawing import CORAL_DARK
from ragen_envs.pictures.font import write
from ragen_envs.pictures.tiles import TILE, TileSet

_MARKS_IN_A_ROW: Final = 3
"""Numbers that fit beside each other in a cell, which has room for three rows."""


class SeatBoardText(BoardText):
    """Base of the text faces: the board as a seat sees it."""

    def cells(self, env: Any) -> tuple[bytearray, int]:
        """Return the cell codes as the seat sees them, and the width of the board."""
        return env.game.cells_of(env.seat), env.game.width


class MultiAgentBoardEnv(MultiAgentEnv):
    """Base of the games: each seat observes cell codes of its own, (height, width)."""

    metadata: dict[str, Any] = {
        "render_modes": ["human", "ansi", "rgb_array"],
        "is_parallelizable": True,
        "render_fps": 4,
    }
    text: ClassVar[SeatBoardText]
    height: int
    width: int

    @abstractmethod
    def cells_of(self, seat: int) -> bytearray:
        """Return the cell codes as a seat sees them, (h*w,), a copy."""

    def _set_board_spaces(self) -> None:
        highest = len(self.text.cell_names) - 1
        space = spaces.Box(0, highest, (self.height, self.width), np.uint8)
        self._set_spaces(space, len(self.names))

    def observe(self, seat: int) -> NDArray[np.uint8]:
        """Return the cell codes as the seat sees them, (height, width)."""
        return np.frombuffer(self.cells_of(seat), np.uint8).reshape(self.height, self.width).copy()

    def _draw_players(
        self, tiles: TileSet, board: bytes | bytearray, players: Sequence[int]
    ) -> NDArray[np.uint8]:
        """Draw a board with the number of each seat in its cell; up to nine seats may share one."""
        picture = tiles.render(np.frombuffer(bytes(board), np.uint8).reshape(self.height, self.width))
        for seat, cell in enumerate(players):
            row, column = divmod(cell, self.width)
            line, place = divmod(players[:seat].count(cell), _MARKS_IN_A_ROW)
            x, y = column * TILE + 9 + 12 * place, row * TILE + 10 + 14 * line
            write(picture, str(seat), x, y, 2, CORAL_DARK)
        return picture


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
        InstanceError: One is not row:column on the board, or two are equal.
    """
    cells = []
    for place in places:
        row, _, column = place.partition(":")
        if not (row.isdecimal() and column.isdecimal() and int(row) < height and int(column) < width):
            raise InstanceError(f"place {place!r} must be row:column on a board of {height}x{width}")
        cells.append(int(row) * width + int(column))
    if len(set(cells)) < len(cells):
        raise InstanceError(f"places {' '.join(places)} must differ")
    return cells
