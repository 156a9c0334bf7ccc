"""The frozen levels of Sokoban."""

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import numpy as np

from ragen_envs.games.packs import USUAL, Recipe, Row
from ragen_envs.games.sokoban.dynamics import BOX
from ragen_envs.games.sokoban.env import SokobanEnv
from ragen_envs.games.sokoban.generator import generate
from ragen_envs.games.sokoban.oracle import random_baseline
from ragen_envs.games.sokoban.solver import solve
from ragen_envs.games.sokoban.text import encode_level
from ragen_envs.levels import seeding


def rows(settings: dict[str, Any], split: str) -> Iterator[Row]:
    """Yield independent draws from the level distribution without end."""
    game = SokobanEnv(**settings)
    height, width = game.height, game.width
    stream = seeding.new_stream(split, f"pack {game.distribution}", 0)
    while True:
        board, _, stream = generate(height, width, game.boxes, game.law, stream, split)
        cells = np.frombuffer(board, np.uint8).reshape(height, width)
        solution = solve(cells)
        chance = random_baseline(cells, board.count(BOX), game.reward, USUAL)
        assert solution is not None
        assert chance is not None
        yield {
            "level": encode_level(board, width),
            "moves": len(solution),
            "chance": round(chance.success, 6),
        }


PACKS: Final[dict[str, Recipe]] = {
    "sokoban-6x6-1": partial(rows, {}),
    "sokoban-8x8-2-depth10": partial(rows, {"size": 8, "boxes": 2, "search_depth": 10}),
}
