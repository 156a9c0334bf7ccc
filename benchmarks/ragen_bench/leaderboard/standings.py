"""Compute the tables of the leaderboard: one for each game and one over all games."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ragen_agents.policies import CONTROLS
from ragen_bench.analysis.ledger import Ledger
from ragen_bench.analysis.summary import DECISIONS, corrected_score, ledger_columns
from ragen_bench.console.formats import number
from ragen_bench.evaluation.run_table import (
    EXACT,
    REFERENCE,
    Sample,
    chance_of,
    exact_mean,
    level_clusters,
    summarise_episodes,
    summarise_sample,
)
from ragen_bench.leaderboard.store import StoredEntry
from ragen_bench.stats.intervals import (
    FloatArray,
    Interval,
    cluster_sums,
    number_clusters,
    wilson_mean,
)
from ragen_bench.stats.paired import ALPHA, compare_rates, enough_resamples, holm, sign_flip
from ragen_bench.stats.scores import at_most_by_chance, mean_score

OPTIMUM: Final = "oracle"

Samples = Mapping[str, Sample]
"""Episodes of one table by entry and level."""
Games = Mapping[str, Samples]
"""Episodes by game, entry and level; without the games that are controls of others."""


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


def standings(entries: Sequence[StoredEntry], samples: Samples) -> list[Standing]:
    """Return the rows of a table, the best first.

    Entries are compared in pairs by the exact McNemar test on the levels that both have (by level
    where levels repeat), p-values Holm-adjusted over the pairs of the table. A rank is 1 plus the number of
    entries that are better beyond chance.
    """
    ranks = rank_entries(list(samples), lambda a, b, n: _compare(samples[a], samples[b], n))
    rows = {name: summarise_sample(sample, samples.get(REFERENCE)) for name, sample in samples.items()}
    return sorted(_table(entries, rows, ranks), key=lambda s: (-s.row["success"], s.name))


def _table(
    entries: Sequence[StoredEntry],
    rows: Mapping[str, Mapping[str, Any]],
    ranks: Mapping[str, tuple[int, bool]],
) -> Iterator[Standing]:
    for about in (stored.entry.about for stored in entries):
        rank, tied = ranks.get(about.name, (None, False))
        yield Standing(about.name, about.title, about.name in CONTROLS, rank, tied, rows[about.name])


def rank_entries(
    names: Sequence[str], compare: Callable[[str, str, int], tuple[float, float]]
) -> dict[str, tuple[int, bool]]:
    """Return each entry's rank and whether another has it too; controls have none.

    ``compare`` returns how much the first of two entries is better than the second, and the p-value; its
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


class _Levels(NamedTuple):
    """The levels of all games on which an entry has a score, in one row each."""

    game: npt.NDArray[np.intp]
    """Number of the game, of shape (n,)."""
    solved: FloatArray
    chance: FloatArray
    best: FloatArray
    keys: Sequence[str]
    """Equal for the same level, also in two games."""


def overall_standings(entries: Sequence[StoredEntry], games: Games) -> list[Standing]:
    """Return the rows of the table over all games, the best first.

    ``score`` is the mean of the scores of the games, with a bootstrap interval in which a level that
    several games share is drawn once for all of them, at least as wide as the games' Wilson intervals make
    it. Entries are compared in pairs by the sign-flip test on the difference of their mean scores over the
    levels that both played, p-values Holm-adjusted over the pairs of the table. An entry without a score
    has no rank. The other columns are those of the levels of all games together.
    """
    scores = {stored.entry.about.name: score_of(games, stored.entry.about.name) for stored in entries}
    scored = [name for name, score in scores.items() if not math.isnan(score.estimate)]
    ranks = rank_entries(scored, lambda a, b, n: _compare_scores(games, a, b, n))
    rows = {}
    for name, score in scores.items():
        played = [e for samples in games.values() for e in samples.get(name, {}).values()]
        exact = {field: exact_mean(played, field) for field in EXACT}
        rows[name] = {**summarise_episodes(played), **exact, **score.columns("score")}
    return sorted(_table(entries, rows, ranks), key=lambda s: (-_or_lowest(s.row["score"]), s.name))


def score_of(games: Games, name: str) -> Interval:
    """Return the mean of an entry's scores with its 95% interval; nan if a game has no score."""
    levels = _levels([(samples.get(name, {}), samples) for samples in games.values()])
    if len(set(levels.game.tolist())) < len(games):
        return Interval(math.nan, math.nan, math.nan)
    return mean_score(levels.solved, levels.chance, levels.best, levels.keys, levels.game)


def below_random(entries: Sequence[StoredEntry]) -> list[str]:
    """Return a note for each entry that plays a game that it was trained on worse than random play does.

    The test is exact, one-sided at 2.5%, and takes the chance of random play on each level. A game whose
    chances are not exact gets no note.
    """
    lines = []
    for stored in entries:
        for game in stored.entry.about.trained_on:
            episodes = list(stored.sample(game).values())
            chances = [e.random_success for e in episodes if e.random_success is not None]
            if not episodes or len(chances) < len(episodes):
                continue
            solved = sum(episode.success for episode in episodes)
            p = at_most_by_chance(solved, chances, level_clusters(episodes))
            if p <= ALPHA / 2:
                lines.append(
                    f"{stored.entry.about.title} plays {game}, which it was trained on, worse than random: "
                    f"it solves {solved} of {len(episodes)} levels, random play "
                    f"{number(sum(chances), 1)} on average (exact test, p = {p:.2g})"
                )
    return lines


def _compare_scores(games: Games, first: str, second: str, resamples: int) -> tuple[float, float]:
    pairs = [_shared(samples, first, second) for samples in games.values()]
    a, b = (_levels([(pair[side], samples) for pair, samples in zip(pairs, games.values(), strict=True)])
            for side in (0, 1))  # fmt: skip
    gaps = np.bincount(a.game, a.best - a.chance, len(games))
    if not (gaps > 0).all():
        return 0.0, 1.0
    differences = 100 * (a.solved - b.solved) / (gaps * len(games))[a.game]
    clusters = number_clusters(a.keys)
    units = differences if clusters is None else cluster_sums(differences, clusters)
    return float(differences.sum()), sign_flip(units, resamples, np.random.default_rng(0))


def _shared(samples: Samples, first: str, second: str) -> tuple[Sample, Sample]:
    """Return the episodes of two entries on the levels that both played and whose chance is known."""
    a, b = samples.get(first, {}), samples.get(second, {})
    reference = samples.get(REFERENCE)
    indices = [
        index
        for index in a
        if index in b and all(chance_of(each[index], reference) is not None for each in (a, b))
    ]
    return {i: a[i] for i in indices}, {i: b[i] for i in indices}


def _levels(games: Sequence[tuple[Sample, Samples]]) -> _Levels:
    """Return the levels of each game whose chance and optimum are known, of one entry."""
    rows = [
        (game, episode.success, known, episode.optimal_success, episode.instance.key)
        for game, (sample, samples) in enumerate(games)
        for episode in sample.values()
        if (known := chance_of(episode, samples.get(REFERENCE))) is not None
        and episode.optimal_success is not None
    ]
    game, solved, chance, best = np.array([row[:4] for row in rows], np.float64).reshape(-1, 4).T
    keys = [row[4] for row in rows]
    return _Levels(game.astype(np.intp), solved, chance, best, keys)


def _or_lowest(value: float) -> float:
    return -math.inf if math.isnan(value) else value


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
                success = wilson_mean(solved, clusters=level_clusters(played))
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


def with_decisions(
    rows: Sequence[Standing], ledgers: Mapping[str, Sequence[Ledger]], samples: Samples
) -> list[Standing]:
    """Return the rows of a game's table with the columns `ragen_bench.analysis.summary.DECISIONS`.

    Ledgers are those of the game, by entry.
    Episodes that failed have no ledger. They count as 0 in luck-corrected success, so that failing on
    hard levels raises it no more than success; the other columns are those of the decisions that were made.
    """
    return [row._replace(row={**row.row, **_columns(ledgers[row.name], samples[row.name])}) for row in rows]


def _columns(ledgers: Sequence[Ledger], sample: Sample) -> dict[str, float]:
    columns = ledger_columns(ledgers) if ledgers else dict.fromkeys(DECISIONS, math.nan)
    failed = [episode for episode in sample.values() if episode.end.is_failure]
    # Where others have no ledger either, it is the game that has none.
    if failed and (ledgers or len(failed) == len(sample)):
        columns |= corrected_score(ledgers, failed).columns("corrected")
    return {name: columns[name] for name in DECISIONS}
