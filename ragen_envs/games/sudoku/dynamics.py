"""The rules of Sudoku 4x4: every row, column and box holds the digits 1 to 4 once."""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice, permutations, product
from typing import Final, NamedTuple

from ragen_envs.game.places import PLACE, cell_of, place_name
from ragen_envs.game.word_game import LEGAL, Legality, illegal, quoted
from ragen_envs.levels.seeding import Rng

SIDE: Final = 4
CELLS: Final = 16
DIGITS: Final = range(1, 5)
EMPTY: Final = 0
FEWEST_CLUES: Final = 5
"""Fewer clues are possible (4), but rare."""

Grid = bytes
"""The digit of each cell, row by row, (16,); 0 where it is empty."""

_FORM: Final = re.compile(rf"\s*{PLACE}\s*(?:=|:|is)?\s*([0-9])\s*", re.IGNORECASE)
_LINES: Final = {
    "row": tuple(tuple(range(4 * r, 4 * r + 4)) for r in range(4)),
    "column": tuple(tuple(range(c, CELLS, 4)) for c in range(4)),
    "box": tuple((b, b + 1, b + 4, b + 5) for b in (0, 2, 8, 10)),
}


UNITS: Final = tuple(
    tuple((kind, line) for kind, lines in _LINES.items() for line in lines if cell in line)
    for cell in range(CELLS)
)
"""For each cell, the row, the column and the box that it is in."""


class Placement(NamedTuple):
    """A parsed action."""

    cell: int | None
    """Index of the cell from 0, or None outside the grid."""
    digit: int

    def __str__(self) -> str:
        assert self.cell is not None
        return f"{place_name(self.cell, SIDE)} = {self.digit}"


def read_placement(action: str) -> Placement | None:
    """Parse an action, or return None if it is no placement."""
    match = _FORM.fullmatch(action)
    if match is None:
        return None
    row, column, digit = match.groups()
    return Placement(cell_of(row, column, SIDE, SIDE), int(digit))


def legality(grid: Grid, action: str) -> Legality:
    """Return whether a digit may be placed."""
    placement = read_placement(action)
    if placement is None:
        return illegal(f"{quoted(action)} does not have the form r1c2 = 3")
    cell, digit = placement
    if cell is None or digit not in DIGITS:
        return illegal(f"{quoted(action)} must name a row, a column and a digit from 1 to 4")
    if grid[cell]:
        return illegal(f"{place_name(cell, SIDE)} already holds {grid[cell]}")
    for kind, line in UNITS[cell]:
        if digit in (grid[other] for other in line):
            return illegal(f"the {kind} of {place_name(cell, SIDE)} already has a {digit}")
    return LEGAL


def placed(grid: Grid, placement: Placement) -> Grid:
    """Return the grid after a placement."""
    assert placement.cell is not None
    return grid[: placement.cell] + bytes((placement.digit,)) + grid[placement.cell + 1 :]


def candidates(grid: Grid, cell: int) -> tuple[int, ...]:
    """Return the digits that may be placed in an empty cell."""
    used = {grid[other] for _, line in UNITS[cell] for other in line}
    return tuple(digit for digit in DIGITS if digit not in used)


def empty_cells(grid: Grid) -> tuple[int, ...]:
    """Return the empty cells."""
    return tuple(cell for cell, digit in enumerate(grid) if digit == EMPTY)


def solutions(grid: Grid) -> Iterator[Grid]:
    """Yield every way to fill the grid."""
    cells = empty_cells(grid)
    if not cells:
        yield grid
        return
    options = {cell: candidates(grid, cell) for cell in cells}
    cell = min(cells, key=lambda each: len(options[each]))
    for digit in options[cell]:
        yield from solutions(placed(grid, Placement(cell, digit)))


@lru_cache(maxsize=4096)
def solution(grid: Grid) -> Grid | None:
    """Return the first way to fill the grid, or None."""
    return next(solutions(grid), None)


def plan(grid: Grid) -> tuple[Placement, ...] | None:
    """Return placements that fill the grid, the cells with the fewest candidates first, or None."""
    full, placements = solution(grid), []
    if full is None:
        return None
    while grid != full:
        options = {cell: len(candidates(grid, cell)) for cell in empty_cells(grid)}
        cell = min(options, key=options.__getitem__)
        placements.append(Placement(cell, full[cell]))
        grid = placed(grid, placements[-1])
    return tuple(placements)


@lru_cache(maxsize=1)
def complete_grids() -> tuple[Grid, ...]:
    """Return all 288 filled grids."""
    return tuple(solutions(bytes(CELLS)))


@lru_cache(maxsize=1)
def _symmetries() -> tuple[tuple[int, ...], ...]:
    """Return the 128 permutations of the cells under which the rules are the same."""
    orders = [
        (*bands[0], *bands[1])
        for upper, lower in product(((0, 1), (1, 0)), ((2, 3), (3, 2)))
        for bands in permutations((upper, lower))
    ]
    plain = [tuple(4 * r + c for r in rows for c in columns) for rows, columns in product(orders, orders)]
    turned = [tuple(4 * (cell % 4) + cell // 4 for cell in image) for image in plain]
    return (*plain, *turned)


def canonical(grid: Sequence[int]) -> bytes:
    """Return the first of all grids that are the same up to symmetry and the names of the digits."""
    return min(_renamed([grid[cell] for cell in image]) for image in _symmetries())


def _renamed(grid: Sequence[int]) -> bytes:
    names = {EMPTY: EMPTY}
    return bytes(names.setdefault(digit, len(names)) for digit in grid)


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
