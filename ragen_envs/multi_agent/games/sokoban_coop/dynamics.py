"""Play cooperative Sokoban: Sokoban's rules, one mover after the other."""

from collections.abc import Iterable, MutableSequence
from typing import Final

from ragen_envs.games.sokoban.dynamics import ACTION_NAMES as DIRECTIONS
from ragen_envs.games.sokoban.dynamics import PLAYER, REWARDS, offsets, play

STAY: Final = len(DIRECTIONS)
ACTION_NAMES: Final = (*DIRECTIONS, "Stay")

_ROUND: Final = REWARDS["dense"].per_action
_MOVE: Final = REWARDS["dense"]._replace(per_action=0.0)


def play_round(
    board: MutableSequence[int], movers: MutableSequence[int], actions: Iterable[int], width: int, left: int
) -> tuple[list[bool], int, float]:
    """Play one action of every mover, in the order of the seats, on the board that the last one left.

    A mover can neither walk into nor push another one. Once the level is solved the round is over, and
    the movers that come later do not move. The board and the movers' indices are changed in place. ``left``
    counts targets without a box. Return whether each mover moved, the targets left, and the reward of
    the round, which all share.
    """
    moved = [False] * len(movers)
    reward = _ROUND
    for seat, action in enumerate(actions):
        if action == STAY or left == 0:
            continue
        offset = offsets(width)[action]
        if board[movers[seat] + offset] >= PLAYER:
            continue
        movers[seat], changed, left, paid = play(board, movers[seat], offset, left, _MOVE)
        moved[seat] = changed == 1
        reward += paid
    return moved, left, reward
