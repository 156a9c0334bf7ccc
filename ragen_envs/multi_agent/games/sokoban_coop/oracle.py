"""Plan cooperative Sokoban: shortest joint plans, by breadth-first search over rounds."""

from itertools import product
from typing import Final

import numpy as np

from ragen_envs.errors import SolverLimitError
from ragen_envs.game.grids import cells_with
from ragen_envs.game.search_cache import search_cache
from ragen_envs.games.sokoban.dynamics import (
    BOX,
    BOX_ON_TARGET,
    FLOOR,
    PLAYER,
    PLAYER_ON_TARGET,
    TARGET,
    WALL,
    offsets,
)  # fmt: skip
from ragen_envs.games.sokoban.oracle import solve
from ragen_envs.games.sokoban.text import open_targets
from ragen_envs.multi_agent.games.sokoban_coop.dynamics import ACTION_NAMES, play_round

MAX_STATES: Final = 200_000
"""Most joint states that are visited."""

Plan = tuple[tuple[int, ...], ...]
State = tuple[bytes, tuple[int, ...]]


@search_cache(maxsize=4096)
def joint_plan(
    board: bytes, movers: tuple[int, ...], width: int, rounds: int, max_states: int = MAX_STATES
) -> Plan | None:
    """Return a plan with the fewest rounds, one tuple of actions a round; () if solved already.

    The board has a player on the cell of every mover. None if every plan is longer than ``rounds``.

    Raises:
        SolverLimitError: ``max_states`` were visited and the answer is still open.
    """
    start = (board, movers)
    if not open_targets(board):
        return ()
    useful = _useful_cells(board, width)
    dead = [cell for cell, code in enumerate(board) if code != WALL and cell not in useful]
    spare = board.count(BOX) - open_targets(board)
    choices = list(product(range(len(ACTION_NAMES)), repeat=len(movers)))
    origins: dict[State, tuple[State, tuple[int, ...]]] = {start: (start, ())}
    layer = [start]
    for _ in range(rounds):
        following = []
        for state in layer:
            for actions in choices:
                reached, solved = _after(state, actions, width)
                if reached in origins or sum(reached[0][cell] == BOX for cell in dead) > spare:
                    continue  # more boxes than are spare can never come to a target
                origins[reached] = (state, actions)
                following.append(reached)
                if solved:
                    return _trace(origins, reached)
            # Once a state: checking each of its successors, 5^movers at most, would cost more.
            if len(origins) > max_states:
                raise SolverLimitError(
                    f"max_states is {max_states}, too few to plan for {len(movers)} movers"
                )
        layer = following
    return None


def _useful_cells(board: bytes, width: int) -> set[int]:
    """Return the cells from which a box, alone on the board, can be pushed onto some target."""
    queue = cells_with(board, TARGET, BOX_ON_TARGET, PLAYER_ON_TARGET)
    useful = set(queue)
    for cell in queue:
        for offset in offsets(width):
            box, pusher = cell - offset, cell - 2 * offset
            if box not in useful and board[box] != WALL and board[pusher] != WALL:
                useful.add(box)
                queue.append(box)
    return useful


def _after(state: State, actions: tuple[int, ...], width: int) -> tuple[State, bool]:
    board, movers = bytearray(state[0]), list(state[1])
    _, left, _ = play_round(board, movers, actions, width, open_targets(board))
    return (bytes(board), tuple(movers)), left == 0


def _trace(origins: dict[State, tuple[State, tuple[int, ...]]], state: State) -> Plan:
    plan = []
    while origins[state][0] != state:
        state, actions = origins[state]
        plan.append(actions)
    return tuple(reversed(plan))


@search_cache(maxsize=4096)
def fewest_moves_alone(board: bytes, movers: tuple[int, ...], width: int, limit: int) -> int | None:
    """Return the fewest moves of the best single mover, the others taken away.

    None is returned when no one can do it alone in ``limit`` moves.

    Raises:
        SolverLimitError: The search would need too much memory to decide.
    """
    lengths = []
    for mover in movers:
        cells = np.frombuffer(board, np.uint8).reshape(-1, width).copy()
        flat = cells.reshape(-1)
        for other in movers:
            if other != mover:
                flat[other] = FLOOR if flat[other] == PLAYER else TARGET
        plan = solve(cells, max_moves=limit)
        if plan is not None:
            lengths.append(len(plan))
    return min(lengths, default=None)
