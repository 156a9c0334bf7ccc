"""Compute scores: success between that of random play, 0, and that of the optimum, 100."""

import math
from collections.abc import Sequence

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


def normalised_interval(
    policy: npt.ArrayLike,
    random: npt.ArrayLike,
    optimal: npt.ArrayLike,
    resamples: int = 10_000,
    *,
    seed: int | np.random.Generator,
    clusters: Clusters | None = None,
) -> Interval:
    """Return the normalised score of the means in percent, with a percentile bootstrap interval.

    Instances, or whole clusters of them, are resampled with their three scores together. A resample whose
    optimal mean does not exceed its random mean has no score; it counts as arbitrarily low for the lower
    bound and as arbitrarily high for the upper one. So if chance and optimum can hardly be distinguished,
    the interval is (-inf, inf), not falsely narrow. All three numbers are nan if the mean optimal score
    itself does not exceed the mean random score.
    """
    played, chance, best = np.array([policy, random, optimal], np.float64)
    columns = np.stack([played - chance, best - chance])
    if clusters is not None:
        columns = np.stack([cluster_sums(column, clusters) for column in columns])
    gain, gap = bootstrap_means(columns, resamples, seed)
    resampled = 100 * np.divide(gain, gap, out=np.full_like(gain, np.nan), where=gap > 0)
    mean_gain, mean_gap = columns.mean(axis=1).tolist()
    return percentile_interval(normalised_score(mean_gain, 0.0, mean_gap), resampled, CONFIDENCE)


def success_score(
    solved: npt.ArrayLike,
    chance: npt.ArrayLike,
    best: npt.ArrayLike,
    resamples: int = 10_000,
    *,
    seed: int | np.random.Generator,
    clusters: Clusters | None = None,
) -> Interval:
    """Return the normalised success, with the wider of two intervals at each end.

    They are :func:`normalised_interval`, which has no width left where all levels or none are solved, and
    :func:`success_bounds`.
    """
    score = normalised_interval(solved, chance, best, resamples, seed=seed, clusters=clusters)
    if math.isnan(score.estimate):
        return score
    _, low, high = success_bounds(solved, chance, best, clusters)
    return Interval(score.estimate, min(score.low, low), max(score.high, high))


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
