"""WebShop: making a shop, searching it, and steps without a search."""

# ruff: noqa: D103

from itertools import cycle
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from measuring import measure

from ragen_envs.games.webshop.catalogue import Catalogue, make_catalogue
from ragen_envs.games.webshop.search import SearchEngine

SHOP = "WebShop"
SIZES = (1_000, 10_000, 100_000)


def queries(shop: Catalogue) -> Any:
    """Return searches as customers make them, more than any cache of words would hold."""
    rng = np.random.default_rng(0)
    chosen = rng.integers(len(shop), size=500)
    return cycle([" ".join((*shop[k].attributes[:2], *shop[k].nouns)) for k in chosen])


@pytest.mark.parametrize("products", SIZES)
def test_making_a_shop(benchmark: Any, products: int) -> None:
    def work() -> None:
        SearchEngine(make_catalogue.__wrapped__(products))

    work()  # the libraries of the search are imported once
    measure(benchmark, work, SHOP, f"a catalogue and its index, {products:,} products")


@pytest.mark.parametrize("products", SIZES)
def test_searching(benchmark: Any, products: int) -> None:
    shop = make_catalogue(products)
    engine, asked = SearchEngine(shop), queries(shop)
    measure(benchmark, lambda: engine._search(next(asked)), SHOP, f"a search, {products:,} products")


def test_steps_without_a_search(benchmark: Any) -> None:
    env = gym.make("ragen/WebShop-v0", max_episode_steps=1 << 30)
    env.reset(seed=0)
    product = env.unwrapped.goal.product  # type: ignore[attr-defined]
    env.step(f"search[{product.title}]")
    clicks = cycle([f"click[{product.id}]", "click[Features]", "click[< Prev]", "click[< Prev]"])
    measure(benchmark, lambda: env.step(next(clicks)), SHOP, "a step without a search")


def test_the_oracle(benchmark: Any) -> None:
    env = gym.make("ragen/WebShop-v0")
    seeds = iter(range(1 << 30))

    def work() -> None:
        env.reset(seed=next(seeds))
        env.unwrapped.oracle()  # type: ignore[attr-defined]

    measure(benchmark, work, SHOP, "a fresh goal and its best purchase, 1,000 products")
