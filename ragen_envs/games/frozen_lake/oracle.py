"""The optimum of FrozenLake and what random actions are worth, exactly."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from ragen_envs.game.oracle import Advice, Budget, RandomBaseline
from ragen_envs.games.frozen_lake.dynamics import FROZEN, GOAL, HOLE, walk
from ragen_envs.games.frozen_lake.open_loop import Floats, open_loop_optimum, transitions


def advise(
    tiles: bytes, height: int, width: int, success_rate: float, position: int, budget: Budget
) -> Advice:
    """Return the oracle's advice for the walker at ``position``.

    Raises:
        SolverLimitError: A turn may hold so many actions that the search would take too long.
    """
    if tiles[position] != FROZEN:
        return Advice((), float(tiles[position] == GOAL), 0.0)
    if success_rate == 1.0:
        return _advise_deterministic(tiles, height, width, position, budget)
    if budget.reach == 0:
        return Advice((), 0.0, 0.0)
    near = _within_reach(tiles, height, width, position)
    optimum = open_loop_optimum(near, height, width, success_rate, budget.actions_per_turn)
    policy = optimum.solve(budget.actions, budget.turns)
    value = float(policy.values[position])
    return Advice(policy.run(position), value, value)


def turn_value(
    tiles: bytes, height: int, width: int, success_rate: float, position: int,
    actions: Sequence[int], budget: Budget,
) -> float:  # fmt: skip
    """Return what a turn of the walker at ``position`` is worth; see ``GameEnv.turn_value``.

    Raises:
        SolverLimitError: A turn may hold so many actions that the search would take too long.
    """
    near = _within_reach(tiles, height, width, position)
    chances = np.zeros(len(tiles))
    chances[position] = 1.0
    for action in actions:
        chances = _after(chances, transitions(near, height, width, success_rate)[action])
    rest = Budget(budget.actions - len(actions), budget.turns - 1, budget.actions_per_turn)
    return sum(
        float(chances[place]) * advise(near, height, width, success_rate, int(place), rest).value
        for place in np.flatnonzero(chances)
    )


@lru_cache(maxsize=1 << 12)
def _within_reach(tiles: bytes, height: int, width: int, position: int) -> bytes:
    """Return the tiles with holes in place of the frozen ones that the walker cannot reach."""
    found, queue = {position}, [position]
    for cell in queue:
        for action in range(4):
            there = walk(cell, action, height, width)
            if tiles[there] == FROZEN and there not in found:
                found.add(there)
                queue.append(there)
    return bytes(
        HOLE if tile == FROZEN and cell not in found else tile for cell, tile in enumerate(tiles)
    )


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
    step = transitions(tiles, height, width, success_rate).mean(axis=0)
    chances = np.zeros(len(tiles))
    chances[position] = 1.0
    for _ in range(budget.reach):
        chances = _after(chances, step)
    success = float(sum(chances[cell] for cell, tile in enumerate(tiles) if tile == GOAL))
    return RandomBaseline(success, success)


def _after(chances: Floats, law: Floats) -> Floats:
    """Return the chances of cells after an action, rounded alike everywhere like ``Moves.before``."""
    after: Floats = (chances[:, None] * law).sum(axis=0)
    return after
