"""Compute equilibria of the market, a congestion game (Rosenthal 1973)."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from ragen_envs.multi_agent.games.bandit_market.dynamics import counts_of


class Mixed(NamedTuple):
    """The equilibrium in which all players draw from the same probabilities."""

    chances: tuple[float, ...]
    """Probability of each arm."""
    payoff: float
    """Expected payoff of a player in a round."""


def pure_equilibrium(means: Sequence[float], players: int) -> tuple[int, ...]:
    """Return an arm for each seat, such that nobody gains by going elsewhere.

    One player after the other joins the arm that then pays most; as payoffs only fall with the number
    of players and everybody on an arm gets the same, the result is a Nash equilibrium.
    """
    chosen: list[int] = []
    for _ in range(players):
        counts = counts_of(chosen, len(means))
        worth = [mean / (count + 1) for mean, count in zip(means, counts, strict=True)]
        chosen.append(worth.index(max(worth)))
    return tuple(sorted(chosen))


def symmetric_equilibrium(means: Sequence[float], players: int) -> Mixed:
    """Return the symmetric mixed equilibrium, by bisection on the payoff that all arms in use share.

    With n players who pull an arm with probability q, one who pulls it expects
    mean (1 - (1 - q)^n) / (n q), which falls in q from mean to mean / n.
    """
    low, high = 0.0, max(means)
    for _ in range(200):
        payoff = (low + high) / 2
        if sum(_chance(mean, players, payoff) for mean in means) >= 1.0:
            low = payoff
        else:
            high = payoff
    chances = [_chance(mean, players, low) for mean in means]
    total = sum(chances)
    return Mixed(tuple(chance / total for chance in chances), low)


def expected_share(mean: float, players: int, chance: float) -> float:
    """Return the expected payoff of one who pulls an arm if each of the others does so with a probability."""
    if chance == 0.0:
        return mean
    if chance == 1.0:
        return mean / players
    some = -math.expm1(players * math.log1p(-chance))
    return mean * some / (players * chance)


def _chance(mean: float, players: int, payoff: float) -> float:
    """Return the probability at which an arm pays this much, at most 1."""
    if mean <= payoff:
        return 0.0
    low, high = 0.0, 1.0
    for _ in range(100):
        middle = (low + high) / 2
        if expected_share(mean, players, middle) > payoff:
            low = middle
        else:
            high = middle
    return high


def optimal_welfare(means: Sequence[float], players: int) -> float:
    """Return the most that all players together can expect in a round: the best arms, one each."""
    return sum(sorted(means, reverse=True)[:players])
