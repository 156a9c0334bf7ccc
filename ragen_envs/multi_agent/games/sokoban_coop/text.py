"""Write cooperative Sokoban in words: symbols, rules, board and coordinates."""

from collections.abc import Mapping
from typing import Any, Final

from ragen_envs.errors import InstanceError
from ragen_envs.game.grids import cells_with, places_text, rewards_text
from ragen_envs.game.text import Symbols
from ragen_envs.games.sokoban.dynamics import FLOOR, PLAYER, REWARDS, TARGET
from ragen_envs.games.sokoban.text import CELL_NAMES as SINGLE
from ragen_envs.games.sokoban.text import PIECES, UNLISTED, goal_of, inner_walls, reward_terms
from ragen_envs.games.sokoban.text import STANDARD as SINGLE_SYMBOLS
from ragen_envs.games.sokoban.text import decode_level as decode_board
from ragen_envs.games.sokoban.text import encode_level as encode_board
from ragen_envs.multi_agent.board import SeatBoardText, decode_places, encode_places, seats_of

OTHER: Final = 2
"""Difference between the codes of another mover's cell and of one's own."""

CELL_NAMES: Final = (*SINGLE, "other player", "other player on target")
"""Names of the cell codes as one seat sees them, in their order."""

STANDARD: Final = {**SINGLE_SYMBOLS, "other player": "A", "other player on target": "B"}

_STANDING: Final = {"_": "P", "O": "S"}
_REWARD: Final = REWARDS["dense"]


class SokobanCoopText(SeatBoardText):
    """The text face of cooperative Sokoban."""

    vocabularies: Mapping[str, Symbols] = {"standard": STANDARD}
    cell_names = CELL_NAMES

    def rules(self, env: Any) -> str:
        game = env.game
        goal, solved = goal_of(game.boxes, game.targets)
        return (
            f"You are player_{env.seat} of {game.players} playing Sokoban together. {goal}; then the "
            "game ends. Each turn, all players choose an action at the same "
            "time and then move one cell each, one after the other in the order of their numbers, player_0 "
            "first. Moving into a box pushes it if the cell behind it is free (no wall, box or player); you "
            "cannot pull boxes or enter a player's cell. A blocked move changes nothing. "
            "Stay, or a reply without a valid action, leaves you where you are. All players get the "
            f"same reward. {rewards_text(reward_terms(_REWARD, 'turn, even if nobody moves', solved))}"
        )

    def coordinates(self, env: Any) -> str:
        game = env.game
        places = seats_of(game.movers, env.seat)
        places |= {name: cells_with(game.board, *PIECES[name]) for name in ("box", "target")}
        places["wall"] = inner_walls(game.board, game.height, game.width)
        return places_text(places, game.height, game.width, UNLISTED)


def encode_level(board: bytes | bytearray, movers: tuple[int, ...], width: int) -> str:
    """Return the text form: Sokoban's without players, then each mover's row:column, by seat."""
    empty = bytes(code - PLAYER + FLOOR if code >= PLAYER else code for code in board)
    return " ".join([encode_board(empty, width), *encode_places(movers, width)])


def decode_level(level: str) -> tuple[bytearray, tuple[int, ...], int]:
    """Return board (h*w,), the movers' indices and the width of a level in text form.

    Raises:
        InstanceError: It is not the text form of a level.
    """
    rows, *places = level.split(" ")
    width = len(rows.partition("/")[0])
    if not places or not width:
        raise InstanceError(f"level {level!r} must be a board, then row:column of each mover")
    movers = decode_places(places, rows.count("/") + 1, width)
    if set(rows) & set(_STANDING.values()):
        raise InstanceError(f"level {level!r} must have its movers after the board, not on it")
    signs = list(rows)
    first = movers[0] + movers[0] // width  # the rows are joined by /
    if first < len(signs) and signs[first] in _STANDING:
        signs[first] = _STANDING[signs[first]]
    elif {len(row) for row in rows.split("/")} == {width}:
        raise _not_standing(level)
    cells, _, width = decode_board("".join(signs))
    board = bytearray(cells)
    for mover in movers[1:]:
        if board[mover] not in (FLOOR, TARGET):
            raise _not_standing(level)
        board[mover] += PLAYER - FLOOR
    return board, tuple(movers), width


def _not_standing(level: str) -> InstanceError:
    return InstanceError(f"level {level!r} must have its movers on floor or targets")
