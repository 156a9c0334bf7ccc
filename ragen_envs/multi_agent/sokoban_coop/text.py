"""Cooperative Sokoban in words: symbols, rules, board and coordinates."""

from collections.abc import Mapping
from typing import Any, Final

from ragen_envs.errors import InstanceError
from ragen_envs.grids import grid_text
from ragen_envs.multi_agent.sokoban_coop.dynamics import ACTION_NAMES
from ragen_envs.sokoban.dynamics import BOX, PLAYER, REWARDS
from ragen_envs.sokoban.text import CELL_NAMES as SINGLE
from ragen_envs.sokoban.text import STANDARD as SINGLE_SYMBOLS
from ragen_envs.text import BOTH, COORDINATES, Symbols

OTHER: Final = 2
"""What the code of another mover's cell is above that of one's own."""

CELL_NAMES: Final = (*SINGLE, "other player", "other player on target")
"""Names of the cell codes as one seat sees them, in their order."""

STANDARD: Final = {**SINGLE_SYMBOLS, "other player": "A", "other player on target": "B"}

_SIGNS: Final = "#_O+X"
_REWARD: Final = REWARDS["dense"]


class SokobanCoopText:
    """The text face of cooperative Sokoban."""

    vocabularies: Mapping[str, Symbols] = {"standard": STANDARD}

    def rules(self, env: Any) -> str:
        """Return the goal, the rules and the rewards."""
        game = env.game
        return (
            f"You are player_{env.seat} of {game.players} players who play Sokoban together. Push "
            "every box onto a target. Walking into a box pushes it, if the cell behind it is free. "
            "Boxes cannot be pulled, players cannot be pushed or walked through. In each round all "
            "players choose at the same time, and then move one after the other, player_0 first. "
            f"Rewards, the same for all: {_REWARD.per_action:g} for each round, {_REWARD.box_on:g} "
            f"for a box pushed onto a target, {_REWARD.box_off:g} for a box pushed off a target, "
            f"{_REWARD.solved:g} when all boxes are on targets."
        )

    def legend(self, symbols: Symbols) -> str:
        """Return one line that explains the symbols."""
        return ", ".join(f"{symbols[name]} {name}" for name in CELL_NAMES)

    def actions(self, env: Any) -> tuple[str, ...]:  # noqa: ARG002
        """Return the names of the four directions and of staying."""
        return ACTION_NAMES

    def observation(self, env: Any, form: str, symbols: Symbols) -> str:
        """Return the board as the seat sees it, its coordinates, or both."""
        game = env.game
        signs = "".join(symbols[name] for name in CELL_NAMES)
        grid = grid_text(game.cells_of(env.seat), game.width, signs)
        if form not in (COORDINATES, BOTH):
            return grid
        places = _coordinates(game, env.seat)
        return f"{grid}\n{places}" if form == BOTH else places


def _coordinates(game: Any, seat: int) -> str:
    """Return the places of everything but empty floor as (row, column), counted from 0."""
    names = {"you": [game.movers[seat]]}
    names |= {f"player_{i}": [cell] for i, cell in enumerate(game.movers) if i != seat}
    codes = {"box": (BOX, 3), "target": (2, 3, 6), "wall": (0,)}
    for name, wanted in codes.items():
        names[name] = [cell for cell, code in enumerate(game.board) if code in wanted]
    lines = [f"size {game.height} x {game.width}, rows and columns from 0"]
    for name, cells in names.items():
        places = ", ".join(f"({cell // game.width}, {cell % game.width})" for cell in cells)
        lines.append(f"{name}: {places or 'none'}")
    return "\n".join(lines)


def encode_level(board: bytes | bytearray, movers: tuple[int, ...], width: int) -> str:
    """Return the text form: rows of ``#_O+X`` joined by /, then each mover's row:column, by seat."""
    text = "".join(_SIGNS[code - 4 if code >= PLAYER else code] for code in board)
    rows = [text[i : i + width] for i in range(0, len(text), width)]
    return " ".join(["/".join(rows), *(f"{cell // width}:{cell % width}" for cell in movers)])


def decode_level(level: str) -> tuple[bytearray, tuple[int, ...], int]:
    """Return board (h*w,), the movers' indices and the width of a level in text form.

    Raises:
        InstanceError: It is not the text form of a level.
    """
    try:
        rows, *places = level.split(" ")
        width = rows.index("/")
        board = bytearray(_SIGNS.index(sign) for sign in rows.replace("/", ""))
        movers = tuple(int(r) * width + int(c) for r, c in (place.split(":") for place in places))
        for mover in movers:
            board[mover] += 4
        if len(board) % width or not movers or max(board) > PLAYER + 1:
            raise ValueError
    except (ValueError, IndexError):
        raise InstanceError(
            f"level {level!r} must be rows of #_O+X joined by /, then row:column of each mover"
        ) from None
    return board, movers, width
