"""Tables of a sweep: each point against its reference, and where the variance of outcomes comes from."""

from collections.abc import Mapping, Sequence
from itertools import groupby, product
from math import nan
from typing import Any, Final

import numpy as np
import pandas as pd

from ragen_bench.console.formats import Cells, Grid, grid_of, numbers, percent_cell, percent_cells, percents
from ragen_bench.evaluation.run_table import Run, Sample, level_clusters, summarise
from ragen_bench.stats.intervals import FloatArray, Interval, number_clusters, wilson_mean
from ragen_bench.stats.paired import compare_rates, holm, square_and_add
from ragen_bench.stats.variance_shares import SAMPLING, variance_shares
from ragen_bench.sweeps.sweep import Place, Sweep

__all__ = ["shares_table", "sweep_table"]

_KEPT: Final = (
    "n", "success", "success_low", "success_high", "score", "score_low", "score_high", "random_success",
    "optimal_success", "mean_return", "valid", "turns", "reply_tokens", "errors",
)  # fmt: skip
_COLUMNS: Final = (
    "game", "axis", "agent", "point", "task", *_KEPT, "executed", "reference", "difference", "difference_low",
    "difference_high", "paired", "p", "p_holm",
)  # fmt: skip
_UNKNOWN: Final = Interval(nan, nan, nan)


def sweep_table(run: Run, sweep: Sweep) -> pd.DataFrame:
    """Return a row for each game, axis, agent and point that was played.

    Columns: ``game``, ``axis``, ``agent``, ``point``, ``task``; of `summarise` ``n``, ``success``, ``score``
    and their intervals, the exact ``random_success`` and ``optimal_success``, ``mean_return``, ``valid``,
    ``turns``, ``reply_tokens``, ``errors``; ``executed``, the share of the actions in valid form that were
    executed; ``reference``, the point that this one is compared with; ``difference`` of their success rates
    with ``difference_low`` and ``difference_high``; ``paired``, whether both are of the same levels, and then
    the p-value ``p``, and ``p_holm``, adjusted over the points of the axis. Levels that repeat are one unit.
    """
    known = {(row["game"], row["agent"]): row for row in summarise(run).to_dict("records")}
    listed = sweep.places(list(run.config.suite.tasks))
    rows: list[dict[str, Any]] = []
    for (game, axis), points in groupby(listed, key=lambda each: (each.game, each.axis)):
        places = list(points)
        for agent in [entry.name for entry in run.config.agents]:
            own = [
                {
                    "game": game, "axis": axis, "agent": agent, "point": place.point, "task": place.task,
                    **{name: known[place.task, agent][name] for name in _KEPT},
                    "executed": _executed(run.samples[agent, place.task]),
                    **_compare(run, agent, place, known),
                }
                for place in places
                if (place.task, agent) in known
            ]  # fmt: skip
            tested = [row for row in own if row["p"] == row["p"]]
            for row, p in zip(tested, holm([row["p"] for row in tested]), strict=True):
                row["p_holm"] = float(p)
            rows += own
    return pd.DataFrame(rows, columns=list(_COLUMNS))


def _executed(sample: Sample) -> float:
    """Return the share of the actions that were read that ran: the game may end before the others."""
    turns = [turn for episode in sample.values() for turn in episode.turns]
    read = sum(len(turn.actions) for turn in turns)
    return sum(len(turn.executed) for turn in turns) / read if read else nan


def _compare(
    run: Run, agent: str, place: Place, known: Mapping[tuple[str, str], Mapping[Any, Any]]
) -> dict[str, Any]:
    """Return the columns of `sweep_table` that compare a point with its reference."""
    a, b = (run.samples.get((agent, task), {}) for task in (place.task, place.reference))
    pairs = [(a[index], b[index]) for index in a if index in b and place.task != place.reference]
    paired = all(one.instance.key == other.instance.key for one, other in pairs)
    change, p = _UNKNOWN, nan
    scored = all(episode.has_success for episode in (*a.values(), *b.values()))
    if scored and not paired:
        first, second = (
            Interval(*(known[task, agent][f"success{end}"] for end in ("", "_low", "_high")))
            for task in (place.task, place.reference)
        )
        change = square_and_add(first.estimate - second.estimate, first, second, 0.0)
    elif scored and pairs:
        solved = np.array([(one.success, other.success) for one, other in pairs])
        clusters = level_clusters(one for one, _ in pairs)
        change, p, *_ = compare_rates(solved[:, 0], solved[:, 1], clusters)
    return {
        "reference": place.reference_point, **change.columns("difference"),
        "paired": paired, "p": p, "p_holm": nan,
    }  # fmt: skip


def sweep_grids(data: pd.DataFrame, sweep: Sweep) -> dict[str, Grid]:
    """Return the table of `sweep_table` for people, one of each axis, by title."""

    def change(row: Mapping[Any, Any]) -> str:
        return "reference" if row["point"] == row["reference"] else percent_cell(row, "difference")

    columns: dict[str, Cells] = {
        "game": "game", "agent": "agent", "point": "point", "success %\n[95% CI]": percent_cells("success"),
        "random\n%": percents("random_success"), "optimum\n%": percents("optimal_success"),
        "score": numbers("score", 1), "against\nreference\n[95% CI] pp": change,
        "p Holm": lambda row: "" if np.isnan(row["p_holm"]) else f"{row['p_holm']:.3g}",
        "turns": numbers("turns"), "executed\n%": percents("executed"), "valid\n%": percents("valid"),
    }  # fmt: skip
    hideable = ("valid\n%", "executed\n%", "turns", "score", "optimum\n%", "random\n%")
    return {
        f"{sweep.name} {sweep.version}, {axis}: {sweep.axes[str(axis)].label}": grid_of(
            part, columns, left=3, hideable=hideable
        )
        for axis, part in data.groupby("axis", sort=False)
    }


def shares_table(run: Run, sweep: Sweep) -> pd.DataFrame:
    """Return the share of each source in the variance of success on twins, by game and agent.

    Columns: ``game``, ``agent``, ``source``: "level", an axis of twins, or "sampling" (with the chance of the
    game); ``share`` in [0, 1] with ``share_low`` and ``share_high`` (`variance_shares`); ``consistency``, how
    often the outcome in another form, or of another attempt, is that of the reference, with
    ``consistency_low`` and ``consistency_high``.
    """
    rows: list[dict[str, Any]] = []
    suite, attempts = run.config.suite, run.config.attempts
    twins = [place for place in sweep.places(list(suite.tasks)) if sweep.axes[place.axis].twins]
    games = dict.fromkeys(place.game for place in twins)
    for game, agent in product(games, [entry.name for entry in run.config.agents]):
        forms: dict[str, list[str]] = {}
        for place in twins:
            if place.game == game:
                names = forms.setdefault(place.axis, [place.reference])
                names += [place.task] if place.task != place.reference else []
        forms = {axis: names for axis, names in forms.items() if len(names) > 1}
        samples = [run.samples.get((agent, task), {}) for names in forms.values() for task in names]
        if suite.episodes < 2 or any(len(each) < suite.episodes * attempts for each in samples):
            continue
        if not samples or not all(episode.has_success for each in samples for episode in each.values()):
            continue
        factors = {axis: _outcomes(run, agent, names) for axis, names in forms.items()}
        clusters = number_clusters([samples[0][i].instance.key for i in range(suite.episodes)])
        pairs = {axis: (outcomes[:, :1], outcomes[:, 1:]) for axis, outcomes in factors.items()}
        if attempts > 1:
            tried = next(iter(factors.values()))[:, :1]
            pairs[SAMPLING] = tried[..., :1], tried[..., 1:]
        for source, share in variance_shares(factors, clusters).items():
            alike = _UNKNOWN
            if source in pairs:
                same = (pairs[source][0] == pairs[source][1]).mean(axis=(1, 2))
                alike = wilson_mean(same, clusters=clusters)
            rows.append({
                "game": game, "agent": agent, "source": source,
                **share.columns("share"), **alike.columns("consistency"),
            })  # fmt: skip
    return pd.DataFrame(rows)


def _outcomes(run: Run, agent: str, tasks: Sequence[str]) -> FloatArray:
    """Return the outcomes of an agent's episodes, (levels, tasks, attempts)."""
    outcomes = np.empty((run.config.suite.episodes, len(tasks), run.config.attempts))
    for column, task in enumerate(tasks):
        for episode in run.samples[agent, task].values():
            outcomes[episode.instance.index or 0, column, episode.attempt] = episode.success
    return outcomes


def shares_grid(data: pd.DataFrame) -> Grid:
    """Return the table of `shares_table` for people."""
    columns: dict[str, Cells] = {
        "game": "game", "agent": "agent", "source": "source",
        "share of variance %\n[95% CI]": percent_cells("share"),
        "consistency %\n[95% CI]": percent_cells("consistency"),
    }  # fmt: skip
    return grid_of(data, columns, left=3)


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
    import matplotlib as mpl
    from matplotlib.figure import Figure

    from ragen_bench.console.drawings import STYLE, svg_of

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
    for place, (name, rows) in enumerate(lines.items()):
        x = np.arange(len(rows))
        y, low, high = (100 * rows[f"success{end}"].to_numpy() for end in ("", "_low", "_high"))
        panel.errorbar(
            x, y, (y - low, high - y), color=f"C{place}", label=name, marker="o",
            linewidth=1.2 if several else 0, elinewidth=1.2, markersize=4,
        )  # fmt: skip
        reference = (rows["point"] == rows["reference"]).to_numpy()
        if not several:
            panel.plot(x[reference], y[reference], "o", color="white", markersize=2, zorder=5)
        for column, text, dash in (("optimal_success", "optimum", "--"), ("random_success", "random", ":")):
            if place == 0:
                panel.plot(x, 100 * rows[column].to_numpy(), dash, color="0.45", linewidth=1, label=text)
        panel.set_xticks(x, [str(label) for label in rows["x"]])
    if max(len(label.get_text()) for label in panel.get_xticklabels()) > _LONG:
        panel.tick_params(axis="x", rotation=40)
    panel.set_ylim(0, 105)
    if several:
        panel.legend(fontsize=7)
