"""What it takes to decide open claims: further runs, and their time."""

import math
from collections.abc import Sequence

import pandas as pd

from ragen_bench.reproduction.claims import Verdict, needed_curve
from ragen_bench.reproduction.reproduction_config import Reproduction
from ragen_bench.sweeps.state import Cost, TaskState
from ragen_bench.sweeps.tasks import SweepTask


def claims_data(
    what: Reproduction, verdicts: Sequence[Verdict], states: Sequence[TaskState], cost: Cost
) -> pd.DataFrame:
    """Return a row for each claim: the fields of `Verdict`, and what follows.

    ``further_runs`` is how many runs are missing to decide a claim, those of all its settings together, and
    ``core_hours`` their time on one core; 0 and nan where no number of runs is known that would.
    """
    data = pd.DataFrame(verdicts, columns=Verdict._fields)
    missing = [
        [
            cost.whole(task)
            for cell in what.cells_of(claim)
            for task, there in [_runs(states, *cell, needed_curve(claim))]
            for _ in range(verdict.seeds_needed - there)
        ]
        for claim, verdict in zip(what.claims, verdicts, strict=True)
    ]
    data["further_runs"] = list(map(len, missing))
    data["core_hours"] = [_hours(seconds) for seconds in missing]
    return data


def _runs(states: Sequence[TaskState], game: str, cell: str, curve: str) -> tuple[SweepTask, int]:
    """Return the task of one run of a cell, and how many are done; with a curve, if one is named."""
    of_cell = [
        s for s in states
        if (s.task.game, s.task.cell) == (game, cell) and s.task.seed is not None
    ]  # fmt: skip
    done = [s.result for s in of_cell if s.result is not None]
    return of_cell[0].task, sum(not curve or curve in result.curves for result in done)


def _hours(seconds: Sequence[float | None]) -> float:
    known = [each for each in seconds if each is not None]
    return sum(known) / 3600 if known and len(known) == len(seconds) else math.nan
