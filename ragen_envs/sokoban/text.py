"""Sokoban in words: symbols, rules, board and coordinates, and the text form of levels."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final

from ragen_envs.errors import InstanceError
from ragen_envs.grids import grid_text
from ragen_envs.sokoban.dynamics import (
    ACTION_NAMES,
    BOX,
    BOX_ON_TARGET,
    PLAYER,
    PLAYER_ON_TARGET,
    TARGET,
    WALL,
)  # fmt: skip
from ragen_envs.text import BOTH, COORDINATES, Symbols

MAX_SIDE: Final = 32
"""Most rows and columns of a level."""

CELL_NAMES: Final = (
    "wall", "empty", "target", "box on target", "box", "player", "player on target",
)  # fmt: skip
"""Names of the cell codes, in their order."""

STANDARD: Final = dict(zip(CELL_NAMES, "#_O√XPS", strict=True))
NEW_VOCAB: Final = dict(zip(CELL_NAMES, "W.GCBA@", strict=True))

_IN_ORDER: Final = itemgetter(*CELL_NAMES)
_DECODE: Final = bytes.maketrans(b"#_O+XPS", bytes(range(7)))


class SokobanText:
    """The text face of Sokoban."""

    vocabularies: Mapping[str, Symbols] = {"standard": STANDARD, "new_vocab": NEW_VOCAB}

    def rules(self, env: Any) -> str:
        """Return the goal, the rules and the rewards."""
        reward = env.reward
        text = (
            "You play Sokoban. Push every box onto a target. Walking into a box pushes it, if the "
            "cell behind it is free. Boxes cannot be pulled. "
            f"Rewards: {reward.per_action:g} for each action, {reward.box_on:g} for a box pushed "
            f"onto a target, {reward.box_off:g} for a box pushed off a target, "
            f"{reward.solved:g} when all boxes are on targets."
        )
        if reward.closer:
            text += f" A box pushed nearer to a target gives {reward.closer:g} for each cell."
        return text

    def legend(self, symbols: Symbols) -> str:
        """Return one line that explains the symbols."""
        return ", ".join(f"{symbols[name]} {name}" for name in CELL_NAMES)

    def actions(self, env: Any) -> tuple[str, ...]:  # noqa: ARG002
        """Return the names of the four directions."""
        return ACTION_NAMES

    def observation(self, env: Any, form: str, symbols: Symbols) -> str:
        """Return the board, its coordinates, or both."""
        if form == COORDINATES:
            return _coordinates(env.board.tolist())
        grid = grid_text(env.cells, env.width, signs_of(symbols))
        return f"{grid}\n{_coordinates(env.board.tolist())}" if form == BOTH else grid


def signs_of(symbols: Symbols) -> str:
    """Return the symbol of each cell code, in their order."""
    return "".join(_IN_ORDER(symbols))


def _coordinates(board: Sequence[Sequence[int]]) -> str:
    """Return the places of everything but empty floor as (row, column), counted from 0."""
    found: dict[str, list[str]] = {"player": [], "box": [], "target": [], "wall": []}
    for r, row in enumerate(board):
        for c, cell in enumerate(row):
            place = f"({r}, {c})"
            if cell >= PLAYER:
                found["player"].append(place)
            if cell in (BOX, BOX_ON_TARGET):
                found["box"].append(place)
            if cell in (TARGET, BOX_ON_TARGET, PLAYER_ON_TARGET):
                found["target"].append(place)
            if cell == WALL and 0 < r < len(board) - 1 and 0 < c < len(row) - 1:
                found["wall"].append(place)
    size = f"size {len(board)} x {len(board[0])}, rows and columns from 0, walls all around"
    lines = [f"{name}: {', '.join(places) or 'none'}" for name, places in found.items()]
    return "\n".join([size, *lines])


def encode_level(board: bytes | bytearray, width: int) -> str:
    """Return the text form of a board: rows of ``#_O+XPS`` (+ is a box on a target), joined by /."""
    text = "".join("#_O+XPS"[cell] for cell in board)
    return "/".join(text[i : i + width] for i in range(0, len(text), width))


def decode_level(level: str) -> tuple[bytearray, int, int]:
    """Return cell codes (h*w,), height and width of a level in text form; √ may stand for +.

    Raises:
        InstanceError: Rows differ in length or are too many, the border is not wall, the pieces do
            not make a level, or it is solved already.
    """
    board, height, width = _decoded(level)
    return bytearray(board), height, width


@lru_cache(maxsize=4096)
def _decoded(level: str) -> tuple[bytes, int, int]:
    rows = level.replace("√", "+").split("/")
    height, width = len(rows), len(rows[0])
    if not width or any(len(row) != width for row in rows) or set("".join(rows)) - set("#_O+XPS"):
        raise InstanceError(f"level {level!r} must be rows of equal length of the symbols #_O√XPS")
    board = "".join(rows).encode().translate(_DECODE)
    if max(height, width) > MAX_SIDE:
        raise InstanceError(f"level {level!r} is {height}x{width}, but at most {MAX_SIDE} a side")
    border = [*rows[0], *rows[-1], *(row[0] + row[-1] for row in rows)]
    if set("".join(border)) != {"#"}:
        raise InstanceError(f"level {level!r} must be bordered by walls (#)")
    boxes = board.count(BOX) + board.count(BOX_ON_TARGET)
    targets = board.count(TARGET) + board.count(BOX_ON_TARGET) + board.count(PLAYER_ON_TARGET)
    players = board.count(PLAYER) + board.count(PLAYER_ON_TARGET)
    if players != 1 or boxes != targets or boxes == 0:
        raise InstanceError(
            f"level {level!r} has {players} players, {boxes} boxes and {targets} targets, but needs "
            "one player and as many boxes as targets, at least one"
        )
    if not board.count(BOX):
        raise InstanceError(f"level {level!r} is solved already")
    return board, height, width
