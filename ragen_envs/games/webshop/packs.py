"""The frozen goals of WebShop: independent draws from its level distribution."""

from collections.abc import Iterator
from functools import partial
from typing import Final

from ragen_envs.games.packs import Recipe, Row
from ragen_envs.games.webshop.dynamics import Page
from ragen_envs.games.webshop.env import WebShopEnv
from ragen_envs.games.webshop.oracle import best_plan, offers, perfect
from ragen_envs.levels.seeding import Rng, new_stream


def rows(products: int, split: str) -> Iterator[Row]:
    """Yield goals of the split, with how hard they are.

    ``moves``: fewest actions of a perfect purchase; ``perfect``: products that can be bought for a score of
    1; ``near``: others that miss a single point.
    """
    env = WebShopEnv(products)
    env.rng = Rng(new_stream(split, f"pack {env.distribution}", 0))
    while True:
        env._start_fresh(split)
        ranked = offers(env.catalogue, env.goal)
        best = len(perfect(env.catalogue, env.goal))
        near = sum(
            offer.type == 1 and offer.base + len(offer.helpful) == offer.most - 1
            for offer in ranked
        )
        plan = best_plan(env.catalogue, env.goal, Page(), 100)
        yield {
            "level": env.level, "moves": len(plan.actions), "perfect": best, "near": near
        }  # fmt: skip


PACKS: Final[dict[str, Recipe]] = {"webshop-1000": partial(rows, 1000)}
