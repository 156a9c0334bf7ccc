"""The frozen levels of Sokoban."""

from collections.abc import Iterator
from functools import partial
from typing import Final

import numpy as np

from ragen_envs import seeding
from ragen_envs.instances.recipe import Recipe, Row
from ragen_envs.keys import grid_key
from ragen_envs.sokoban import generator
from ragen_envs.sokoban.solver import solve
from ragen_envs.sokoban.text import encode_level


def rows(size: int, boxes: int, split: str) -> Iterator[tuple[int, Row]]:
    """Yield (key, row) of fresh levels without end."""
    stream = seeding.new_stream(split, f"pack sokoban-{size}x{size}-{boxes}", 0)
    while True:
        board, _, stream = generator.generate(size, size, boxes, stream, split)
        solution = solve(np.frombuffer(board, np.uint8).reshape(size, size))
        assert solution is not None
        row = {"level": encode_level(board, size), "moves": len(solution)}
        yield grid_key(board, size, size), row


PACKS: Final[dict[str, Recipe]] = {
    "sokoban-6x6-1": partial(rows, 6, 1),
    "sokoban-8x8-2": partial(rows, 8, 2),
}
