"""How a metric of training went, beside the paper's numbers: a table of its start, middle and end."""

from typing import Final

import numpy as np

from ragen_bench.formats import Grid, number
from ragen_bench.reproduction.runs import Runs, curve, smoothed
from ragen_bench.reproduction.schema import Reproduction
from ragen_bench.statistics import FloatArray
from ragen_bench.sweeps.results import TaskResult

_PLACES: Final = ("start", "half way", "end")


def stages_grid(what: Reproduction, runs: Runs) -> Grid | None:
    """Return the table, or None if there is none or nothing was trained.

    A number is the mean over seeds of the curve averaged over five iterations, and in parentheses those
    of the lowest and the highest seed.
    """
    if what.stages is None:
        return None
    rows = []
    for game in dict.fromkeys(column.train for column in what.columns):
        for cell in runs.sweep.cells:
            found = [_stages(result, what.stages.metric) for result in runs.of(game, cell)]
            if not found or not all(len(values) for values in found):
                continue
            printed = what.stages.paper.get(game, {}).get(cell)
            rows.append(
                [
                    game,
                    cell,
                    str(len(found)),
                    *map(_shown, np.stack(found, axis=1)),
                    " / ".join(number(value, 1) for value in printed) if printed else "",
                ]
            )
    header = ["trained on", "row", "seeds", *_PLACES, f"paper: {' / '.join(_PLACES)}"]
    return Grid(header, rows, left=2) if rows else None


def _stages(result: TaskResult, metric: str) -> FloatArray:
    values = smoothed(curve(result, metric)[1])
    return values[[0, len(values) // 2, -1]] if len(values) else values


def _shown(values: FloatArray) -> str:
    spread = f" ({number(values.min(), 1)} to {number(values.max(), 1)})" if len(values) > 1 else ""
    return number(values.mean(), 1) + spread
