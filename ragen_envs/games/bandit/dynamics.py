"""The rules of the two-armed bandit, once, for every face of the game."""

from typing import Final, NamedTuple

SAFE: Final = 0
RISKY: Final = 1


class Arm(NamedTuple):
    """The payoff of an arm: ``pays`` with probability ``chance``, else nothing."""

    pays: float
    chance: float

    @property
    def mean(self) -> float:
        """Expected payoff."""
        return self.pays * self.chance


def pull(arm: Arm, draw: float) -> float:
    """Return the payoff of one pull, for a draw in [0, 1)."""
    return arm.pays if draw < arm.chance else 0.0
