"""The optimum of FrozenLake and what random actions are worth, exactly."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from ragen_envs.game.oracle import Advice, Budget, RandomBaseline
from ragen_envs.games.frozen_lake.dynamics import FROZEN, GOAL, Lake, walk
from ragen_envs.games.frozen_lake.generator import walkable
from ragen_envs.games.frozen_lake.open_loop import Floats, open_loop_optimum, transitions


def advise(lake: Lake, position: int, budget: Budget) -> Advice:
    """Return the oracle's advice for the walker at ``position``.

    Raises:
        SolverLimitError: A turn may hold so many actions that the search would take too long.
    """
    tile = lake.tiles[position]
    if tile != FROZEN:
        return Advice((), float(tile == GOAL), 0.0)
    if lake.success_rate == 1.0:
        return _advise_deterministic(lake, position, budget)
    if budget.reach == 0:
        return Advice((), 0.0, 0.0)
    optimum = open_loop_optimum(_within_reach(lake, position), budget.actions_per_turn)
    policy = optimum.solve(budget.actions, budget.turns)
    value = float(policy.values[position])
    return Advice(policy.run(position), value, value)


def turn_value(lake: Lake, position: int, actions: Sequence[int], budget: Budget) -> float:
    """Return the value of a turn of the walker at ``position``; see ``GameEnv.turn_value``.

    Raises:
        SolverLimitError: A turn may hold so many actions that the search would take too long.
    """
    near = _within_reach(lake, position)
    chances = np.zeros(len(lake.tiles))
    chances[position] = 1.0
    for action in actions:
        chances = _after(chances, transitions(near)[action])
    rest = Budget(budget.actions - len(actions), budget.turns - 1, budget.actions_per_turn)
    return sum(float(chances[cell]) * advise(near, int(cell), rest).value for cell in np.flatnonzero(chances))


@lru_cache(maxsize=1 << 12)
def _within_reach(lake: Lake, position: int) -> Lake:
    """Return the lake with holes in place of the frozen tiles that the walker cannot reach.

    Fewer cells to search, and one programme for all lakes that differ only out of reach.
    """
    return lake._replace(tiles=walkable(lake.tiles, lake.height, lake.width, position))


def _advise_deterministic(lake: Lake, position: int, budget: Budget) -> Advice:
    """Follow a shortest path by breadth-first search from the walker."""
    paths: dict[int, tuple[int, ...]] = {position: ()}
    queue = [position]
    for cell in queue:
        for action in range(4):
            after = walk(cell, action, lake.height, lake.width)
            if after in paths:
                continue
            paths[after] = path = (*paths[cell], action)
            if lake.tiles[after] == GOAL:
                value = float(len(path) <= budget.reach)
                return Advice(path[: min(budget.reach, budget.actions_per_turn)], value, value)
            if lake.tiles[after] == FROZEN:
                queue.append(after)
    return Advice((), 0.0, 0.0)


def random_baseline(lake: Lake, position: int, budget: Budget) -> RandomBaseline:
    """Return the value of random actions to the walker at ``position``."""
    tile = lake.tiles[position]
    if tile != FROZEN:
        return RandomBaseline(float(tile == GOAL), 0.0)
    step = transitions(lake).mean(axis=0)
    chances = np.zeros(len(lake.tiles))
    chances[position] = 1.0
    for _ in range(budget.reach):
        chances = _after(chances, step)
    success = float(sum(chances[cell] for cell, tile in enumerate(lake.tiles) if tile == GOAL))
    return RandomBaseline(success, success)


def _after(chances: Floats, law: Floats) -> Floats:
    """Return the chances of cells after an action, rounded alike on every machine."""
    after: Floats = (chances[:, None] * law).sum(axis=0)
    return after
