"""Compute scores: success between that of random play, 0, and that of the optimum, 100."""

import math
from collections.abc import Hashable, Sequence
from itertools import compress

import numpy as np
import numpy.typing as npt

from ragen_bench.stats.intervals import (
    CONFIDENCE,
    Clusters,
    Interval,
    bootstrap_means,
    cluster_sums,
    number_clusters,
    percentile_interval,
    wilson_mean,
)


def normalised_score(policy: float, random: float, optimal: float) -> float:
    """Return (policy - random) / (optimal - random) in percent: 0 is random play, 100 the oracle.

    It is not clipped: worse than chance is negative, and luck can exceed 100. It is nan where it is not
    defined: optimal <= random, or an argument is nan.
    """
    gap = optimal - random
    return (policy - random) / gap * 100 if gap > 0 else math.nan


def mean_score(
    solved: npt.ArrayLike,
    chance: npt.ArrayLike,
    best: npt.ArrayLike,
    keys: Sequence[Hashable],
    games: npt.ArrayLike = 0,
    resamples: int = 10_000,
) -> Interval:
    """Return the mean over games of the normalised success in percent, with the wider of two intervals.

    One is a percentile bootstrap of levels; a level that several games share is drawn once for all of them.
    A resample in which a game's mean optimum does not exceed its mean chance has no score; it counts as
    arbitrarily low for the lower bound and as arbitrarily high for the upper one. The other is the
    square-and-add of `success_bounds`, since the first has no width where all levels or none are solved. All
    numbers are nan if a game has no score at all.

    Args:
        solved: Success on each level, of shape (n,).
        chance: Success of random play on it.
        best: Success of the best agent on it.
        keys: Equal for the same level.
        games: Number of the game of each level, from 0 without gaps.
        resamples: Number of bootstrap samples.
    """
    played, random, optimal = np.array([solved, chance, best], np.float64)
    game = np.broadcast_to(games, len(played))
    own = [game == number for number in range(int(game.max(initial=0)) + 1)]
    gains, gaps = (np.where(own, each - random, 0.0) for each in (played, optimal))
    if not (gaps.sum(axis=1) > 0).all():
        return Interval(math.nan, math.nan, math.nan)
    bounds = []
    for rows in own:
        of_game = number_clusters(list(compress(keys, rows)))
        bounds.append(success_bounds(played[rows], random[rows], optimal[rows], of_game))
    if (clusters := number_clusters(keys)) is not None:
        gains, gaps = (np.stack([cluster_sums(row, clusters) for row in each]) for each in (gains, gaps))
    gain, gap = np.split(bootstrap_means(np.concatenate([gains, gaps]), resamples, 0), 2)
    scores = 100 * np.divide(gain, gap, out=np.full_like(gain, np.nan), where=gap > 0)
    estimate = float(np.mean(100 * gains.sum(axis=1) / gaps.sum(axis=1)))
    _, low, high = percentile_interval(estimate, scores.mean(axis=0), CONFIDENCE)
    below = math.hypot(*(each.estimate - each.low for each in bounds)) / len(own)
    above = math.hypot(*(each.high - each.estimate for each in bounds)) / len(own)
    return Interval(estimate, min(low, estimate - below), max(high, estimate + above))


def success_bounds(
    solved: npt.ArrayLike,
    chance: npt.ArrayLike,
    best: npt.ArrayLike,
    clusters: Clusters | None = None,
) -> Interval:
    """Return the normalised success in percent with the interval of the success on the scale of the score.

    Chance and optimum, the success of random play and of the best agent on each level, are taken as given. A
    level that nobody can solve is no trial: its outcome is certain.
    """
    played, random, optimal = np.array([solved, chance, best], np.float64)
    trials = (optimal > 0) | (played > 0)
    groups = None if clusters is None else number_clusters(clusters[trials].tolist())
    rate = wilson_mean(played[trials] > 0, clusters=groups)
    share, floor, top = trials.mean(), random.mean(), optimal.mean()
    return Interval(*(normalised_score(share * bound, floor, top) for bound in rate))


def at_most_by_chance(successes: int, chances: Sequence[float], clusters: Clusters | None) -> float:
    """Return the probability that at most so many episodes succeed that have these chances each.

    It is exact: the episodes are trials with chances of their own (a Poisson binomial distribution). The
    episodes of a cluster count as one trial that all of them win or lose, for an agent may do the same each
    time; the distribution is then the widest that these chances allow within clusters.
    """
    groups = np.arange(len(chances)) if clusters is None else clusters
    sizes = np.bincount(groups)
    means = np.bincount(groups, weights=chances) / sizes
    distribution = np.ones(1)
    for size, chance in zip(sizes.tolist(), means.tolist(), strict=True):
        lost = np.pad(distribution * (1 - chance), (0, size))
        won = np.pad(distribution * chance, (size, 0))
        distribution = lost + won
    return min(float(distribution[: successes + 1].sum()), 1.0)
