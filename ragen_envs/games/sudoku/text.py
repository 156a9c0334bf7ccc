"""Sudoku in words: symbols, rules, the grid, and the text form of levels."""

import re
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final

from ragen_envs.errors import InstanceError
from ragen_envs.game.claims import MOVE, Claim
from ragen_envs.game.grids import BoardText, rows_text
from ragen_envs.game.oracle import Budget
from ragen_envs.game.places import PLACE, place_name, read_place
from ragen_envs.game.text import Symbols
from ragen_envs.games.sudoku.dynamics import (
    CELLS,
    DIGITS,
    SIDE,
    UNITS,
    Grid,
    Placement,
    placed,
    read_placement,
    solutions,
)

CELL_NAMES: Final = ("empty", "one", "two", "three", "four")
"""Names of the cell codes, in their order."""
_DIGITS: Final = r"(?:none|nothing|\d(?:(?:\s*,\s*|\s+)(?:and\s+)?\d)*\b)"
_CLAIM: Final = re.compile(
    rf"(?P<cell>{PLACE})(?:\s+sees\s+(?P<seen>{_DIGITS}))?(?:(?:\s|,)*(?:so it is|must be|is|=)\s*"
    r"(?P<digit>\d)\b(?!\s*(?:,?\s*or\b|,|/)\s*\d))?",
    re.IGNORECASE,
)


class SudokuText(BoardText):
    """The text face of Sudoku."""

    vocabularies: Mapping[str, Symbols] = {"standard": dict(zip(CELL_NAMES, "_1234", strict=True))}
    cell_names = CELL_NAMES

    def legend(self, symbols: Symbols) -> str:
        digits = [symbols[name] for name in CELL_NAMES[1:]]
        if digits != ["1", "2", "3", "4"]:
            return super().legend(symbols)
        return f"{symbols['empty']} empty cell, {' '.join(digits)} digits"

    def rules(self, env: Any) -> str:
        return (
            "You are solving a 4x4 Sudoku: fill the empty cells so that every row, every column and "
            "every 2x2 box in a corner holds each of the digits 1, 2, 3 and 4 once. There is one "
            "solution. Each action places a digit: r1c2 = 3 places a 3 in row 1, column 2, counted "
            "from 1 at the top left. A digit that its row, column or box already has is not accepted. "
            "Any other digit stays, even if it is wrong. The game ends when no digit can be placed. "
            "Rewards: 1 when the grid is solved, 0 otherwise."
        )

    def cells(self, env: Any) -> tuple[bytes, int]:
        return env.grid, SIDE

    def coordinates(self, env: Any) -> str:
        return rows_text(env.grid, SIDE, ["empty", "1", "2", "3", "4"])

    def explain(self, env: Any, actions: Sequence[str], budget: Budget) -> str:
        """State which digits the row, the column and the box of each cell have."""
        grid, parts = env.grid, []
        for action in actions:
            placement = read_placement(action)
            assert placement is not None
            assert placement.cell is not None
            seen = {grid[other] for _, line in UNITS[placement.cell] for other in line} - {0}
            known = " ".join(map(str, sorted(seen))) or "nothing"
            is_certain = set(DIGITS) - seen == {placement.digit}
            verb = "so it is" if is_certain else "I try"
            parts.append(f"{place_name(placement.cell, SIDE)} sees {known}, {verb} {placement.digit}.")
            grid = placed(grid, placement)
        return " ".join(parts)

    def claims(self, env: Any, thought: str, executed: Sequence[str], names: tuple[str, ...]) -> list[Claim]:
        """Return the claims about what cells see, and which digit a cell must hold."""
        grid, answer, claims = env.grid, next(solutions(env.grid), None), list[Claim]()
        actions = {read_placement(action): action for action in executed}
        for match in _CLAIM.finditer(thought):
            cell = read_place(match["cell"], SIDE, SIDE)
            if cell is None:
                continue
            if match["seen"]:
                seen = {grid[other] for _, line in UNITS[cell] for other in line} - {0}
                claims.append(
                    Claim(
                        "cell", match.start(), match.end("seen"),
                        thought[match.start() : match.end("seen")], _read(match["seen"]) == seen,
                        f"{place_name(cell, SIDE)} sees {_words(seen)}",
                    )
                )  # fmt: skip
            if match["digit"]:
                placement = Placement(cell, int(match["digit"]))
                start = match.end("seen") if match["seen"] else match.start()
                action, digit = actions.get(placement, str(placement)), answer and answer[cell]
                fact = f"{place_name(cell, SIDE)} is {digit}" if digit else "it has no solution"
                true = digit == placement.digit
                text = thought[start : match.end()]
                claims.append(Claim(MOVE, start, match.end(), text, true, fact, action))
                grid = placed(grid, placement)
        return claims


def _read(digits: str) -> set[int]:
    return {*map(int, re.findall(r"\d", digits))}


def _words(digits: set[int]) -> str:
    return " ".join(map(str, sorted(digits))) or "none"


def encode_level(grid: Grid) -> str:
    """Return the text form of a puzzle: its rows, joined by /, with _ for empty cells."""
    signs = "".join(map("_1234".__getitem__, grid))
    return "/".join(signs[i : i + SIDE] for i in range(0, CELLS, SIDE))


def decode_level(level: str) -> Grid:
    """Return the puzzle of a level in text form.

    Raises:
        InstanceError: It is not four rows of four of ``_1234``, is filled, or does not have one solution.
    """
    rows = level.split("/")
    if [len(row) for row in rows] != [SIDE] * SIDE or set("".join(rows)) - set("_1234"):
        raise InstanceError(f"level {level!r} must be four rows of four of _1234, separated by /")
    grid = bytes("_1234".index(sign) for sign in "".join(rows))
    if 0 not in grid or _contradicts(grid) or len(list(islice(solutions(grid), 2))) != 1:
        raise InstanceError(f"level {level!r} must have empty cells and exactly one solution")
    return grid


def _contradicts(grid: Grid) -> bool:
    lines = {line for units in UNITS for _, line in units}
    return any([grid[cell] for cell in line].count(d) > 1 for line in lines for d in DIGITS)
