"""Write the race over the ice in words: symbols, rules, board and coordinates."""

from collections.abc import Mapping
from typing import Any, Final

from ragen_envs.errors import InstanceError
from ragen_envs.game.grids import cells_with, places_text
from ragen_envs.game.text import Symbols
from ragen_envs.games.frozen_lake.dynamics import FROZEN, GOAL, HOLE
from ragen_envs.games.frozen_lake.text import CELL_NAMES as SINGLE
from ragen_envs.games.frozen_lake.text import STANDARD as SINGLE_SYMBOLS
from ragen_envs.games.frozen_lake.text import decode_level as decode_map
from ragen_envs.games.frozen_lake.text import encode_level as encode_map
from ragen_envs.games.frozen_lake.text import ice_text
from ragen_envs.multi_agent.board import SeatBoardText, decode_places, encode_places, seats_of
from ragen_envs.multi_agent.games.frozen_lake_race.dynamics import ALL
from ragen_envs.multi_agent.games.frozen_lake_race.generator import Lake

CELL_NAMES: Final = (*SINGLE, "other player", "other player in hole", "other player on goal")
"""Names of the cell codes as one seat sees them, in their order."""

STANDARD: Final = {
    **SINGLE_SYMBOLS,
    "other player": "A",
    "other player in hole": "B",
    "other player on goal": "C",
}


class FrozenLakeRaceText(SeatBoardText):
    """The text face of the race over the ice."""

    vocabularies: Mapping[str, Symbols] = {"standard": STANDARD}
    cell_names = CELL_NAMES

    def rules(self, env: Any) -> str:
        game = env.game
        if game.finish == ALL:
            goal = (
                "All players must reach the goal; then the game ends with reward 1 for each. A player "
                "at the goal waits there. If a player falls into a hole, the game ends with reward 0."
            )
        else:
            goal = (
                "Be the first to reach the goal: the game ends then, and those who reach it in the "
                "same turn share a reward of 1. A player who falls into a hole is out of the game."
            )
        still = "" if game.success_rate == 1 else " A player who stays does not slip."
        return (
            f"You are player_{env.seat} of {game.players} on a frozen lake. {goal} All other rewards "
            "are 0. Each turn, all players choose an action at the same time and move one tile at "
            "the same time. Stay, or a reply without a valid action, leaves you where you are. "
            f"{ice_text(game.success_rate)}{still} "
            "A move off the edge leaves you where you are. A frozen tile holds one "
            "player: players who would enter the same tile, swap tiles or enter the tile of a player "
            "who stays do not move. The goal and the holes hold any number of players."
        )

    def coordinates(self, env: Any) -> str:
        game = env.game
        places = seats_of(game.positions, env.seat)
        places |= {"goal": cells_with(game.tiles, GOAL), "hole": cells_with(game.tiles, HOLE)}
        return places_text(places, game.height, game.width, "Tiles not listed are frozen.")


def encode_level(lake: Lake, width: int) -> str:
    """Return the text form: FrozenLake's, with seat 0 as P, then each other start's row:column."""
    rows = encode_map(lake.tiles, width, lake.starts[0])
    return " ".join([rows, *encode_places(lake.starts[1:], width)])


def decode_level(level: str) -> tuple[Lake, int, int]:
    """Return map and starts, height and width of a level in text form.

    Raises:
        InstanceError: It is not the text form of a level.
    """
    rows, *places = level.split(" ")
    tiles, height, width, start = decode_map(rows)
    starts = (start, *decode_places(places, height, width))
    if len(set(starts)) < len(starts) or any(tiles[cell] != FROZEN for cell in starts):
        raise InstanceError(f"level {level!r} must have each start on a frozen tile of its own")
    return Lake(bytes(tiles), starts), height, width
