"""Where the levels of a test are not drawn as the paper's were.

Sokoban, SokobanLarge and FrozenLake are missing here: their levels follow the distribution of the
paper's published code (docs/games).
"""

from collections.abc import Iterable
from typing import Final

OTHER_LEVELS: Final = {
    "Bandit": "one fixed pair of names instead of many",
    "BanditRev": "one fixed pair of names for training and one for tests instead of many",
    "SokobanNewVocab": "search depth 30 instead of 300",
}
"""By test, what the paper's levels are instead of ours."""

MARK: Final = "*"
"""Follows a number of the paper that was measured on other levels."""


def paper_mark(test: str) -> str:
    """Return the mark of the paper's numbers for a test, or ""."""
    return MARK if test in OTHER_LEVELS else ""


def paper_notes(tests: Iterable[str]) -> list[str]:
    """Return a note for each of the tests whose numbers are marked."""
    return [
        f"{MARK} the paper's {test} has other levels: {OTHER_LEVELS[test]}"
        for test in dict.fromkeys(tests)
        if test in OTHER_LEVELS
    ]
