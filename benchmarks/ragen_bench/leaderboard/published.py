"""Entries of older suite versions that stay on the leaderboard until others replace them.

Their episodes can no longer be replayed, so only those that were checked when they were published are
accepted.
"""

from collections.abc import Mapping
from typing import Final

PUBLISHED: Final[Mapping[int, frozenset[str]]] = {
    1: frozenset(
        {
            "9768ff7adb68531135016d31039ab8ca2818d1885b55ee8b003f9d7310438373",
            "f829354ddb5dc28e9492eb8cf6aa00aafa63bf67101df9b91050e25faad4c817",
        }
    ),
}
"""By suite version the hashes of the entries' episodes."""
