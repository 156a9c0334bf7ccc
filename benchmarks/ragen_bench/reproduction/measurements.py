"""The results of a sweep as samples and as numbers of single runs."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ragen_bench.reproduction.reproduction_config import Column, Event, Scalar
from ragen_bench.stats.intervals import FloatArray
from ragen_bench.stats.mixed_effects import distinct_levels
from ragen_bench.sweeps.results import Outcome, TaskResult
from ragen_bench.sweeps.sweep_config import Sweep
from ragen_bench.sweeps.tasks import POLICY, controls_cell

WINDOW: Final = 5
"""Iterations over which curves are averaged before anything is read off them."""
_FALLEN: Final = 0.5
"""Below this share of its best, or of where it began, a curve has fallen."""
_LEAST: Final = 0.05
"""Success that a run must have reached before it can collapse."""


@dataclass(frozen=True)
class Runs:
    """All results of a sweep that are there.

    Args:
        sweep: The sweep.
        results: Of one scale, in any order.
    """

    sweep: Sweep
    results: Sequence[TaskResult]

    def of(self, game: str, cell: str) -> list[TaskResult]:
        """Return the trained runs of a cell by seed."""
        found = [
            r for r in self.results
            if r.task.game == game and r.task.cell == cell and r.task.seed is not None
        ]  # fmt: skip
        return sorted(found, key=lambda result: result.task.seed or 0)

    def sample(self, column: Column, cell: str) -> FloatArray | None:
        """Return the test outcomes of a cell, (seeds, distinct levels), or None without any."""
        return sample_of([r.outcomes[POLICY][column.test] for r in self.of(column.train, cell)])

    def control(self, column: Column, cell: str, agent: str) -> FloatArray | None:
        """Return the outcomes of a control under a cell's settings, (1, distinct levels), or None."""
        found = self._controls(column, cell)
        return None if found is None else sample_of([found.outcomes[agent][column.test]])

    def chance(self, column: Column, cell: str) -> float:
        """Return the success of random play under a cell's settings, exact or sampled; nan if not known."""
        found = self._controls(column, cell)
        if found is None:
            return math.nan
        outcome = found.outcomes["random"][column.test]
        if outcome.random is not None:
            return outcome.random
        sample = sample_of([outcome])
        return math.nan if sample is None else float(sample.mean())

    def optimum(self, column: Column, cell: str) -> float:
        """Return the best possible chance of success under a cell's settings; nan if it is not known."""
        found = self._controls(column, cell)
        return math.nan if found is None else found.outcomes["oracle"][column.test].optimal

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


def curve(result: TaskResult, metric: str) -> tuple[list[int], FloatArray]:
    """Return a metric of a run: the iterations that have it, and its values."""
    values = result.curves.get(metric, [])
    pairs = [(i, v) for i, v in zip(result.iterations, values, strict=False) if v is not None]
    return [i for i, _ in pairs], np.array([v for _, v in pairs], dtype=np.float64)


def smoothed(values: FloatArray) -> FloatArray:
    """Return means over a window that begins with the first values and is shorter for short curves."""
    width = min(WINDOW, len(values))
    if not width:
        return values
    result: FloatArray = np.convolve(values, np.full(width, 1 / width), mode="valid")
    return result


def scalar_of(result: TaskResult, scalar: Scalar) -> float:
    """Return a number of one run, or nan where it has none.

    ``seconds``: of an iteration, without evaluations. ``thought``: natural logarithm of the thought's
    length at the end over that at the start. ``peak`` and ``last``: the best and the last mean success
    of training. ``clipped``: mean share of tokens that the clip cut. ``updates``: optimizer steps.
    """
    value = _SCALARS[scalar](result)
    return float(value)


def _seconds(result: TaskResult) -> float:
    _, total = curve(result, "seconds/total")
    _, evaluating = curve(result, "seconds/evaluation")
    count = result.iterations[-1] if result.iterations else 0
    return float(total.sum() - evaluating.sum()) / count if len(total) and count else math.nan


def _thought(result: TaskResult) -> float:
    values = smoothed(curve(result, "thought_characters")[1])
    return (
        math.log(values[-1] / values[0]) if len(values) and min(values[[0, -1]]) > 0 else math.nan
    )


def _success(result: TaskResult) -> FloatArray:
    return smoothed(curve(result, "success")[1])


def _mean(metric: str) -> Callable[[TaskResult], float]:
    def mean(result: TaskResult) -> float:
        values = curve(result, metric)[1]
        return float(values.mean()) if len(values) else math.nan

    return mean


_SCALARS: Final[Mapping[Scalar, Callable[[TaskResult], float]]] = {
    "seconds": _seconds,
    "thought": _thought,
    "peak": lambda result: max(_success(result), default=math.nan),
    "last": lambda result: float(_success(result)[-1]) if len(_success(result)) else math.nan,
    "clipped": _mean("clip_fraction"),
    "updates": lambda result: float(curve(result, "optimizer_steps")[1].sum()),
}


def collapsed_at(result: TaskResult) -> int | None:
    """Return after which iteration success stayed below half of its best, or None."""
    iterations, values = curve(result, "success")
    means = smoothed(values)
    if not len(means) or means.max() < _LEAST or means[-1] >= _FALLEN * means.max():
        return None
    fallen = means < _FALLEN * means.max()
    last_up = int(np.flatnonzero(~fallen)[-1])
    return iterations[last_up + len(values) - len(means)]


def happened(result: TaskResult, event: Event) -> bool | None:
    """Return whether something happened in a run; None where it could not.

    ``collapse``: mean success ended below half of its best. ``early-sign``: in a run that collapsed, the
    in-group deviation of the return had fallen to half of where it began before success had fallen.
    """
    end = collapsed_at(result)
    if event == "collapse":
        return end is not None
    if end is None:
        return None
    iterations, values = curve(result, "reward_std")
    means = smoothed(values)
    low = np.flatnonzero(means < _FALLEN * means[0]) if len(means) else np.array([])
    return bool(len(low)) and iterations[int(low[0]) + len(values) - len(means)] < end
