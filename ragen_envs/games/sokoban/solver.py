"""Exact shortest solutions of Sokoban boards, by compiled breadth-first search over moves.

A state is the player's cell and the boxes' cells. Successors come from ``dynamics.move``, the same
function that the env plays with. Memory is bounded by ``max_states``; a search that would need more
ends in ``SolverLimitError`` rather than in a wrong answer.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from ragen_envs.errors import SolverLimitError
from ragen_envs.games.sokoban.generator import search_weights

MAX_STATES: Final = 1 << 21
"""Default bound on visited states; about 40 bytes each."""


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
