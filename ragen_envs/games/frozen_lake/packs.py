"""The frozen maps of FrozenLake."""

from collections.abc import Iterator
from functools import partial
from typing import Final

from ragen_envs.game.oracle import Budget
from ragen_envs.games.frozen_lake import generator
from ragen_envs.games.frozen_lake.dynamics import Lake
from ragen_envs.games.frozen_lake.oracle import advise, random_baseline
from ragen_envs.games.frozen_lake.text import encode_level
from ragen_envs.games.packs import USUAL, Recipe, Row
from ragen_envs.levels import seeding


def rows(size: int, p: float, split: str) -> Iterator[Row]:
    """Yield independent draws from the level distribution without end."""
    stream = seeding.new_stream(split, f"pack frozen_lake-{size}x{size}-{p:g}", 0)
    while True:
        tiles, start, stream = generator.generate(size, size, p, stream, split)
        # Random play does not care about slips: a random direction that slips is a random direction.
        lake = Lake(tiles, size, size, 1.0)
        path = advise(lake, start, Budget(size * size, 1, size * size))
        chance = random_baseline(lake, start, USUAL)
        yield {
            "level": encode_level(tiles, size, start),
            "moves": len(path.actions),
            "chance": round(chance.success, 6),
        }


PACKS: Final[dict[str, Recipe]] = {"frozen_lake-4x4-0.8": partial(rows, 4, 0.8)}
