"""The largest return in Sokoban under a budget of actions and turns, and what random actions are worth.

Both follow by backward induction over all states within reach, which are enumerated once, with their
successors and rewards.
"""

from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragen_envs.game.oracle import Budget, RandomBaseline
from ragen_envs.games.sokoban.dynamics import Reward, target_distances
from ragen_envs.games.sokoban.generator import search_weights

MAX_STATES: Final = 1 << 18
"""Most states that are enumerated; about 100 bytes each."""


class Lookahead(NamedTuple):
    """The value of ``steps`` actions."""

    random_success: float
    """Probability that uniformly random actions solve the board."""
    random_return: float
    """Expected sum of their rewards."""
    max_return: float
    """Largest sum of rewards of ``least`` to ``steps`` actions; fewer if they solve the board."""


def random_baseline(
    board: NDArray[np.uint8], left: int, reward: Reward, budget: Budget
) -> RandomBaseline | None:
    """Return the value of random actions on a board (h, w) with ``left`` targets without a box."""
    if left == 0:
        return RandomBaseline(1.0, 0.0)
    ahead = _look_ahead(board, reward, budget)
    return None if ahead is None else RandomBaseline(ahead.random_success, ahead.random_return)


def max_return(board: NDArray[np.uint8], left: int, reward: Reward, budget: Budget) -> float | None:
    """Return the largest sum of rewards from a board (h, w) with ``left`` targets without a box."""
    if left == 0:
        return 0.0
    ahead = _look_ahead(board, reward, budget)
    return None if ahead is None else ahead.max_return


def _look_ahead(board: NDArray[np.uint8], reward: Reward, budget: Budget) -> Lookahead | None:
    least = min(budget.turns, budget.reach)
    return look_ahead(board.tobytes(), board.shape[1], reward, budget.reach, least)


@lru_cache(maxsize=1 << 12)
def look_ahead(cells: bytes, width: int, reward: Reward, steps: int, least: int) -> Lookahead | None:
    """Return the value of ``steps`` actions, or None if more than ``MAX_STATES`` are within reach.

    Args:
        cells: (h*w,) cell codes with one player, bordered by walls; not solved.
        width: Cells in a row.
        reward: What is paid.
        steps: Number of actions, >= 0.
        least: How many of them must be played, at most ``steps``.
    """
    from ragen_envs.compiled.compiling import first_use
    from ragen_envs.games.sokoban.search import evaluate, explore

    weights = search_weights(len(cells) // width, width)
    distances = np.array(target_distances(bytearray(cells), width))
    board = np.frombuffer(cells, np.uint8)
    with first_use(explore, evaluate):
        successors, paid, left = explore(board, width, weights, distances, tuple(reward), steps, MAX_STATES)
        if len(left) == 0:
            return None
        return Lookahead(*evaluate(successors, paid, left, steps, least).tolist())
