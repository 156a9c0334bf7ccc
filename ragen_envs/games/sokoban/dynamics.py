"""The rules of Sokoban, once, for every face of the game.

A board is a flat, row-major buffer of cell codes whose border is wall. The functions read and write
the buffer they are given, so that they run unchanged on a ``bytearray`` in plain Python and on an
array row when compiled.
"""

from collections.abc import MutableSequence, Sequence
from typing import Final, NamedTuple

WALL: Final = 0
FLOOR: Final = 1
TARGET: Final = 2
BOX_ON_TARGET: Final = 3
BOX: Final = 4
PLAYER: Final = 5
PLAYER_ON_TARGET: Final = 6

UP: Final = 0
DOWN: Final = 1
LEFT: Final = 2
RIGHT: Final = 3
ACTION_NAMES: Final = ("Up", "Down", "Left", "Right")


def offsets(width: int) -> tuple[int, int, int, int]:
    """Return the offset of each action in a flat index."""
    return -width, width, -1, 1


def move(board: MutableSequence[int], player: int, offset: int) -> tuple[int, int, int, int]:
    """Move the player by one cell, pushing a box if one is ahead and the cell beyond is free.

    Returns:
        The player's new index; 1 if anything moved, else 0; the index that a pushed box left, or 0;
        the change in the number of boxes on targets (-1, 0 or 1).
    """
    ahead = player + offset
    cell = board[ahead]
    if cell == WALL:
        return player, 0, 0, 0
    pushed = 0
    gained = 0
    if cell >= BOX_ON_TARGET:
        beyond = ahead + offset
        far = board[beyond]
        if far != FLOOR and far != TARGET:
            return player, 0, 0, 0
        board[beyond] = BOX if far == FLOOR else BOX_ON_TARGET
        pushed = ahead
        gained = int(far == TARGET) - int(cell == BOX_ON_TARGET)
        cell = 5 - cell
    board[ahead] = cell + 4
    board[player] = board[player] - 4
    return ahead, 1, pushed, gained


class Reward(NamedTuple):
    """The reward as a weighted sum of what an action did."""

    per_action: float
    """Added for every action, also one that moves nothing."""
    box_on: float
    """Added when a box is pushed onto a target."""
    box_off: float
    """Added when a box is pushed off a target."""
    solved: float
    """Added once, when every box is on a target."""
    closer: float = 0.0
    """Added per cell that a push brings its box nearer, in Manhattan distance, to the nearest target
    (subtracted per cell that it takes it away): potential-based shaping (Ng et al. 1999)."""


REWARDS: Final = {
    "dense": Reward(-0.1, 1.0, -1.0, 10.0),
    "sparse": Reward(0.0, 0.0, 0.0, 1.0),
    "shaped": Reward(-0.1, 1.0, -1.0, 10.0, 0.25),
}
"""dense is the paper's; sparse pays only the solution; shaped adds the boxes' way to the targets."""


def reward_of(reward: Reward, gained: int, solved: bool, closer: int) -> float:
    """Return the reward of an action that changed the boxes on targets by ``gained``."""
    total = reward.per_action
    if gained > 0:
        total += reward.box_on
    elif gained < 0:
        total += reward.box_off
    if solved:
        total += reward.solved
    if closer != 0:
        total += reward.closer * closer
    return total


def account(left: int, moved: int, gained: int) -> tuple[int, int]:
    """Return the targets without a box after an action, and 1 if the action put the last one on, else 0."""
    left -= gained
    return left, int(left == 0) & moved


def approach(distances: Sequence[int], pushed: int, after: int) -> int:
    """Return by how many cells a push from one index to another brings its box nearer to a target."""
    return distances[pushed] - distances[after]


def play(
    board: MutableSequence[int], player: int, offset: int, left: int, reward: Reward,
    distances: Sequence[int],
) -> tuple[int, int, int, float]:  # fmt: skip
    """Play one action: move, count the boxes and pay.

    Args:
        board: Cell codes, changed in place.
        player: The player's index.
        offset: What the action adds to it, see ``offsets``.
        left: Targets without a box before.
        reward: What is paid.
        distances: ``target_distances`` of the board; not read where ``reward.closer`` is 0.

    Returns:
        The player's new index; 1 if anything moved, else 0; targets without a box; the reward.
    """
    player, moved, pushed, gained = move(board, player, offset)
    if not pushed and left:
        return player, moved, left, reward.per_action
    left, solved = account(left, moved, gained)
    closer = 0
    if pushed and reward.closer:
        closer = approach(distances, pushed, pushed + offset)
    return player, moved, left, reward_of(reward, gained, solved == 1, closer)


def write_distances(board: MutableSequence[int], width: int, distances: MutableSequence[int]) -> None:
    """Write each cell's Manhattan distance to the nearest target."""
    size = len(board)
    for i in range(size):
        distances[i] = size
    for t in range(size):
        if board[t] == TARGET or board[t] == BOX_ON_TARGET or board[t] == PLAYER_ON_TARGET:
            for i in range(size):
                apart = abs(i // width - t // width) + abs(i % width - t % width)
                distances[i] = min(distances[i], apart)


def target_distances(board: MutableSequence[int], width: int) -> list[int]:
    """Return each cell's Manhattan distance to the nearest target."""
    distances = [0] * len(board)
    write_distances(board, width, distances)
    return distances
