"""The frozen levels of Countdown: independent draws from its level distribution."""

from collections.abc import Iterator
from functools import partial
from typing import Final

from ragen_envs.games.countdown.env import CountdownEnv
from ragen_envs.games.countdown.solver import fewest, random_chance
from ragen_envs.games.packs import USUAL, Recipe, Row
from ragen_envs.levels.seeding import Rng, new_stream


def rows(numbers: int, split: str) -> Iterator[Row]:
    """Yield levels of the split, with the fewest operations and the chance of random play."""
    env = CountdownEnv(numbers)
    env.rng = Rng(new_stream(split, f"pack {env.distribution}", 0))
    while True:
        env._start_fresh(split)
        chance = random_chance(env.numbers, env.target, min(USUAL.reach, numbers - 1))
        moves = fewest(env.numbers, env.target)
        yield {"level": env.level, "moves": moves, "chance": round(chance, 6)}


PACKS: Final[dict[str, Recipe]] = {"countdown-4": partial(rows, 4)}
