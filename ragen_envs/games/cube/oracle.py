"""The optimum of the cube, and what random turns are worth.

The optimum is the fewest turns to every one of its 3,674,160 states, in one table.

With one corner at rest, a state is an order of the seven others and a twist of six of them (the seventh
follows): 7! * 3^6. The table is made by breadth-first search at its first use, in about a second, and
holds one byte a state.

The probability that random turns solve a cube is split in the middle: the first half spreads it from the
given cube, the second half is the probability of being solved within the rest, which is the same for all
cubes and is kept. Each half reaches only the states within half of the turns.
"""

from functools import lru_cache
from itertools import permutations, product
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragen_envs.game.oracle import Budget, RandomBaseline
from ragen_envs.games.cube.dynamics import ACTION_NAMES, SOLVED, is_solved, turned
from ragen_envs.games.cube.pieces import pieces_of

MOST_TURNS: Final = 14
"""The fewest turns that solve the hardest state."""

_ORDERS: Final = 5040
TWISTS: Final = 729
_UNKNOWN: Final = 255

MAX_STEPS: Final = 14
"""Most random turns that are computed; 50,000 states are within half of them."""
_SOLVED: Final = 0
"""Number of the solved state: the first order and no twist."""

Ints = NDArray[np.int64]


@lru_cache(maxsize=1)
def move_tables() -> tuple[Ints, Ints]:
    """Return the number of the order, (6, 5040), and of the twists, (6, 729), after each action."""
    orders = np.array(list(permutations(range(7))))
    twists: Ints = np.array([(*t, -sum(t) % 3) for t in product(range(3), repeat=6)], np.int64)
    rank = np.zeros(7**7, np.int64)
    rank[_order_code(orders)] = np.arange(_ORDERS)
    order_moves, twist_moves = [], []
    for action in range(len(ACTION_NAMES)):
        after = pieces_of(turned(SOLVED, action))
        assert after is not None
        # The corner from which the action takes each piece, and the twist that it adds.
        source, added = np.array(after.order), np.array(after.twists)
        order_moves.append(rank[_order_code(orders[:, source])])
        twist_moves.append(_twist_code((twists[:, source] + added) % 3))
    return np.array(order_moves), np.array(twist_moves)


def _order_code(orders: Ints) -> Ints:
    codes: Ints = orders @ (7 ** np.arange(6, -1, -1))
    return codes


def _twist_code(twists: Ints) -> Ints:
    codes: Ints = twists[:, :6] @ (3 ** np.arange(5, -1, -1))
    return codes


@lru_cache(maxsize=1)
def distances() -> NDArray[np.uint8]:
    """Return the fewest turns of each state, (5040 * 729,) by order * 729 + twists."""
    orders, twists = move_tables()
    fewest = np.full(_ORDERS * TWISTS, _UNKNOWN, np.uint8)
    fewest[_SOLVED] = 0
    for turns in range(MOST_TURNS):
        order, twist = np.divmod(np.flatnonzero(fewest == turns), TWISTS)
        for to_order, to_twist in zip(orders, twists, strict=True):
            after = to_order[order] * TWISTS + to_twist[twist]
            fewest[after[fewest[after] == _UNKNOWN]] = turns + 1
    return fewest


def fewest_turns(state: bytes) -> int:
    """Return the fewest turns that solve a cube."""
    order, twist = numbers(state)
    return int(distances()[order * TWISTS + twist])


def solution(state: bytes) -> tuple[int, ...]:
    """Return a solution with the fewest turns."""
    orders, twists = move_tables()
    order, twist = numbers(state)
    plan = []
    for turns in range(fewest_turns(state), 0, -1):
        after = orders[:, order] * TWISTS + twists[:, twist]
        action = int(np.flatnonzero(distances()[after] == turns - 1)[0])
        order, twist = int(orders[action, order]), int(twists[action, twist])
        plan.append(action)
    return tuple(plan)


def numbers(state: bytes) -> tuple[int, int]:
    """Return the numbers of a cube's order and twists; orders are counted as ``permutations`` does."""
    pieces = pieces_of(state)
    assert pieces is not None
    order = 0
    for at, piece in enumerate(pieces.order):
        order = order * (7 - at) + sum(later < piece for later in pieces.order[at:])
    return order, int(_twist_code(np.array([pieces.twists]))[0])


def random_baseline(state: bytes, budget: Budget) -> RandomBaseline | None:
    """Return the value of random turns, or None above ``MAX_STEPS`` of them."""
    if is_solved(state):
        return RandomBaseline(1.0, 0.0)
    chance = chance_of_solution(state, budget.reach)
    return None if chance is None else RandomBaseline(chance, chance)


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
    at[at == len(rest.states)] = 0  # beyond the last state; the next line finds them unequal
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
        np.concatenate([[_SOLVED], spread.states[others]]), np.concatenate([[weight], spread.weights[others]])
    )


def _turned(spread: Distribution) -> Distribution:
    """Return the distribution after a random turn of every state."""
    orders, twists = move_tables()
    order, twist = np.divmod(spread.states, TWISTS)
    after = orders[:, order] * TWISTS + twists[:, twist]
    states, group = np.unique(after, return_inverse=True)
    weights = np.bincount(group.ravel(), np.tile(spread.weights, len(ACTION_NAMES)), minlength=len(states))
    return Distribution(states, weights / len(ACTION_NAMES))
