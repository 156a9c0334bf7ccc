"""Compute the table over all games: entries by the mean of their scores, each game counting the same."""

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ragen_bench.console.formats import number
from ragen_bench.evaluation.level_clusters import level_clusters
from ragen_bench.evaluation.run_table import REFERENCE, Sample, chance_of
from ragen_bench.leaderboard.standings import Samples, Standing, pooled, rank_entries, standings
from ragen_bench.leaderboard.store import StoredEntry
from ragen_bench.stats.clusters import cluster_sums, number_clusters
from ragen_bench.stats.intervals import FloatArray, Interval, bootstrap_means, percentile_interval
from ragen_bench.stats.paired import ALPHA, sign_flip
from ragen_bench.stats.scores import at_most_by_chance, success_bounds

_RESAMPLES: Final = 10_000

Games = Mapping[str, Samples]
"""Episodes by game, entry and level; without the controls."""


class _Levels(NamedTuple):
    """The levels of all games on which an entry has a score, in one row each."""

    games: int
    """Number of games."""
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
    rows = {row.name: row for row in standings(entries, pooled(list(games.values())))}
    scores = {name: mean_score(games, name) for name in rows}
    scored = [name for name, score in scores.items() if not math.isnan(score.estimate)]
    ranks = rank_entries(scored, lambda a, b, n: _compare(games, a, b, n))
    table = []
    for name, standing in rows.items():
        score = scores[name]
        columns = {"score": score.estimate, "score_low": score.low, "score_high": score.high}
        rank, tied = ranks.get(name, (None, False))
        table.append(standing._replace(rank=rank, tied=tied, row={**standing.row, **columns}))
    return sorted(table, key=lambda s: (-_or_lowest(s.row["score"]), s.name))


def mean_score(games: Games, name: str) -> Interval:
    """Return the mean of an entry's scores with its 95% interval; nan if a game has no score."""
    levels = _levels([(_sample(samples, name), samples) for samples in games.values()])
    gains, gaps = (_by_game(levels, values) for values in _gain_and_gap(levels))
    if not (gaps.sum(axis=1) > 0).all():
        return Interval(math.nan, math.nan, math.nan)
    clusters = number_clusters(levels.keys)
    if clusters is not None:
        gains, gaps = (np.stack([cluster_sums(row, clusters) for row in each]) for each in (gains, gaps))
    drawn = bootstrap_means(np.concatenate([gains, gaps]), _RESAMPLES, 0)
    gain, gap = np.split(drawn, 2)
    scores = 100 * np.divide(gain, gap, out=np.full_like(gain, np.nan), where=gap > 0)
    estimate = float(np.mean(100 * gains.sum(axis=1) / gaps.sum(axis=1)))
    drawn_score = percentile_interval(estimate, scores.mean(axis=0), 0.95)
    below, above = _sampling_width(levels)
    return Interval(estimate, min(drawn_score.low, estimate - below), max(drawn_score.high, estimate + above))


def _sampling_width(levels: _Levels) -> tuple[float, float]:
    """Return the reach of the mean score's interval down and up, by square-and-add of the games'."""
    below, above = [], []
    for game in range(levels.games):
        rows = np.flatnonzero(levels.game == game).tolist()
        clusters = number_clusters([levels.keys[row] for row in rows])
        columns = (levels.solved[rows], levels.chance[rows], levels.best[rows])
        score = success_bounds(*columns, clusters=clusters)
        below.append(score.estimate - score.low)
        above.append(score.high - score.estimate)
    return math.hypot(*below) / levels.games, math.hypot(*above) / levels.games


def below_random(entries: Sequence[StoredEntry]) -> list[str]:
    """Return a note for each entry that plays a game that it was trained on worse than random play does.

    The test is exact, one-sided at 2.5%, and takes the chance of random play on each level. A game whose
    chances are not exact gets no note.
    """
    lines = []
    for stored in entries:
        for game in stored.entry.about.trained_on:
            episodes = [r.episode for r in stored.records if r.episode.task == game]
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


def _compare(games: Games, first: str, second: str, resamples: int) -> tuple[float, float]:
    """Return the difference of two mean scores on the levels that both played, and its p-value."""
    pairs = [_shared(samples, first, second) for samples in games.values()]
    a, b = (_levels([(pair[side], samples) for pair, samples in zip(pairs, games.values(), strict=True)])
            for side in (0, 1))  # fmt: skip
    gaps = _by_game(a, _gain_and_gap(a)[1]).sum(axis=1)
    if not (gaps > 0).all():
        return 0.0, 1.0
    differences = 100 * (a.solved - b.solved) / (gaps * len(games))[a.game]
    clusters = number_clusters(a.keys)
    units = differences if clusters is None else cluster_sums(differences, clusters)
    return float(differences.sum()), sign_flip(units, resamples, np.random.default_rng(0))


def _shared(samples: Samples, first: str, second: str) -> tuple[Sample, Sample]:
    """Return the episodes of two entries on the levels that both played and whose chance is known."""
    a, b = _sample(samples, first), _sample(samples, second)
    reference = samples.get(REFERENCE)
    indices = [
        index
        for index in a
        if index in b and all(chance_of(each[index], reference) is not None for each in (a, b))
    ]
    return {i: a[i] for i in indices}, {i: b[i] for i in indices}


def _sample(samples: Samples, name: str) -> Sample:
    return samples.get(name, {})


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
    return _Levels(len(games), game.astype(np.intp), solved, chance, best, keys)


def _gain_and_gap(levels: _Levels) -> tuple[FloatArray, FloatArray]:
    return levels.solved - levels.chance, levels.best - levels.chance


def _by_game(levels: _Levels, values: FloatArray) -> FloatArray:
    """Return the values of each game in a row of its own, 0 elsewhere, of shape (games, n)."""
    return np.where(levels.game == np.arange(levels.games)[:, None], values, 0.0)


def _or_lowest(value: float) -> float:
    return -math.inf if math.isnan(value) else value
