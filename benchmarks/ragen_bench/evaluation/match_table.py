"""Tabulate a run of matches: by game, agent, other agent and seat."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pandas as pd

from ragen_agents.rollout import MatchRecord, SeatRecord
from ragen_bench.config.run_config import MatchConfig, lineup, load_config
from ragen_bench.console.formats import Cells, Grid, grid_of, interval, numbers, percent_cells, percents
from ragen_bench.evaluation.notes import notes_on_replies
from ragen_bench.evaluation.run_table import incomplete, mean, repeated_levels_note
from ragen_bench.runs.directory import read_own_episodes
from ragen_bench.stats.intervals import bootstrap_mean, bounds_of_several, number_clusters, wilson_mean
from ragen_envs.errors import RagenError

ALL: Final = "all"
"""Value of the column ``seat`` for the mean of all seats."""
_RESAMPLES: Final = 2000


class MatchRun(NamedTuple):
    """A run of matches as read from its directory."""

    folder: Path
    config: MatchConfig
    matches: Mapping[tuple[str, tuple[str, ...]], Mapping[int, MatchRecord]]
    """Matches by level, for each task and lineup."""
    torn: bool
    """Whether the last line is broken."""

    @property
    def records(self) -> list[MatchRecord]:
        """All matches, lineup by lineup."""
        return [match for levels in self.matches.values() for match in levels.values()]

    @property
    def missing(self) -> int:
        """Number of matches that are still missing."""
        return len(self.config.keys) - len(self.records)


def read_match_run(folder: Path, checked: bool = True) -> MatchRun:
    """Read a run of ``ragen match``, as `ragen_bench.evaluation.run_table.read_run` does."""
    config = load_config(folder, checked)
    if not isinstance(config, MatchConfig):
        raise RagenError(f"'{folder}' is a run of ragen bench, not of ragen match")
    records = read_own_episodes(folder, config, checked)
    matches: dict[tuple[str, tuple[str, ...]], dict[int, MatchRecord]] = defaultdict(dict)
    for match in records.episodes:
        matches[match.task, match.key.lineup][match.key.level] = match
    return MatchRun(folder, config, dict(matches), records.torn)


def summarise_matches(run: MatchRun) -> pd.DataFrame:
    """Return the table of a run: a row for each game, agent, other agent and seat that was played.

    Columns: ``game``; ``agent``, whose numbers these are; ``others``, the agent on all other seats;
    ``seat``, its seat or "all", the mean over its seats on each level; ``n``, levels; ``success`` and
    ``mean_return`` with their 95% intervals over levels (Wilson's, and a bootstrap), of which those with
    the same key count as one; ``valid``, the share of its replies without a defect; ``turns`` and
    ``reply_tokens``, means of an episode; ``errors``, seats that ended in an error or outgrew the model's
    context. What is not defined is nan.
    """
    rows = []
    for task in run.config.suite.tasks:
        keys = _level_keys(run, task)
        for one in run.config.agents:
            for others in run.config.agents:
                by_seat = _seats(run, task, one.name, others.name)
                for seat, parts in (*by_seat.items(), (ALL, _common(list(by_seat.values())))):
                    if parts:
                        head = {"game": task, "agent": one.name, "others": others.name}
                        rows.append({**head, "seat": seat, **_summary(parts, keys)})
    return pd.DataFrame(rows, columns=["game", "agent", "others", "seat", *_COLUMNS])


_COLUMNS: Final = (
    "n", "success", "success_low", "success_high", "mean_return", "return_low", "return_high",
    "valid", "turns", "reply_tokens", "errors",
)  # fmt: skip

Levels = Mapping[int, Sequence[SeatRecord]]
"""An agent's seats on each level."""


def _seats(run: MatchRun, task: str, one: str, others: str) -> dict[str, Levels]:
    """Return the records of an agent on each seat, paired with another agent on all other seats."""
    count = run.config.seats[task]
    return {
        f"player_{own}": {
            level: [match.seats[own]]
            for level, match in run.matches.get((task, lineup(one, others, own, count)), {}).items()
        }
        for own in range(count)
    }


def _common(parts: Sequence[Levels]) -> Levels:
    """Return the records of all seats on the levels that all of them have played."""
    levels = [level for level in parts[0] if all(level in part for part in parts)]
    return {level: [seat for part in parts for seat in part[level]] for level in levels}


def _level_keys(run: MatchRun, task: str) -> dict[int, str]:
    return {match.key.level: match.instance.key for match in run.records if match.task == task}


def _summary(levels: Levels, keys: Mapping[int, str]) -> dict[str, Any]:
    clusters = number_clusters([keys[level] for level in levels])
    seats = [seat for on_level in levels.values() for seat in on_level]
    turns = [turn for seat in seats for turn in seat.turns]
    tokens = [turn.reply_tokens for turn in turns if turn.reply_tokens is not None]
    success = wilson_mean(
        [mean([seat.success for seat in on_level]) for on_level in levels.values()], clusters=clusters
    )
    returns = bounds_of_several(
        bootstrap_mean(
            [mean([seat.episode_return for seat in on_level]) for on_level in levels.values()],
            resamples=_RESAMPLES,
            seed=0,
            clusters=clusters,
        ),
        len({keys[level] for level in levels}),
    )
    return {
        "n": len(levels),
        **success.columns("success"),
        "mean_return": returns.estimate,
        "return_low": returns.low,
        "return_high": returns.high,
        "valid": mean([not turn.defects for turn in turns]),
        "turns": mean([len(seat.turns) for seat in seats]),
        "reply_tokens": sum(tokens) / len(seats) if tokens else float("nan"),
        "errors": sum(seat.end.is_failure for seat in seats),
    }


def match_notes(run: MatchRun) -> list[str]:
    """Return the notes below the table."""
    lines: list[str] = []
    if any(agent.name == "oracle" for agent in run.config.agents):
        lines.append(
            "the oracle plays its seat of a joint optimum; paired with other agents it is not an upper bound"
        )
    levels = {task: list(_level_keys(run, task).values()) for task in run.config.suite.tasks}
    lines += repeated_levels_note(levels, "intervals", "matches of each lineup")
    lines += incomplete(run)
    by_agent: dict[tuple[str, str], list[SeatRecord]] = defaultdict(list)
    for match in run.records:
        for seat in match.seats:
            by_agent[seat.agent, match.task].append(seat)
    return lines + notes_on_replies(by_agent, run.folder, run.config)


def cross_play_grid(data: pd.DataFrame, measure: str) -> Grid:
    """Return the self-play and cross-play table: a row for each agent, a column for each other agent."""
    cells: dict[str, Cells] = {
        "success": percent_cells("success"),
        "return": lambda row: interval(row["mean_return"], row["return_low"], row["return_high"]),
    }
    return _pivot(data[data["seat"] == ALL], ["game", "agent"], "others", cells[measure], "with ")


def seat_grid(data: pd.DataFrame) -> Grid:
    """Return the success on each seat: a row for each agent and other agent, a column for each seat."""
    return _pivot(
        data[data["seat"] != ALL], ["game", "agent", "others"], "seat", percent_cells("success"), ""
    )


def reply_grid(data: pd.DataFrame) -> Grid:
    """Return the table of replies: a row for each agent and other agent."""
    columns: dict[str, Cells] = {
        "game": "game", "agent": "agent", "others": "others", "levels": "n", "valid\n%": percents("valid"),
        "turns": numbers("turns"), "tokens": numbers("reply_tokens", 1), "errors": "errors",
    }  # fmt: skip
    return grid_of(data[data["seat"] == ALL], columns, left=3, hideable=("tokens", "turns", "levels"))


def _pivot(data: pd.DataFrame, names: list[str], column: str, cell: Any, prefix: str) -> Grid:
    columns = list(dict.fromkeys(data[column]))
    cells: dict[tuple[str, ...], dict[str, str]] = {}
    for row in data.to_dict("records"):
        cells.setdefault(tuple(row[name] for name in names), {})[row[column]] = cell(row)
    rows = [[*key, *(row_cells.get(value, "-") for value in columns)] for key, row_cells in cells.items()]
    header = [*names, *(f"{prefix}{value}" for value in columns)]
    return Grid(header, rows, left=len(names), intervals_hideable=True)
