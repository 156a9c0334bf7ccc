"""Draw the curves of a sweep."""

import math
from collections.abc import Sequence
from itertools import cycle, islice
from typing import Any, Final

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from ragen_bench.console.drawings import STYLE, svg_of
from ragen_bench.reproduction.reproduction_config import Column, Reproduction
from ragen_bench.reproduction.run_measures import VALIDATION, WINDOW, Runs, curve, fell_at, smoothed
from ragen_bench.stats.intervals import FloatArray
from ragen_bench.training_sweeps.results import TaskResult
from ragen_bench.training_sweeps.sweep_config import Sweep
from ragen_bench.training_sweeps.tasks import INITIAL, controls_cell

_LABELS: Final = {
    "success": "success in training",
    VALIDATION: "success on validation levels",
    "reward_std": "in-group deviation of the return",
    "entropy": "entropy, nats a token",
    "grad_norm": "gradient norm",
    "thought_characters": "characters of a thought",
    "reply_tokens": "tokens of a reply",
    "clip_fraction": "share of tokens clipped",
    "optimizer_steps": "optimizer steps an iteration",
    "kept_groups": "groups kept",
    "information/turns/thought/mutual_information": "information of thought\nand prompt, nats",
    "information/turns/thought/conditional_entropy": "entropy of the thought\ngiven the prompt, nats",
    "information/turns/thought/retrieval@1": "share of thoughts traced\nto their prompts",
    "claims/move_1": "share of true first moves\nin thoughts",
    "gradient/bucket1/policy": "policy gradient,\nsmallest deviations",
    "gradient/bucket6/policy": "policy gradient,\nlargest deviations",
    "gradient/bucket1/entropy": "entropy's gradient,\nsmallest deviations",
    "gradient/bucket6/entropy": "entropy's gradient,\nlargest deviations",
}

_MOST_LINES: Final = 4
"""Lines of a panel."""
_DASHES: Final[Any] = {"as published": ("-", (0, (5, 1))), "controlled": ("--", ":", "-.")}


def has_paper_row(exhibit: Reproduction) -> bool:
    """Return whether a drawing begins with what can be read off the paper's."""
    return bool(exhibit.published or exhibit.steps)


def panels_of(exhibit: Reproduction, runs: Runs) -> list[list[str]]:
    """Return the cells that were run by panel, at most four in each."""
    run = {r.task.cell for r in runs.results if r.task.seed is not None}
    cells = [cell for cell in runs.sweep.cells if cell in run]
    lines = exhibit.lines or [cells[i : i + _MOST_LINES] for i in range(0, len(cells), _MOST_LINES)]
    return [here for line in lines if (here := [cell for cell in line if cell in run])]


def draw_curves(exhibit: Reproduction, runs: Runs) -> str | None:
    """Return the drawing as SVG, or None if no cell was trained.

    The first row shows the paper's points of success, or the steps of its signs, where they can be read off.
    Below, lines are means over seeds of curves averaged over five iterations, bands reach from the lowest to
    the highest seed, a cross marks the iteration at which success in training had fallen. Cells of one family
    have one colour; dashes mark controlled ones. Thin lines beside success are random play, the model before
    training and the optimum on the test levels, where all cells play under the same settings. Tests and
    validation sample at a lower temperature than training, where a model begins below its line.
    """
    of_paper = {curve.game for curve in exhibit.published} | {
        game for at in exhibit.steps.values() for game in at
    }
    games = list(dict.fromkeys(column.train for column in exhibit.columns))
    trained = [game for game in games if any(runs.of(game, cell) for cell in runs.sweep.cells)]
    if not trained:
        return None
    games = [game for game in games if game in {*trained, *of_paper}]
    ours = [(metric, cells) for metric in exhibit.curves for cells in panels_of(exhibit, runs)]
    above = has_paper_row(exhibit)
    with mpl.rc_context(STYLE):
        size = (4.0 * len(games) + 1.6, 2.5 * (len(ours) + above) + 0.3)
        figure = Figure(figsize=size, layout="constrained")
        panels = figure.subplots(len(ours) + above, len(games), squeeze=False)
        for panel, game in zip(panels[0], games, strict=True):
            panel.set_title(game)
            if above:
                _draw_paper(panel, exhibit, runs, game)
        for row, (metric, cells) in zip(panels[above:], ours, strict=True):
            for panel, game in zip(row, games, strict=True):
                _draw_panel(panel, runs, game, metric, cells, exhibit.passes)
                if metric in ("success", VALIDATION):
                    _draw_references(panel, runs, game)
            row[0].set_ylabel(_LABELS.get(metric, metric))
        if above:
            panels[0][0].set_ylabel("the paper's success, %")
        handles = dict(
            pair for panel in panels.flat
            for pair in zip(*reversed(panel.get_legend_handles_labels()), strict=True)
        )  # fmt: skip
        figure.legend(list(handles.values()), list(handles), loc="outside right upper")
        return svg_of(figure)


def _draw_paper(panel: Any, exhibit: Reproduction, runs: Runs, game: str) -> None:
    styles = line_styles(runs.sweep)
    for curve_ in exhibit.published:
        if curve_.game == game:
            colour, dash = styles[curve_.cell]
            x, y = zip(*curve_.points, strict=True)
            panel.plot(x, y, dash, color=colour, label=curve_.cell, marker="o", markersize=4)
    for i, (sign, at) in enumerate(exhibit.steps.items()):
        if game in at:
            panel.axvline(at[game], color=f"C{i}", linestyle=":")
            panel.annotate(
                f"{sign}, {at[game]}", (at[game], 0.95 - 0.12 * i), (3, 0), fontsize=7, color=f"C{i}",
                xycoords=("data", "axes fraction"), textcoords="offset points",
            )  # fmt: skip
    if not panel.lines:
        panel.annotate("not in the paper", (0.5, 0.5), xycoords="axes fraction", ha="center", color="0.45")
    panel.set(xlabel="step", xlim=(0, 205))
    if exhibit.published:
        panel.set_ylim(bottom=0)
    else:
        panel.set_yticks([])


def line_styles(sweep: Sweep) -> dict[str, tuple[str, Any]]:
    """Return the colour and the dash of each cell's line.

    A family is a cell and the controlled ones whose names go on from its name after a hyphen.
    """
    families: dict[str, list[str]] = {}
    for cell, settings in sweep.cells.items():
        heads = [other for other in sweep.cells if cell.startswith(f"{other}-")]
        head = max(heads, key=len, default=cell) if settings.design == "controlled" else cell
        families.setdefault(head, []).append(cell)
    styles_of = {}
    for place, members in enumerate(families.values()):
        dashes = {design: islice(cycle(styles), place // 10, None) for design, styles in _DASHES.items()}
        for cell in members:
            styles_of[cell] = (f"C{place % 10}", next(dashes[sweep.cells[cell].design]))
    return styles_of


def _draw_references(panel: Any, runs: Runs, game: str) -> None:
    sweep = runs.sweep
    first = next(iter(sweep.cells))
    several = any(controls_cell(sweep, cell) != first for cell in sweep.cells)
    if several or game not in sweep.games.get(game, [game]):
        return
    column = Column(train=game, test=game)
    start = runs.control(column, first, INITIAL)
    references = {
        "random": runs.chance(column, first),
        "start, tested": math.nan if start is None else float(start.mean()),
        "optimum": runs.optimum(column, first),
    }
    known = {name: value for name, value in references.items() if math.isfinite(value)}
    for name, value in known.items():
        panel.axhline(value, color="0.55", linewidth=0.7, zorder=0)
        panel.annotate(
            name, (1, value), xycoords=("axes fraction", "data"), ha="right", va="bottom", fontsize=7,
            color="0.45",
        )  # fmt: skip
    panel.set_ylim(top=max(panel.get_ylim()[1], *(1.1 * value for value in known.values()), 0))


def _draw_panel(panel: Any, runs: Runs, game: str, metric: str, cells: Sequence[str], passes: bool) -> None:
    styles = line_styles(runs.sweep)
    if not any(runs.of(game, cell) for cell in cells):
        panel.annotate("not run", (0.5, 0.5), xycoords="axes fraction", ha="center", color="0.45")
    for cell in cells:
        results = runs.of(game, cell)
        iterations, lines = _together(results, metric)
        if not len(lines):
            continue
        epochs = results[0].task.train.update.epochs if passes else 1
        x = [epochs * iteration for iteration in iterations]
        colour, dash = styles[cell]
        marker = "o" if len(x) <= WINDOW else None  # a line of few points would hardly show
        panel.plot(
            x, lines.mean(axis=0), linestyle=dash, color=colour, label=cell, linewidth=1.4, marker=marker,
            markersize=3,
        )  # fmt: skip
        panel.fill_between(x, lines.min(axis=0), lines.max(axis=0), color=colour, alpha=0.15, linewidth=0)
        for result, line in zip(results, lines, strict=True):
            at = fell_at(result)
            if at is not None:
                panel.plot(at * epochs, np.interp(at * epochs, x, line), "x", color=colour)
    panel.set_xlabel("passes over the rollouts" if passes else "iteration")
    panel.set_ylim(bottom=0)


def _together(results: Sequence[TaskResult], metric: str) -> tuple[list[int], FloatArray]:
    """Return the curves of a cell's runs, as far as all of them went: (seeds, points).

    They are smoothed, but for those with too few points.
    """
    curves = [curve(result, metric) for result in results]
    lines = [smoothed(values, at[1] - at[0]) if len(values) > WINDOW else values for at, values in curves]
    length = min((len(line) for line in lines), default=0)
    if not length:
        return [], np.empty((0, 0))
    iterations, values = curves[0]
    first = len(values) - len(lines[0])
    return iterations[first : first + length], np.stack([line[:length] for line in lines])
