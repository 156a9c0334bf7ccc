"""Arm names for the bandit demonstrations: the train pairs, and any two words.

The held-out pairs never appear as pairs. Their words do, in other pairs, whose roles are the game's: they
follow from a word that is listed as risky-sounding, or else from the order. So, as any language model
does, the starter model has an idea of which words sound risky; the held-out pairs it has never seen.
"""

from typing import Final

import numpy as np

from ragen_envs.bandit import all_names, name_pairs
from ragen_envs.splits import TRAIN

_NOUNS: Final = """
Actor Alley Apple Archer Arrow Artist Author Badger Bandit Barber Basket Beacon Beaver Bishop Blanket
Blizzard Boulder Bridge Broker Buffalo Builder Butcher Cabin Camel Candy Canyon Captain Carpenter Castle
Cavern Chapel Cheetah Chef Cliff Cloud Coach Cobra Convoy Cook Courier Coyote Cradle Cricket Crow Dancer
Deacon Deer Dentist Desert Doctor Donkey Doorman Dove Driver Duke Eagle Earthquake Elder Falls Ferry
Fiddler Fire Fisher Flame Forest Fortress Fountain Fox Friar Gale Geyser Ghost Glacier Goose Grocer
Guard Guide Hammer Hawk Hermit Heron Hunter Hurricane Inferno Island Jaguar Janitor Jester Joker Keeper
King Knight Ladder Lawyer Leopard Lighthouse Lion Lizard Locksmith Lotus Magnet Marble Marsh Mason
Mayor Merchant Mill Miner Monk Monsoon Mountain Musician Needle Oak Oasis Officer Orchard Otter Outlaw
Owl Painter Panda Pasture Peacock Pilot Plumber Poet Pond Porter Potter Prairie Printer Prophet Python
Quarry Queen Rabbit Raider Ranger Raven Reef Ridge River Robin Rogue Sailor Scholar Scorpion Scout
Sculptor Seal Senator Sentry Sergeant Singer Skater Soldier Sparrow Spider Squire Stable Stork Sultan
Surfer Surgeon Swamp Tempest Temple Thief Thunder Torch Tornado Tower Typist Vicar Village Vulture
Waiter Walker Warden Warrior Weaver Whale Willow Wizard Wolf Worker Wrestler Writer Zebra
""".split()
WORDS: Final = tuple(dict.fromkeys([*_NOUNS, *all_names()]))
"""Every word that names an arm, the held-out ones among them."""
TRAIN_PAIRS: Final = 0.25
"""Share of the pairs that are one of the train split."""
_PAIRS: Final = [set(pair) for pairs in name_pairs().values() for pair in pairs]


def _train_pair(rng: np.random.Generator) -> tuple[str, str]:
    pairs = name_pairs()[TRAIN]
    safe, risky = pairs[int(rng.integers(len(pairs)))]
    return (safe, risky) if rng.random() < 0.5 else (risky, safe)


def name_pair(rng: np.random.Generator) -> tuple[str, str]:
    """Draw the two arms in the order shown: a train pair, or any two words that are no pair."""
    if rng.random() < TRAIN_PAIRS:
        return _train_pair(rng)
    while True:
        first, second = (str(word) for word in rng.choice(WORDS, size=2))
        if first != second and {first, second} not in _PAIRS:
            return first, second
