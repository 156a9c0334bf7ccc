"""Sweep fixed models: the function behind ``ragen sweep``, and its run."""

import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import pandas as pd

from ragen_bench.api.evaluate import evaluate
from ragen_bench.api.run import Run
from ragen_bench.config.agents import Agents
from ragen_bench.config.own_levels import own_level_notes
from ragen_bench.console.tables import Table
from ragen_bench.evaluation.notes import run_notes
from ragen_bench.evaluation.run_table import attempts_note, shared_levels_note
from ragen_bench.sweeps.report import draw_sweep, shares_grid, shares_table, sweep_grids, sweep_table
from ragen_bench.sweeps.sweep import Sweep, load_sweep
from ragen_envs.errors import RagenError

_LOG: Final = logging.getLogger("ragen.sweep")


class SweepRun(Run):
    """A run of ``ragen sweep``: an ordinary run, whose games are the points of the sweep.

    Args:
        folder: The run directory.
        definition: The sweep.
        stopped: Which limit ended it before all episodes were played, or None.
    """

    def __init__(self, folder: str | Path, definition: Sweep, stopped: str | None = None) -> None:
        super().__init__(folder, stopped)
        self.definition = definition

    @cached_property
    def _points(self) -> pd.DataFrame:
        return sweep_table(self.records, self.definition)

    def table(self) -> Table:
        """Return a row for each game, axis, agent and point.

        See `ragen_bench.sweeps.report.sweep_table` for the columns.
        """
        long = [
            *own_level_notes(self.config.suite.tasks),
            *(shared := shared_levels_note(self.records.samples)),
            *attempts_note(self.config.attempts),
        ]
        notes = [note for note in run_notes(self.records) if note not in long]
        if shared:
            notes.append("intervals and tests are clustered by level where levels repeat")
        if not self._points["paired"].all():
            apart = self._points.loc[~self._points["paired"], "point"]
            names = " and ".join(dict.fromkeys(apart))
            notes.insert(0, f"{names}: other levels than those of the reference, so nothing is paired")
        stopped = [f"stopped early: {self.stopped}"] if self.stopped else []
        grids = sweep_grids(self._points, self.definition)
        return Table.of(self._points, grids, [*notes, *stopped])

    def shares(self) -> Table:
        """Return the shares of level, form and sampling in the variance of success on twins.

        See `ragen_bench.sweeps.report.shares_table` for the columns; there are no rows for a sweep without
        twins, or as long as episodes are missing.
        """
        data = shares_table(self.records, self.definition)
        notes = [
            "share of variance: of success on the same levels in several forms; consistency: how often the "
            "outcome in another form, or of another attempt, is that of the reference"
        ]
        if self.config.attempts == 1:
            notes.append("one attempt at each level: sampling is part of the other shares")
        grids = {"Sources of variance": shares_grid(data)} if len(data) else {}
        return Table.of(data, grids, notes if len(data) else [])

    def charts(self) -> dict[str, str]:
        """Return SVG charts by name: of each agent, and of each training run by age of its checkpoints.

        There are none where matplotlib is missing, and none of an agent without episodes.
        """
        if not find_spec("matplotlib"):
            return {}
        drawn: dict[str, dict[str, int]] = {agent: {} for agent in self.agents}
        for path in map(Path, self.agents):
            if path.parent.name == _CHECKPOINTS and path.name.isdecimal():
                drawn.setdefault(f"{path.parents[1]} by age", {})[str(path)] = int(path.name)
        data, agents = self._points, self._points["agent"]
        return {
            name: draw_sweep(rows, self.definition, name, ages)
            for name, ages in drawn.items()
            if len(rows := data[agents.isin(ages or [name])])
        }

    def write_charts(self) -> list[Path]:
        """Write the charts into the run directory and return their paths."""
        paths = []
        for name, chart in self.charts().items():
            slug = "".join(c if c.isalnum() or c in "._" else "_" for c in name)[-80:]
            paths.append(self.folder / f"sweep-{slug}.svg")
            paths[-1].write_text(chart, encoding="utf-8")
        return paths

    def _repr_html_(self) -> str:
        tables = (self.table(), self.shares())
        return "".join([*(each._repr_html_() for each in tables), *self.charts().values()])


_CHECKPOINTS = "checkpoints"
"""Folder of a training run."""


def sweep(
    name: str | Path,
    agents: Agents | None = None,
    *,
    games: str | Sequence[str] = (),
    episodes: int | None = None,
    attempts: int | None = None,
    level_seed: int | None = None,
    settings: Mapping[str, Any] | None = None,
    **options: Any,
) -> SweepRun:
    """Play agents along the axes of a sweep, without training, as ``ragen sweep`` does.

    All points are in one run directory, which resumes, stops at its budget and is verified as any other.

    Args:
        name: "granularity", "diversity", "freshness", or the path of a YAML file.
        agents: As for `evaluate`; the folder of a training run stands for all of its checkpoints.
        games: Games to play, instead of the sweep's.
        episodes: Levels at each point, instead of the sweep's.
        attempts: Attempts at each level, instead of the sweep's.
        level_seed: Seed of levels that are drawn now; by default today's date, such as 20261128 (UTC).
        settings: Settings of the conversation or the game at all points.
        **options: Further arguments of `evaluate`.

    Raises:
        RagenError: As of `evaluate`; or a setting is one that the points of the sweep set.
    """
    definition = load_sweep(str(name))
    if fixed := [setting for setting in settings or () if setting in definition.varied]:
        raise RagenError(f"'{fixed[0]}' differs between the points of the sweep '{definition.name}'")
    if definition.draws_levels and level_seed is None:
        level_seed = int(f"{datetime.now(UTC):%Y%m%d}")
        _LOG.info("levels drawn with level seed %d; pass it to resume the run on another day", level_seed)
    elif level_seed is not None and not definition.draws_levels:
        raise RagenError(f"level_seed is {level_seed}, but the sweep '{definition.name}' draws no levels")
    seed = level_seed or 0
    suite = definition.suite([games] if isinstance(games, str) else games, episodes, seed)
    tries = definition.attempts if attempts is None else attempts
    run = evaluate(_with_checkpoints(agents), suite=suite, attempts=tries, settings=settings, **options)
    return SweepRun(run.folder, definition, run.stopped)


def _with_checkpoints(agents: Agents | None) -> Agents | None:
    """Replace the folders of training runs by their checkpoints, the oldest first."""
    if agents is None or isinstance(agents, Mapping):
        return agents
    listed: list[Any] = []
    for agent in agents if isinstance(agents, list | tuple) else [agents]:
        if not isinstance(agent, str | Path) or not (Path(agent) / _CHECKPOINTS).is_dir():
            listed.append(agent)
            continue
        from ragen_agents.starpo.run.checkpoint import complete

        saved = complete(Path(agent) / _CHECKPOINTS)
        if not saved:
            raise RagenError(f"the training run '{agent}' has no checkpoint yet")
        listed += [str(path) for path in saved]
    return listed
