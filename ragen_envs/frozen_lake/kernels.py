"""Many lakes at once: the rules, the generator and the start of episodes, compiled.

A lake's row of cells is its observation: tile codes, with ``PLAYER`` added where the player is.
Importing this module loads numba.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ragen_envs.compiling import jit, share
from ragen_envs.frozen_lake import dynamics, generator
from ragen_envs.frozen_lake.dynamics import FROZEN, GOAL, HOLE, PLAYER, RIGHT, slipped, walk
from ragen_envs.frozen_lake.generator import MAX_ATTEMPTS, attempt, has_path
from ragen_envs.kernels import ELAPSED, ENDED, first_outside, grid_key
from ragen_envs.seeding import advance, uniform
from ragen_envs.splits import split_code

POSITION: Final = 2
"""Column of a state: the player's cell."""
COLUMNS: Final = 3

share(dynamics.slipped, dynamics.walk, generator.attempt, generator.has_path)


def ways(height: int, width: int) -> NDArray[np.int64]:
    """Return ``dynamics.walk`` as a table [cell, direction], (h*w, 4)."""
    cells = range(height * width)
    return np.array([[walk(i, k, height, width) for k in range(4)] for i in cells])


def _outcomes() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the reward and the end (0 or 1) of stepping onto each tile code, as the rules have it."""
    pairs = [
        dynamics.step([FROZEN, tile], 1, 2, 0, RIGHT, 1.0, 0.0)[1:] for tile in (FROZEN, HOLE, GOAL)
    ]
    return np.array([reward for reward, _ in pairs]), np.array([int(end) for _, end in pairs])


_REWARDS, _ENDS = _outcomes()


@jit
def step(
    cells: Any, state: Any, streams: Any, actions: Any, rewards: Any, flags: Any, table: Any,
    success_rate: Any, limit: Any,
) -> Any:  # fmt: skip
    """Play one action on each lake; lakes whose episode is over stay as they are.

    Args:
        cells: (n, h*w) uint8.
        state: (n, COLUMNS) int32.
        streams: (n,) int64, advanced by one draw.
        actions: (n,) int64.
        rewards: Receives the rewards, (n,) float64.
        flags: Receives terminated, truncated, success, action_is_valid, action_is_effective and
            slipped, (6, n) bool.
        table: The table of ``ways``.
        success_rate: Probability to go where intended.
        limit: Steps after which an episode is truncated.

    Returns:
        How many episodes ended, or -1 - i if action i is none; then nothing has changed.
    """
    wrong = first_outside(actions, 4)
    if wrong >= 0:
        return -1 - wrong
    ended = 0
    for i in range(actions.shape[0]):
        if state[i, ENDED] != 0:
            rewards[i] = 0.0
            flags[:, i] = False
            continue
        stream = advance(streams[i])
        direction = slipped(actions[i], success_rate, uniform(stream))
        before = state[i, POSITION]
        after = table[before, direction]
        cells[i, before] -= PLAYER
        tile = cells[i, after]
        cells[i, after] = tile + PLAYER
        elapsed = state[i, ELAPSED] + 1
        over = _ENDS[tile] | int(elapsed >= limit)
        ended += over
        streams[i] = stream
        state[i, ENDED] = over
        state[i, ELAPSED] = elapsed
        state[i, POSITION] = after
        rewards[i] = _REWARDS[tile]
        flags[0, i] = _ENDS[tile]
        flags[1, i] = elapsed >= limit
        flags[2, i] = tile == GOAL
        flags[3, i] = True
        flags[4, i] = after != before
        flags[5, i] = direction != actions[i]
    return ended


@jit
def start(cells: Any, state: Any, ids: Any) -> None:
    """Begin an episode on the lakes ``ids``, whose cells, with the player, are already in place."""
    for i in ids:
        for cell in range(cells.shape[1]):
            if cells[i, cell] >= PLAYER:
                state[i, POSITION] = cell
        state[i, ENDED] = 0
        state[i, ELAPSED] = 0


@jit
def draw(
    cells: Any, streams: Any, ids: Any, height: Any, width: Any, p: Any, wanted: Any,
    key_weights: Any, images: Any,
) -> Any:  # fmt: skip
    """Put a fresh map of the split ``wanted``, with the player, on each of the lakes ``ids``.

    Returns -1, or the first lake for which ``MAX_ATTEMPTS`` draws were not enough. ``streams`` (n,)
    int64 are advanced, except that one's.
    """
    seen, stack = np.empty((2, height * width), np.int64)
    for i in ids:
        tiles = cells[i]
        stream = streams[i]
        tries = 0
        found = False
        while not found:
            if tries == MAX_ATTEMPTS:
                return i
            tries += 1
            at, stream = attempt(tiles, height, width, p, stream)
            if has_path(tiles, height, width, at, seen, stack):
                tiles[at] = GOAL + 1  # as in generator.map_key
                found = split_code(grid_key(tiles, key_weights, images)) == wanted
                tiles[at] = FROZEN + PLAYER
        streams[i] = stream
    return -1
