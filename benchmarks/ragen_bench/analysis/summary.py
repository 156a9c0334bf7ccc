"""The ledgers of a run, summed up: a row for each game and agent, and the episodes to look at first."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from statistics import median
from typing import Any, Final, NamedTuple

import pandas as pd

from ragen_bench.analysis.ledger import Blunder, Ledger, NoLedgerError, ledger
from ragen_bench.evaluation.level_clusters import level_clusters
from ragen_bench.evaluation.run_table import Run, mean
from ragen_bench.stats.intervals import Interval, bootstrap_mean, success_rate

_RESAMPLES: Final = 2000
_COLUMNS: Final = (
    "game", "agent", "n", "optimal", "success", "corrected", "corrected_low", "corrected_high",
    "regret", "blunders", "deadlocks", "overruns", "lost_turn", "wasted_tokens",
)  # fmt: skip


DECISIONS: Final = ("corrected", "corrected_low", "corrected_high", "regret", "blunders")
"""Columns that the table of a run can have too."""


class Explained(NamedTuple):
    """What was found out about a run."""

    ledgers: Mapping[tuple[str, str], Sequence[Ledger]]
    """By agent and game, in the order of the levels; only episodes that have one."""
    reasons: tuple[str, ...]
    """Why others have none, each reason once."""


def explain_run(run: Run, tick: Callable[[int, int], None]) -> Explained:
    """Return the ledgers of a run's episodes.

    Args:
        run: The run.
        tick: Called after each episode with the number of episodes done and their total.

    Raises:
        RagenError: A record does not replay.
    """
    ledgers: dict[tuple[str, str], list[Ledger]] = {}
    reasons: dict[str, None] = {}
    total, done = sum(len(sample) for sample in run.samples.values()), 0
    for key, sample in run.samples.items():
        for episode in sample.values():
            try:
                ledgers.setdefault(key, []).append(ledger(episode))
            except NoLedgerError as error:
                reasons[str(error)] = None
            done += 1
            tick(done, total)
    return Explained({key: found for key, found in ledgers.items() if found}, tuple(reasons))


def summarise_ledgers(run: Run, explained: Explained) -> pd.DataFrame:
    """Return a row for each game and agent of a run.

    Columns: ``game``, ``agent``, ``n`` (episodes with a ledger); ``optimal``, the mean of V before the
    first turn; ``success``; ``corrected``, luck-corrected success, with its 95% interval; ``regret``, the
    mean of a turn; ``blunders``, the share of episodes lost by one, of which ``deadlocks`` and ``overruns``;
    ``lost_turn``, the median number of the turn of the first one; ``wasted_tokens``, the mean number of
    tokens written after the episode was lost, of those that were. What is not defined is nan.
    """
    rows = [
        {"game": task, "agent": agent.name, **ledger_columns(found)}
        for task in run.config.suite.tasks
        for agent in run.config.agents
        if (found := explained.ledgers.get((agent.name, task)))
    ]
    return pd.DataFrame(rows, columns=list(_COLUMNS))


def ledger_columns(ledgers: Sequence[Ledger]) -> dict[str, Any]:
    """Return the columns of `summarise_ledgers` for one agent's episodes of a game, at least one."""
    corrected = corrected_score(ledgers)
    lost = [(found, turn) for found in ledgers if (turn := found.lost_at) is not None]
    kinds = [found.decisions[turn].blunder for found, turn in lost]
    wasted = [tokens for found, _ in lost if (tokens := found.wasted_tokens) is not None]
    return {
        "n": len(ledgers),
        "optimal": mean([found.start for found in ledgers]),
        "success": mean([found.episode.success for found in ledgers]),
        "corrected": corrected.estimate,
        "corrected_low": corrected.low,
        "corrected_high": corrected.high,
        "regret": mean([decision.regret for found in ledgers for decision in found.decisions]),
        "blunders": len(lost) / len(ledgers),
        "deadlocks": kinds.count(Blunder.DEADLOCK) / len(ledgers),
        "overruns": kinds.count(Blunder.OVERRUN) / len(ledgers),
        "lost_turn": median(turn + 1 for _, turn in lost) if lost else math.nan,
        "wasted_tokens": mean(wasted) if len(wasted) == len(lost) else math.nan,
    }


def with_decisions(data: pd.DataFrame, run: Run, tick: Callable[[int, int], None]) -> pd.DataFrame:
    """Return the table of a run with the columns ``corrected``, its interval, ``regret`` and ``blunders``.

    Args:
        data: What `ragen_bench.evaluation.run_table.summarise` returns.
        run: The run.
        tick: See `explain_run`.

    Raises:
        RagenError: A record does not replay.
    """
    found = summarise_ledgers(run, explain_run(run, tick))
    return data.merge(found[["game", "agent", *DECISIONS]], on=["game", "agent"], how="left")


def corrected_score(ledgers: Sequence[Ledger]) -> Interval:
    """Return mean luck-corrected success with its 95% interval, clustered by level where levels repeat.

    Without luck it is the success rate and has the success rate's interval; else that of a bootstrap.
    """
    episodes = [found.episode for found in ledgers]
    clusters = level_clusters(episodes)
    if all(abs(found.luck) < 1e-9 for found in ledgers):
        return success_rate([episode.success for episode in episodes], clusters)
    values = [found.corrected for found in ledgers]
    return bootstrap_mean(values, resamples=_RESAMPLES, seed=0, clusters=clusters)


def most_instructive(explained: Explained, agent: str, count: int) -> list[Ledger]:
    """Return the episodes of an agent to look at first, the games in turn.

    In each game those come first whose worst turn cost most; of equal ones those where the oracle's plan
    was shortest, which are the easiest that were missed.
    """
    games = [
        iter(sorted((found for found in ledgers if _cost(found) > 0), key=_importance))
        for (name, _), ledgers in explained.ledgers.items()
        if name == agent
    ]
    return list(_taken_in_turn(games))[:count]


def _cost(found: Ledger) -> float:
    return round(found.decisions[found.worst].regret, 9)


def _importance(found: Ledger) -> tuple[float, int, int]:
    return -_cost(found), len(found.decisions[found.worst].plan), found.worst


def _taken_in_turn(games: Iterable[Iterator[Ledger]]) -> Iterator[Ledger]:
    for row in zip_longest(*games):
        yield from (found for found in row if found is not None)
