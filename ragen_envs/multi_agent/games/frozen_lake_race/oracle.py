"""Solve the race for two walkers exactly, by backward induction over the rounds left.

Who is first wins: a zero-sum game in the difference of the payoffs, solved in every joint state and
for every number of rounds left (Shapley 1953). All must arrive: a decision problem of the team.

Shapley and Snow (1950): every matrix game has optimal strategies that make some square submatrix
equalising, and after a shift to positive payoffs that submatrix is regular. The solver tries pure
saddle points first and then all square submatrices, smallest first; meant for a handful of actions.
Payoffs are scaled to [0, 1] first, so that tolerances are relative to the range of a game's payoffs.
"""

from functools import lru_cache
from itertools import combinations, product
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragen_envs.errors import RagenError
from ragen_envs.games.frozen_lake.dynamics import directions, ways
from ragen_envs.multi_agent.games.frozen_lake_race.dynamics import ALL, STAY, score, walk_all

MAX_CELLS: Final = 36
"""Most tiles of a map that is solved."""
_MOVES: Final = STAY + 1

_EPSILON: Final = 1e-9
"""Tolerance of payoffs and probabilities, both from 0 to 1."""

Floats = NDArray[np.float64]


class Optimum(NamedTuple):
    """Optimal play with a number of rounds left; joint states are ``first * cells + second``."""

    values: Floats
    """(cells^2,) race: expected difference of the payoffs; team: probability that all arrive."""
    strategies: tuple[Floats, Floats]
    """(cells^2, 5) for each seat, optimal probabilities of the actions."""
    returns: Floats
    """(2, cells^2) what each seat is paid on average when both play these strategies."""


@lru_cache(maxsize=1 << 9)
def optimum(tiles: bytes, height: int, width: int, success_rate: float, finish: str, rounds: int) -> Optimum:
    """Return optimal play of two walkers with ``rounds`` rounds left.

    Raises:
        RagenError: The map is too large.
    """
    if len(tiles) > MAX_CELLS:
        raise RagenError(f"the map has {len(tiles)} tiles, but the oracle solves {MAX_CELLS} at most")
    ended, paid = _ends(tiles, finish)
    payoffs = paid[0] if finish == ALL else paid[0] - paid[1]
    nothing = np.zeros((len(payoffs), _MOVES))
    if rounds == 0:
        return Optimum(payoffs, (nothing, nothing), paid)
    for fewer in range(100, rounds - 1, 100):  # bounds the depth of the recursion
        optimum(tiles, height, width, success_rate, finish, fewer)
    after = optimum(tiles, height, width, success_rate, finish, rounds - 1)
    running = np.flatnonzero(~ended)
    law, reached = _law(success_rate), _moves(tiles, height, width)[:, :, running]
    games = np.einsum("ad,deS,be->Sab", law, after.values[reached], law)
    values, first, second = payoffs.copy(), nothing.copy(), nothing.copy()
    if finish == ALL:
        best = games.reshape(len(running), -1).argmax(axis=1)
        values[running] = games.reshape(len(running), -1).max(axis=1)
        first[running], second[running] = (np.eye(_MOVES)[best // _MOVES], np.eye(_MOVES)[best % _MOVES])
    else:
        values[running], first[running], second[running] = solve_games(games)
    returns = paid.copy()
    # Strategies whose probabilities add up to 1 but for the last rounding.
    shares = (each[running] / each[running].sum(axis=1, keepdims=True) for each in (first, second))
    chosen = [share @ law for share in shares]
    returns[:, running] = np.einsum("Sd,pdeS,Se->pS", chosen[0], after.returns[:, reached], chosen[1])
    return Optimum(values, (first, second), returns)


@lru_cache(maxsize=64)
def _ends(tiles: bytes, finish: str) -> tuple[NDArray[np.bool_], Floats]:
    """Return whether joint states end the game, (cells^2,), and the payoffs of the seats, (2, cells^2)."""
    cells = range(len(tiles))
    scores = [score(tiles, state, finish) for state in product(cells, cells)]
    ended = np.array([all(out) for _, out in scores])
    return ended, np.array([rewards for rewards, _ in scores]).T


@lru_cache(maxsize=64)
def _moves(tiles: bytes, height: int, width: int) -> NDArray[np.int64]:
    """Return the joint state that directions lead to, (5, 5, cells^2)."""
    cells, table = range(len(tiles)), ways(height, width)
    reached = np.empty((_MOVES, _MOVES, len(tiles) ** 2), np.int64)
    for number, state in enumerate(product(cells, cells)):
        for pair in product(range(_MOVES), repeat=2):
            first, second = walk_all(tiles, table, state, pair)
            reached[(*pair, number)] = first * len(tiles) + second
    return reached


def _law(success_rate: float) -> Floats:
    """Return the probabilities of the directions taken, (5 actions, 5 directions)."""
    law = np.zeros((_MOVES, _MOVES))
    law[STAY, STAY] = 1.0
    for action in range(STAY):
        for direction, chance in directions(action, success_rate):
            law[action, direction] += chance
    return law


class Solution(NamedTuple):
    """Optimal play of a batch of games."""

    values: Floats
    """(n,) what the row player gets and the column player pays."""
    rows: Floats
    """(n, m) optimal probabilities of the row player's actions."""
    columns: Floats
    """(n, k) optimal probabilities of the column player's actions."""


def solve_games(games: Floats) -> Solution:
    """Solve games (n, m, k): the row player wants much, the column player wants it to have little.

    Raises:
        ArithmeticError: A game could not be solved to 1e-9 of the range of its payoffs.
    """
    least = games.min(axis=(1, 2))
    span = games.max(axis=(1, 2)) - least
    span[span == 0.0] = 1.0
    games = (games - least[:, None, None]) / span[:, None, None]  # from 0 to 1
    count, m, k = games.shape
    low, high = games.min(axis=2), games.max(axis=1)
    values = low.max(axis=1)
    rows = np.eye(m)[low.argmax(axis=1)]
    columns = np.eye(k)[high.argmin(axis=1)]
    open_ = np.flatnonzero(high.min(axis=1) - values > _EPSILON)
    for size in range(2, min(m, k) + 1):
        for chosen in combinations(range(m), size):
            for answer in combinations(range(k), size):
                if open_.size:
                    open_ = _try(games, open_, chosen, answer, values, rows, columns)
    if open_.size:
        raise ArithmeticError(f"{open_.size} of {count} matrix games could not be solved")
    return Solution(least + span * values, rows, columns)


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
