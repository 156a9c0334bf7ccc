"""The frozen levels of Sudoku: independent draws from its level distribution."""

from collections.abc import Iterator
from functools import partial
from typing import Final

from ragen_envs.games.packs import Recipe, Row
from ragen_envs.games.sudoku.env import SudokuEnv
from ragen_envs.levels.seeding import Rng, new_stream


def rows(clues: int, split: str) -> Iterator[Row]:
    """Yield levels of the split, with the number of empty cells."""
    env = SudokuEnv(clues)
    env.rng = Rng(new_stream(split, f"pack {env.distribution}", 0))
    while True:
        env._start_fresh(split)
        yield {"level": env.level, "moves": env.grid.count(0)}


PACKS: Final[dict[str, Recipe]] = {"sudoku-6": partial(rows, 6)}
