"""The optimum of Minesweeper: the probability to win, over all boards that fit what is seen.

Mines are uniformly random, and then the first cell is, among those without a neighboring mine. So a board
with fewer such cells is likelier once the first cell is known: its weight is their reciprocal. A state is the
set of open cells and the list of boards that agree with their numbers; its worth is the weight of
these boards that the best play wins. Cells that no board mines are opened first: that costs nothing and never
tells less.
"""

import math
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from itertools import combinations
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ragen_envs.errors import SolverLimitError
from ragen_envs.game.oracle import Budget
from ragen_envs.game.search_cache import search_cache
from ragen_envs.games.minesweeper.dynamics import ALL, AROUND, CELLS, Cells, members, number, opened_by

MAX_STATES: Final = 200_000
"""States that a search visits before it gives up."""
_UNIT: Final = math.lcm(*range(1, CELLS + 1))
"""Makes all weights whole numbers."""

Boards = tuple[Cells, ...]
"""Sets of mines, in ascending order."""


@lru_cache(maxsize=8)
def all_boards(mines: int) -> NDArray[np.int64]:
    """Return every set of so many mines, ascending."""
    boards = (sum(1 << cell for cell in cells) for cells in combinations(range(CELLS), mines))
    return np.sort(np.fromiter(boards, np.int64))


def consistent(mines: Cells, opened: Cells) -> Boards:
    """Return the boards with as many mines that show the same numbers on the open cells."""
    boards = all_boards(mines.bit_count())
    boards = boards[boards & opened == 0]
    for cell in members(opened):
        seen = sum((boards >> other) & 1 for other in members(AROUND[cell]))
        boards = boards[seen == number(mines, cell)]
    return tuple(boards.tolist())


@cache
def weight(board: Cells) -> int:
    """Return the likelihood of a board, up to a constant that all boards share."""
    return _UNIT // sum(not board & AROUND[cell] for cell in members(ALL & ~board))


def total(boards: Iterable[Cells]) -> int:
    """Return the weight of several boards."""
    return sum(map(weight, boards))


class Search:
    """The best play from one state on."""

    def __init__(self) -> None:
        self._known: dict[tuple[Cells, Boards], tuple[int, int]] = {}

    def best(self, opened: Cells, boards: Boards) -> tuple[int, int]:
        """Return the weight of the boards that the best play wins, and the cell that it opens next.

        Raises:
            SolverLimitError: More than ``MAX_STATES`` states were visited.
        """
        closed = ALL & ~opened
        if closed == boards[0]:
            return weight(boards[0]), -1
        state = opened, boards
        if state not in self._known:
            if len(self._known) >= MAX_STATES:
                raise SolverLimitError(
                    f"more than {MAX_STATES:,} states of Minesweeper, and the answer is still open"
                )
            self._known[state] = self._look(opened, boards, closed)
        return self._known[state]

    def _look(self, opened: Cells, boards: Boards, closed: Cells) -> tuple[int, int]:
        safe = safe_cells(opened, boards)
        if safe:
            return self._worth(opened, boards, safe[0], 0), safe[0]
        best = -1, -1
        free = {cell: total(b for b in boards if not b >> cell & 1) for cell in members(closed)}
        for cell in sorted(free, key=free.__getitem__, reverse=True):
            if free[cell] <= best[0]:
                break
            won = self._worth(opened, boards, cell, best[0])
            if won > best[0]:
                best = won, cell
        return best

    def _worth(self, opened: Cells, boards: Boards, cell: int, beaten: int) -> int:
        """Return the weight of boards won after opening a cell, or at most ``beaten`` if it is no more."""
        parts = list(parted(opened, boards, cell).items())
        possible = sum(total(part) for _, part in parts)
        won = 0
        # Small parts are searched fast, and may show early that the cell cannot beat the best one.
        for (after, _), part in sorted(parts, key=lambda each: len(each[1])):
            possible -= total(part)
            won += self.best(after, tuple(part))[0]
            if won + possible <= beaten:
                break
        return won


def parted(
    opened: Cells, boards: Sequence[Cells], cell: int
) -> dict[tuple[Cells, tuple[int, ...]], list[Cells]]:
    """Return the boards without a mine in a cell, by what opening the cell shows on them."""
    parts: dict[tuple[Cells, tuple[int, ...]], list[Cells]] = {}
    for board in boards:
        if not board >> cell & 1:
            new = opened_by(board, cell) & ~opened
            shown = opened | new, tuple(number(board, each) for each in members(new))
            parts.setdefault(shown, []).append(board)
    return parts


def safe_cells(opened: Cells, boards: Sequence[Cells]) -> list[int]:
    """Return the closed cells that have a mine on none of the boards."""
    mined = 0
    for board in boards:
        mined |= board
    return members(ALL & ~opened & ~mined)


@search_cache(maxsize=4096)
def _advise(opened: Cells, boards: Boards, budget: Budget) -> tuple[tuple[int, ...], float]:
    search = Search()
    won = search.best(opened, boards)[0]
    reached = total(b for b in boards if _wins(search, opened, boards, b, budget))
    if reached < won:
        raise SolverLimitError(
            f"{budget.turns} turns and {budget.actions} actions may be too few for the best play of "
            "Minesweeper, and the optimum under such limits is not computed; allow more turns"
        )
    return _turn(search, opened, boards, budget.this_turn), won / total(boards)


def _turn(search: Search, opened: Cells, boards: Boards, limit: int) -> tuple[int, ...]:
    """Return the cells of a turn: safe ones that stay closed until then, or else a single guess."""
    safe = safe_cells(opened, boards)
    if not safe:
        return (search.best(opened, boards)[1],)
    chosen: list[int] = []
    for cell in safe:
        # What an earlier cell of the turn may open too would be a wasted action.
        if len(chosen) < limit and not any(opened_by(b, c) >> cell & 1 for b in boards for c in chosen):
            chosen.append(cell)
    return tuple(chosen)


def _wins(search: Search, opened: Cells, boards: Boards, board: Cells, budget: Budget) -> bool:
    """Return whether the best play wins on a board within the budget."""
    actions, turns = budget.actions, budget.turns
    while ALL & ~opened != board:
        limit = min(actions, budget.actions_per_turn)
        if turns == 0 or limit == 0:
            return False
        chosen = _turn(search, opened, boards, limit)
        for cell in chosen:
            if board >> cell & 1:
                return False
            opened |= opened_by(board, cell)
        shown = members(opened)
        boards = tuple(
            b for b in boards if not b & opened and all(number(b, c) == number(board, c) for c in shown)
        )
        actions, turns = actions - len(chosen), turns - 1
    return True


def advise(mines: Cells, opened: Cells, budget: Budget) -> tuple[tuple[int, ...], float]:
    """Return the cells to open in this turn, and the probability to win.

    Raises:
        SolverLimitError: The search takes too long, or the limits of the budget may matter.
    """
    if ALL & ~opened == mines:
        return (), 1.0
    if opened & mines or not budget.reach:
        return (), 0.0
    return _advise(opened, consistent(mines, opened), budget)


def value_after(mines: Cells, opened: Cells, cells: Sequence[int], budget: Budget) -> float:
    """Return the probability to win after a turn that opens some cells, seen from before it.

    Raises:
        SolverLimitError: As of ``advise``.
    """
    if opened & mines:
        return 0.0
    boards = consistent(mines, opened)
    rest = Budget(budget.actions - len(cells), budget.turns - 1, budget.actions_per_turn)
    won, known = 0.0, dict[tuple[Cells, tuple[int, ...]], float]()
    for board in boards:
        after = opened
        for cell in cells:
            if ALL & ~after == board:  # the game is won, and the rest is not played
                break
            after |= 1 << cell if board >> cell & 1 else opened_by(board, cell)
            if after & board:
                break
        if after & board:
            continue
        shown = after, tuple(number(board, each) for each in members(after))
        if shown not in known:
            known[shown] = advise(board, after, rest)[1]
        won += weight(board) * known[shown]
    return won / total(boards)
