"""Sokoban levels from a stream: a room, reverse play from its solved state, and a walk of the player.

All functions are plain integer code on buffers that are given, so that they run the same when compiled.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ragen_envs.errors import GenerationError
from ragen_envs.games.sokoban.dynamics import BOX, FLOOR, PLAYER
from ragen_envs.games.sokoban.laws import Law
from ragen_envs.games.sokoban.level_key import room_key, room_weights
from ragen_envs.games.sokoban.reverse_play import (
    MOST_STEPS,
    Ints,
    Scratch,
    apart,
    reverse_play,
    scratch,
    walk_away,
)
from ragen_envs.games.sokoban.rooms import carve_room, place_targets
from ragen_envs.levels.keys import key_weights
from ragen_envs.levels.splits import SPLITS, split_code

MAX_ATTEMPTS: Final = 2000
"""Most rooms for one level."""
_WEIGHT_MASK: Final = (1 << 56) - 1


def attempt(
    board: Ints, height: int, width: int, boxes: int, law: Law, stream: int,
    weights: Sequence[int], buffers: Scratch,
) -> tuple[int, int]:  # fmt: skip
    """Try one room; see ``reverse_play`` for the buffers.

    Returns the player's index in the finished level, or 0 if the room was no good, and the advanced stream.
    """
    stream = carve_room(board, height, width, stream)
    start, stream = place_targets(board, height * width, boxes, buffers.origin, stream)
    if start == 0:
        return 0, stream
    player = reverse_play(board, width, boxes, start, law, weights, buffers)
    if player == 0:
        return 0, stream
    displacement = 0
    for b in range(boxes):
        board[buffers.best[b]] = BOX
        displacement += apart(buffers.best[b], buffers.origin[b], width)
    steps = MOST_STEPS * law.ragen
    player, stream = walk_away(board, width, player, steps, displacement, stream)
    board[player] = PLAYER if board[player] == FLOOR else PLAYER + 1
    return player, stream


def draw(
    board: Ints, height: int, width: int, boxes: int, law: Law, stream: int, wanted: int,
    weights: Sequence[int], room_weights: Sequence[int], buffers: Scratch,
) -> tuple[int, int]:  # fmt: skip
    """Draw levels until one belongs to the split with the index ``wanted``; see ``room_key`` for the rest.

    Returns the player's index, or 0 if ``MAX_ATTEMPTS`` rooms were not enough, and the advanced stream.
    """
    for _ in range(MAX_ATTEMPTS):
        player, stream = attempt(board, height, width, boxes, law, stream, weights, buffers)
        if player != 0:
            key = room_key(board, height, width, room_weights, buffers.stack, buffers.seen)
            if split_code(key) == wanted:
                return player, stream
    return 0, stream


def search_weights(height: int, width: int) -> NDArray[np.int64]:
    """Return hash weights of the cells, (h*w,), so small that the key of no state reaches 2^63.

    It is the sum of up to five for each of 16 boxes, and three.
    """
    return key_weights(height, width) & _WEIGHT_MASK


def generate(
    height: int, width: int, boxes: int, law: Law, stream: int, split: str
) -> tuple[bytearray, int, int]:
    """Draw levels until one belongs to the split.

    Returns:
        The board, (h*w,) cell codes; the player's index; the advanced stream.

    Raises:
        GenerationError: No level within ``MAX_ATTEMPTS`` rooms.
    """
    size = height * width
    board = bytearray(size)
    buffers = scratch(size, boxes, law, lambda n: [0] * n)
    weights = search_weights(height, width).tolist()
    player, stream = draw(
        board, height, width, boxes, law, stream, SPLITS.index(split), weights, room_weights(), buffers,
    )  # fmt: skip
    if player == 0:
        raise no_level(height, width, boxes)
    return board, player, stream


def no_level(height: int, width: int, boxes: int) -> GenerationError:
    """Return the error that says that ``MAX_ATTEMPTS`` rooms were not enough."""
    return GenerationError(
        f"none of {MAX_ATTEMPTS} rooms of size={height}x{width} gave a level with boxes={boxes} that "
        "belongs to the split; use a larger size or search_depth, or fewer boxes"
    )
