"""Read the results of a sweep as samples: the levels that the runs of a cell solved, and the controls."""

import math
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ragen_bench.reproduction.reproduction_config import Column
from ragen_bench.stats.intervals import FloatArray
from ragen_bench.stats.mixed_effects import distinct_levels
from ragen_bench.training_sweeps.results import Outcome, TaskResult
from ragen_bench.training_sweeps.sweep_config import Sweep
from ragen_bench.training_sweeps.tasks import POLICY, controls_cell

_UNDECIDING: Final = (1, 2, 3)
"""Numbers of seeds with which nothing is decided: the smallest p-value of three against three is 0.10."""


@dataclass(frozen=True)
class Runs:
    """All results of a sweep that are there."""

    sweep: Sweep
    results: Sequence[TaskResult]

    def of(self, game: str, cell: str) -> list[TaskResult]:
        """Return the trained runs of a cell by seed."""
        runs = [
            r for r in self.results
            if r.task.game == game and r.task.cell == cell and r.task.seed is not None
        ]  # fmt: skip
        return sorted(runs, key=lambda result: result.task.seed or 0)

    def correction(self, cells: Iterable[tuple[str, str]], curve: str = "", further: int = 0) -> int:
        """Return the factor of p-values on cells, pairs (game, cell): doubled each time seeds were added.

        It is also doubled each time runs of a cell were replaced.

        Only runs with the curve count, if one is named. With ``further`` it is what the factor will be once
        seeds have been added that many times more.

        Verdicts on n seeds, and on more only if these decided nothing, are false with a chance of up to
        5% + 5% / 2 + 5% / 4 + ..., so never above 10%, however often seeds are added and why.
        """
        looks = [
            max(len(self._counts(cell, curve)) + further, 1) + self.sweep.replaced.get("/".join(cell), 0)
            for cell in cells
        ]
        return int(2 ** (max(looks, default=1) - 1))

    def extended(self, games: Container[str]) -> dict[tuple[str, str], list[int]]:
        """Return the numbers of seeds of cells to which seeds were added, by game and cell; 0 is unknown."""
        cells = {(r.task.game, r.task.cell): None for r in self.results if r.task.game in games}
        return {cell: self._counts(cell) for cell in cells if len(self._counts(cell)) > 1}

    def _counts(self, cell: tuple[str, str], curve: str = "") -> list[int]:
        """Return the numbers of seeds that a cell had whenever verdicts on it could be made."""
        runs = [r for r in self.of(*cell) if not curve or curve in r.curves]
        return sorted({r.seeds or 0 for r in runs if r.seeds not in _UNDECIDING})

    def sample(self, column: Column, cell: str) -> FloatArray | None:
        """Return the test outcomes of a cell, (seeds, distinct levels), or None without any."""
        return sample_of([r.outcomes[POLICY][column.test] for r in self.of(column.train, cell)])

    def control(self, column: Column, cell: str, agent: str) -> FloatArray | None:
        """Return the outcomes of a control under a cell's settings, (1, distinct levels), or None."""
        controls = self._controls(column, cell)
        return None if controls is None else sample_of([controls.outcomes[agent][column.test]])

    def chance(self, column: Column, cell: str) -> float:
        """Return the success of random play under a cell's settings, exact or sampled; nan if not known."""
        exact = self.exact_chance(column, cell)
        sample = self.control(column, cell, "random")
        return exact if math.isfinite(exact) or sample is None else float(sample.mean())

    def exact_chance(self, column: Column, cell: str) -> float:
        """Return the exact success of random play under a cell's settings; nan if it is not known."""
        controls = self._controls(column, cell)
        known = None if controls is None else controls.outcomes["random"][column.test].random
        return math.nan if known is None else known

    def optimum(self, column: Column, cell: str) -> float:
        """Return the best possible chance of success under a cell's settings; nan if it is not known."""
        controls = self._controls(column, cell)
        known = None if controls is None else controls.outcomes["oracle"][column.test].optimal
        return math.nan if known is None else known

    def _controls(self, column: Column, cell: str) -> TaskResult | None:
        wanted = (column.train, controls_cell(self.sweep, cell), None)
        matching = (r for r in self.results if (r.task.game, r.task.cell, r.task.seed) == wanted)
        return next(matching, None)


def sample_of(outcomes: Sequence[Outcome]) -> FloatArray | None:
    """Return outcomes of one test as one sample, (outcomes, distinct levels), or None without any."""
    if not outcomes:
        return None
    solved = [[float(c) for c in outcome.success] for outcome in outcomes]
    return distinct_levels(solved, outcomes[0].levels)
