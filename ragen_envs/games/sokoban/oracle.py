"""Exact shortest solutions of Sokoban boards, largest returns under a budget, and the worth of random play.

Solutions are found by compiled breadth-first search over moves. A state is the player's cell and the boxes'
cells; successors come from ``dynamics.move``, the same function that the env plays with. Memory is bounded:
a search that would need more ends in ``SolverLimitError`` rather than in a wrong answer. Returns and random
play follow by backward induction over all states within reach, which are enumerated once, with their
successors and rewards.
"""

from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragen_envs.errors import SolverLimitError
from ragen_envs.game.oracle import Budget
from ragen_envs.games.sokoban.dynamics import Reward
from ragen_envs.games.sokoban.generator import search_weights

MAX_STATES: Final = 1 << 21
"""Default bound on the states that a search for a solution visits; about 40 bytes each."""
MAX_AHEAD: Final = 1 << 18
"""Most states within reach that are enumerated; about 100 bytes each."""


def solve(
    board: NDArray[np.uint8], max_states: int = MAX_STATES, max_moves: int = MAX_STATES
) -> tuple[int, ...] | None:
    """Return a solution with the fewest moves, () if solved already, None if there is none.

    Args:
        board: (h, w) cell codes with one player, bordered by walls.
        max_states: Most states to visit.
        max_moves: Longest solution of interest; None is returned when every one is longer.

    Raises:
        SolverLimitError: ``max_states`` were visited and the answer is still open.
    """
    from ragen_envs.compiled.compiling import first_use
    from ragen_envs.games.sokoban.search import LIMIT, UNSOLVABLE, search

    height, width = board.shape
    flat = np.ascontiguousarray(board, dtype=np.uint8).ravel()
    weights = search_weights(height, width)
    with first_use(search):
        length, path = search(flat, width, weights, max_states, max_moves)
    if length == LIMIT:
        raise SolverLimitError(f"max_states is {max_states}, too few to decide this {height}x{width} board")
    return None if length == UNSOLVABLE else tuple(path.tolist())


class Lookahead(NamedTuple):
    """The value of a number of actions."""

    random_success: float
    """Probability that uniformly random actions solve the board."""
    random_return: float
    """Expected sum of their rewards."""
    max_return: float
    """Largest sum of rewards, with at least one action in every turn until the board is solved."""


def look_ahead(board: NDArray[np.uint8], left: int, reward: Reward, budget: Budget) -> Lookahead | None:
    """Return the value of play within a budget, or None if more than ``MAX_AHEAD`` states are within reach.

    ``left`` counts targets without a box. The largest return is of an action or more in every turn.
    """
    if left == 0:
        return Lookahead(1.0, 0.0, 0.0)
    least = min(budget.turns, budget.reach)
    return _look_ahead(board.tobytes(), board.shape[1], reward, budget.reach, least)


@lru_cache(maxsize=1 << 12)
def _look_ahead(cells: bytes, width: int, reward: Reward, steps: int, least: int) -> Lookahead | None:
    from ragen_envs.compiled.compiling import first_use
    from ragen_envs.games.sokoban.search import explore

    weights = search_weights(len(cells) // width, width)
    board = np.frombuffer(cells, np.uint8)
    with first_use(explore):
        successors, paid, left = explore(board, width, weights, tuple(reward), steps, MAX_AHEAD)
    if len(left) == 0:
        return None
    success = (left == 0).astype(np.float64)
    mean, best = np.zeros_like(success), np.zeros_like(success)
    for played in reversed(range(steps)):
        success = success[successors].mean(axis=1)
        mean = (paid + mean[successors]).mean(axis=1)
        stopping = 0.0 if played >= least else -np.inf
        best = (paid + best[successors]).max(axis=1, initial=stopping)
    return Lookahead(float(success[0]), float(mean[0]), float(best[0]))
