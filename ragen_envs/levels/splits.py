"""Assign levels to splits by their content.

A level's *key* is a 64-bit number that is equal for levels that are the same up to the symmetries of its
game, and its key decides its split. The splits are therefore disjoint up to symmetry for every level that any
generator of the suite can ever make, frozen or fresh, and anyone can check it without a list of held-out
levels. Bandits are the exception: the names of their arms decide, and no name is in two splits.
"""

from typing import Any, Final

from ragen_envs.errors import InstanceError

__all__ = ["SPLITS", "TEST", "TRAIN", "VALIDATION", "split_code", "split_of"]

TRAIN: Final = "train"
"""Levels to learn from."""
VALIDATION: Final = "validation"
"""Levels to choose settings and checkpoints by."""
TEST: Final = "test"
"""Levels that scores are about."""
SPLITS: Final = (TRAIN, VALIDATION, TEST)
"""All splits; a level's content decides which one it is in."""


def split_code(key: int) -> int:
    """Return the index in ``SPLITS`` of the split that owns a level key (any 64-bit integer).

    10/16 of all levels are train, 2/16 validation, 4/16 test. Plain integer arithmetic, so that
    compiled generators can call it.
    """
    sixteenth = (key >> 40) & 15
    if sixteenth < 10:
        return 0
    return 1 if sixteenth < 12 else 2


def split_of(key: int) -> str:
    """Return the name of the split that owns a level key."""
    return SPLITS[split_code(key)]


def read_split(split: Any) -> str:
    """Return the name of a split, or raise `InstanceError` if there is no such split."""
    if not isinstance(split, str) or split not in SPLITS:
        raise InstanceError(f"split is {split!r}, but must be one of {', '.join(SPLITS)}")
    return str(split)
