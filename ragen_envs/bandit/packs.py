"""The frozen instances of the bandits."""

from collections.abc import Iterator
from itertools import cycle
from typing import Final

from ragen_envs.bandit.generator import name_pairs
from ragen_envs.instances.recipe import Recipe, Row


def rows(split: str) -> Iterator[tuple[int, Row]]:
    """Yield each pair of the split in both orders, over and over: every round is another draw.

    Each row has a key of its own, its number, because its payoff is a draw of its own.
    """
    pairs = name_pairs()[split]
    orders = [level for a, b in pairs for level in (f"{a}/{b}", f"{b}/{a}")]
    for number, level in enumerate(cycle(orders)):
        yield number, {"level": level}


PACKS: Final[dict[str, Recipe]] = {"bandit": rows}
