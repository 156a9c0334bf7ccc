"""How a game says what its frozen packs hold.

A game with frozen levels has a module ``packs`` beside its env, with a mapping ``PACKS`` from the name
of each of its distributions to a ``Recipe``. ``ragen_envs.instances.build`` asks them all.
"""

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any, Final

from ragen_envs.registration import GAMES

Row = dict[str, Any]
"""A line of a pack: ``level``, and what was computed about it, such as ``moves``."""

Recipe = Callable[[str], Iterator[tuple[int, Row]]]
"""Yields (key, row) of levels of a split; a pack holds one row of each key."""

PATIENCE: Final = 20_000
"""Levels without a new key after which a distribution is used up."""


def recipes() -> Mapping[str, Recipe]:
    """Return the recipe of every distribution that the games of the suite freeze."""
    modules = dict.fromkeys(f"{game.module}.packs" for game in GAMES if game.is_frozen)
    return {
        distribution: recipe
        for module in modules
        for distribution, recipe in import_module(module).PACKS.items()
    }


def distinct(rows: Iterator[tuple[int, Row]], count: int) -> list[Row]:
    """Return the first rows with distinct keys, at most ``count``.

    They are fewer if ``rows`` ends, or if ``PATIENCE`` rows in succession have keys that came before.
    """
    kept: dict[int, Row] = {}
    repeats = 0
    for key, row in rows:
        repeats = repeats + 1 if key in kept else 0
        kept.setdefault(key, row)
        if len(kept) == count or repeats == PATIENCE:
            break
    return list(kept.values())
