"""Compiled searches over the moves of Sokoban: shortest solutions, and the worth of a number of actions.

Importing this module loads numba.

A state is a row: the player's cell, then the boxes' cells. Boxes are alike, so the key of a state does
not depend on their order. A node is a state's key, open targets, and 4 * parent + action.
"""

from typing import Any, Final

import numpy as np

from ragen_envs.compiled.compiling import inner, jit, share
from ragen_envs.games.sokoban import dynamics
from ragen_envs.games.sokoban.dynamics import (
    BOX,
    BOX_ON_TARGET,
    PLAYER,
    TARGET,
    WALL,
    Reward,
    move,
    offsets,
    reward_of,
)

UNSOLVABLE: Final = -1
"""Length where a board has no solution within ``max_moves``."""
LIMIT: Final = -2
"""Length where ``max_states`` were too few to decide a board."""

KEY: Final = 0
LEFT: Final = 1
LINK: Final = 2

share(dynamics.move, dynamics.offsets, dynamics.reward_of)


@inner
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
def grown(array: Any) -> Any:
    """Return an array of twice as many rows that begins with the given one."""
    larger = np.empty((2 * array.shape[0], array.shape[1]), array.dtype)
    for row in range(array.shape[0]):  # assigning to a slice takes seconds to compile
        for column in range(array.shape[1]):
            larger[row, column] = array[row, column]
    return larger


@inner
def read(board: Any, floor: Any, states: Any) -> Any:
    """Split a board into the bare floor plan and state 0; return the number of targets without a box."""
    left = 0
    b = 1
    for i in range(board.shape[0]):
        floor[i] = board[i]
        if board[i] >= PLAYER:
            states[0, 0] = i
            floor[i] = board[i] - 4
            left += int(floor[i] == TARGET)
        elif board[i] >= BOX_ON_TARGET:
            states[0, b] = i
            b += 1
            floor[i] = 5 - board[i]
        else:
            left += int(board[i] == TARGET)
    return left


@inner
def put(board: Any, floor: Any, states: Any, node: Any) -> None:
    """Put the pieces of a state onto a board that shows the bare floor plan."""
    for b in range(1, states.shape[1]):
        cell = states[node, b]
        board[cell] = BOX_ON_TARGET if floor[cell] == TARGET else BOX
    board[states[node, 0]] = floor[states[node, 0]] + 4


@inner
def lift(board: Any, floor: Any, states: Any, node: Any) -> None:
    """Take the pieces of a state off the board again."""
    for b in range(states.shape[1]):
        board[states[node, b]] = floor[states[node, b]]


@inner
def tried(board: Any, player: Any, offset: Any) -> Any:
    """Return the effects of ``dynamics.move``, and leave the board as it is."""
    ahead = player + offset
    beyond = ahead + offset if board[ahead] >= BOX_ON_TARGET else ahead
    here, near, far = board[player], board[ahead], board[beyond]
    outcome = move(board, player, offset)
    board[beyond] = far
    board[ahead] = near
    board[player] = here
    return outcome


@inner
def write(states: Any, parent: Any, node: Any, ahead: Any, pushed: Any, offset: Any) -> None:
    """Write the state after a move: the player is ahead, and the pushed box, if any, one further."""
    states[node, 0] = ahead
    for b in range(1, states.shape[1]):
        cell = states[parent, b]
        states[node, b] = cell + offset if cell == pushed else cell


@inner
def first_key(states: Any, weights: Any) -> Any:
    """Return the hash key of state 0; weights are below 2^58, so that no sum overflows."""
    key = 3 * weights[states[0, 0]]
    for b in range(1, states.shape[1]):
        key += weights[states[0, b]]
    return key


@jit
def backtrack(nodes: Any, node: Any, length: Any) -> Any:
    """Return the actions that lead to a node."""
    path = np.empty(length, np.int8)
    for k in range(length - 1, -1, -1):
        path[k] = nodes[node, LINK] & 3
        node = nodes[node, LINK] >> 2
    return path


@jit
def live_squares(floor: Any, off: Any) -> Any:
    """Return, for each cell, whether a box on it could be pushed to a target if it were the only box.

    Found backwards, by pulling a box from every target. All other cells are dead squares.
    """
    live = np.zeros(floor.shape[0], np.bool_)
    cells = np.empty(floor.shape[0], np.int16)
    count = 0
    for target in range(floor.shape[0]):
        if floor[target] == TARGET:
            live[target] = True
            cells[count] = target
            count += 1
    while count:
        count -= 1
        cell = np.int64(cells[count])
        for action in range(4):
            box = cell - off[action]
            if not live[box] and floor[box] != WALL and floor[box - off[action]] != WALL:
                live[box] = True
                cells[count] = box
                count += 1
    return live


@jit
def search(start: Any, width: Any, weights: Any, max_states: Any, max_moves: Any) -> Any:
    """Return the fewest moves (or UNSOLVABLE or LIMIT) and the actions of a shortest solution.

    States with a box on a dead square are pruned: no solution has them. ``start`` has cell codes, (h*w,)
    uint8, bordered by walls, with one player; ``weights`` are hash weights of the cells, (h*w,) int64 below
    2^58.
    """
    boxes, targets = 0, 0
    for cell in start:
        boxes += int(BOX_ON_TARGET <= cell <= BOX)
    nothing = np.empty(0, np.int8)
    states = np.empty((256, boxes + 1), np.int16)
    nodes = np.empty((256, 3), np.int64)
    table: Any = np.zeros(512, np.int64)
    floor = np.empty_like(start)
    nodes[0, LEFT] = read(start, floor, states)
    nodes[0, KEY] = first_key(states, weights)
    if nodes[0, LEFT] == 0:
        return 0, nothing
    off = offsets(width)
    live = live_squares(floor, off)
    for cell in floor:
        targets += int(cell == TARGET)
    if boxes > targets:  # spare boxes may stay anywhere
        live[:] = True
    for b in range(1, boxes + 1):
        if not live[states[0, b]]:
            return UNSOLVABLE, nothing
    table[slot_of(table, nodes, nodes[0, KEY])] = 1
    board = floor.copy()
    count: Any = np.int64(1)  # a plain 1 is compiled as a type of its own first
    head: Any = np.int64(0)
    depth, level_end = 0, 1
    while head < count:
        if head == level_end:
            depth += 1
            level_end = count
        if depth == max_moves:
            return UNSOLVABLE, nothing
        put(board, floor, states, head)
        player = np.int64(states[head, 0])
        for action in range(4):
            ahead, moved, pushed, gained = tried(board, player, off[action])
            if moved == 0:
                continue
            if pushed != 0 and not live[pushed + off[action]]:
                continue
            key = nodes[head, KEY] + 3 * (weights[ahead] - weights[player])
            if pushed != 0:
                key += weights[pushed + off[action]] - weights[pushed]
            slot = slot_of(table, nodes, key)
            if table[slot] != 0:
                continue
            if count == states.shape[0]:
                states, nodes = grown(states), grown(nodes)
            write(states, head, count, ahead, pushed, off[action])
            nodes[count, KEY] = key
            nodes[count, LEFT] = nodes[head, LEFT] - gained
            nodes[count, LINK] = 4 * head + action
            if nodes[count, LEFT] == 0:
                return depth + 1, backtrack(nodes, count, depth + 1)
            count += 1
            table[slot] = count
            if count >= max_states:
                return LIMIT, nothing
            if 2 * count > table.shape[0]:
                table = reindexed(table, nodes, count)
        lift(board, floor, states, head)
        head += 1
    return UNSOLVABLE, nothing


@jit
def explore(start: Any, width: Any, weights: Any, reward: Any, depth: Any, max_states: Any) -> Any:
    """Enumerate the states within ``depth`` actions; nothing is played in the farthest and the solved ones.

    ``start`` and ``weights`` are those of ``search``, and ``reward`` has the fields of a ``Reward``. Return
    for each state, number 0 being the start: the states after each action, (n, 4) int64; the rewards of the
    actions, (n, 4) float64; the open targets, (n,) int64. With more than ``max_states`` states, they are
    empty.
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
    count: Any = np.int64(1)
    head: Any = np.int64(0)
    level, level_end = 0, 1
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
            key = keys[head, 0]
            if moved != 0:
                key += 3 * (weights[ahead] - weights[player])
            if pushed != 0:
                key += weights[pushed + off[action]] - weights[pushed]
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
            after = table[slot] - 1
            successors[head, action] = after
            solved = moved != 0 and left[after, 0] == 0
            paid[head, action] = reward_of(pay, gained, solved)
        lift(board, floor, states, head)
        head += 1
    return successors[:count], paid[:count], left[:count, 0]
