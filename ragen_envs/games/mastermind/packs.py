"""The frozen levels of Mastermind: independent draws from its level distribution."""

from collections.abc import Iterator
from typing import Final

from ragen_envs.games.mastermind.env import MastermindEnv
from ragen_envs.games.mastermind.oracle import guesses_needed
from ragen_envs.games.packs import Recipe, Row
from ragen_envs.levels.seeding import Rng, new_stream


def rows(split: str) -> Iterator[Row]:
    """Yield codes of the split, with the guesses that the best play on average needs."""
    env = MastermindEnv()
    env.rng = Rng(new_stream(split, f"pack {env.distribution}", 0))
    while True:
        env._start_fresh(split)
        yield {"level": env.level, "moves": guesses_needed(env.level)}


PACKS: Final[dict[str, Recipe]] = {"mastermind-4-6": rows}
