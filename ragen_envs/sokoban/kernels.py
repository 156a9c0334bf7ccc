"""Many Sokoban boards at once: the rules, the generator and the start of episodes, compiled.

The boards lie one after another in a flat buffer of cell codes with ``width`` cells of padding at both
ends, so that looking two cells ahead never leaves it. Importing this module loads numba.
"""

from itertools import product
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ragen_envs.compiling import jit, share
from ragen_envs.kernels import (
    EFFECTIVE, OWN, PHASE, RUNNING, STREAM, SUCCESS, begin, first_outside, grid_key, settle,
)  # fmt: skip
from ragen_envs.sokoban import dynamics, generator
from ragen_envs.sokoban.dynamics import (
    BOX, PLAYER, PLAYER_ON_TARGET, Reward, move, offsets, reward_of, write_distances,
)  # fmt: skip
from ragen_envs.sokoban.generator import MAX_ATTEMPTS, MAX_NODES, TABLE_SIZE, attempt
from ragen_envs.splits import split_code

HERE: Final = OWN
"""Row of a state: the player's index in the flat buffer."""
LEFT: Final = OWN + 1
"""Row of a state: boxes off target."""
ROWS: Final = OWN + 2

share(
    dynamics.offsets, dynamics.write_distances, generator.carve_room, generator.place_targets,
    generator.reverse_play, generator.attempt, generator._first_visit, generator._apart,
)  # fmt: skip


def _outcomes() -> NDArray[np.int64]:
    """Return what ``dynamics.move`` does, for each pair of cells ahead: (7 * 7,) packed in bits.

    From the lowest: the new cell ahead (3 bits), the new cell beyond (3), whether the player moved
    (1), whether it pushed (1), 1 + the change of boxes on targets (2).
    """
    packed = []
    for ahead, beyond in product(range(PLAYER_ON_TARGET + 1), repeat=2):
        line = bytearray([PLAYER, ahead, beyond])
        _, moved, pushed, gained = move(line, 0, 1)
        bits = line[1] | line[2] << 3 | moved << 6 | int(pushed > 0) << 7 | (gained + 1) << 8
        packed.append(bits)
    return np.array(packed)


_OUTCOMES: Final = _outcomes()
_NOTHING: Final = 1 << 8


def payoffs(reward: Reward) -> NDArray[np.float64]:
    """Return ``reward_of`` for every [1 + closer, 1 + gained, solved], and a last 0: (19,)."""
    order = product((-1, 0, 1), (-1, 0, 1), (False, True))
    return np.array([*(reward_of(reward, g, solved, c) for c, g, solved in order), 0.0])


@jit
def step(
    cells: Any, state: Any, actions: Any, rewards: Any, flags: Any, on_target: Any, width: Any,
    boxes: Any, limit: Any, payoff: Any, distances: Any,
) -> Any:  # fmt: skip
    """Play one action on each board; boards whose episode is not running stay as they are.

    Args:
        cells: The flat buffer, uint8.
        state: (ROWS, n) int64.
        actions: (n,) int64.
        rewards: Receives the rewards, (n,) float64.
        flags: Receives the flags, (OWN_FLAG, n) bool.
        on_target: Receives the boxes on targets, (n,) int64.
        width: Cells in a row.
        boxes: Boxes of a board.
        limit: Steps after which an episode is truncated.
        payoff: The table of ``payoffs``.
        distances: Distances to the nearest target, as ``cells``, int16; None if nothing asks.

    Returns:
        How many episodes ended, or -1 - i if action i is none; then nothing has changed.
    """
    wrong = first_outside(actions, 4)
    if wrong >= 0:
        return -1 - wrong
    done = np.empty(actions.shape[0], np.int64)
    move_all(cells, state, actions, width, distances, done)
    for i in range(actions.shape[0]):
        running = int(state[PHASE, i] == RUNNING)
        bits = done[i]
        moved = (bits >> 6) & 1
        left = state[LEFT, i] + 1 - ((bits >> 8) & 3)
        solved = int(left == 0) & running
        state[LEFT, i] = left
        on_target[i] = boxes - left
        flags[SUCCESS, i] = solved
        flags[EFFECTIVE, i] = moved
        done[i] = solved
        rewards[i] = payoff[2 * (bits >> 8) + (solved & moved) if running else 18]
    return settle(state, done, limit, flags)


@jit
def move_all(
    cells: Any, state: Any, actions: Any, width: Any, distances: Any, outcome: Any
) -> None:
    """Make the moves; ``outcome`` receives the bits of ``_OUTCOMES``, plus 3 << 8 for closer + 1."""
    off = offsets(width)
    for i in range(actions.shape[0]):
        outcome[i] = off[actions[i]]
    for i in range(actions.shape[0]):
        here = state[HERE, i]
        ahead = here + outcome[i]
        beyond = ahead + outcome[i]
        bits = _OUTCOMES[7 * cells[ahead] + cells[beyond]]
        if state[PHASE, i] != RUNNING:
            outcome[i] = _NOTHING
            continue
        moved = (bits >> 6) & 1
        cells[here] -= 4 * moved
        cells[ahead] = bits & 7
        cells[beyond] = (bits >> 3) & 7
        state[HERE, i] = here + outcome[i] * moved
        closer = 0
        if distances is not None:
            closer = ((bits >> 7) & 1) * (distances[ahead] - distances[beyond])
        outcome[i] = bits + ((3 * (closer + 1)) << 8)
