"""The rules and the search, compiled. Importing this module loads numba; nothing else here does."""

from typing import Any, Final

import numba
import numpy as np

from ragen_envs.seeding import STREAM_MASK
from ragen_envs.sokoban import dynamics
from ragen_envs.sokoban.dynamics import BOX, BOX_ON_TARGET, PLAYER, TARGET

UNSOLVABLE: Final = -1
LIMIT: Final = -2

move = numba.njit(cache=True)(dynamics.move)


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def first_visit(table: Any, key: Any) -> bool:
    """Enter a non-zero key into an open-addressing table of 2^k slots; False if it was there."""
    mask = table.shape[0] - 1
    slot = (key >> 20) & mask
    while table[slot] != 0:
        if table[slot] == key:
            return False
        slot = (slot + 1) & mask
    table[slot] = key
    return True


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def place(board: Any, floor: Any, state: Any) -> None:
    """Write the player (item 0) and the boxes (the rest) of a state onto the bare floor plan."""
    board[:] = floor
    for b in range(1, state.shape[0]):
        board[state[b]] = BOX_ON_TARGET if floor[state[b]] == TARGET else BOX
    board[state[0]] = floor[state[0]] + 4


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def search(start: Any, width: Any, weights: Any, max_states: Any, max_moves: Any) -> Any:
    """Breadth-first search; returns the length (or UNSOLVABLE or LIMIT) and the actions."""
    size = start.shape[0]
    floor = start.copy()
    boxes = 0
    for i in range(size):
        if start[i] == BOX or start[i] == BOX_ON_TARGET:
            boxes += 1
    slots = 1024
    table = np.zeros(slots, np.int64)
    capacity = 512
    states = np.empty((capacity, boxes + 1), np.int16)
    parents = np.empty(capacity, np.int32)
    actions = np.empty(capacity, np.int8)
    key = np.int64(0)
    left = 0
    b = 1
    for i in range(size):
        if start[i] >= PLAYER:
            states[0, 0] = i
            floor[i] = start[i] - 4
            key += 3 * weights[i]
        elif start[i] == BOX or start[i] == BOX_ON_TARGET:
            states[0, b] = i
            b += 1
            floor[i] = 5 - start[i]
            key += weights[i]
            left += int(start[i] == BOX)
    if left == 0:
        return 0, np.empty(0, np.int8)
    first_visit(table, (key & STREAM_MASK) | 1)
    board = np.empty_like(start)
    off = (-width, width, -1, 1)
    count = 1
    head = 0
    depth = 0
    level_end = 1
    while head < count:
        if head == level_end:
            depth += 1
            level_end = count
        if depth == max_moves:
            return UNSOLVABLE, np.empty(0, np.int8)
        for action in range(4):
            place(board, floor, states[head])
            player = states[head, 0]
            ahead, moved, pushed, gained = move(board, player, off[action])
            if moved == 0:
                continue
            if count == capacity:
                capacity *= 2
                states = _grown(states, capacity)
                parents = np.append(parents, np.empty_like(parents))
                actions = np.append(actions, np.empty_like(actions))
            states[count] = states[head]
            states[count, 0] = ahead
            key = 3 * weights[ahead]
            unsolved = 0
            for j in range(1, boxes + 1):
                if pushed != 0 and states[count, j] == pushed:
                    states[count, j] = pushed + off[action]
                cell = states[count, j]
                key += weights[cell]
                unsolved += int(floor[cell] != TARGET)
            if not first_visit(table, (key & STREAM_MASK) | 1):
                continue
            parents[count] = head
            actions[count] = action
            if unsolved == 0:
                return depth + 1, _backtrack(parents, actions, count, depth + 1)
            count += 1
            if count >= max_states:
                return LIMIT, np.empty(0, np.int8)
            if 2 * count > slots:
                slots *= 2
                table = _rehashed(table, slots)
        head += 1
    return UNSOLVABLE, np.empty(0, np.int8)


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _grown(states: Any, capacity: Any) -> Any:
    grown = np.empty((capacity, states.shape[1]), states.dtype)
    grown[: states.shape[0]] = states
    return grown


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _rehashed(table: Any, slots: Any) -> Any:
    larger = np.zeros(slots, np.int64)
    for key in table:
        if key != 0:
            first_visit(larger, key)
    return larger


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _backtrack(parents: Any, actions: Any, node: Any, length: Any) -> Any:
    path = np.empty(length, np.int8)
    for k in range(length - 1, -1, -1):
        path[k] = actions[node]
        node = parents[node]
    return path
