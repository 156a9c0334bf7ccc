"""The exact probability that random turns solve a cube within a number of turns.

The turns are split in the middle: the first half spreads the probability from the given cube, the
second half is the probability of being solved within the rest, which is the same for all cubes and is
kept. Each half reaches only the states within half of the turns.
"""

from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragen_envs.games.cube.dynamics import ACTION_NAMES
from ragen_envs.games.cube.oracle import TWISTS, Ints, move_tables, numbers

MAX_STEPS: Final = 14
"""Most turns that are computed; 50,000 states are within half of them."""

_SOLVED: Final = 0


class Distribution(NamedTuple):
    """Weights of some states, sorted by state."""

    states: Ints
    """(n,) numbers of the states, order * 729 + twists."""
    weights: NDArray[np.float64]
    """(n,) a weight of each."""


def chance_of_solution(state: bytes, steps: int) -> float | None:
    """Return the probability that ``steps`` random turns solve a cube, or None above ``MAX_STEPS``.

    The cube must not be solved already.
    """
    if steps > MAX_STEPS:
        return None
    order, twist = numbers(state)
    spread = Distribution(np.array([order * TWISTS + twist]), np.ones(1))
    for _ in range(steps - steps // 2):
        spread = _played(spread)
    rest = _solved_within(steps // 2)
    at = np.searchsorted(rest.states, spread.states)
    at[at == len(rest.states)] = 0
    known = rest.states[at] == spread.states
    return float(spread.weights[known] @ rest.weights[at[known]])


@lru_cache(maxsize=MAX_STEPS)
def _solved_within(steps: int) -> Distribution:
    """Return the probability to be solved within ``steps`` random turns, where it is not 0.

    Each turn can be undone, so the chance of a solution from a state is what flows to it from the
    solved cube, which is a source of weight 1 in every round.
    """
    if steps == 0:
        return Distribution(np.array([_SOLVED]), np.ones(1))
    return _with_solved(_turned(_solved_within(steps - 1)), 1.0)


def _played(spread: Distribution) -> Distribution:
    """Return the distribution after a random turn; a solved cube stays as it is."""
    done = spread.states == _SOLVED
    stayed = float(spread.weights[done].sum())
    after = _turned(Distribution(spread.states[~done], spread.weights[~done]))
    solved = float(after.weights[after.states == _SOLVED].sum())
    return _with_solved(after, stayed + solved)


def _with_solved(spread: Distribution, weight: float) -> Distribution:
    """Return a distribution with another weight of the solved cube."""
    others = spread.states != _SOLVED
    return Distribution(
        np.concatenate([[_SOLVED], spread.states[others]]),
        np.concatenate([[weight], spread.weights[others]]),
    )


def _turned(spread: Distribution) -> Distribution:
    """Return the distribution after a random turn of every state."""
    orders, twists = move_tables()
    order, twist = np.divmod(spread.states, TWISTS)
    there = orders[:, order] * TWISTS + twists[:, twist]
    states, group = np.unique(there, return_inverse=True)
    weights = np.bincount(
        group.ravel(), np.tile(spread.weights, len(ACTION_NAMES)), minlength=len(states)
    )
    return Distribution(states, weights / len(ACTION_NAMES))
