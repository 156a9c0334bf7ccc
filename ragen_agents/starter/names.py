"""Arm names for the bandit demonstrations: the train pairs, and any two words.

The pairs of the validation and test splits never appear. Their words do, in other pairs, whose roles are
the game's: they follow from a word that is listed as risky-sounding, or else from the order. So, as any
language model does, the starter model has an idea of which words sound risky; the held-out pairs it has
never seen.
"""

from typing import Final

import numpy as np

from ragen_envs.games.bandit import all_names, arm_names
from ragen_envs.levels.splits import TEST, TRAIN, VALIDATION

_NOUNS: Final = """
Actor Alley Apple Archer Arrow Artist Author Badger Beacon Bishop Boulder Bridge Broker Buffalo Builder
Butcher Cabin Camel Candy Canyon Captain Castle Cavern Chef Cloud Coach Convoy Courier Cricket Crow
Dancer Desert Doctor Driver Duke Eagle Elder Falls Ferry Fiddler Fire Fisher Flame Forest Fortress
Fountain Fox Friar Gale Ghost Glacier Goose Guard Guide Hammer Hermit Heron Island Jester Joker Keeper
King Knight Ladder Lawyer Lizard Locksmith Lotus Magnet Marble Marsh Mason Mayor Merchant Mill Monk
Monsoon Mountain Musician Needle Oasis Officer Owl Peacock Pilot Poet Prairie Printer Prophet Python
Quarry Queen Ranger Raven Reef Ridge River Sailor Scout Sculptor Seal Senator Sentry Sergeant Singer
Skater Spider Squire Stable Stork Sultan Surgeon Temple Torch Tower Walker Warden Whale Wizard Worker
Writer Zebra
""".split()
WORDS: Final = tuple(dict.fromkeys([*_NOUNS, *all_names()]))
"""Every word that names an arm, the held-out ones among them."""
TRAIN_PAIRS: Final = 0.25
"""Least share of the pairs that are of the train split."""


def name_pair(rng: np.random.Generator) -> tuple[str, str]:
    """Draw the two arms in the order shown: a train pair, or any two words that are no held-out pair."""
    if rng.random() < TRAIN_PAIRS:
        return _train_pair(rng)
    while True:
        first, second = (str(word) for word in rng.choice(WORDS, size=2))
        if first != second and not _is_held_out(first, second):
            return first, second


def _train_pair(rng: np.random.Generator) -> tuple[str, str]:
    safe, risky = (str(rng.choice(names)) for names in arm_names()[TRAIN])
    return (safe, risky) if rng.random() < 0.5 else (risky, safe)


def _is_held_out(first: str, second: str) -> bool:
    return any(
        (first in names.safe and second in names.risky)
        or (second in names.safe and first in names.risky)
        for names in (arm_names()[split] for split in (VALIDATION, TEST))
    )
