"""Puzzles with one solution: filled grids from which cells are taken away at random."""

from itertools import islice
from typing import Final

from ragen_envs.games.sudoku.dynamics import CELLS, Grid, complete_grids, solutions
from ragen_envs.levels.seeding import Rng

FEWEST_CLUES: Final = 5
"""Fewer clues are possible (4), but rare."""


def generate(clues: int, rng: Rng) -> Grid:
    """Draw a puzzle with one solution.

    A filled grid is drawn uniformly; cells are emptied in a random order, each if the solution stays the
    only one, until ``clues`` are left. If the order ends before, another grid is drawn.
    """
    while True:
        grid = bytearray(rng.choice(complete_grids()))
        order, left = list(range(CELLS)), CELLS
        while order and left > clues:
            cell = order.pop(rng.integers(len(order)))
            digit, grid[cell] = grid[cell], 0
            if len(list(islice(solutions(bytes(grid)), 2))) == 1:
                left -= 1
            else:
                grid[cell] = digit
        if left == clues:
            return bytes(grid)
