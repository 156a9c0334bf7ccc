"""Tabulate a reproduction: success beside the paper's numbers and other agents, and stages of training."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

from ragen_agents.policies import CONTROLS
from ragen_bench.config.suites import SamplingSettings, Task
from ragen_bench.console.formats import (
    Cells,
    Grid,
    grid_of,
    number,
    numbers,
    percent,
    percent_cell,
    percent_interval,
    percents,
)
from ragen_bench.evaluation.run_table import Run, read_run
from ragen_bench.reproduction.reproduction_config import Column, Reproduction, paper_mark
from ragen_bench.reproduction.run_measures import (
    UNDECIDING,
    VALIDATION,
    Runs,
    collapsed_at,
    curve,
    gained,
    sample_of,
    sign_at,
    smoothed,
)
from ragen_bench.stats.intervals import FloatArray
from ragen_bench.stats.mixed_effects import mixed_effects_rate, mixed_effects_rate_difference
from ragen_bench.stats.paired import ALPHA, holm
from ragen_bench.stats.scores import normalised_score
from ragen_bench.training_sweeps.results import Outcome, TaskResult, outcome_of
from ragen_bench.training_sweeps.sweep_config import Cell, core_tasks
from ragen_bench.training_sweeps.tasks import INITIAL, Choice, controls_cell, conversation_settings
from ragen_envs.errors import RagenError

ZERO_SHOT: Final = "zero-shot"
"""Design of such rows in the table."""


@dataclass(frozen=True)
class Beside:
    """An agent's outcomes under the conversation settings of a cell."""

    agent: str
    """Agent, with the cell where the cells of the table have several settings."""
    cell: str
    """The first cell with these settings."""
    test: str
    outcome: Outcome
    sampling: SamplingSettings


def read_beside(folders: Sequence[Path], exhibit: Reproduction, choice: Choice) -> list[Beside]:
    """Return the agents, but no controls, of runs of ``ragen bench`` with tests of a table."""
    agents: dict[tuple[str, str], Beside] = {}
    for folder in folders:
        run = read_run(folder)
        played = _of_run(run, exhibit, choice)
        if not played and all(agent.name in CONTROLS for agent in run.config.agents):
            raise RagenError(f"--beside is '{folder}', which has controls only; the table has its own")
        if not played:
            raise RagenError(_nothing(folder, exhibit, choice))
        for one in played:
            if (one.agent, one.test) in agents:
                raise RagenError(f"--beside is '{folder}', but another run has '{one.agent}' too")
            agents[one.agent, one.test] = one
    return list(agents.values())


def _of_run(run: Run, exhibit: Reproduction, choice: Choice) -> list[Beside]:
    if run.config.suite.split != "test":
        return []
    agents = []
    tests, levels = _tests(exhibit, choice), choice.levels
    several = len({cell for cell, _, _ in tests}) > 1
    for cell, test, wanted in tests:
        for name, task in run.config.suite.tasks.items():
            for agent in run.config.agents:
                episodes = run.samples.get((agent.name, name), {})
                first = [episodes[i] for i in range(levels) if i in episodes]
                if task == wanted and agent.name not in CONTROLS and len(first) == levels:
                    shown = f"{agent.name} (as {cell})" if several else agent.name
                    outcome, sampling = outcome_of(first), run.config.suite.sampling
                    agents.append(Beside(shown, cell, test, outcome, sampling))
    return agents


def _tests(exhibit: Reproduction, choice: Choice) -> list[tuple[str, str, Task]]:
    """Return every test of a table: the first cell with its settings, its name, and the task."""
    every: list[tuple[str, str, Task]] = []
    sweep = exhibit.load_sweep()
    for test in dict.fromkeys(column.test for column in exhibit.columns):
        for name, cell in sweep.cells.items():
            settings = conversation_settings(sweep, choice.scale, cell)
            task = Task(env=core_tasks()[test].env, settings=settings)
            if all(task != other for _, _, other in every):
                every.append((name, test, task))
    return every


def _nothing(folder: Path, exhibit: Reproduction, choice: Choice) -> str:
    tests = [
        f"{test} with {task.settings}" if task.settings else test for _, test, task in _tests(exhibit, choice)
    ]
    return (
        f"--beside is '{folder}', but no agent of that run has played the first {choice.levels} test levels "
        f"of a test of {exhibit.name}: {', '.join(tests)}"
    )


_NAN: Final = math.nan
_AGENTS: Final = ("random", INITIAL, "oracle")
_RANDOM: Final = "random (exact)"
_OPTIMUM: Final = "optimum (exact)"


def tabulate(
    columns: Sequence[Column],
    paper: Mapping[str, Sequence[float | None]],
    runs: Runs,
    beside: Sequence[Beside] = (),
) -> pd.DataFrame:
    """Return a row for each pair of games and each cell, agent or control that has results."""
    rows = [
        row
        for i, column in enumerate(columns)
        for row in _column(column, {c: printed[i] for c, printed in paper.items()}, runs, beside)
    ]
    data = pd.DataFrame(rows, columns=_COLUMNS)
    compared = data["p"].notna()
    data.loc[compared, "p_holm"] = holm(data.loc[compared, "p"].to_numpy())
    data["verdict"] = [_verdict(row) for row in data.to_dict("records")]
    return data


_COLUMNS: Final = (
    "trained_on", "test", "row", "cell", "controls", "design", "seeds", "levels", "success", "low", "high",
    "score", "paper", "against", "difference", "difference_low", "difference_high", "p", "p_holm",
    "verdict",
)  # fmt: skip


def _column(
    column: Column, printed: Mapping[str, float | None], runs: Runs, beside: Sequence[Beside]
) -> Iterator[dict[str, Any]]:
    sweep = runs.sweep
    for cell in sweep.cells:
        sample = runs.sample(column, cell)
        if sample is None:
            continue
        paper = printed.get(cell)
        yield {
            **_row(runs, column, cell, cell, sample),
            "design": sweep.cells[cell].design,
            "paper": _NAN if paper is None else paper / 100,
            **_comparison(runs, column, cell, sample),
        }
    for other in beside:
        sample = sample_of([other.outcome])
        if other.test == column.test and sample is not None:
            yield {**_row(runs, column, other.agent, other.cell, sample), "design": ZERO_SHOT}
    for cell in dict.fromkeys(controls_cell(sweep, cell) for cell in sweep.cells):
        for agent in _AGENTS:
            sample = runs.control(column, cell, agent)
            if sample is not None:
                yield {**_row(runs, column, agent, cell, sample), "design": "control"}
        exact = {_RANDOM: runs.exact_chance(column, cell), _OPTIMUM: runs.optimum(column, cell)}
        for name, rate in exact.items():
            if math.isfinite(rate):
                named = _named(runs, column, name, cell)
                yield {**named, "seeds": 0, "levels": 0, "success": rate, "design": "control"}


def _row(runs: Runs, column: Column, name: str, cell: str, sample: FloatArray) -> dict[str, Any]:
    success = mixed_effects_rate(sample)
    return {
        **_named(runs, column, name, cell),
        "seeds": len(sample),
        "levels": sample.shape[1],
        "success": success.estimate,
        "low": success.low,
        "high": success.high,
        "score": normalised_score(success.estimate, runs.chance(column, cell), runs.optimum(column, cell)),
        "paper": _NAN,
    }


def _named(runs: Runs, column: Column, name: str, cell: str) -> dict[str, Any]:
    return {
        "trained_on": column.train,
        "test": column.test,
        "row": name,
        "cell": cell,
        "controls": controls_cell(runs.sweep, cell),
    }


def _comparison(runs: Runs, column: Column, cell: str, sample: FloatArray) -> dict[str, Any]:
    against = runs.sweep.against(cell)
    other = None if against is None else runs.sample(column, against)
    if against is None or other is None:
        return {"against": ""}
    difference = mixed_effects_rate_difference(sample, other)
    factor = runs.correction([(column.train, cell), (column.train, against)])
    return {
        "against": against,
        **difference.interval.columns("difference"),
        "p": min(factor * difference.p_value, 1.0) if min(difference.seeds) > 1 else _NAN,
    }


def _verdict(row: dict[Any, Any]) -> str:
    if not np.isfinite(row["p_holm"]):
        return "one seed" if np.isfinite(row["difference"]) else ""
    if row["p_holm"] > ALPHA:
        return "undecided"
    return "better" if row["difference"] > 0 else "worse"


VERDICTS: Final = ("p", "p_holm", "verdict")
"""Columns that compare each cell with another; claims, which are fewer, have verdicts of their own."""
_HIDEABLE: Final = (
    "random / initial\n/ optimum %", "score", "p Holm", "against", "seeds", "difference\n[95% CI]", "design",
)  # fmt: skip


def table_grid(data: pd.DataFrame) -> Grid:
    """Return the table for people; with verdicts on the cells, if the data has them."""

    def games(row: Mapping[Any, Any]) -> str:
        return row["test"] if row["design"] == ZERO_SHOT else f"{row['trained_on']} → {row['test']}"

    def paper(row: Mapping[Any, Any]) -> str:
        return percent(row["paper"]) + paper_mark(row["test"]) if math.isfinite(row["paper"]) else ""

    columns: dict[str, Cells] = {
        "trained on → test": games, "row": "row", "design": "design", "seeds": "seeds",
        "success %\n[95% CI]": _success, "paper\n%": paper,
        "random / initial\n/ optimum %": partial(_controls, data), "score": numbers("score", 1),
        "against": lambda row: row["against"] if isinstance(row["against"], str) else "",
        "difference\n[95% CI]": _difference,
    }  # fmt: skip
    if "verdict" in data:
        columns |= {"p Holm": _p_holm, "at the end": "verdict"}
    shown = data[data["design"] != "control"]
    hideable = tuple(name for name in _HIDEABLE if name in columns)
    grid = grid_of(shown, columns, left=3, hideable=hideable, wrapped=("trained on → test",))
    return grid if shown["design"].nunique() > 1 else grid.without("design")


def _success(row: Mapping[Any, Any]) -> str:
    return percent_interval(row["success"], row["low"], row["high"])


def _p_holm(row: Mapping[Any, Any]) -> str:
    return f"{row['p_holm']:.2g}" if math.isfinite(row["p_holm"]) else ""


def cells_grid(runs: Runs) -> Grid:
    """Return what each cell that was run is: its design, its method, and the settings that are its own."""
    run = {result.task.cell for result in runs.results if result.task.seed is not None}
    rows = [
        [name, cell.design, cell.preset or runs.sweep.preset, _own_settings(cell)]
        for name, cell in runs.sweep.cells.items()
        if name in run
    ]
    return Grid(["name", "design", "method", "settings of its own"], rows, left=4)


def _own_settings(cell: Cell) -> str:
    own = cell.model_dump(exclude={"design", "against", "preset"}, exclude_defaults=True)
    for part in ("settings", "train", "supervised"):
        own |= own.pop(part, None) or {}
    records = pd.json_normalize(own).to_dict("records")
    return ", ".join(f"{name} {value}" for record in records for name, value in record.items())


def _controls(data: pd.DataFrame, row: Mapping[Any, Any]) -> str:
    """Return the success of the controls under a row's conversation settings, exact where it is known."""
    same = data[(data["trained_on"] == row["trained_on"]) & (data["test"] == row["test"])]
    controls = same[(same["design"] == "control") & (same["cell"] == row["controls"])]
    by_agent = dict(zip(controls["row"], controls["success"], strict=True))
    random, initial, oracle = (by_agent.get(agent, _NAN) for agent in _AGENTS)
    shown = (by_agent.get(_RANDOM, random), initial, by_agent.get(_OPTIMUM, oracle))
    return " / ".join(map(percent, shown))


def _difference(row: Mapping[Any, Any]) -> str:
    return percent_cell(row, "difference") if math.isfinite(row["difference"]) else ""


def claims_grid(data: pd.DataFrame) -> Grid:
    """Return the claims, their verdicts, and what would decide the open ones, for people.

    Gains, validation and core hours are left out where they say nothing that the other columns do not.
    """
    reason = "what does not hold, or would decide it"
    columns: dict[str, Cells] = {
        "claim": "claim", "verdict": "verdict", "paper": "paper", "ours": "ours", "in the gain": "gain",
        "on validation": "validation", "p Holm": _p_holm, reason: lambda row: row["premise"] or row["remedy"],
        "core hours": lambda row: f"{row['core_hours']:.2g}" if math.isfinite(row["core_hours"]) else "",
    }  # fmt: skip
    hideable = ("core hours", "in the gain", "on validation", "p Holm", reason)
    grid = grid_of(data, columns, 2, hideable=hideable, wrapped=("claim", reason))
    if ((data["gain"] == "") | (data["gain"] == data["ours"])).all():
        grid = grid.without("in the gain")
    if (data["validation"] == "").all():
        grid = grid.without("on validation")
    return grid.without("core hours") if data["core_hours"].isna().all() else grid


def matrix_grid(exhibit: Reproduction, data: pd.DataFrame, runs: Runs) -> Grid | None:
    """Return the paper's table with its rows and columns, ours beside its numbers; None where it has none.

    Curves are given by the points that can be read off. What was not run is empty, and what too few seeds
    show to decide anything is in brackets.
    """
    if exhibit.steps:
        games = [column.test for column in exhibit.columns]
        header = ["step", *(f"{game}\n{whose}" for game in games for whose in ("paper", "ours"))]
        rows = [
            [sign, *(text for game in games for text in (str(at.get(game, "")), _step(runs, game, sign)))]
            for sign, at in exhibit.steps.items()
        ]
        return Grid(header, rows, left=1)
    cells = dict.fromkeys([*exhibit.paper, *(curve.cell for curve in exhibit.published)])
    if not cells:
        return None
    header, rows = [""], [[cell] for cell in cells]
    for i, column in enumerate(exhibit.columns):
        game = column.test if column.test == column.train else f"{column.train} → {column.test}"
        header += [f"{game}\npaper, %", f"{game}\nours, %"]
        here = data[(data["trained_on"] == column.train) & (data["test"] == column.test)]
        ours = {row["row"]: row for row in here.to_dict("records")}
        for row, cell in zip(rows, cells, strict=True):
            row.append(_printed(exhibit, cell, i))
            of = ours.get(cell)
            shown = "" if of is None else _success(of)
            row.append(f"({shown})" if of is not None and of["seeds"] in UNDECIDING else shown)
    hideable = tuple(reversed(header[3:]))
    return Grid(header, rows, left=1, hideable=hideable, intervals_hideable=True)


def _step(runs: Runs, game: str, sign: str) -> str:
    """Return the median step of a sign over the runs of the reference that collapsed and show it."""
    results = runs.of(game, runs.sweep.reference)
    steps = [at for result in results if (at := sign_at(result, sign)) is not None]
    return f"{np.median(steps):g} (in {len(steps)} of {len(results)} runs)" if steps else ""


def _printed(exhibit: Reproduction, cell: str, i: int) -> str:
    column = exhibit.columns[i]
    points = [
        f"{value:g} at step {step:g}"
        for curve in exhibit.published
        if (curve.game, curve.cell) == (column.train, cell) and column.train == column.test
        for step, value in curve.points
    ]
    value = exhibit.paper.get(cell, [None] * len(exhibit.columns))[i]
    number_ = "" if value is None else f"{value:.1f}{paper_mark(column.test)}"
    return ", ".join(points) or number_


_PLACES: Final = ("start", "half way", "end")


def tabulate_stages(exhibit: Reproduction, runs: Runs) -> pd.DataFrame | None:
    """Return a row for each trained cell and place of training, or None if there are none.

    Columns: ``trained_on``, ``row`` (a cell), ``metric``, ``place`` ("start", "half way", "end"), ``seeds``;
    ``mean`` over seeds of the curve averaged over five iterations, ``lowest`` and ``highest`` seed;
    ``paper``, nan where it prints none.
    """
    if exhibit.stages is None:
        return None
    rows = [
        row
        for game in dict.fromkeys(column.train for column in exhibit.columns)
        for cell in runs.sweep.cells
        for row in _rows(exhibit, runs, game, cell)
    ]
    return pd.DataFrame(rows) if rows else None


def _rows(exhibit: Reproduction, runs: Runs, game: str, cell: str) -> list[dict[str, Any]]:
    assert exhibit.stages is not None
    stages = [_stages(result, exhibit.stages.metric) for result in runs.of(game, cell)]
    if not stages or not all(len(values) for values in stages):
        return []
    printed = exhibit.stages.paper.get(game, {}).get(cell, [np.nan] * len(_PLACES))
    return [
        {
            "trained_on": game,
            "row": cell,
            "metric": exhibit.stages.metric,
            "place": place,
            "seeds": len(stages),
            "mean": values.mean(),
            "lowest": values.min(),
            "highest": values.max(),
            "paper": paper,
        }
        for place, values, paper in zip(_PLACES, np.stack(stages, axis=1), printed, strict=True)
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


def tabulate_validation(runs: Runs) -> pd.DataFrame:
    """Return a row for each run that was validated while it trained.

    Columns: ``trained_on``, ``row`` (a cell), ``seed``; success at the ``start``, ``best``, and at the
    ``end``, with the iterations ``best_at`` and ``end_at``; ``gained`` and ``collapsed``, as
    `run_measures.gained` and `collapsed_at` define them.
    """
    rows = []
    for result in runs.results:
        iterations, values = curve(result, VALIDATION)
        if len(values) > 1 and iterations[0] == 0:
            best = int(values.argmax())
            rows.append(
                {
                    "trained_on": result.task.game, "row": result.task.cell, "seed": result.task.seed,
                    "start": values[0], "best": values[best], "best_at": iterations[best],
                    "end": values[-1], "end_at": iterations[-1],
                    "gained": bool(gained(result)), "collapsed": collapsed_at(result) is not None,
                }
            )  # fmt: skip
    return pd.DataFrame(rows)


def validation_grid(data: pd.DataFrame) -> Grid:
    """Return the table for people."""
    columns: dict[str, Cells] = {
        "trained on": "trained_on",
        "row": "row",
        "seed": "seed",
        "start %": percents("start"),
        "best %": lambda row: f"{percent(row['best'])} at {row['best_at']}",
        "end %": lambda row: f"{percent(row['end'])} at {row['end_at']}",
        "": lambda row: "collapsed" if row["collapsed"] else "gained" if row["gained"] else "",
    }
    return grid_of(data, columns, left=2)
