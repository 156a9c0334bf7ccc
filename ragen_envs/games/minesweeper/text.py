"""Minesweeper in words: symbols, rules, the board, and the text form of levels."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ragen_envs.errors import InstanceError
from ragen_envs.game.claims import MOVE, Claim, made
from ragen_envs.game.grids import BoardText, rows_text
from ragen_envs.game.oracle import Budget
from ragen_envs.game.places import PLACE, place_name, read_place
from ragen_envs.game.text import Symbols
from ragen_envs.games.minesweeper import oracle
from ragen_envs.games.minesweeper.dynamics import (
    ALL,
    CELLS,
    SIDE,
    Cells,
    cell_of,
    members,
    number,
    opened_by,
)

CELL_NAMES: Final = (
    *("no mine around", "one", "two", "three", "four", "five", "six", "seven", "eight"),
    "closed",
    "mine",
)
"""Names of the cell codes, in their order."""
CLOSED: Final = 9
MINE: Final = 10
_CLAIM: Final = re.compile(
    rf"(?P<cell>{PLACE})\s*[:=]?\s*(?:is\s+|has\s+)?(?:"
    r"(?:a )?mine on (?P<mined>\d{1,7}) of (?P<boards>\d{1,7})(?: possible boards)?|"
    r"(?P<word>safe|(?:a )?mine|a guess))",
    re.IGNORECASE,
)


class MinesweeperText(BoardText):
    """The text face of Minesweeper."""

    vocabularies: Mapping[str, Symbols] = {"standard": dict(zip(CELL_NAMES, "012345678#*", strict=True))}
    cell_names = CELL_NAMES

    def legend(self, symbols: Symbols) -> str:
        if any(symbols[name] != str(number) for number, name in enumerate(CELL_NAMES[:9])):
            return super().legend(symbols)
        return (
            f"{symbols['closed']} closed cell, {symbols['no mine around']} to "
            f"{symbols['eight']} open cell and its number, {symbols['mine']} mine"
        )

    def rules(self, env: Any) -> str:
        return (
            f"You are playing Minesweeper on a board of 5 rows and 5 columns with {env.mines} "
            f"mine{'s' * (env.mines > 1)}. Open "
            "every cell that has no mine. Each action opens a cell: r2c3 is row 2, column 3, counted "
            "from 1 at the top left. An open cell shows how many of its up to 8 neighbors have a mine. "
            "If that is 0, its neighbors are opened too. Opening an open cell does nothing and uses an "
            "action. Opening a mine loses the game. A part of the board is open at the start. Rewards: "
            "1 when all cells without a mine are open, 0 otherwise."
        )

    def cells(self, env: Any) -> tuple[bytes, int]:
        return env.shown(), SIDE

    def coordinates(self, env: Any) -> str:
        return rows_text(env.shown(), SIDE, [*map(str, range(9)), "closed", "mine"])

    def explain(self, env: Any, actions: Sequence[str], budget: Budget) -> str:
        """State for each cell whether it is certainly safe, by what is seen before the turn."""
        boards, parts = oracle.consistent(env.mined, env.opened), []
        for cell in map(cell_of, actions):
            assert cell is not None
            mined = sum(board >> cell & 1 for board in boards)
            known = f"has a mine on {mined} of {len(boards)} possible boards" if mined else "is safe"
            parts.append(f"{place_name(cell, SIDE)} {known}.")
        return " ".join(parts)

    def claims(self, env: Any, thought: str, executed: Sequence[str], names: tuple[str, ...]) -> list[Claim]:
        """Return the claims about cells; "safe" is true if it holds on all boards that fit what is seen."""
        boards = oracle.consistent(env.mined, env.opened)
        opened = {cell_of(action): action for action in executed}
        claims = []
        for match in _CLAIM.finditer(thought):
            cell = read_place(match["cell"], SIDE, SIDE)
            if cell is None:
                continue
            mined, action = sum(board >> cell & 1 for board in boards), opened.get(cell)
            known = "safe" if not mined else "mine" if mined == len(boards) else "a guess"
            fact = f"{place_name(cell, SIDE)} is {known}"
            if match["mined"]:
                true = (int(match["mined"]), int(match["boards"])) == (mined, len(boards))
                fact = f"{place_name(cell, SIDE)} has a mine on {mined} of {len(boards)}"
            else:
                true = match["word"].casefold().removeprefix("a ") == known.removeprefix("a ")
            claims.append(made(MOVE if action else "cell", match, true, fact, action))
        return claims


def encode_level(mines: Cells, first: int) -> str:
    """Return the text form of a level: rows joined by /, * for mines, o for the first open cell."""
    signs = "".join("*" if mines >> cell & 1 else "o" if cell == first else "." for cell in range(CELLS))
    return "/".join(signs[i : i + SIDE] for i in range(0, CELLS, SIDE))


def decode_level(level: str) -> tuple[Cells, int]:
    """Return the mines and the first open cell of a level in text form.

    Raises:
        InstanceError: It is not five rows of five of ``.*o`` with one ``o`` and no mine around it, or it is
            won at the start.
    """
    rows, signs = level.split("/"), level.replace("/", "")
    if [len(row) for row in rows] != [SIDE] * SIDE or set(signs) - set(".*o"):
        raise InstanceError(f"level {level!r} must be five rows of five of .*o, separated by /")
    mines = sum(1 << cell for cell, sign in enumerate(signs) if sign == "*")
    if signs.count("o") != 1 or not 1 <= len(members(mines)) <= 4:
        raise InstanceError(f"level {level!r} must have one o and 1 to 4 mines")
    first = signs.index("o")
    if number(mines, first):
        raise InstanceError(f"level {level!r} has a mine around its first open cell")
    if ALL & ~opened_by(mines, first) == mines:
        raise InstanceError(f"level {level!r} is won at the start")
    return mines, first
