"""How a metric of training went, beside the paper's numbers: its start, middle and end."""

from typing import Any, Final

import numpy as np
import pandas as pd

from ragen_bench.console.formats import Grid, number
from ragen_bench.reproduction.measurements import Runs
from ragen_bench.reproduction.reproduction_config import Reproduction
from ragen_bench.reproduction.run_measures import curve, smoothed
from ragen_bench.stats.intervals import FloatArray
from ragen_bench.sweeps.results import TaskResult

_PLACES: Final = ("start", "half way", "end")


def tabulate_stages(what: Reproduction, runs: Runs) -> pd.DataFrame | None:
    """Return a row for each trained cell and place of training, or None if there are none.

    Columns: ``trained_on``, ``row`` (a cell), ``metric``, ``place`` ("start", "half way", "end"), ``seeds``;
    ``mean`` over seeds of the curve averaged over five iterations, ``lowest`` and ``highest`` seed;
    ``paper``, nan where it prints none.
    """
    if what.stages is None:
        return None
    rows = [
        row
        for game in dict.fromkeys(column.train for column in what.columns)
        for cell in runs.sweep.cells
        for row in _rows(what, runs, game, cell)
    ]
    return pd.DataFrame(rows) if rows else None


def _rows(what: Reproduction, runs: Runs, game: str, cell: str) -> list[dict[str, Any]]:
    assert what.stages is not None
    found = [_stages(result, what.stages.metric) for result in runs.of(game, cell)]
    if not found or not all(len(values) for values in found):
        return []
    printed = what.stages.paper.get(game, {}).get(cell, [np.nan] * len(_PLACES))
    return [
        {
            "trained_on": game,
            "row": cell,
            "metric": what.stages.metric,
            "place": place,
            "seeds": len(found),
            "mean": values.mean(),
            "lowest": values.min(),
            "highest": values.max(),
            "paper": paper,
        }
        for place, values, paper in zip(_PLACES, np.stack(found, axis=1), printed, strict=True)
    ]


def _stages(result: TaskResult, metric: str) -> FloatArray:
    values = smoothed(curve(result, metric)[1])
    return values[[0, len(values) // 2, -1]] if len(values) else values


def stages_grid(data: pd.DataFrame) -> Grid:
    """Return the table for people, a row for each cell."""
    header = ["trained on", "row", "seeds", *_PLACES, f"paper: {' / '.join(_PLACES)}"]
    rows = [
        [
            str(game),
            str(cell),
            str(part["seeds"].iloc[0]),
            *(_shown(row) for row in part.to_dict("records")),
            " / ".join(number(value, 1) for value in part["paper"]),
        ]
        for (game, cell), part in data.groupby(["trained_on", "row"], sort=False)
    ]
    return Grid(header, rows, left=2, hideable=("seeds", header[-1]))


def _shown(row: dict[Any, Any]) -> str:
    spread = f" ({number(row['lowest'], 1)} to {number(row['highest'], 1)})"
    return number(row["mean"], 1) + (spread if row["seeds"] > 1 else "")
