"""Compiled enumeration of the states of a Sokoban board, and backward induction over them.

States and keys are those of ``ragen_envs.games.sokoban.search``. Importing this module loads numba.
"""

from typing import Any

import numpy as np

from ragen_envs.compiled.compiling import jit, share
from ragen_envs.games.sokoban import dynamics
from ragen_envs.games.sokoban.dynamics import (
    BOX,
    BOX_ON_TARGET,
    Reward,
    approach,
    offsets,
    reward_of,
)
from ragen_envs.games.sokoban.search import first_key, grown, lift, put, read, tried, write

share(dynamics.approach, dynamics.reward_of)


@jit
def slot_of(table: Any, keys: Any, key: Any) -> Any:
    """Return the slot of a key in an open-addressing table of 1 + the number of each known node."""
    mask = table.shape[0] - 1
    slot = (key >> 20) & mask
    while table[slot] != 0 and keys[table[slot] - 1, 0] != key:
        slot = (slot + 1) & mask
    return slot


@jit
def reindexed(table: Any, keys: Any, count: Any) -> Any:
    """Return a table of twice as many slots for the first ``count`` nodes."""
    larger = np.zeros(2 * table.shape[0], np.int64)
    for node in range(count):
        larger[slot_of(larger, keys, keys[node, 0])] = node + 1
    return larger


@jit
def explore(
    start: Any, width: Any, weights: Any, distances: Any, reward: Any, depth: Any, max_states: Any
) -> Any:
    """Enumerate the states within ``depth`` actions; nothing is played in the farthest and the solved ones.

    Args:
        start: Cell codes, (h*w,) uint8, bordered by walls, with one player.
        width: Cells in a row.
        weights: Hash weights of the cells, (h*w,) int64 below 2^58.
        distances: ``dynamics.target_distances`` of the board, (h*w,) int64.
        reward: The fields of a ``Reward``.
        depth: Most actions.
        max_states: Most states to enumerate; if there are more, the results are empty.

    Returns:
        For each state, number 0 being the start: the states after each action, (n, 4) int64; the rewards
        of the actions, (n, 4) float64; the boxes off target, (n,) int64.
    """
    pay = Reward(*reward)
    boxes = 0
    for cell in start:
        boxes += int(BOX_ON_TARGET <= cell <= BOX)
    states = np.empty((256, boxes + 1), np.int16)
    keys = np.empty((256, 1), np.int64)
    left = np.empty((256, 1), np.int64)
    successors = np.empty((256, 4), np.int64)
    paid = np.zeros((256, 4))
    table = np.zeros(1024, np.int64)
    floor = np.empty_like(start)
    left[0, 0] = read(start, floor, states)
    keys[0, 0] = first_key(states, weights)
    table[slot_of(table, keys, keys[0, 0])] = 1
    board = floor.copy()
    off = offsets(width)
    count, head, level, level_end = 1, 0, 0, 1
    while head < count:
        if head == level_end:
            level += 1
            level_end = count
        if level == depth or left[head, 0] == 0:
            successors[head] = head
            paid[head] = 0.0
            head += 1
            continue
        put(board, floor, states, head)
        player = np.int64(states[head, 0])
        for action in range(4):
            ahead, moved, pushed, gained = tried(board, player, off[action])
            closer = 0
            key = keys[head, 0]
            if moved != 0:
                key += 3 * (weights[ahead] - weights[player])
            if pushed != 0:
                key += weights[pushed + off[action]] - weights[pushed]
                closer = approach(distances, pushed, pushed + off[action])
            slot = slot_of(table, keys, key)
            if table[slot] == 0:
                if count == max_states:
                    return successors[:0], paid[:0], left[:0, 0]
                if count == states.shape[0]:
                    states, keys, left = grown(states), grown(keys), grown(left)
                    successors, paid = grown(successors), grown(paid)
                write(states, head, count, ahead, pushed, off[action])
                keys[count, 0] = key
                left[count, 0] = left[head, 0] - gained
                table[slot] = count + 1
                count += 1
                if 2 * count > table.shape[0]:
                    table = reindexed(table, keys, count)
                    slot = slot_of(table, keys, key)
            there = table[slot] - 1
            successors[head, action] = there
            solved = moved != 0 and left[there, 0] == 0
            paid[head, action] = reward_of(pay, gained, solved, closer)
        lift(board, floor, states, head)
        head += 1
    return successors[:count], paid[:count], left[:count, 0]


@jit
def evaluate(successors: Any, paid: Any, left: Any, steps: Any, least: Any) -> Any:
    """Return the worth of ``steps`` actions in state 0: random success, random return, largest return.

    The first arguments are the results of ``explore`` for a depth of ``steps``. The largest return is
    that of ``least`` to ``steps`` actions.
    """
    size = left.shape[0]
    values = np.zeros((size, 3))
    for state in range(size):
        values[state, 0] = int(left[state] == 0)
    after = values.copy()
    for played in range(steps - 1, -1, -1):
        for state in range(size):
            if left[state] == 0:
                continue
            success, mean, best = 0.0, 0.0, 0.0 if played >= least else -np.inf
            for action in range(4):
                there = successors[state, action]
                success += after[there, 0]
                mean += paid[state, action] + after[there, 1]
                best = max(best, paid[state, action] + after[there, 2])
            values[state, 0] = success / 4
            values[state, 1] = mean / 4
            values[state, 2] = best
        values, after = after, values
    return after[0]
