"""The frozen levels of Minesweeper: independent draws from its level distribution."""

from collections.abc import Iterator
from functools import partial
from typing import Final

from ragen_envs.games.minesweeper.env import MinesweeperEnv
from ragen_envs.games.packs import Recipe, Row
from ragen_envs.levels.seeding import Rng, new_stream


def rows(mines: int, split: str) -> Iterator[Row]:
    """Yield levels of the split, with the exact probability to win."""
    env = MinesweeperEnv(mines)
    env.rng = Rng(new_stream(split, f"pack {env.distribution}", 0))
    while True:
        env._start_fresh(split)
        yield {"level": env.level, "optimum": round(env.oracle().value, 6)}


PACKS: Final[dict[str, Recipe]] = {"minesweeper-5x5-3": partial(rows, 3)}
