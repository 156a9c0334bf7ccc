"""Where training collapses, by learning rate and optimizer steps: a table and a drawing."""

import io
import statistics
from collections.abc import Iterator
from typing import Any, Final

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure

from ragen_bench.console.formats import Grid, number
from ragen_bench.reproduction.figures import STYLE
from ragen_bench.reproduction.measurements import Runs
from ragen_bench.reproduction.reproduction_config import Reproduction
from ragen_bench.reproduction.run_measures import collapsed_at, curve
from ragen_bench.sweeps.results import TaskResult
from ragen_bench.sweeps.tasks import POLICY

_POINT: Final = ["trained_on", "method", "optimizer_steps", "learning_rate"]


def tabulate_phase(what: Reproduction, runs: Runs) -> pd.DataFrame | None:
    """Return a row for each trained cell, or None if there are none.

    Columns: ``trained_on``, ``method``; ``optimizer_steps`` of most iterations, fewer where a filter leaves
    groups out, and ``learning_rate``; ``seeds``, and how many of them ``collapsed`` in training;
    ``success``, ``lowest`` and ``highest`` of the seeds on the first test of the game, in [0, 1].
    """
    if what.phase is None:
        return None
    labels = {preset: label for label, preset in what.phase.methods.items()}
    tests = {column.train: column.test for column in reversed(what.columns)}
    rows = []
    for game, test in tests.items():
        for cell, settings in runs.sweep.cells.items():
            label = labels.get(settings.preset or runs.sweep.preset)
            found = runs.of(game, cell)
            if label is not None and found:
                rows.append({"trained_on": game, "method": label, **_point(found, test)})
    return pd.DataFrame(rows).sort_values(_POINT, kind="stable") if rows else None


def _point(results: list[TaskResult], test: str) -> dict[str, Any]:
    steps = [value for result in results for value in curve(result, "optimizer_steps")[1]]
    solved = [result.outcomes[POLICY][test].success for result in results]
    rates = [sum(float(c) for c in one) / len(one) for one in solved]
    return {
        "optimizer_steps": round(statistics.median(steps)),
        "learning_rate": results[0].task.train.update.learning_rate,
        "seeds": len(results),
        "collapsed": sum(collapsed_at(result) is not None for result in results),
        "success": sum(rates) / len(rates),
        "lowest": min(rates),
        "highest": max(rates),
    }


def phase_grid(data: pd.DataFrame) -> Grid:
    """Return the table for people: by learning rate, success in percent and how many runs collapsed."""
    rates = sorted(set(data["learning_rate"]))
    several = data["trained_on"].nunique() > 1
    header = ["method", "optimizer steps", *(f"rate {rate:g}" for rate in rates)]
    rows = []
    for (game, method, steps), part in data.groupby(_POINT[:3], sort=False):
        shown = {row["learning_rate"]: _shown(row) for row in part.to_dict("records")}
        label = f"{game}, {method}" if several else str(method)
        rows.append([label, str(steps), *(shown.get(rate, "") for rate in rates)])
    return Grid(header, rows, left=1)


def _shown(row: dict[Any, Any]) -> str:
    return f"{number(100 * row['success'], 1)}, {row['collapsed']} of {row['seeds']}"


def draw_phase(data: pd.DataFrame) -> str:
    """Return a panel for each game and method as SVG: darker points solve more.

    A point says how many percent of the test levels are solved after training, and how many of the runs
    collapsed.
    """
    panels = list(_panels(data))
    with mpl.rc_context(STYLE):
        size = (4.2 * len(panels) + 0.8, 0.75 * data["optimizer_steps"].nunique() + 1.4)
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots(1, len(panels), squeeze=False)[0]
        image: Any = None
        for axis, (title, part) in zip(axes, panels, strict=True):
            image = _draw_panel(axis, title, part, 100 * data["success"].max())
        figure.colorbar(image, ax=axes, label="success, %")
        drawing = io.StringIO()
        figure.savefig(drawing, format="svg", metadata={"Date": None})
    return drawing.getvalue()


def _panels(data: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    for (game, method), part in data.groupby(["trained_on", "method"], sort=False):
        yield f"{game}, {method}", part


def _draw_panel(axis: Any, title: str, part: pd.DataFrame, top: float) -> Any:
    success = 100 * part.pivot_table("success", "optimizer_steps", "learning_rate")
    image = axis.imshow(success, cmap="Blues", vmin=0, vmax=top, aspect="auto", origin="lower")
    rates, steps = list(success.columns), list(success.index)
    for row in part.to_dict("records"):
        place = (rates.index(row["learning_rate"]), steps.index(row["optimizer_steps"]))
        light = "white" if 100 * row["success"] > 0.6 * top else "black"
        text = f"{number(100 * row['success'], 1)}%\n{row['collapsed']} of {row['seeds']} collapsed"
        axis.annotate(text, place, ha="center", va="center", fontsize=7, color=light)
    axis.set_xticks(range(len(rates)), [f"{rate:g}" for rate in rates])
    axis.set_yticks(range(len(steps)), [str(count) for count in steps])
    axis.set_xlabel("learning rate")
    axis.set_ylabel("optimizer steps an iteration")
    axis.set_title(title)
    axis.spines[:].set_visible(False)
    axis.tick_params(length=0)
    return image
