"""Solve the race for two walkers exactly, by backward induction over the rounds left.

Who is first wins: a zero-sum game in the difference of the payoffs, solved in every joint state and
for every number of rounds left (Shapley 1953). All must arrive: a decision problem of the team.
"""

from functools import lru_cache
from itertools import product
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragen_envs.errors import RagenError
from ragen_envs.games.frozen_lake.dynamics import slipped, ways
from ragen_envs.multi_agent.games.frozen_lake_race.dynamics import ALL, STAY, score, walk_all
from ragen_envs.multi_agent.games.frozen_lake_race.matrix_games import solve

MAX_CELLS: Final = 36
"""Most tiles of a map that is solved."""
_MOVES: Final = STAY + 1

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
        first[running], second[running] = (
            np.eye(_MOVES)[best // _MOVES],
            np.eye(_MOVES)[best % _MOVES],
        )
    else:
        values[running], first[running], second[running] = solve(games)
    returns = paid.copy()
    chosen = [_shares(each[running]) @ law for each in (first, second)]
    returns[:, running] = np.einsum("Sd,pdeS,Se->pS", chosen[0], after.returns[:, reached], chosen[1])
    return Optimum(values, (first, second), returns)


def _shares(strategies: Floats) -> Floats:
    """Return strategies whose probabilities add up to 1 but for the last rounding."""
    shares: Floats = strategies / strategies.sum(axis=1, keepdims=True)
    return shares


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
    side = (1.0 - success_rate) / 2
    law = np.zeros((_MOVES, _MOVES))
    law[STAY, STAY] = 1.0
    for action in range(STAY):
        for draw, chance in (
            (0.0, success_rate),
            (success_rate, side),
            (success_rate + side, side),
        ):
            if chance > 0:
                law[action, slipped(action, success_rate, draw)] += chance
    return law
