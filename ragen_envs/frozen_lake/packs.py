"""The frozen maps of FrozenLake."""

from collections.abc import Iterator
from functools import partial
from typing import Final

from ragen_envs import seeding
from ragen_envs.frozen_lake import generator
from ragen_envs.frozen_lake.dynamics import GOAL
from ragen_envs.frozen_lake.oracle import advise
from ragen_envs.frozen_lake.text import encode_level
from ragen_envs.instances.recipe import Recipe, Row
from ragen_envs.oracle import Budget


def rows(size: int, p: float, split: str) -> Iterator[tuple[int, Row]]:
    """Yield (key, row) of fresh maps without end."""
    stream = seeding.new_stream(split, f"pack frozen_lake-{size}x{size}-{p:g}", 0)
    while True:
        tiles, start, stream = generator.generate(size, size, p, stream, split)
        path = advise(bytes(tiles), size, size, 1.0, start, Budget(size * size, 1, size * size))
        assert tiles.count(GOAL) == 1
        row = {"level": encode_level(tiles, size, start), "moves": len(path.actions)}
        yield generator.map_key(tiles, size, size, start), row


PACKS: Final[dict[str, Recipe]] = {"frozen_lake-4x4-0.8": partial(rows, 4, 0.8)}
