"""Who stands where: one table over all games and one for each."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any, Final, NamedTuple

import numpy as np

from ragen_agents.policies import CONTROLS
from ragen_agents.rollout import Episode
from ragen_bench.evaluation.level_clusters import level_clusters
from ragen_bench.evaluation.run_table import REFERENCE, Sample, summarise_sample
from ragen_bench.leaderboard.rules import LEVELS
from ragen_bench.leaderboard.store import StoredEntry
from ragen_bench.stats.paired import ALPHA, compare_rates, enough_resamples, holm

OPTIMUM: Final = "oracle"

Samples = Mapping[str, Sample]
"""Episodes of one table by entry and level."""


class Standing(NamedTuple):
    """One row of a table."""

    name: str
    """Of the entry."""
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
    found: dict[str, dict[int | None, Episode]] = {}
    for number, samples in enumerate(games):
        for name, sample in samples.items():
            row = found.setdefault(name, {})
            row.update(
                {
                    number * LEVELS + index: episode
                    for index, episode in sample.items()
                    if index is not None
                }
            )
    return found


def standings(entries: Sequence[StoredEntry], samples: Samples) -> list[Standing]:
    """Return the rows of a table, the best first.

    Entries are compared in pairs by the exact McNemar test on the levels that both have (by level
    where levels repeat), p-values Holm-adjusted over the pairs of the table. Entries that do not differ
    significantly from the best share its rank.
    """
    ranks = rank_entries(list(samples), lambda a, b, n: _compare(samples[a], samples[b], n))
    found = []
    for stored in entries:
        name = stored.entry.about.name
        row = summarise_sample(samples[name], samples.get(REFERENCE))
        rank, tied = ranks.get(name, (None, False))
        found.append(Standing(name, stored.entry.about.title, rank is None, rank, tied, row))
    return sorted(found, key=lambda standing: (-standing.row["success"], standing.name))


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
