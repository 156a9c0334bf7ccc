"""The cube in words: symbols, rules, the unfolded cube and its faces, and the text form of levels."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from ragen_envs.errors import InstanceError
from ragen_envs.game.claims import MOVE, Claim, made, read_solved, read_steps
from ragen_envs.game.grids import BoardText
from ragen_envs.game.oracle import Budget
from ragen_envs.game.text import Symbols, countdown
from ragen_envs.games.cube.dynamics import ACTION_NAMES, COLORS, FACES, is_solved, turned
from ragen_envs.games.cube.oracle import fewest_turns
from ragen_envs.games.cube.pieces import pieces_of

CELL_NAMES: Final = (*COLORS, "no sticker")
"""Names of the cell codes of the unfolded cube, in their order."""

STANDARD: Final = dict(zip(CELL_NAMES, "WOGRBY.", strict=True))
LETTERS: Final = "WOGRBY"
"""The color codes in the text form of a level."""

_DISTANCE: Final = re.compile(
    r"\bturns to solve(?: it| the cube)?[ \t]*[:=][ \t]*(?P<n>\d{1,4})\b", re.IGNORECASE
)
_LEAVES: Final = r"[\s:]*(?:->|=>|leaves)[\s:]*(?P<n>\d{1,4})(?!\d)"
WIDTH: Final = 8
"""Cells in a row of the unfolded cube, which has 6 rows."""

_EMPTY: Final = len(COLORS)
_CORNERS: Final = ((0, 2), (2, 0), (2, 2), (2, 4), (2, 6), (4, 2))
"""Row and column where each face begins in the unfolded cube."""


class CubeText(BoardText):
    """The text face of the cube."""

    vocabularies: Mapping[str, Symbols] = {"standard": STANDARD}
    cell_names = CELL_NAMES

    def rules(self, env: Any) -> str:
        return (
            "You are solving a 2x2x2 cube: turn its layers until each of the six faces shows a single "
            "color; then the game ends. "
            "Each face has two rows of two stickers. The cube is shown unfolded, every face as seen "
            "from outside: front is in the middle, with up above it, down below it, left and right on "
            "either side, and back to the right of the right face. R+, U+ and F+ turn the right, up "
            "and front layers a quarter turn clockwise, as seen when looking straight at that face; "
            "R-, U- and F- turn them counterclockwise. Rewards: 1 when the cube is solved, 0 otherwise."
        )

    def cells(self, env: Any) -> tuple[bytes, int]:
        return unfolded(env.state), WIDTH

    def coordinates(self, env: Any) -> str:
        lines = ["Each face is listed as in the unfolded cube, upper row, lower row."]
        for number, face in enumerate(FACES):
            a, b, c, d = (COLORS[color] for color in env.state[4 * number : 4 * number + 4])
            lines.append(f"{face}: {a} {b}, {c} {d}")
        return "\n".join(lines)

    def explain(self, env: Any, actions: Sequence[int], budget: Budget) -> str:
        """State the fewest turns that solve the cube, now and after each turn, counted down."""
        state = env.state
        parts = [f"Turns to solve it: {fewest_turns(state)}. {countdown(budget)}"]
        for left, action in zip(range(budget.this_turn, 0, -1), actions, strict=False):
            state = turned(state, action)
            parts.append(f"{left} {ACTION_NAMES[action]} leaves {fewest_turns(state)}.")
        if is_solved(state):
            parts.append("Solved.")
        return " ".join(parts)

    def claims(self, env: Any, thought: str, executed: Sequence[int], names: tuple[str, ...]) -> list[Claim]:
        """Return the claims about the fewest turns, now and after each turn, and "Solved"."""
        state, final, moves = env.state, env.state, list[Claim]()
        for match, action in read_steps(thought, names, _LEAVES):
            state = state if is_solved(state) else turned(state, action)
            left = fewest_turns(state)
            stated = None if match["n"] is None else int(match["n"]) == left
            moves.append(made(MOVE, match, stated, f"{names[action]} leaves {left}", action))
        for action in executed:
            final = final if is_solved(final) else turned(final, action)
        left = fewest_turns(env.state)
        distances = [
            made("distance", match, int(match["n"]) == left, f"turns to solve it: {left}")
            for match in _DISTANCE.finditer(thought)
        ]
        return [*distances, *moves, *read_solved(thought, is_solved(state if moves else final))]


def unfolded(state: bytes) -> bytes:
    """Return the cell codes of the unfolded cube, (6 * 8,), row-major."""
    cells = bytearray([_EMPTY]) * (6 * WIDTH)
    for face, (row, column) in enumerate(_CORNERS):
        first = row * WIDTH + column
        cells[first : first + 2] = state[4 * face : 4 * face + 2]
        cells[first + WIDTH : first + WIDTH + 2] = state[4 * face + 2 : 4 * face + 4]
    return bytes(cells)


def encode_level(state: bytes) -> str:
    """Return the text form of a cube: the letters of each face, row by row, joined by /."""
    letters = "".join(LETTERS[color] for color in state)
    return "/".join(letters[i : i + 4] for i in range(0, 24, 4))


@lru_cache(maxsize=4096)
def decode_level(level: str) -> bytes:
    """Return the state of a level in text form.

    Raises:
        InstanceError: The level is not six faces of four stickers, no sequence of turns solves it, or
            it is already solved.
    """
    faces = level.split("/")
    if [len(face) for face in faces] != [4] * 6 or set("".join(faces)) - set(LETTERS):
        raise InstanceError(
            f"level {level!r} must be six faces ({', '.join(FACES)}), separated by /, each with four of "
            f"the letters {LETTERS}"
        )
    state = bytes(LETTERS.index(letter) for letter in "".join(faces))
    if pieces_of(state) is None:
        raise InstanceError(f"level {level!r} cannot be solved by any sequence of turns")
    if is_solved(state):
        raise InstanceError(f"level {level!r} is solved already")
    return state
