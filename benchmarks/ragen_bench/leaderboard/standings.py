"""Compute the tables of the leaderboard: one for each game and one over all games."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any, Final, NamedTuple

import numpy as np

from ragen_agents.policies import CONTROLS
from ragen_agents.rollout import Episode, EpisodeKey
from ragen_bench.analysis.ledger import Ledger, NoLedgerError, ledger
from ragen_bench.analysis.summary import DECISIONS, corrected_score, ledger_columns
from ragen_bench.evaluation.level_clusters import level_clusters
from ragen_bench.evaluation.run_table import REFERENCE, Sample, summarise_sample
from ragen_bench.leaderboard.entry import LEVELS
from ragen_bench.leaderboard.store import StoredEntry
from ragen_bench.stats.intervals import Interval, success_rate
from ragen_bench.stats.paired import ALPHA, compare_rates, enough_resamples, holm

OPTIMUM: Final = "oracle"

Samples = Mapping[str, Sample]
"""Episodes of one table by entry and level."""


class Standing(NamedTuple):
    """One row of a table."""

    name: str
    """Name of the entry."""
    title: str
    control: bool
    rank: int | None
    """1 plus the number of entries that are better beyond chance; None for controls and, over all games, for
    entries without a score."""
    tied: bool
    """Whether another entry has the same rank."""
    row: Mapping[str, Any]
    """The columns of ``ragen_bench.evaluation.run_table.summarise``."""


def samples_of(entries: Sequence[StoredEntry], game: str) -> Samples:
    """Return every entry's episodes of a game."""
    return {
        stored.entry.about.name: {
            record.episode.instance.index: record.episode
            for record in stored.records
            if record.episode.task == game
        }
        for stored in entries
    }


def pooled(games: Sequence[Samples]) -> Samples:
    """Return the levels of all games as those of one, numbered on."""
    pool: dict[str, dict[int | None, Episode]] = {}
    for number, samples in enumerate(games):
        for name, sample in samples.items():
            row = pool.setdefault(name, {})
            row.update(
                {number * LEVELS + index: episode for index, episode in sample.items() if index is not None}
            )
    return pool


def standings(entries: Sequence[StoredEntry], samples: Samples) -> list[Standing]:
    """Return the rows of a table, the best first.

    Entries are compared in pairs by the exact McNemar test on the levels that both have (by level
    where levels repeat), p-values Holm-adjusted over the pairs of the table. Entries that do not differ
    significantly from the best share its rank.
    """
    ranks = rank_entries(list(samples), lambda a, b, n: _compare(samples[a], samples[b], n))
    table = []
    for stored in entries:
        name = stored.entry.about.name
        row = summarise_sample(samples[name], samples.get(REFERENCE))
        rank, tied = ranks.get(name, (None, False))
        table.append(Standing(name, stored.entry.about.title, rank is None, rank, tied, row))
    return sorted(table, key=lambda standing: (-standing.row["success"], standing.name))


def rank_entries(
    names: Sequence[str], compare: Callable[[str, str, int], tuple[float, float]]
) -> dict[str, tuple[int, bool]]:
    """Return each entry's rank and whether another has it too; controls have none.

    Args:
        names: The entries of a table.
        compare: Returns how much the first of two entries is better than the second, and the p-value; its
            third argument is how many resamples a test needs.
    """
    ranked = [name for name in names if name not in CONTROLS]
    pairs = list(combinations(ranked, 2))
    resamples = enough_resamples(len(pairs))
    results = [compare(a, b, resamples) for a, b in pairs]
    adjusted = holm([p for _, p in results])
    ranks = dict.fromkeys(ranked, 1)
    for (a, b), (difference, _), p in zip(pairs, results, adjusted, strict=True):
        if p <= ALPHA:
            ranks[b if difference > 0 else a] += 1
    shared = Counter(ranks.values())
    return {name: (rank, shared[rank] > 1) for name, rank in ranks.items()}


def _compare(a: Sample, b: Sample, resamples: int) -> tuple[float, float]:
    shared = [index for index in a if index in b]
    first, second = (np.array([sample[i].success for i in shared]) for sample in (a, b))
    clusters = level_clusters(a[i] for i in shared)
    result = compare_rates(first, second, clusters, resamples=resamples)
    return result.difference.estimate, result.p_value


class LengthRow(NamedTuple):
    """One entry's success on the levels of one length."""

    name: str
    length: int
    n: int
    success: Interval


def by_length(samples: Samples) -> list[LengthRow]:
    """Return the success of each entry by length; nothing for games where a plan has no length.

    Those are the games of chance, where no plan is sure, and those with plans of one length only.
    Levels that cannot be solved within the budget have no length.
    """
    lengths = _lengths(samples.get(OPTIMUM, {}))
    if len(set(lengths.values())) < 2:
        return []
    rows = []
    for name, sample in samples.items():
        for length in sorted(set(lengths.values())):
            played = [episode for i, episode in sample.items() if lengths.get(i) == length]
            if played:
                solved = [episode.success for episode in played]
                success = success_rate(solved, level_clusters(played))
                rows.append(LengthRow(name, length, len(played), success))
    return rows


def _lengths(optimum: Sample) -> dict[int | None, int]:
    """Return the number of actions that the oracle needed, by level."""
    if any(episode.optimal_success not in (0, 1) for episode in optimum.values()):
        return {}
    return {
        index: sum(len(turn.executed) for turn in episode.turns)
        for index, episode in optimum.items()
        if episode.success
    }


Ledgers = Mapping[str, Mapping[EpisodeKey, Ledger]]
"""Ledgers of one game, by entry and episode; only episodes that have one."""


def ledgers_of(samples: Samples) -> Ledgers:
    """Return the ledgers of all entries' episodes of a game."""
    ledgers: dict[str, dict[EpisodeKey, Ledger]] = {}
    for name, sample in samples.items():
        own = ledgers.setdefault(name, {})
        for episode in sample.values():
            try:
                own[episode.key] = ledger(episode)
            except NoLedgerError:
                continue
    return ledgers


def with_decisions(rows: Sequence[Standing], ledgers: Ledgers, samples: Samples) -> list[Standing]:
    """Return the rows of a game's table with the columns `ragen_bench.analysis.summary.DECISIONS`.

    Episodes that failed have no ledger. They count as 0 in luck-corrected success, so that failing on
    hard levels raises it no more than success; the other columns are those of the decisions that were made.
    """
    return [
        row._replace(row={**row.row, **_columns(list(ledgers[row.name].values()), samples[row.name])})
        for row in rows
    ]


def _columns(ledgers: Sequence[Ledger], sample: Sample) -> dict[str, float]:
    columns = ledger_columns(ledgers) if ledgers else dict.fromkeys(DECISIONS, math.nan)
    failed = [episode for episode in sample.values() if episode.end.is_failure]
    # Where others have no ledger either, it is the game that has none.
    if failed and (ledgers or len(failed) == len(sample)):
        score = corrected_score(ledgers, failed)
        columns |= {"corrected": score.estimate, "corrected_low": score.low, "corrected_high": score.high}
    return {name: columns[name] for name in DECISIONS}
