"""How a game says what its frozen packs hold.

A game with frozen levels has a module ``packs`` beside its env, with a mapping ``PACKS`` from the name
of each of its distributions to a ``Recipe``. ``ragen_envs.levels.build`` asks them all.
"""

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any, Final

from ragen_envs.game.oracle import Budget
from ragen_envs.registration import GAMES

Row = dict[str, Any]
"""A line of a pack: ``level``, and what was computed about it: ``moves`` of a shortest solution, and
``chance``, the probability that the random policy succeeds within ``USUAL``."""

Recipe = Callable[[str], Iterator[Row]]
"""Yields the levels of a split in the order of the pack, of which any prefix must be like the whole:
independent draws from the game's level distribution, or all levels in a random order."""

USUAL: Final = Budget(actions=10, turns=5, actions_per_turn=5)
"""The limits of a conversation by default, which are the paper's."""


def recipes() -> Mapping[str, Recipe]:
    """Return the recipe of every distribution that the games of the suite freeze."""
    modules = dict.fromkeys(f"{game.module}.packs" for game in GAMES if game.is_frozen)
    return {
        distribution: recipe
        for module in modules
        for distribution, recipe in import_module(module).PACKS.items()
    }
