"""What actions do on maps of one shape: tables that the rules fill, for plain Python."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from ragen_envs.games.frozen_lake import dynamics

Result = tuple[float, bool, bool]
"""The reward of an action, whether the game has ended, whether the player moved."""
Infos = Mapping[bool, Callable[[], dict[str, Any]]]
"""What returns a fresh info, by whether the last action was effective."""
Arrival = tuple[bool, Result, Infos]
"""Whether the game has ended, the result of the action, and the infos."""
Move = tuple[int, Sequence[Arrival]]
"""The player's new index, and the arrival by the code of the tile there."""


@lru_cache(maxsize=64)
def moves(height: int, width: int) -> tuple[Move, ...]:
    """Return the moves on maps of a shape, which all its games share.

    Item ``16 * position + 4 * turned + action`` is the move of an action, see ``dynamics.turned``.
    """
    ways = dynamics.ways(height, width)
    return tuple(
        (
            after := ways[4 * before + ((action + turned) & 3)],
            _ARRIVALS[after != before, turned != 0],
        )
        for before in range(height * width)
        for turned in range(4)
        for action in range(4)
    )


def _arrival(tile: int, moved: bool, slipped: bool) -> Arrival:
    row = dynamics.ways(1, 2)
    _, reward, over = dynamics.step([dynamics.FROZEN, tile], row, 0, dynamics.RIGHT)
    return over, (reward, over, moved), _infos(tile == dynamics.GOAL, slipped)


def _infos(success: bool, slipped: bool) -> Infos:
    # A copy of a dictionary takes half the time of a new one.
    return {
        effective: {
            "success": success,
            "action_is_valid": True,
            "action_is_effective": effective,
            "slipped": slipped,
        }.copy
        for effective in (False, True)
    }


_TILES: Final = (dynamics.FROZEN, dynamics.HOLE, dynamics.GOAL)
_ARRIVALS: Final = {
    (moved, slipped): [_arrival(tile, moved, slipped) for tile in _TILES]
    for moved in (False, True)
    for slipped in (False, True)
}
INITIAL_INFOS: Final = _infos(success=False, slipped=False)
"""Those of a game that has just begun."""
