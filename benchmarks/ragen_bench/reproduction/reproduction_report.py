"""Write the files of a reproduction: results, table, claims, and the drawing of the curves."""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from ragen_agents.run_files.files import write_atomically
from ragen_bench.console.drawings import STYLE, svg_of
from ragen_bench.console.formats import Grid, markdown
from ragen_bench.reproduction.claims import Verdict, claims_data, judge
from ragen_bench.reproduction.reproduction_config import (
    Column,
    Reproduction,
    bundled_reproductions,
    games_of,
    load_reproduction,
    paper_notes,
)
from ragen_bench.reproduction.run_measures import VALIDATION, WINDOW, Runs, curve, fell_at, smoothed
from ragen_bench.reproduction.success_table import (
    VERDICTS,
    Beside,
    cells_grid,
    claims_grid,
    matrix_grid,
    stages_grid,
    table_grid,
    tabulate,
    tabulate_stages,
)
from ragen_bench.stats.intervals import FloatArray
from ragen_bench.training_sweeps.results import TaskResult, add_to_archive, archive_path, read_archive
from ragen_bench.training_sweeps.sweep_config import Sweep
from ragen_bench.training_sweeps.sweep_run import Cost, SweepRun
from ragen_bench.training_sweeps.tasks import INITIAL, Choice, controls_cell

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
            x, lines.mean(axis=0), dash, color=colour, label=cell, linewidth=1.4, marker=marker,
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


class Report:
    """One table or figure at one scale."""

    def __init__(self, exhibit: Reproduction, run: SweepRun, beside: Sequence[Beside] = ()) -> None:
        self.exhibit, self._run, self._beside = exhibit, run, beside
        states = run.states()
        self._sampling = states[0].task.suite.sampling
        self._results = [state.result for state in states if state.result is not None]
        self._own = [s.result for s in states if s.result is not None and s.source is None]
        self._borrowed = [(s.task, s.source) for s in states if s.source is not None]
        self._missing = sum(s.result is None and run.is_expected(s.task) for s in states)
        self._runs = Runs(run.sweep, self._results)
        data = tabulate(exhibit.columns, exhibit.paper, self._runs, beside)
        self.data: pd.DataFrame = data.drop(columns=list(VERDICTS)) if exhibit.claims else data
        self.stages_data: pd.DataFrame | None = tabulate_stages(exhibit, self._runs)
        self.verdicts: list[Verdict] = judge(exhibit, self._runs)
        cost = Cost(run.sweep, run.choice.scale, states)
        self.claims_data: pd.DataFrame = claims_data(exhibit, self.verdicts, states, cost)
        self.table, self.claims = table_grid(self.data), claims_grid(self.claims_data)
        self.cells = cells_grid(self._runs)
        """What the names of rows and lines stand for."""

    @property
    def trained(self) -> bool:
        """Whether there is a run of the sweep itself."""
        return any(result.task.seed is not None for result in self._own)

    @property
    def matrix(self) -> tuple[str, Grid] | None:
        """The paper's table with our numbers beside its own, with a title; None where it has none."""
        if self.exhibit.stages is not None and self.stages_data is not None:
            return self.exhibit.stages.title, stages_grid(self.stages_data)
        grid = matrix_grid(self.exhibit, self.data, self._runs)
        return None if grid is None else ("The paper's numbers, and ours", grid)

    @property
    def drawing(self) -> str | None:
        """The curves of training as SVG; None if nothing was trained."""
        return draw_curves(self.exhibit, self._runs)

    @property
    def caption(self) -> str:
        """Caption of the drawing."""
        lines = "; ".join(", ".join(cells) for cells in panels_of(self.exhibit, self._runs))
        first = "First row: the paper's points, read off by eye. " if has_paper_row(self.exhibit) else ""
        return (
            f"{first}Lines of ours: {lines}. They are means over seeds and, but for validation, five "
            "iterations; bands reach from the lowest to the highest seed; a cross marks where success in "
            "training fell below half of its best for good."
        )

    def notes(self) -> list[str]:
        """Return the notes below the table."""
        lines = []
        if self._missing:
            are = "task is" if self._missing == 1 else "tasks are"
            lines.append(f"unfinished: {self._missing} {are} missing")
        trained = self.data.loc[self.data["design"] != "control", "seeds"]
        if max(trained, default=0) == 1:
            lines.append("one seed: intervals speak of these runs, not of the method, and nothing is decided")
        if self.exhibit.source:
            lines.append(f"paper: {self.exhibit.source}")
        lines += paper_notes(self.data.loc[self.data["paper"].notna(), "test"])
        lines += dict.fromkeys(
            f"{task.game} {task.cell}: the same runs as {source.cell} of the sweep {source.sweep}"
            for task, source in self._borrowed
            if task.seed is not None
        )
        lines += self._added_seeds()
        lines += self._other_sampling()
        early = [r for r in self._results if r.ended]
        lines += [f"{r.task.game} {r.task.cell} seed {r.task.seed} ended early: {r.ended}" for r in early]
        return lines

    def _added_seeds(self) -> list[str]:
        games = {column.train for column in self.exhibit.columns}
        cells = [
            f"{game} {cell} ({', '.join(str(count or 'unknown') for count in counts)})"
            for (game, cell), counts in self._runs.extended(games).items()
        ]
        notes = []
        if cells:
            listed = ", ".join(cells)
            notes = [f"p-values are doubled each time that seeds were added after verdicts: {listed}"]
        replaced = [
            name.replace("/", " ") for name in self._run.sweep.replaced if name.partition("/")[0] in games
        ]
        if replaced:
            notes.append(f"and each time that runs were replaced: {', '.join(replaced)}")
        return notes

    def _other_sampling(self) -> list[str]:
        return list(
            dict.fromkeys(
                f"{one.agent} was sampled at temperature {one.sampling.temperature:g} with at most "
                f"{one.sampling.max_tokens} tokens a reply, the cells at {self._sampling.temperature:g} "
                f"with {self._sampling.max_tokens}"
                for one in self._beside
                if one.sampling != self._sampling
            )
        )

    def markdown(self) -> str:
        """Return the paper's table, claims, numbers and notes as Markdown."""
        parts = [f"**{self.exhibit.title}** (scale {self._run.choice.name})\n"]
        for each in (self.matrix, ("Claims", self.claims) if self.verdicts else None):
            if each is not None:
                parts += [f"{each[0]}:\n", markdown(each[1])]
        parts += ["Numbers:\n", markdown(self.table)]
        parts.append("".join(f"{note[0].upper()}{note[1:]}.\n" for note in self.notes()))
        return "\n".join(part for part in parts if part)

    def write(self, folder: Path) -> list[Path]:
        """Write all files and return them: results below a folder, the table there or beside the runs.

        The table is kept with the results that it can be made of again. With agents beside it, it cannot;
        and one that leaves out some of them would take the place of a better one.
        """
        archive = self._run.archive(folder)
        add_to_archive(archive, self._own)
        drawing = self.drawing
        name, is_kept = self.exhibit.name, self._results and not self._beside and not self._leaves_out(folder)
        base = str(archive.parent / name if is_kept else self._run.root / f"{name}-{self._run.choice.name}")
        Path(base).parent.mkdir(parents=True, exist_ok=True)
        texts = {
            Path(base + ".csv"): self.data.to_csv(index=False),
            Path(base + "-claims.csv"): self.claims_data.to_csv(index=False),
            Path(base + ".md"): self.markdown(),
            **({} if drawing is None else {Path(base + ".svg"): drawing}),
        }
        for path, text in texts.items():
            write_atomically(path, text)
        return [archive, *texts]

    def _leaves_out(self, folder: Path) -> bool:
        """Return whether a folder of archived results has more seeds than were requested."""
        seeds = self._run.choice.seeds
        more = replace(self._run.choice, seeds=seeds + 1)
        kept = replace(self._run, choice=more, root=folder / "no-runs", kept=folder)
        return any(s.task.seed == seeds and s.result is not None for s in kept.states())


def kept_reports(folder: Path) -> list[Report]:
    """Return the tables and figures at laptop scale whose sweeps have results in a folder."""
    reports = []
    for name in bundled_reproductions():
        exhibit = load_reproduction(name)
        archive = read_archive(archive_path(folder, exhibit.sweep, "laptop"))
        if any(r.task.seed is not None for r in archive):
            reports.append(stored_report(folder, name))
    return [report for report in reports if report.trained]


def stored_report(folder: Path, name: str) -> Report:
    """Return a table or figure at laptop scale of the results in a folder."""
    exhibit = load_reproduction(name)
    choice = Choice(games=tuple(games_of(exhibit, "laptop")))
    nowhere = folder / "no-runs"  # only what is kept
    run = SweepRun(exhibit.load_sweep(), choice, nowhere, None, kept=folder)
    return Report(exhibit, run.with_kept_seeds())
