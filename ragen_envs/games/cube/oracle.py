"""The optimum of the cube: the fewest turns to every one of its 3,674,160 states, in one table.

With one corner at rest, a state is an order of the seven others and a twist of six of them (the seventh
follows): 7! * 3^6. The table is made by breadth-first search at its first use, in about a second, and
holds one byte a state.
"""

from functools import lru_cache
from itertools import permutations, product
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragen_envs.game.oracle import Advice, Budget
from ragen_envs.games.cube.dynamics import ACTION_NAMES, SOLVED, is_solved, turned
from ragen_envs.games.cube.pieces import pieces_of

MOST_TURNS: Final = 14
"""The fewest turns that solve the hardest state."""

_ORDERS: Final = 5040
TWISTS: Final = 729
_UNKNOWN: Final = 255

Ints = NDArray[np.int64]


class MoveTables(NamedTuple):
    """What the actions do to the two parts of a state."""

    orders: Ints
    """(6, 5040) the number of the order after each action."""
    twists: Ints
    """(6, 729) the number of the twists after each action."""


@lru_cache(maxsize=1)
def move_tables() -> MoveTables:
    """Return the tables of the actions, made at the first call."""
    orders = np.array(list(permutations(range(7))))
    twists: Ints = np.array([(*t, -sum(t) % 3) for t in product(range(3), repeat=6)], np.int64)
    rank = np.zeros(7**7, np.int64)
    rank[_order_code(orders)] = np.arange(_ORDERS)
    order_moves, twist_moves = [], []
    for action in range(len(ACTION_NAMES)):
        source, added = _effect(action)
        order_moves.append(rank[_order_code(orders[:, source])])
        twist_moves.append(_twist_code((twists[:, source] + added) % 3))
    return MoveTables(np.array(order_moves), np.array(twist_moves))


def _effect(action: int) -> tuple[list[int], list[int]]:
    """Return where each corner's piece comes from, and by how much an action twists it."""
    after = pieces_of(turned(SOLVED, action))
    assert after is not None
    return list(after.order), list(after.twists)


def _order_code(orders: Ints) -> Ints:
    codes: Ints = orders @ (7 ** np.arange(6, -1, -1))
    return codes


def _twist_code(twists: Ints) -> Ints:
    codes: Ints = twists[:, :6] @ (3 ** np.arange(5, -1, -1))
    return codes


@lru_cache(maxsize=1)
def distances() -> NDArray[np.uint8]:
    """Return the fewest turns of each state, (5040 * 729,) by order * 729 + twists."""
    moves = move_tables()
    found = np.full(_ORDERS * TWISTS, _UNKNOWN, np.uint8)
    found[0] = 0  # the first order and no twist
    for turns in range(MOST_TURNS):
        order, twist = np.divmod(np.flatnonzero(found == turns), TWISTS)
        for to_order, to_twist in zip(moves.orders, moves.twists, strict=True):
            there = to_order[order] * TWISTS + to_twist[twist]
            found[there[found[there] == _UNKNOWN]] = turns + 1
    return found


def fewest_turns(state: bytes) -> int:
    """Return the fewest turns that solve a cube."""
    order, twist = numbers(state)
    return int(distances()[order * TWISTS + twist])


def solution(state: bytes) -> tuple[int, ...]:
    """Return a solution with the fewest turns."""
    moves, known = move_tables(), distances()
    order, twist = numbers(state)
    plan = []
    for turns in range(fewest_turns(state), 0, -1):
        there = moves.orders[:, order] * TWISTS + moves.twists[:, twist]
        action = int(np.flatnonzero(known[there] == turns - 1)[0])
        order, twist = int(moves.orders[action, order]), int(moves.twists[action, twist])
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


def advise(state: bytes, budget: Budget) -> Advice:
    """Return the first turns of a shortest solution; the value is 1 if it fits the budget, else 0.

    A solution longer than the budget has value 0; the oracle still sets out on it.
    """
    if is_solved(state):
        return Advice((), 1.0, 0.0)
    plan = solution(state)
    value = float(len(plan) <= budget.reach)
    return Advice(plan[: min(budget.reach, budget.actions_per_turn)], value, value)
