"""The rooms of Sokoban: the boxes that they can hold, how they are carved, and where the player starts.

A random walk carves the floor, as in Racanière et al. 2017 (I2A, appendix) and gym-sokoban. Plain integer
code on the buffers it is given, so that it runs the same when compiled.

Every box of a level must be pulled off its target at least once. A pull needs three cells in a line: the
box's, the player's, and the one that the player steps back to. In the smallest rooms this leaves space for
few boxes. The numbers are those of an exhaustive search over all places of targets, boxes and player in a
room without inner walls; a wall only takes possibilities away.
"""

from collections.abc import MutableSequence
from typing import Final

from ragen_envs.errors import RagenError
from ragen_envs.games.sokoban.dynamics import FLOOR, TARGET, WALL
from ragen_envs.levels.seeding import advance, below, word

TURN_BELOW: Final = 1503238553
"""The walker changes direction when its word is below this: probability 0.35."""

# Cells that the walker carves around itself, as bits of a 3x3 block read row by row.
BRUSHES: Final = (0b000111000, 0b010010010, 0b000110010, 0b000110110, 0b000011010)

_MOST_BOXES: Final = {(3, 3): 3, (3, 4): 4, (3, 5): 6, (4, 4): 6}
"""Most boxes of small rooms, by the shorter and the longer side inside the outer walls."""

Ints = MutableSequence[int]


def most_boxes(height: int, width: int) -> int:
    """Return an upper bound on the boxes of a level on a board; exact for boards up to 6x6."""
    short, long = sorted((height - 2, width - 2))
    if short == 2:  # boxes move along the room only, and each row needs a free cell
        return 2 * ((long - 1) // 2)
    return _MOST_BOXES.get((short, long), short * long // 2)


def check_room(height: int, width: int, boxes: int) -> None:
    """Raise `RagenError` if no level with so many boxes fits on a board."""
    most = most_boxes(height, width)
    if most == 0:
        raise RagenError(
            f"size is {height}x{width}, but a board of 4x4 has no space for a level; use 4x5 or larger"
        )
    if boxes > most:
        raise RagenError(
            f"boxes is {boxes}, but a level on a board of {height}x{width} has at most {most}; "
            "use a larger size or fewer boxes"
        )


def carve_room(board: Ints, height: int, width: int, any_start: int, stream: int) -> int:
    """Fill the board with walls and carve the walker's floor into it; return the advanced stream.

    ``any_start`` is 1 if the walker may start on the last row or column, else 0.
    """
    for i in range(height * width):
        board[i] = WALL
    stream = advance(stream)
    row = 1 + below(stream, height - 2 + any_start)
    stream = advance(stream)
    column = 1 + below(stream, width - 2 + any_start)
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
