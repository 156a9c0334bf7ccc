"""The optimum of Sudoku: the cells of the solution, those first that follow from what is there."""

from collections.abc import Iterator

from ragen_envs.game.oracle import Advice, Budget
from ragen_envs.games.sudoku.dynamics import Grid, Placement, candidates, empty_cells, placed, solution


def plan(grid: Grid) -> Iterator[Placement]:
    """Yield placements that fill the grid, the cells with the fewest candidates first.

    Nothing is yielded if the grid cannot be filled any more.
    """
    full = solution(grid)
    while full is not None and grid != full:
        now = grid
        cell = min(empty_cells(now), key=lambda each: len(candidates(now, each)))
        placement = Placement(cell, full[cell])
        yield placement
        grid = placed(grid, placement)


def advise(grid: Grid, budget: Budget) -> Advice:
    """Return the next placements; the value is 1 if the rest of the solution fits the budget."""
    if 0 not in grid:
        return Advice((), 1.0, 0.0)
    steps = tuple(map(str, plan(grid)))
    value = float(0 < len(steps) <= budget.reach)
    return Advice(steps[: budget.this_turn], value, value)
