"""Many lakes at once: the rules, the generator and the start of episodes, compiled.

A lake's row of cells is its observation: its tiles, with ``PLAYER`` added where the player is.
Importing this module loads numba.
"""

from typing import Any, Final

import numpy as np

from ragen_envs.compiled.compiling import in_place, inner, jit, share
from ragen_envs.compiled.kernels import (
    DUE,
    EFFECTIVE,
    OWN,
    OWN_FLAG,
    PHASE,
    RUNNING,
    STREAM,
    SUCCESS,
    begin,
    choose,
    first_outside,
    grid_key,
    settle,
)
from ragen_envs.games.frozen_lake import dynamics, generator
from ragen_envs.games.frozen_lake.dynamics import FROZEN, GOAL, PLAYER, outcome, slipped
from ragen_envs.games.frozen_lake.generator import MAX_ATTEMPTS, attempt, close_off, has_path
from ragen_envs.levels.seeding import advance, uniform
from ragen_envs.levels.splits import split_code

POSITION: Final = OWN
"""Row of a state: the player's cell."""
ROWS: Final = OWN + 1
SLIPPED: Final = OWN_FLAG

SUCCESS_RATE: Final = 0
"""Item of the settings: probability to go where intended."""
LIMIT: Final = 1
"""Item of the settings: steps after which an episode is truncated."""
HOME: Final = 2
"""Item of the settings: where the next episode begins at once on lakes that are not running, or -1."""


TOLERANCE: Final = 1e-13
"""Margin by which a vector may exceed another one and still count as dominated: rounding only."""

share(
    dynamics.turned, dynamics.slipped, dynamics.outcome, generator.attempt, generator.has_path,
    generator.close_off,
)  # fmt: skip


@in_place
def step(
    tiles: Any, cells: Any, state: Any, actions: Any, rewards: Any, flags: Any, scratch: Any, ways: Any,
    settings: Any,
) -> Any:  # fmt: skip
    """Play one action on each lake; lakes whose episode is not running stay as they are, or begin again.

    See ``GameVectorEnv._play``. ``tiles``, (n, h*w) uint8, are without the players and ``cells`` with them;
    ``ways`` is the table of ``dynamics.ways``; ``settings`` are ``SUCCESS_RATE``, ``LIMIT`` and ``HOME``.
    """
    wrong = first_outside(actions, 4)
    if wrong >= 0:
        return -1 - wrong
    success_rate, home = settings[SUCCESS_RATE], int(settings[HOME])
    turns = scratch[: actions.shape[0]]
    for i in range(actions.shape[0]):
        stream = advance(state[STREAM, i])
        running = state[PHASE, i] == RUNNING
        turns[i] = slipped(actions[i], success_rate, uniform(stream))
        state[STREAM, i] = stream if running else state[STREAM, i]
        flags[SLIPPED, i] = (turns[i] != actions[i]) & running
    walk_all(tiles, cells, state, ways, flags, turns, home)
    for i in range(actions.shape[0]):
        running = state[PHASE, i] == RUNNING
        reward, over = outcome(turns[i])
        rewards[i] = reward if running else 0.0
        flags[SUCCESS, i] = (turns[i] == GOAL) & running
        turns[i] = over & running
    return settle(state, turns, int(settings[LIMIT]), flags, DUE if home < 0 else RUNNING)


@inner
def walk_all(tiles: Any, cells: Any, state: Any, ways: Any, flags: Any, turns: Any, home: Any) -> None:
    """Walk in the directions ``turns``, which receives the tiles where the players are then."""
    for i in range(turns.shape[0]):
        here = state[POSITION, i]
        # For signed indices, numba checks for negative values.
        turns[i] = ways[np.uint64(4 * here + turns[i])]
        cells[i, np.uint64(here)] = tiles[i, np.uint64(here)]
    for i in range(turns.shape[0]):
        before = state[POSITION, i]
        running = state[PHASE, i] == RUNNING
        after = turns[i] if running else (before if home < 0 else home)
        flags[EFFECTIVE, i] = (after != before) & running
        state[POSITION, i] = after
    for i in range(turns.shape[0]):
        here = np.uint64(state[POSITION, i])
        turns[i] = tiles[i, here]
        cells[i, here] = tiles[i, here] + PLAYER


@inner
def start(tiles: Any, cells: Any, state: Any, i: Any) -> None:
    """Begin an episode on lake ``i``, whose tiles, with the player, are already in place."""
    for cell in range(tiles.shape[1]):
        cells[i, cell] = tiles[i, cell]
        if tiles[i, cell] >= PLAYER:
            tiles[i, cell] -= PLAYER
            state[POSITION, i] = cell
    begin(state, i)


@in_place
def start_all(tiles: Any, cells: Any, state: Any, phase: Any, levels: Any) -> None:
    """Begin an episode on every lake in a phase: on one of some levels, (k, h*w), or on its own tiles."""
    for i in range(state.shape[1]):
        if state[PHASE, i] == phase:
            if levels is not None:
                chosen = choose(state, i, levels.shape[0])
                for cell in range(levels.shape[1]):
                    tiles[i, cell] = levels[chosen, cell]
            start(tiles, cells, state, i)


@jit
def draw_all(
    lakes: Any, cells: Any, state: Any, phase: Any, wanted: Any, height: Any, width: Any, p: Any, ways: Any,
    key_weights: Any, images: Any,
) -> Any:  # fmt: skip
    """Begin an episode on a fresh map on every lake in a phase.

    ``wanted`` holds the index of each lake's split, (n,) int64. Returns -1, or the first lake for which
    ``MAX_ATTEMPTS`` draws were not enough; its stream is as before.
    """
    size = height * width
    seen: Any = np.empty(size, np.int64)
    stack: Any = np.empty(size, np.int64)
    for i in range(state.shape[1]):
        if state[PHASE, i] != phase:
            continue
        tiles = lakes[i]
        stream = state[STREAM, i]
        fits = False
        for _ in range(MAX_ATTEMPTS):
            at, stream = attempt(tiles, height, width, p, stream)
            if has_path(tiles, size, at, ways, seen, stack):
                close_off(tiles, size, seen, stack)
                fits = split_code(grid_key(stack, key_weights, images)) == wanted[i]
                tiles[at] = FROZEN + PLAYER
            if fits:
                break
        if not fits:
            return i
        state[STREAM, i] = stream
        start(lakes, cells, state, i)
    return -1


@jit
def undominated(vectors: Any, order: Any, limit: Any) -> Any:
    """Return the indices of the vectors that no other one dominates, and the number of pairs compared.

    Vectors are (n, cells) float64. The order, (n,), is by falling sum, so that no vector is dominated by a
    later one; of equal vectors the first is kept. After ``limit`` pairs the result is incomplete.
    """
    kept = np.empty(order.shape[0], np.int64)
    count, pairs = 0, 0
    for i in order:
        if pairs > limit:
            break
        dominated = False
        for k in range(count):
            pairs += 1
            dominated = True
            for cell in range(vectors.shape[1]):
                if vectors[i, cell] > vectors[kept[k], cell] + TOLERANCE:
                    dominated = False
                    break
            if dominated:
                break
        if not dominated:
            kept[count] = i
            count += 1
    return kept[:count], pairs
