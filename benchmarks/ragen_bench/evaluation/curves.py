"""Success by an exact property of the levels, such as the length of a shortest solution."""

import math
from collections import defaultdict
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd
import scipy

from ragen_agents.rollout import Episode
from ragen_agents.rollout.episode_runner import make_env
from ragen_bench.config.own_levels import own_level_notes
from ragen_bench.console.formats import Cells, Grid, grid_of, number, percent_cells, percents
from ragen_bench.evaluation.run_table import EXACT, Run, exact_mean, incomplete, mean, summarise_episodes
from ragen_bench.runs.records import replay_spec
from ragen_bench.stats.intervals import CONFIDENCE, Interval
from ragen_envs.errors import RagenError, SolverLimitError
from ragen_envs.game.base import GameEnv

_EXACT: Final = tuple(name for name in EXACT if name.endswith("success"))


def success_curve(run: Run, by: str) -> tuple[pd.DataFrame, list[str]]:
    """Return the success of each agent by a property of the levels, and notes.

    There is a row for each game, agent and value of the property, with the columns ``game``, ``agent``,
    ``by``, ``value``, ``n``, ``success`` with its interval ``success_low`` and ``success_high``, the exact
    ``random_success`` and ``optimal_success`` on these levels, and the agent's 50% ``horizon`` on the game
    with ``horizon_low`` and ``horizon_high`` (`ragen_bench.evaluation.curves.half_horizon`).
    """
    rows: list[dict[str, Any]] = []
    known: dict[tuple[str, str], dict[str, float]] = {}
    for (agent, task), sample in run.samples.items():
        rungs: dict[float, list[Episode]] = defaultdict(list)
        for episode in sample.values():
            level = task, episode.instance.level
            if level not in known:
                known[level] = _measures(episode)
            if by in known[level] and episode.has_success:
                rungs[known[level][by]].append(episode)
        rows += _rows(task, agent, by, rungs)
    if not rows:
        names = dict.fromkeys(name for measures in known.values() for name in measures)
        raise RagenError(f"--by is '{by}', but the levels have {', '.join(names) or 'no such numbers'}")
    notes = own_level_notes(run.config.suite.tasks)
    notes.append(
        f"the 50% horizon is the {by} at which the fitted success 2^-((x / horizon)^k) is one half, with its "
        "95% interval"
    )
    if lacking := sum(by not in measures for measures in known.values()):
        notes.append(f"{lacking} of {len(known)} levels are left out: their {by} is not known")
    return pd.DataFrame(rows), notes + incomplete(run)


def _measures(episode: Episode) -> dict[str, float]:
    game = make_env(replay_spec(episode)).unwrapped
    try:
        return game.measures() if isinstance(game, GameEnv) else {}
    except SolverLimitError:
        return {}


def _rows(task: str, agent: str, by: str, rungs: dict[float, list[Episode]]) -> list[dict[str, Any]]:
    if not rungs:
        return []
    values = sorted(rungs)
    solved = [_success_by_level(rungs[value]) for value in values]
    fit = half_horizon(values, [math.fsum(each) for each in solved], [len(each) for each in solved])
    kept = ("n", "success", "success_low", "success_high")
    return [
        {
            "game": task, "agent": agent, "by": by, "value": value,
            **{name: numbers[name] for name in kept},
            **{name: exact_mean(rungs[value], name) for name in _EXACT},
            **fit.columns("horizon"),
        }
        for value in values
        for numbers in [summarise_episodes(rungs[value])]
    ]  # fmt: skip


def _success_by_level(episodes: list[Episode]) -> list[float]:
    """Return the mean success on each level, because episodes of one level are not independent."""
    levels: dict[str, list[bool]] = defaultdict(list)
    for episode in episodes:
        levels[episode.instance.key].append(episode.success)
    return [mean(solved) for solved in levels.values()]


def curve_grid(data: pd.DataFrame) -> Grid:
    """Return the table of ``success_curve`` for people, with the horizon below each agent's rungs."""
    columns: dict[str, Cells] = {
        "game": "game", "agent": "agent", "value": lambda row: f"{row['value']:g}",
        "success %\n[95% CI]": percent_cells("success"), "random\n%": percents("random_success"),
        "optimum\n%": percents("optimal_success"), "n": "n",
    }  # fmt: skip
    lines: list[list[str]] = []
    for _, rungs in data.groupby(["game", "agent"], sort=False):
        lines += grid_of(rungs, columns, 2).rows
        last, fitted = rungs.iloc[-1], rungs[rungs["value"] > 0]
        fit = (float(last[f"horizon{end}"]) for end in ("", "_low", "_high"))
        estimate, low, high = ("∞" if each == math.inf else number(each, 1) for each in fit)
        horizon = f"{estimate} [{low}, {high}]"
        lines.append([last["game"], last["agent"], "50% horizon", horizon, "", "", str(sum(fitted["n"]))])
    header = [str(data["by"].iloc[0]) if name == "value" else name for name in columns]
    return Grid(header, lines, left=2)


_BEYOND: Final = 20.0
"""Factor beyond the sizes up to which a horizon is extrapolated."""
_HORIZONS, _SHAPES = 600, np.geomspace(0.25, 8, 41)


def half_horizon(sizes: npt.ArrayLike, successes: npt.ArrayLike, trials: npt.ArrayLike) -> Interval:
    """Return the size h at which the success is 1/2, fitted as success(x) = 2^-((x / h)^k).

    With k = 1 it is the success of an agent that errs with the same probability in each of x steps; with
    other k, errors become more or less frequent as levels grow. The interval is that of the profile
    likelihood over k. A bound is 0 or infinite where the data exclude no smaller or no larger horizon. A
    size of 0, of which the curve says nothing, is left out; all numbers are nan if there is no other.

    ``successes`` are the sums of the success on the levels of each size, and ``trials`` the numbers of these
    levels, which are independent.
    """
    rungs = np.array([sizes, successes, trials], np.float64)
    x, solved, played = rungs[:, rungs[0] > 0]
    if not len(x):
        return Interval(math.nan, math.nan, math.nan)
    horizons = np.geomspace(x.min() / _BEYOND, x.max() * _BEYOND, _HORIZONS)
    powers = np.log(x / horizons[:, None, None]) * _SHAPES[:, None]
    decay = np.log(2) * np.exp(np.clip(powers, -30, 30))
    lost = np.log(-np.expm1(-decay))
    likelihood = (-solved * decay + (played - solved) * lost).sum(axis=2).max(axis=1)
    inside = likelihood >= likelihood.max() - scipy.stats.chi2.ppf(CONFIDENCE, 1) / 2
    low, high = np.flatnonzero(inside)[[0, -1]]
    ends = np.concatenate([[0.0], horizons[1:-1], [np.inf]])
    best = ends[int(likelihood.argmax())]
    if not solved.any() or (solved == played).all():
        best = 0.0 if not solved.any() else np.inf
    return Interval(float(best), float(ends[low]), float(ends[high]))
