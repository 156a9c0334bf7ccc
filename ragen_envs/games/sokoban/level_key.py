"""Keys of Sokoban levels: equal for levels whose rooms are the same, wherever they lie in the frame.

The room of a level is what the player could reach if no box stood in the way. A key is the smallest, over
the eight rotations and reflections, of a random linear hash of the room's cells, each at its place in the
smallest rectangle around the room. What lies outside the room, where the room lies, and where the player
stands among the cells that it can walk to without a push, changes nothing.
"""

from collections.abc import MutableSequence, Sequence
from functools import lru_cache
from typing import Final

import numpy as np

from ragen_envs.games.sokoban.dynamics import BOX_ON_TARGET, FLOOR, PLAYER, WALL
from ragen_envs.levels.keys import grid_key

SIDE: Final = 32
"""Most rows and columns of a level that a generator draws, and those of the table of weights."""
_WEIGHT_BITS: Final = 50
"""So few that no sum over a room, 7 x 900 cells at most, reaches 2^63."""
_ENTROPY: Final = 0x5596
"""Decides which levels each split owns. The 6x6 game has so few common rooms that its splits differ in
difficulty by 4.1 points of random success for the median of 3,000 numbers from 0x50B0 on; this is one
for which they differ by 0.1, and each owns at least 15% of the draws."""


@lru_cache(maxsize=1)
def room_weights() -> tuple[int, ...]:
    """Return the fixed random weight of each place in a room, (SIDE * SIDE,) in [0, 2^50)."""
    words = np.random.SeedSequence(_ENTROPY).generate_state(SIDE * SIDE, np.uint64)
    return tuple(int(word) >> (64 - _WEIGHT_BITS) for word in words)


def room_key(
    board: Sequence[int], height: int, width: int, weights: Sequence[int],
    stack: MutableSequence[int], seen: MutableSequence[int],
) -> int:  # fmt: skip
    """Return the key of a level, in [0, 2^63).

    The board, (h*w,), is bordered by walls and has at least one player and at most ``SIDE`` rows and columns.
    ``stack`` and ``seen`` are scratch of one item a cell; ``seen`` is all zero before and after.
    """
    walked = _flood(board, width, stack, seen, 0, BOX_ON_TARGET)
    count = _flood(board, width, stack, seen, walked, PLAYER)
    top, left, bottom, right = height, width, 0, 0
    for k in range(count):
        row, column = stack[k] // width, stack[k] % width
        top, bottom = min(top, row), max(bottom, row)
        left, right = min(left, column), max(right, column)
        seen[stack[k]] = 0
    # The eight images side by side: a loop over them would be unrolled into far more machine code.
    a = b = c = d = e = f = g = h = 0
    for k in range(count):
        row, column = stack[k] // width, stack[k] % width
        up, down, start, end = row - top, bottom - row, column - left, right - column
        code = board[stack[k]]
        if k < walked and code < PLAYER:
            code += PLAYER - FLOOR
        a += code * weights[up * SIDE + start]
        b += code * weights[up * SIDE + end]
        c += code * weights[down * SIDE + start]
        d += code * weights[down * SIDE + end]
        e += code * weights[start * SIDE + up]
        f += code * weights[start * SIDE + down]
        g += code * weights[end * SIDE + up]
        h += code * weights[end * SIDE + down]
    return min(min(min(a, b), min(c, d)), min(min(e, f), min(g, h)))


def _flood(
    board: Sequence[int], width: int, stack: MutableSequence[int], seen: MutableSequence[int],
    count: int, solid: int,
) -> int:  # fmt: skip
    """Add what can be walked to from the players and ``count`` cells; return how many cells there are.

    Boxes stop a walker where ``solid`` is their first code, and do not where it is that of the player.
    """
    for cell in range(len(board)):
        if board[cell] >= PLAYER and seen[cell] == 0:
            seen[cell] = 1
            stack[count] = cell
            count += 1
    head = 0
    while head < count:
        for step in (-width, width, -1, 1):
            beside = stack[head] + step
            code = board[beside]
            if code != WALL and not solid <= code < PLAYER and seen[beside] == 0:
                seen[beside] = 1
                stack[count] = beside
                count += 1
        head += 1
    return count


def level_key(board: bytes | bytearray, height: int, width: int) -> int:
    """Return the key of a level from its cell codes (h*w,), in [0, 2^63)."""
    size = height * width
    if max(height, width) > SIDE:  # larger than the table of weights: the place of the room counts
        cells = np.frombuffer(board, np.uint8).reshape(height, width)
        upright = cells.T if width > height else cells
        return grid_key(upright.tobytes(), *upright.shape)
    return room_key(board, height, width, room_weights(), [0] * size, [0] * size)
