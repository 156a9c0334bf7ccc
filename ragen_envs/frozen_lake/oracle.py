"""The optimum of FrozenLake under a budget of actions and turns, by dynamic programming.

Within a turn an agent commits to a run of actions without seeing where the ice takes it, so the
optimum depends on how many actions a turn may hold. The programme below is exact: over turns left and
actions left it chooses, for each cell, the best run among all runs of every allowed length.
"""

from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragen_envs.frozen_lake.dynamics import FROZEN, GOAL, slipped, walk
from ragen_envs.oracle import Advice, Budget, RandomBaseline


class Policy(NamedTuple):
    """Optimal values and first runs for one map and one budget."""

    values: NDArray[np.float64]
    """(cells,) largest probability to reach the goal."""
    runs: tuple[tuple[int, ...], ...]
    """For each cell an optimal run for this turn."""


def transitions(tiles: bytes, height: int, width: int, success_rate: float) -> NDArray[np.float64]:
    """Return P[action, cell, next cell]; holes and goals lead to themselves. Rows sum to 1."""
    size = height * width
    law = np.zeros((4, size, size))
    side = (1.0 - success_rate) / 2
    chances = ((0.0, success_rate), (success_rate, side), (success_rate + side, side))
    for action in range(4):
        for cell in range(size):
            if tiles[cell] != FROZEN:
                law[action, cell, cell] = 1.0
                continue
            for draw, chance in chances:
                direction = slipped(action, success_rate, draw)
                law[action, cell, walk(cell, direction, height, width)] += chance
    return law


@lru_cache(maxsize=256)
def _law(tiles: bytes, height: int, width: int, success_rate: float) -> NDArray[np.float64]:
    return transitions(tiles, height, width, success_rate)


@lru_cache(maxsize=1 << 16)
def solve(tiles: bytes, height: int, width: int, success_rate: float, budget: Budget) -> Policy:
    """Return the optimal values and runs of every cell.

    ``tiles`` are the (h*w,) tile codes. Smaller budgets of the same map are solved on the way and
    remembered. Cost grows with 4^actions_per_turn: at the paper's budget about 15 ms for a 4x4 map.
    """
    if budget.reach == 0:
        goal = np.array([float(tile == GOAL) for tile in tiles])
        return Policy(goal, ((),) * len(tiles))
    after = [
        solve(tiles, height, width, success_rate, _spend(budget, k)).values
        for k in range(1, min(budget.actions_per_turn, budget.actions) + 1)
    ]
    return _best_runs(_law(tiles, height, width, success_rate), after)


def _spend(budget: Budget, actions: int) -> Budget:
    left = budget.actions - actions
    return Budget(left, min(budget.turns - 1, left), budget.actions_per_turn)


def _best_runs(law: NDArray[np.float64], after: list[NDArray[np.float64]]) -> Policy:
    """Choose each cell's best run of length 1..len(after), given the values after each length.

    A run a1..ak from a cell is worth (P[a1] ... P[ak] after[k-1])(cell): values are pushed backwards
    through the last action first, so all runs of one length cost one batched product.
    """
    size = law.shape[1]
    values = np.full(size, -1.0)
    runs: list[tuple[int, ...]] = [()] * size
    for length, value in enumerate(after, start=1):
        worth = value[None, :]
        for _ in range(length):
            product = law.reshape(4 * size, size) @ worth.T
            worth = product.reshape(4, size, -1).transpose(0, 2, 1).reshape(-1, size)
        choice = worth.argmax(axis=0)
        top = worth[choice, np.arange(size)]
        for cell in np.nonzero(top > values + 1e-12)[0]:
            values[cell] = top[cell]
            runs[cell] = _digits(int(choice[cell]), length)
    return Policy(values, tuple(runs))


def _digits(number: int, length: int) -> tuple[int, ...]:
    """Return a run from its number: the first action is the most significant base-4 digit."""
    return tuple((number >> 2 * (length - 1 - k)) & 3 for k in range(length))


def advise(
    tiles: bytes, height: int, width: int, success_rate: float, position: int, budget: Budget
) -> Advice:
    """Return the oracle's advice for the walker at ``position``."""
    if tiles[position] != FROZEN:
        return Advice((), float(tiles[position] == GOAL), 0.0)
    if success_rate == 1.0:
        return _advise_deterministic(tiles, height, width, position, budget)
    for steps in range(100, budget.turns, 100):  # bounds the depth of the recursion
        solve(tiles, height, width, success_rate, replace(budget, actions=steps, turns=steps))
    policy = solve(tiles, height, width, success_rate, budget)
    value = float(policy.values[position])
    return Advice(policy.runs[position], value, value)


def _advise_deterministic(
    tiles: bytes, height: int, width: int, position: int, budget: Budget
) -> Advice:
    """Follow a shortest path by breadth-first search from the walker."""
    paths: dict[int, tuple[int, ...]] = {position: ()}
    queue = [position]
    for cell in queue:
        for action in range(4):
            there = walk(cell, action, height, width)
            if there in paths:
                continue
            paths[there] = (*paths[cell], action)
            if tiles[there] == GOAL:
                reached = float(len(paths[there]) <= budget.reach)
                run = paths[there][: min(budget.reach, budget.actions_per_turn)]
                return Advice(run, reached, reached)
            if tiles[there] == FROZEN:
                queue.append(there)
    return Advice((), 0.0, 0.0)


def random_baseline(
    tiles: bytes, height: int, width: int, success_rate: float, position: int, budget: Budget
) -> RandomBaseline:
    """Return what random actions are worth to the walker at ``position``."""
    if tiles[position] != FROZEN:
        return RandomBaseline(float(tiles[position] == GOAL), 0.0)
    step = _law(tiles, height, width, success_rate).mean(axis=0)
    chances = np.zeros(len(tiles))
    chances[position] = 1.0
    for _ in range(budget.reach):
        chances = chances @ step
    success = float(sum(chances[cell] for cell, tile in enumerate(tiles) if tile == GOAL))
    return RandomBaseline(success, success)
