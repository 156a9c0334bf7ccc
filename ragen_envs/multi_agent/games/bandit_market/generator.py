"""Draw markets: the bandits' names of the split, with payoffs that differ."""

import zlib
from collections.abc import Sequence
from typing import Final

from ragen_envs.games.bandit.dynamics import Arm
from ragen_envs.games.bandit.generator import arm_names
from ragen_envs.levels.seeding import STREAM_MASK, Rng

CHANCES: Final = (1.0, 0.5, 0.25)
"""Probabilities that an arm pays."""
STEPS: Final = 12
"""Mean payoffs are multiples of 0.1 from 0.1 to ``STEPS`` / 10."""

Offer = tuple[str, Arm]
"""A named arm."""


def generate(arms: int, rng: Rng, split: str) -> tuple[Offer, ...]:
    """Draw the arms of a market, whose names belong to the split."""
    names = [name for sounding in arm_names()[split] for name in sounding]
    offers = []
    for _ in range(arms):
        name = names.pop(rng.integers(len(names)))
        mean = rng.integers(1, STEPS + 1) / 10
        chance = rng.choice(CHANCES)
        offers.append((name, Arm(round(mean / chance, 10), chance)))
    return tuple(offers)


def market_key(offers: Sequence[Offer]) -> int:
    """Return the key of a market, equal in every order of its arms, in [0, 2^63)."""
    lines = sorted(f"{name} {arm.pays:g} {arm.chance:g}".encode() for name, arm in offers)
    low, high = zlib.crc32(b"/".join(lines)), zlib.crc32(b"/".join(reversed(lines)), 1)
    return (low << 31 | high) & STREAM_MASK
