"""The rules of FrozenLake, once, for every face of the game.

The map is a flat, row-major buffer of FROZEN, HOLE and GOAL. Actions and slips are those of Gymnasium's
FrozenLake: the walker goes where intended with probability ``success_rate``, and to either side of it
with half of the rest each. The source runs as plain Python and compiled.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

FROZEN: Final = 0
HOLE: Final = 1
GOAL: Final = 2
PLAYER: Final = 3
PLAYER_IN_HOLE: Final = 4
PLAYER_ON_GOAL: Final = 5

LEFT: Final = 0
DOWN: Final = 1
RIGHT: Final = 2
UP: Final = 3
ACTION_NAMES: Final = ("Left", "Down", "Right", "Up")


class Lake(NamedTuple):
    """A map and its ice."""

    tiles: bytes
    """(h*w,) tile codes."""
    height: int
    width: int
    success_rate: float
    """Probability to go where intended."""


def turned(success_rate: float, draw: float) -> int:
    """Return the turn that the ice adds to the direction, 0, 3 or 1, for a draw in [0, 1)."""
    if draw < success_rate:
        return 0
    return 3 if draw < success_rate + (1.0 - success_rate) * 0.5 else 1


def slipped(action: int, success_rate: float, draw: float) -> int:
    """Return the direction really taken, for a draw in [0, 1)."""
    return (action + turned(success_rate, draw)) & 3


def directions(action: int, success_rate: float) -> tuple[tuple[int, float], ...]:
    """Return the directions that an action may really take, the intended one first, and their chances."""
    side = (1.0 - success_rate) / 2
    # A draw that leads ahead, one to each side, and their chances.
    draws = ((0.0, success_rate), (success_rate, side), (success_rate + side, side))
    return tuple((slipped(action, success_rate, draw), chance) for draw, chance in draws)


def walk(position: int, direction: int, height: int, width: int) -> int:
    """Return the cell index after one move; walking off the edge stays in place."""
    row = position // width
    column = position - row * width
    if direction == LEFT:
        return position - 1 if column > 0 else position
    if direction == DOWN:
        return position + width if row < height - 1 else position
    if direction == RIGHT:
        return position + 1 if column < width - 1 else position
    return position - width if row > 0 else position


@lru_cache(maxsize=64)
def ways(height: int, width: int) -> tuple[int, ...]:
    """Return ``walk`` as a table: item ``4 * position + direction``."""
    cells = range(height * width)
    return tuple(walk(cell, direction, height, width) for cell in cells for direction in range(4))


def step(
    tiles: Sequence[int], table: Sequence[int], position: int, direction: int
) -> tuple[int, float, bool]:
    """Go in a direction; ``table`` is that of ``ways``.

    Returns:
        The new cell index, the reward (1 at the goal, else 0), whether the episode ended.
    """
    position = table[4 * position + direction]
    return position, *outcome(tiles[position])


def outcome(tile: int) -> tuple[float, bool]:
    """Return the reward of stepping onto a tile, and whether that ends the game."""
    return 1.0 if tile == GOAL else 0.0, tile != FROZEN
