"""Play the race over the ice: FrozenLake's rules, all walkers at the same time."""

from collections.abc import Sequence
from typing import Final

from ragen_envs.games.frozen_lake.dynamics import ACTION_NAMES as DIRECTIONS
from ragen_envs.games.frozen_lake.dynamics import FROZEN, GOAL, HOLE, slipped

STAY: Final = len(DIRECTIONS)
ACTION_NAMES: Final = (*DIRECTIONS, "Stay")

FIRST: Final = "first"
ALL: Final = "all"
FINISHES: Final = (FIRST, ALL)
"""Winners: the first to arrive, or everybody once all have arrived."""


def walk_all(
    tiles: Sequence[int], table: Sequence[int], positions: Sequence[int], directions: Sequence[int]
) -> list[int]:
    """Return the positions after a round in which each went in one of FrozenLake's directions, or stayed.

    A frozen tile holds one walker. Two who want the same frozen tile, or each other's, stay where they
    are, and so does who wants a tile whose walker stays; no seat has priority. Holes and the goal hold
    any number, and nobody leaves them. ``table`` is ``frozen_lake.dynamics.ways`` of the map's shape.
    """
    wanted = [
        here if direction == STAY or tiles[here] != FROZEN else table[4 * here + direction]
        for here, direction in zip(positions, directions, strict=True)
    ]
    while blocked := _blocked(tiles, positions, wanted):
        for walker in blocked:
            wanted[walker] = positions[walker]
    return wanted


def _blocked(tiles: Sequence[int], positions: Sequence[int], wanted: Sequence[int]) -> list[int]:
    """Return the walkers that move where another one is, comes to, or comes from the other way."""
    blocked = []
    for walker, (here, goal) in enumerate(zip(positions, wanted, strict=True)):
        if goal == here or tiles[goal] != FROZEN:
            continue
        others = [other for other in range(len(wanted)) if other != walker]
        if any(
            wanted[other] == goal or (wanted[other] == here and positions[other] == goal) for other in others
        ):
            blocked.append(walker)
    return blocked


def direction_of(action: int, success_rate: float, draw: float) -> int:
    """Return the direction really taken, for a draw in [0, 1); who stays does not slip."""
    return STAY if action == STAY else slipped(action, success_rate, draw)


def score(tiles: Sequence[int], positions: Sequence[int], finish: str) -> tuple[list[float], list[bool]]:
    """Return each walker's reward for its position, and whether it is out of the game.

    ``FIRST``: those who arrive share 1 and the race is over; who falls is out. ``ALL``: when all have
    arrived each gets 1; one fall ends the game.
    """
    arrived = [tiles[position] == GOAL for position in positions]
    fallen = [tiles[position] == HOLE for position in positions]
    count = len(positions)
    if finish == ALL:
        over = all(arrived) or any(fallen)
        return [float(all(arrived))] * count, [over] * count
    if any(arrived):
        share = 1.0 / sum(arrived)
        return [share if first else 0.0 for first in arrived], [True] * count
    return [0.0] * count, fallen
