"""The optimum of slippery ice under a budget of actions and turns, by dynamic programming.

Within a turn an agent commits to a run of actions without seeing where the ice takes it. What the rest
of a run is worth depends on the cell only, so the rest is a vector of values by cell, and a vector that
is nowhere better than another one can be dropped. The result is exact.

The number of vectors that remain is exponential in ``actions_per_turn`` in the worst case, but small on
most maps: a random 4x4 map with 10 actions left takes about 10 ms, however many of them a turn may hold.
``MAX_WORK`` bounds the time to about five seconds, and with it the memory to some tens of megabytes.
"""

from functools import lru_cache
from itertools import product
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragen_envs.errors import SolverLimitError
from ragen_envs.games.frozen_lake.dynamics import FROZEN, GOAL, Lake, directions, walk

MAX_WORK: Final = 250_000_000
"""Most comparisons of two vectors for one map and one budget; about five seconds. It is enough for seven
actions in each of five turns, the last row of the paper's table 3, on all test levels."""
ALWAYS: Final = 5
"""Actions in a turn that stay below ``MAX_WORK`` on every map, if an episode has at most 30 actions."""

Floats = NDArray[np.float64]


class Policy(NamedTuple):
    """Optimal values and runs of every cell under one budget."""

    values: Floats
    """(cells,) largest probability to reach the goal."""
    runs: NDArray[np.int8]
    """(cells, most actions) an optimal run for this turn; -1 after its last action."""

    def run(self, cell: int) -> tuple[int, ...]:
        """Return the run of a cell."""
        return tuple(action for action in self.runs[cell].tolist() if action >= 0)


@lru_cache(maxsize=512)
def transitions(lake: Lake) -> Floats:
    """Return P[action, cell, next cell]; holes and goals lead to themselves. Rows sum to 1."""
    tiles, height, width, success_rate = lake
    size = len(tiles)
    law = np.zeros((4, size, size))
    for action, cell in product(range(4), range(size)):
        if tiles[cell] != FROZEN:
            law[action, cell, cell] = 1.0
            continue
        for direction, chance in directions(action, success_rate):
            law[action, cell, walk(cell, direction, height, width)] += chance
    law.flags.writeable = False
    return law


@lru_cache(maxsize=512)
def open_loop_optimum(lake: Lake, actions_per_turn: int) -> "OpenLoopOptimum":
    """Return the programme of one lake and one limit, which remembers the budgets it has solved."""
    return OpenLoopOptimum(lake, actions_per_turn)


class OpenLoopOptimum:
    """Optimal play on one lake with at most ``actions_per_turn`` actions in a turn.

    Frozen tiles that are out of reach only cost time; give them as holes.
    """

    def __init__(self, lake: Lake, actions_per_turn: int) -> None:
        self._lake = lake
        self._per_turn = actions_per_turn
        law = transitions(lake)
        cells = np.argsort(law == 0, axis=2, kind="stable")[:, :, :3]
        # Up to three cells to which each action leads from each cell, and their chances: (4, cells) each.
        chances = np.take_along_axis(law, cells, axis=2)
        self._moves = list(zip(np.moveaxis(cells, 2, 0), np.moveaxis(chances, 2, 0), strict=True))
        self._goal = np.array([float(tile == GOAL) for tile in lake.tiles])
        self._frozen = np.array([tile == FROZEN for tile in lake.tiles])
        self._known: dict[tuple[int, int], Policy] = {}
        self._refused: set[tuple[int, int]] = set()

    def solve(self, actions: int, turns: int) -> Policy:
        """Return the optimum of every cell with at least one action and one turn left.

        Raises:
            SolverLimitError: It takes more than ``MAX_WORK``.
        """
        wanted = (actions, min(turns, actions))
        if wanted in self._refused:
            raise SolverLimitError(self._refusal())
        self._work = 0
        for left in self._needed(wanted):
            try:
                self._known[left] = self._best_runs(*left)
            except SolverLimitError:
                self._refused.add(wanted)
                raise
        return self._known[wanted]

    def _needed(self, wanted: tuple[int, int]) -> list[tuple[int, int]]:
        """Return the budgets to solve before (actions, turns), in an order in which they can be solved."""
        needed: set[tuple[int, int]] = set()
        stack = [wanted]
        while stack:
            left = stack.pop()
            if left in self._known or left in needed or not left[1]:
                continue
            needed.add(left)
            stack += [_spend(*left, length) for length in range(1, self._longest(left[0]) + 1)]
        return sorted(needed)

    def _longest(self, actions: int) -> int:
        return min(self._per_turn, actions)

    def _best_runs(self, actions: int, turns: int) -> Policy:
        """Choose each cell's best run, from the last action to the first.

        After the first ``length`` actions of a run, the turn ends there or goes on with another action.
        """
        longest = self._longest(actions)
        rests = self._end(actions, turns, longest)
        for length in range(longest - 1, 0, -1):
            end, others = self._end(actions, turns, length), self._before(*rests)
            values = np.concatenate([end[0], others[0]])
            rests = self._pruned(values, np.concatenate([end[1], others[1]]))
        values, runs = self._before(*rests)
        best = values.argmax(axis=0)
        return Policy(values[best, np.arange(len(best))], runs[best])

    def _end(self, actions: int, turns: int, length: int) -> tuple[Floats, NDArray[np.int8]]:
        """Return the end of a turn after ``length`` actions: its values, and no further actions."""
        left = _spend(actions, turns, length)
        values = self._known[left].values if left[1] else self._goal
        return values[None], np.full((1, self._longest(actions)), -1, np.int8)

    def _before(self, values: Floats, runs: NDArray[np.int8]) -> tuple[Floats, NDArray[np.int8]]:
        """Return all rests of runs that begin with another action and continue as the given ones.

        Elementwise: every processor rounds alike, so that all agree on which of equal runs is the best. A
        product of matrices would be added in an order that depends on the processor.
        """
        expected = np.zeros((len(values), 4, values.shape[1]))
        for cells, chances in self._moves:
            expected += values.take(cells, axis=1) * chances
        extended = np.empty((4, *runs.shape), np.int8)
        extended[:, :, 0] = np.arange(4)[:, None]
        extended[:, :, 1:] = runs[:, :-1]
        return (
            expected.transpose(1, 0, 2).reshape(-1, values.shape[1]),
            extended.reshape(-1, runs.shape[1]),
        )

    def _pruned(self, values: Floats, runs: NDArray[np.int8]) -> tuple[Floats, NDArray[np.int8]]:
        """Return the rests of runs that no other one dominates; of equal ones the first."""
        from ragen_envs.compiled.compiling import first_use
        from ragen_envs.games.frozen_lake.kernels import undominated

        order = np.argsort(-values.sum(axis=1).round(10), kind="stable")
        with first_use(undominated):
            kept, pairs = undominated(values[:, self._frozen], order, MAX_WORK - self._work)
        self._work += pairs
        if self._work > MAX_WORK:
            raise SolverLimitError(self._refusal())
        return values[kept], runs[kept]

    def _refusal(self) -> str:
        return (
            f"actions_per_turn is {self._per_turn}, too many to find the exact optimum on this "
            f"{self._lake.height}x{self._lake.width} lake; {ALWAYS} are never too many in an episode of "
            "up to 30 actions"
        )


def _spend(actions: int, turns: int, length: int) -> tuple[int, int]:
    """Return the actions and turns that are left after a turn with ``length`` actions."""
    return actions - length, min(turns - 1, actions - length)
