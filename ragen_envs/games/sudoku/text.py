"""Sudoku in words: symbols, rules, the grid, and the text form of levels."""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final

from ragen_envs.errors import InstanceError
from ragen_envs.game.grids import BoardText
from ragen_envs.game.oracle import Budget
from ragen_envs.game.places import place_name
from ragen_envs.game.text import Symbols
from ragen_envs.games.sudoku.dynamics import (
    CELLS,
    DIGITS,
    SIDE,
    UNITS,
    Grid,
    placed,
    read_placement,
    solutions,
)

CELL_NAMES: Final = ("empty", "one", "two", "three", "four")
"""Names of the cell codes, in their order."""


class SudokuText(BoardText):
    """The text face of Sudoku."""

    vocabularies: Mapping[str, Symbols] = {"standard": dict(zip(CELL_NAMES, "_1234", strict=True))}
    cell_names = CELL_NAMES

    def legend(self, symbols: Symbols) -> str:
        """Return one line that explains the symbols."""
        digits = " ".join(symbols[name] for name in CELL_NAMES[1:])
        return f"{symbols['empty']} empty cell, {digits} digits"

    def rules(self, env: Any) -> str:  # noqa: ARG002
        """Return the goal, the rules and the rewards."""
        return (
            "You are solving a 4x4 Sudoku: fill the empty cells so that every row, every column and "
            "every 2x2 box in a corner holds each of the digits 1, 2, 3 and 4 once. There is one "
            "solution. Each action places a digit: r1c2 = 3 places a 3 in row 1, column 2, counted "
            "from 1 at the top left. A digit that its row, column or box already has is not accepted. "
            "Any other digit stays, even if it is wrong. The game ends when no digit can be placed. "
            "Rewards: 1 when the grid is solved, 0 otherwise."
        )

    def actions(self, env: Any) -> tuple[str, ...]:  # noqa: ARG002
        """Return the form of the actions."""
        return ("r<row>c<column> = <digit>",)

    def cells(self, env: Any) -> tuple[bytes, int]:
        """Return the grid, and its width."""
        return env.grid, SIDE

    def coordinates(self, env: Any) -> str:
        """Return the cells row by row."""
        names = ["empty", "1", "2", "3", "4"]
        return "\n".join(
            f"row {row + 1}: {', '.join(names[digit] for digit in env.grid[SIDE * row :][:SIDE])}"
            for row in range(SIDE)
        )

    def explain(self, env: Any, actions: Sequence[str], budget: Budget) -> str:  # noqa: ARG002
        """Tell which digits the row, the column and the box of each cell have."""
        grid, parts = env.grid, []
        for action in actions:
            placement = read_placement(action)
            assert placement is not None
            assert placement.cell is not None
            seen = {grid[other] for _, line in UNITS[placement.cell] for other in line} - {0}
            known = " ".join(map(str, sorted(seen))) or "nothing"
            parts.append(
                f"{place_name(placement.cell, SIDE)} sees {known}, so it is {placement.digit}."
            )
            grid = placed(grid, placement)
        return " ".join(parts)


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
