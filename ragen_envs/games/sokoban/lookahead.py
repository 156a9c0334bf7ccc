"""What can happen on a Sokoban board within a number of actions, by exact dynamic programming.

All states within reach are enumerated once, with their successors and rewards. Random play and the
largest return follow from them by backward induction over the actions left.
"""

from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from ragen_envs.games.sokoban.dynamics import Reward, target_distances
from ragen_envs.games.sokoban.generator import search_weights

MAX_STATES: Final = 1 << 18
"""Most states that are enumerated; about 100 bytes each."""


class Lookahead(NamedTuple):
    """What ``steps`` actions are worth."""

    random_success: float
    """Probability that uniformly random actions solve the board."""
    random_return: float
    """Expected sum of their rewards."""
    max_return: float
    """Largest sum of rewards of ``least`` to ``steps`` actions; fewer if they solve the board."""


@lru_cache(maxsize=1 << 12)
def look_ahead(
    cells: bytes, width: int, reward: Reward, steps: int, least: int
) -> Lookahead | None:
    """Return what ``steps`` actions are worth, or None if more than ``MAX_STATES`` are within reach.

    Args:
        cells: (h*w,) cell codes with one player, bordered by walls; not solved.
        width: Cells in a row.
        reward: What is paid.
        steps: Number of actions, >= 0.
        least: How many of them must be played, at most ``steps``.
    """
    from ragen_envs.compiled.compiling import first_use
    from ragen_envs.games.sokoban.state_graph import evaluate, explore

    weights = search_weights(len(cells) // width, width)
    distances = np.array(target_distances(bytearray(cells), width))
    board = np.frombuffer(cells, np.uint8)
    with first_use(explore, evaluate):
        successors, paid, left = explore(
            board, width, weights, distances, tuple(reward), steps, MAX_STATES
        )
        if len(left) == 0:
            return None
        return Lookahead(*evaluate(successors, paid, left, steps, least).tolist())
