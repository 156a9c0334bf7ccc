"""The frozen levels of Mastermind: independent draws from its level distribution."""

from collections.abc import Iterator
from typing import Final

from ragen_envs.games.mastermind.env import MastermindEnv
from ragen_envs.games.mastermind.oracle import guesses_needed
from ragen_envs.levels import seeding
from ragen_envs.levels.recipe import Recipe, Row


def rows(split: str) -> Iterator[Row]:
    """Yield codes of the split, with the guesses that the best play on average needs."""
    env = MastermindEnv()
    stream = seeding.new_stream(split, f"pack {env.distribution}", 0)
    while True:
        stream = env._start_fresh(stream, split)
        yield {"level": env.level, "moves": guesses_needed(env.level)}


PACKS: Final[dict[str, Recipe]] = {"mastermind-4-6": rows}
