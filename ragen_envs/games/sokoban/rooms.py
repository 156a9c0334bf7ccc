"""The rooms of Sokoban: how they are carved, and where targets and player begin.

A random walk carves the floor, as in Racanière et al. 2017 (I2A, appendix) and gym-sokoban. Plain integer
code on the buffers it is given, so that it runs the same when compiled.
"""

from collections.abc import MutableSequence
from typing import Final

from ragen_envs.games.sokoban.dynamics import FLOOR, TARGET, WALL
from ragen_envs.levels.seeding import advance, below, word

TURN_BELOW: Final = 1503238553
"""The walker changes direction when its word is below this: probability 0.35."""

# Cells that the walker carves around itself, as bits of a 3x3 block read row by row.
BRUSHES: Final = (0b000111000, 0b010010010, 0b000110010, 0b000110110, 0b000011010)

Ints = MutableSequence[int]


def carve_room(board: Ints, height: int, width: int, stream: int) -> int:
    """Fill the board with walls and carve the walker's floor into it; return the advanced stream.

    The walker may start on the last row or column; its first step brings it inside.
    """
    for i in range(height * width):
        board[i] = WALL
    stream = advance(stream)
    row = 1 + below(stream, height - 1)
    stream = advance(stream)
    column = 1 + below(stream, width - 1)
    stream = advance(stream)
    direction = below(stream, 4)
    for _ in range(17 * (height + width) // 10):
        stream = advance(stream)
        if word(stream) < TURN_BELOW:
            stream = advance(stream)
            direction = below(stream, 4)
        row += int(direction == 1) - int(direction == 0)
        column += int(direction == 3) - int(direction == 2)
        row = min(max(row, 1), height - 2)
        column = min(max(column, 1), width - 2)
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
