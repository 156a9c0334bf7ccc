"""Sokoban levels from a stream: a random-walk room, then reverse play from the solved state.

The method is that of Racanière et al. 2017 (I2A, appendix) in the variant of gym-sokoban. A walker
carves the room; player and targets are put on random floor; then a depth-first search pulls the boxes
away from their targets, and keeps the state that maximises (changes of the pulled box) x (sum of the
boxes' Manhattan distances to where they began), with no box on a target. Every level is solvable,
because each pull can be undone by a push.

Work is bounded: the search visits at most ``MAX_NODES`` states, and a level takes at most
``MAX_ATTEMPTS`` rooms. All functions are plain integer code on buffers that are given, so that they run
the same when compiled.
"""

from collections.abc import Callable, MutableSequence, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ragen_envs.errors import GenerationError
from ragen_envs.keys import grid_key, key_weights
from ragen_envs.seeding import STREAM_MASK, advance, below, word
from ragen_envs.sokoban.dynamics import BOX, FLOOR, PLAYER, TARGET, WALL
from ragen_envs.splits import SPLITS, split_code

MAX_ATTEMPTS: Final = 2000
MAX_NODES: Final = 1500
TABLE_SIZE: Final = 4096
"""Slots of the visited-state table, a power of two above 2 * MAX_NODES."""
TURN_BELOW: Final = 1503238553
"""The walker changes direction when its word is below this: probability 0.35."""

_WEIGHT_MASK: Final = (1 << 58) - 1

# Cells that the walker carves around itself, as bits of a 3x3 block read row by row.
BRUSHES: Final = (0b000111000, 0b010010010, 0b000110010, 0b000110110, 0b000011010)

Ints = MutableSequence[int]


def carve_room(board: Ints, height: int, width: int, stream: int) -> int:
    """Fill the board with walls and carve the walker's floor into it; return the advanced stream."""
    for i in range(height * width):
        board[i] = WALL
    stream = advance(stream)
    row = 1 + below(stream, height - 2)
    stream = advance(stream)
    column = 1 + below(stream, width - 2)
    stream = advance(stream)
    direction = below(stream, 4)
    for _ in range(17 * (height + width) // 10):
        stream = advance(stream)
        if word(stream) < TURN_BELOW:
            stream = advance(stream)
            direction = below(stream, 4)
        if direction == 0:
            row = max(row - 1, 1)
        elif direction == 1:
            row = min(row + 1, height - 2)
        elif direction == 2:
            column = max(column - 1, 1)
        else:
            column = min(column + 1, width - 2)
        stream = advance(stream)
        brush = BRUSHES[below(stream, 5)]
        for k in range(9):
            if (brush >> (8 - k)) & 1:
                r = row - 1 + k // 3
                c = column - 1 + k % 3
                if 0 < r < height - 1 and 0 < c < width - 1:
                    board[r * width + c] = FLOOR
    return stream


def place_targets(board: Ints, size: int, boxes: int, places: Ints, stream: int) -> tuple[int, int]:
    """Put targets on random floor and choose the player's cell.

    ``places`` receives the targets' indices in its first ``boxes`` items. Returns the player's index,
    or 0 if the room has too little floor, and the advanced stream.
    """
    floor = 0
    for i in range(size):
        if board[i] == FLOOR:
            floor += 1
    if floor <= boxes + 1:
        return 0, stream
    player = 0
    for k in range(boxes + 1):
        stream = advance(stream)
        pick = below(stream, floor - k)
        for i in range(size):
            if board[i] == FLOOR and i != player:
                if pick == 0:
                    if k == 0:
                        player = i
                    else:
                        board[i] = TARGET
                        places[k - 1] = i
                    break
                pick -= 1
    return player, stream


def _first_visit(table: Ints, key: int) -> int:
    """Enter a key into the table and return its slot, or -1 if it was there."""
    slot = (key >> 20) & (TABLE_SIZE - 1)
    while table[slot] != 0:
        if table[slot] == key:
            return -1
        slot = (slot + 1) & (TABLE_SIZE - 1)
    table[slot] = key
    return slot


def reverse_play(
    board: Ints, width: int, boxes: int, start: int, rotation: int, origin: Ints, now: Ints,
    best: Ints, occupied: Ints, weights: Sequence[int], table: Ints, trail: Ints,
) -> int:  # fmt: skip
    """Search backwards from the solved state; return the player's index in the best state, or 0.

    Args:
        board: Room with walls, floor and targets only; not changed.
        width: Cells in a row.
        boxes: Number of boxes.
        start: Index of the player.
        rotation: Which direction the search tries first, 0 to 3.
        origin: Indices of the targets, one a box.
        now: Scratch, one item a box.
        best: Receives the boxes' indices of the best state.
        occupied: Scratch, one item a cell, all zero before and after: 1 + the number of the box here.
        weights: One hash weight a cell.
        table: Scratch of ``TABLE_SIZE`` items, all zero before and after: the visited states.
        trail: Scratch of ``5 * (MAX_NODES + 2)`` items: four for each depth, then the slots in use.
    """
    off = (-width, width, -1, 1)
    key = 0
    for b in range(boxes):
        now[b] = origin[b]
        occupied[origin[b]] = b + 1
        key += weights[origin[b]]
    player = start
    on_target = boxes
    distance = 0
    swaps = 0
    last = -1
    best_score = 0
    best_player = 0
    nodes = 1
    depth = 0
    trail[0] = 0
    used = 4 * (MAX_NODES + 2)
    trail[used] = _first_visit(table, ((key + 3 * weights[player]) & STREAM_MASK) | 1)
    while depth >= 0:
        top = 4 * depth
        choice = trail[top]
        if choice == 8 or nodes >= MAX_NODES:
            if depth > 0:
                step = trail[top + 1]
                pulled = trail[top + 2]
                back = player - step
                if pulled >= 0:
                    here = now[pulled]
                    there = here - step
                    occupied[here] = 0
                    occupied[there] = pulled + 1
                    now[pulled] = there
                    key += weights[there] - weights[here]
                    on_target += int(board[there] == TARGET) - int(board[here] == TARGET)
                    distance += _apart(there, origin[pulled], width)
                    distance -= _apart(here, origin[pulled], width)
                    last = trail[top + 3] % 64 - 1
                    swaps = trail[top + 3] // 64
                player = back
            depth -= 1
            continue
        trail[top] = choice + 1
        step = off[(choice + rotation) & 3]
        ahead = player + step
        if board[ahead] == WALL or occupied[ahead] != 0:
            continue
        pulled = -1
        there = player - step
        if choice < 4:
            pulled = occupied[there] - 1
            if pulled < 0:
                continue
        moved = key
        if pulled >= 0:
            moved += weights[player] - weights[there]
        slot = _first_visit(table, ((moved + 3 * weights[ahead]) & STREAM_MASK) | 1)
        if slot < 0:
            continue
        trail[used + nodes] = slot
        nodes += 1
        depth += 1
        top = 4 * depth
        trail[top] = 0
        trail[top + 1] = step
        trail[top + 2] = pulled
        trail[top + 3] = swaps * 64 + last + 1
        key = moved
        if pulled >= 0:
            occupied[there] = 0
            occupied[player] = pulled + 1
            now[pulled] = player
            on_target += int(board[player] == TARGET) - int(board[there] == TARGET)
            distance += _apart(player, origin[pulled], width)
            distance -= _apart(there, origin[pulled], width)
            if pulled != last:
                swaps += 1
                last = pulled
        player = ahead
        if on_target == 0 and swaps * distance > best_score:
            best_score = swaps * distance
            best_player = player
            for b in range(boxes):
                best[b] = now[b]
    for b in range(boxes):
        occupied[now[b]] = 0
    for k in range(nodes):
        table[trail[used + k]] = 0
    return best_player


def _apart(a: int, b: int, width: int) -> int:
    return abs(a // width - b // width) + abs(a % width - b % width)


def attempt(
    board: Ints, height: int, width: int, boxes: int, stream: int, origin: Ints, now: Ints, best: Ints,
    occupied: Ints, weights: Sequence[int], table: Ints, trail: Ints,
) -> tuple[int, int]:  # fmt: skip
    """Try one room; see ``reverse_play`` for the buffers.

    Returns the player's index in the finished level, or 0 if the room was no good, and the advanced
    stream.
    """
    stream = carve_room(board, height, width, stream)
    start, stream = place_targets(board, height * width, boxes, origin, stream)
    if start == 0:
        return 0, stream
    stream = advance(stream)
    player = reverse_play(
        board,
        width,
        boxes,
        start,
        below(stream, 4),
        origin,
        now,
        best,
        occupied,
        weights,
        table,
        trail,
    )
    if player != 0:
        for b in range(boxes):
            board[best[b]] = BOX
        board[player] = PLAYER if board[player] == FLOOR else PLAYER + 1
    return player, stream


def scratch(
    size: int, boxes: int, make: Callable[[int], Ints]
) -> tuple[Ints, Ints, Ints, Ints, Ints, Ints]:
    """Return origin, now, best, occupied, table and trail, made of zeros by ``make(length)``."""
    return (
        make(boxes), make(boxes), make(boxes), make(size), make(TABLE_SIZE), make(5 * (MAX_NODES + 2))
    )  # fmt: skip


def search_weights(height: int, width: int) -> NDArray[np.int64]:
    """Return hash weights of the cells, (h*w,), so small that no sum over a state reaches 2^63."""
    return key_weights(height, width) & _WEIGHT_MASK


def generate(
    height: int, width: int, boxes: int, stream: int, split: str
) -> tuple[bytearray, int, int]:
    """Draw levels until one belongs to the split.

    Returns:
        The board, (h*w,) cell codes; the player's index; the advanced stream.

    Raises:
        GenerationError: No level within ``MAX_ATTEMPTS`` rooms.
    """
    size = height * width
    board = bytearray(size)
    origin, now, best, occupied, table, trail = scratch(size, boxes, lambda n: [0] * n)
    weights = search_weights(height, width).tolist()
    wanted = SPLITS.index(split)
    for _ in range(MAX_ATTEMPTS):
        player, stream = attempt(
            board, height, width, boxes, stream, origin, now, best, occupied, weights, table, trail
        )
        if player and split_code(grid_key(board, height, width)) == wanted:
            return board, player, stream
    raise no_level(height, width, boxes)


def no_level(height: int, width: int, boxes: int) -> GenerationError:
    """Return the error that says that ``MAX_ATTEMPTS`` rooms were not enough."""
    return GenerationError(
        f"no level with boxes={boxes} on size={height}x{width} in {MAX_ATTEMPTS} rooms; "
        "use a larger size or fewer boxes"
    )
