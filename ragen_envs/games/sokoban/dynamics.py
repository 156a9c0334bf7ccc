"""The rules of Sokoban, once, for every face of the game.

A board is a flat, row-major buffer of cell codes whose border is wall. The functions read and write
the buffer they are given, so that they run unchanged on a ``bytearray`` in plain Python and on an
array row when compiled.
"""

from collections.abc import MutableSequence
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


REWARDS: Final = {
    "dense": Reward(-0.1, 1.0, -1.0, 10.0),
    "sparse": Reward(0.0, 0.0, 0.0, 1.0),
}
"""dense is the paper's; sparse pays only the solution."""


def reward_of(reward: Reward, gained: int, solved: bool) -> float:
    """Return the reward of an action that changed the boxes on targets by ``gained``."""
    total = reward.per_action
    if gained > 0:
        total += reward.box_on
    elif gained < 0:
        total += reward.box_off
    if solved:
        total += reward.solved
    return total


def account(left: int, moved: int, gained: int) -> tuple[int, int]:
    """Return the targets without a box after an action, and 1 if the action put the last one on, else 0."""
    left -= gained
    return left, int(left == 0) & moved


def play(
    board: MutableSequence[int], player: int, offset: int, left: int, reward: Reward
) -> tuple[int, int, int, float]:
    """Play one action on a board, in place: move, count the boxes and pay.

    ``offset`` is what the action adds to the player's index, see ``offsets``, and ``left`` counts the
    targets without a box before. Return the player's new index; 1 if anything moved, else 0; the targets
    without a box; and the reward.
    """
    player, moved, pushed, gained = move(board, player, offset)
    if not pushed and left:
        return player, moved, left, reward.per_action
    left, solved = account(left, moved, gained)
    return player, moved, left, reward_of(reward, gained, solved == 1)
