"""Solve zero-sum matrix games exactly.

Shapley and Snow (1950): every matrix game has optimal strategies that make some square submatrix
equalising, and after a shift to positive payoffs that submatrix is regular. The solver tries pure
saddle points first and then all square submatrices, smallest first; meant for a handful of actions.
Payoffs are scaled to [0, 1] first, so that tolerances are relative to the range of a game's payoffs.
"""

from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_EPSILON = 1e-9
"""Tolerance of payoffs and probabilities, both from 0 to 1."""

Floats = NDArray[np.float64]


class Solution(NamedTuple):
    """Optimal play of a batch of games."""

    values: Floats
    """(n,) what the row player gets and the column player pays."""
    rows: Floats
    """(n, m) optimal probabilities of the row player's actions."""
    columns: Floats
    """(n, k) optimal probabilities of the column player's actions."""


def solve(games: Floats) -> Solution:
    """Solve games (n, m, k): the row player wants much, the column player wants it to have little.

    Raises:
        ArithmeticError: A game could not be solved to 1e-9 of the range of its payoffs.
    """
    least = games.min(axis=(1, 2))
    span = games.max(axis=(1, 2)) - least
    span[span == 0.0] = 1.0
    scaled = _solve((games - least[:, None, None]) / span[:, None, None])
    return scaled._replace(values=least + span * scaled.values)


def _solve(games: Floats) -> Solution:
    """Solve games whose payoffs are from 0 to 1."""
    count, m, k = games.shape
    low, high = games.min(axis=2), games.max(axis=1)
    values = low.max(axis=1)
    rows = np.eye(m)[low.argmax(axis=1)]
    columns = np.eye(k)[high.argmin(axis=1)]
    open_ = np.flatnonzero(high.min(axis=1) - values > _EPSILON)
    for size in range(2, min(m, k) + 1):
        for chosen in combinations(range(m), size):
            for answer in combinations(range(k), size):
                if not open_.size:
                    return Solution(values, rows, columns)
                open_ = _try(games, open_, chosen, answer, values, rows, columns)
    if open_.size:
        raise ArithmeticError(f"{open_.size} of {count} matrix games could not be solved")
    return Solution(values, rows, columns)


def _try(
    games: Floats,
    ids: NDArray[np.int64],
    chosen: tuple[int, ...],
    answer: tuple[int, ...],
    values: Floats,
    rows: Floats,
    columns: Floats,
) -> NDArray[np.int64]:
    """Write the solutions that live on one submatrix; return the games that are still open."""
    positive = games[ids] + 1.0
    part = positive[:, chosen][:, :, answer]
    regular = np.abs(np.linalg.det(part)) > _EPSILON
    part, positive = part[regular], positive[regular]
    ones = np.ones((len(part), len(chosen), 1))
    x = np.linalg.solve(part.transpose(0, 2, 1), ones)[:, :, 0]
    y = np.linalg.solve(part, ones)[:, :, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        value = 1.0 / x.sum(axis=1)
        x, y = x * value[:, None], y * value[:, None]
    row, column = np.zeros((len(x), games.shape[1])), np.zeros((len(y), games.shape[2]))
    row[:, chosen], column[:, answer] = x, y
    worst = np.einsum("ni,nij->nj", row, positive).min(axis=1)
    best = np.einsum("nij,nj->ni", positive, column).max(axis=1)
    holds = (row.min(axis=1) >= -_EPSILON) & (column.min(axis=1) >= -_EPSILON)
    holds &= (worst >= value - _EPSILON) & (best <= value + _EPSILON)
    solved = ids[np.flatnonzero(regular)[holds]]
    values[solved] = value[holds] - 1.0
    rows[solved], columns[solved] = row[holds].clip(0.0), column[holds].clip(0.0)
    return np.setdiff1d(ids, solved)
