"""The race over the ice in words: symbols, rules, board and coordinates."""

from collections.abc import Mapping
from typing import Any, Final

from ragen_envs.errors import InstanceError
from ragen_envs.frozen_lake.dynamics import FROZEN, GOAL, HOLE
from ragen_envs.frozen_lake.text import CELL_NAMES as SINGLE
from ragen_envs.frozen_lake.text import STANDARD as SINGLE_SYMBOLS
from ragen_envs.frozen_lake.text import decode_level as decode_map
from ragen_envs.frozen_lake.text import encode_level as encode_map
from ragen_envs.grids import places_text
from ragen_envs.multi_agent.board_game import SeatBoardText
from ragen_envs.multi_agent.boards import decode_places, encode_places, seats_of
from ragen_envs.multi_agent.frozen_lake_race.dynamics import ALL
from ragen_envs.multi_agent.frozen_lake_race.generator import Lake
from ragen_envs.text import Symbols

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
        """Return the goal, the rules and the rewards."""
        game = env.game
        parts = [
            f"You are player_{env.seat} of {game.players} players on a frozen lake. "
            "In each round all players choose at the same time and move at the same time."
        ]
        if game.finish == ALL:
            parts.append(
                "All must reach the goal; who is there waits for the others. "
                "If one falls into a hole, the game is lost."
            )
        else:
            parts.append(
                "Be the first at the goal: then the game ends. Who falls into a hole is out."
            )
        parts.append(
            "Two who want the same tile, or each other's, stay where they are; a tile whose player "
            "stays cannot be entered. The goal and the holes hold any number."
        )
        parts.append(_ice(game.success_rate))
        parts.append(
            "Rewards: 1 for each when all are at the goal, else 0."
            if game.finish == ALL
            else "Rewards: 1 for the first at the goal, shared by those who come together, else 0."
        )
        return " ".join(parts)

    def coordinates(self, env: Any) -> str:
        """Return the places of everything but frozen tiles."""
        game = env.game
        found = seats_of(game.positions, env.seat)
        for name, code in (("goal", GOAL), ("hole", HOLE)):
            found[name] = [cell for cell, tile in enumerate(game.tiles) if tile == code]
        return places_text(found, game.height, game.width)


def _ice(success_rate: float) -> str:
    if success_rate == 1:
        return "The ice is not slippery: you go where you want."
    side = (1 - success_rate) / 2
    return (
        f"The ice is slippery: who moves goes where it wants with probability {success_rate:.2g} and "
        f"to either side with probability {side:.2g}; who stays does not slip."
    )


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
