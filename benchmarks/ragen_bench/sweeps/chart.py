"""Charts of a sweep as SVG: success at each point between random play and the optimum."""

from collections.abc import Mapping
from typing import Any, Final

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from ragen_bench.console.drawings import STYLE, svg_of
from ragen_bench.sweeps.sweep import Sweep

_LONG: Final = 4
"""Letters of a label from which on all are slanted."""


def draw_sweep(data: pd.DataFrame, sweep: Sweep, title: str, ages: Mapping[str, int]) -> str:
    """Return a chart with a panel for each game and axis; bars are 95% intervals, the reference is hollow.

    Args:
        data: Rows of `sweep_table`, of one agent or of the checkpoints of one training run.
        sweep: Of these.
        title: Name of the agent or run.
        ages: Iterations of the checkpoints by agent; then there is a line for each point, by age.
    """
    games, axes = (list(dict.fromkeys(data[column])) for column in ("game", "axis"))
    with mpl.rc_context(STYLE):
        size = (4.2 * len(axes) + 0.4, 2.6 * len(games) + 0.6)
        figure = Figure(figsize=size, layout="constrained")
        grid = figure.subplots(len(games), len(axes), squeeze=False)
        for (game, axis), rows in data.groupby(["game", "axis"], sort=False):
            panel = grid[games.index(game)][axes.index(axis)]
            by_age = rows.assign(x=rows["agent"].map(ages)).groupby("point", sort=False)
            lines = dict(list(by_age)) if ages else {"agent": rows.assign(x=rows["point"])}
            _draw_panel(panel, lines)
            label = sweep.axes[str(axis)].label
            panel.set_xlabel(f"iteration, by {label}" if ages else label)
            panel.set_title(game)
        for row in grid:
            row[0].set_ylabel("success, %")
        figure.suptitle(title)
        if not ages:
            known = grid[0][0].get_legend_handles_labels()
            figure.legend(*known, loc="outside upper right", ncols=3, fontsize=7)
        return svg_of(figure)


def _draw_panel(panel: Any, lines: dict[Any, pd.DataFrame]) -> None:
    several = len(lines) > 1
    for number, (name, rows) in enumerate(lines.items()):
        x = np.arange(len(rows))
        y, low, high = (100 * rows[f"success{end}"].to_numpy() for end in ("", "_low", "_high"))
        panel.errorbar(
            x, y, (y - low, high - y), color=f"C{number}", label=name, marker="o",
            linewidth=1.2 if several else 0, elinewidth=1.2, markersize=4,
        )  # fmt: skip
        reference = (rows["point"] == rows["reference"]).to_numpy()
        if not several:
            panel.plot(x[reference], y[reference], "o", color="white", markersize=2, zorder=5)
        for column, text, dash in (
            ("optimal_success", "optimum", "--"),
            ("random_success", "random", ":"),
        ):
            if number == 0:
                panel.plot(
                    x, 100 * rows[column].to_numpy(), dash, color="0.45", linewidth=1, label=text
                )
        panel.set_xticks(x, [str(label) for label in rows["x"]])
    if max(len(label.get_text()) for label in panel.get_xticklabels()) > _LONG:
        panel.tick_params(axis="x", rotation=40)
    panel.set_ylim(0, 105)
    if several:
        panel.legend(fontsize=7)
