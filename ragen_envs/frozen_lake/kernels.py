"""Many lakes at once: the rules, the generator and the start of episodes, compiled.

A lake's row of cells is its observation: tile codes, with ``PLAYER`` added where the player is.
Importing this module loads numba.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ragen_envs.compiling import jit, share
from ragen_envs.frozen_lake import dynamics, generator
from ragen_envs.frozen_lake.dynamics import FROZEN, GOAL, HOLE, PLAYER, RIGHT, slipped
from ragen_envs.frozen_lake.generator import MAX_ATTEMPTS, attempt, has_path
from ragen_envs.kernels import (
    BLOCK,
    DUE,
    EFFECTIVE,
    OWN,
    OWN_FLAG,
    PHASE,
    RUNNING,
    STREAM,
    SUCCESS,
    begin,
    called_up,
    count_ended,
    first_outside,
    grid_key,
    only_split,
    record,
    settle,
)
from ragen_envs.seeding import advance, uniform
from ragen_envs.splits import SPLITS, split_code

POSITION: Final = OWN
"""Row of a state: the player's cell."""
ROWS: Final = OWN + 1
SLIPPED: Final = OWN_FLAG

share(dynamics.turned, dynamics.slipped, generator.attempt, generator.has_path)


def _outcomes() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the reward and the end (0 or 1) of stepping onto each tile code, as the rules have it.

    The last item, for an episode that is not running, is 0 and 0.
    """
    tiles = (FROZEN, HOLE, GOAL)
    table = dynamics.ways(1, 2)
    pairs = [dynamics.step([FROZEN, tile], table, 0, RIGHT)[1:] for tile in tiles]
    pairs.append((0.0, False))
    return np.array([reward for reward, _ in pairs]), np.array([int(end) for _, end in pairs])


_REWARDS, _ENDS = _outcomes()


@jit
def step(
    cells: Any, state: Any, actions: Any, rewards: Any, flags: Any, ways: Any, success_rate: Any,
    limit: Any,
) -> Any:  # fmt: skip
    """Play one action on each lake; lakes whose episode is not running stay as they are.

    Args:
        cells: (n, h*w) uint8.
        state: (ROWS, n) int64; streams are advanced by one draw.
        actions: (n,) int64.
        rewards: Receives the rewards, (n,) float64.
        flags: Receives the flags, (OWN_FLAG + 1, n) bool.
        ways: The table of ``dynamics.ways``, (4*h*w,) int64.
        success_rate: Probability to go where intended.
        limit: Steps after which an episode is truncated.

    Returns:
        How many episodes ended, or -1 - i if action i is none; then nothing has changed.
    """
    wrong = first_outside(actions, 4)
    if wrong >= 0:
        return -1 - wrong
    done = np.empty(actions.shape[0], np.int64)
    for i in range(actions.shape[0]):
        stream = advance(state[STREAM, i])
        running = state[PHASE, i] == RUNNING
        done[i] = slipped(actions[i], success_rate, uniform(stream))
        state[STREAM, i] = stream if running else state[STREAM, i]
        flags[SLIPPED, i] = (done[i] != actions[i]) & running
    walk_all(cells, state, ways, flags, done)
    for i in range(actions.shape[0]):
        tile = done[i]
        rewards[i] = _REWARDS[tile]
        flags[SUCCESS, i] = tile == GOAL
        done[i] = _ENDS[tile]
    return settle(state, done, limit, flags)


@jit
def walk_all(cells: Any, state: Any, ways: Any, flags: Any, turns: Any) -> None:
    """Walk in the directions ``turns``, which receives the tiles reached, 3 where none is."""
    for i in range(turns.shape[0]):
        before = state[POSITION, i]
        running = state[PHASE, i] == RUNNING
        after = ways[4 * before + turns[i]] if running else before
        cells[i, before] -= PLAYER
        tile = cells[i, after]
        cells[i, after] = tile + PLAYER
        state[POSITION, i] = after
        flags[EFFECTIVE, i] = after != before
        turns[i] = tile if running else 3


@jit
def start(cells: Any, state: Any, i: Any) -> None:
    """Begin an episode on lake ``i``, whose cells, with the player, are already in place."""
    for cell in range(cells.shape[1]):
        if cells[i, cell] >= PLAYER:
            state[POSITION, i] = cell
    begin(state, i)


@jit
def start_all(cells: Any, state: Any, phase: Any) -> None:
    """Begin an episode on every lake in a phase, whose cells are already in place."""
    for i in range(state.shape[1]):
        if state[PHASE, i] == phase:
            start(cells, state, i)


@jit
def restart_all(cells: Any, state: Any, phase: Any, level: Any) -> None:
    """Begin an episode on the same level, (h*w,) with the player, on every lake in a phase."""
    at = 0
    for cell in range(level.shape[0]):
        if level[cell] >= PLAYER:
            at = cell
    for i in range(state.shape[1]):
        if state[PHASE, i] == phase:
            for cell in range(level.shape[0]):
                cells[i, cell] = level[cell]
            state[POSITION, i] = at
            begin(state, i)


@jit
def draw_all(
    cells: Any, state: Any, phase: Any, height: Any, width: Any, p: Any, wanted: Any, ways: Any,
    key_weights: Any, images: Any,
) -> Any:  # fmt: skip
    """Begin an episode on a fresh map of the split ``wanted`` on every lake in a phase.

    Returns -1, or the first lake for which ``MAX_ATTEMPTS`` draws were not enough; its stream is as
    before.
    """
    size = height * width
    seen: Any = np.empty(size, np.int64)
    stack: Any = np.empty(size, np.int64)
    for i in range(state.shape[1]):
        if state[PHASE, i] != phase:
            continue
        tiles = cells[i]
        stream = state[STREAM, i]
        found = False
        for _ in range(MAX_ATTEMPTS):
            at, stream = attempt(tiles, height, width, p, stream)
            if has_path(tiles, size, at, ways, seen, stack):
                tiles[at] = GOAL + 1  # as in generator.map_key
                found = split_code(grid_key(tiles, key_weights, images)) == wanted
                tiles[at] = FROZEN + PLAYER
            if found:
                break
        if not found:
            return i
        state[STREAM, i] = stream
        start(cells, state, i)
    return -1


@jit
def begin_due(
    cells: Any, state: Any, due: Any, wanted: Any, only: Any, fixed: Any, height: Any, width: Any, p: Any,
    ways: Any, key_weights: Any, images: Any,
) -> Any:  # fmt: skip
    """Begin an episode on every lake in the phase ``due``, on the level ``fixed`` or else on a fresh one.

    ``fixed`` is (h*w,) with the player, or None; ``wanted`` holds the index of each lake's split, (n,) int64,
    and ``only`` is ``only_split`` of them. The rest, and what is returned, is as of ``draw_all``.
    """
    for code in range(len(SPLITS)):
        phase = called_up(state, due, wanted, only, code)
        if phase < 0:
            continue
        if fixed is None:
            failed = draw_all(
                cells, state, phase, height, width, p, code, ways, key_weights, images
            )
            if failed >= 0:
                return failed
        else:
            restart_all(cells, state, phase, fixed)
    return -1


@jit
def rollout(
    first: Any, last: Any, cells: Any, state: Any, actions: Any, rewards: Any, ends: Any, due: Any,
    wanted: Any, fixed: Any, success_rate: Any, limit: Any, height: Any, width: Any, p: Any,
    ways: Any, key_weights: Any, images: Any,
) -> Any:  # fmt: skip
    """Play many steps on the lakes ``first`` to ``last``, and begin the episodes that fall due.

    Threads can play different lakes at the same time. ``actions`` is (steps, n) int64, all in [0, 4);
    ``rewards``, (steps, n) float64, receives the rewards, and ``ends``, (3, steps, n) bool, the flags
    ``RECORDED``. Episodes begin in the phase ``due``, DUE or ENDED. The rest is as of ``step`` and
    ``begin_due``. Returns -1, or a lake for which no map was found.
    """
    for low in range(first, last, BLOCK):
        high = min(low + BLOCK, last)
        lakes, block = cells[low:high], state[:, low:high].copy()
        flags = np.empty((SLIPPED + 1, high - low), np.bool_)
        over = count_ended(block)
        only = only_split(wanted[low:high])
        failed = -1
        for t in range(actions.shape[0]):
            before = over
            over = step(
                lakes, block, actions[t, low:high], rewards[t, low:high], flags, ways, success_rate,
                limit,
            )  # fmt: skip
            record(flags, ends, t, low, high)
            if (before if due == DUE else over) > 0:
                failed = begin_due(
                    lakes, block, due, wanted[low:high], only, fixed, height, width, p, ways,
                    key_weights, images,
                )  # fmt: skip
                if failed >= 0:
                    break
        state[:, low:high] = block
        if failed >= 0:
            return low + failed
    return -1
