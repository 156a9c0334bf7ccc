"""Compute scores: success between that of random play, 0, and that of the optimum, 100."""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ragen_bench.stats.clusters import Clusters, cluster_sums, number_clusters
from ragen_bench.stats.intervals import (
    CONFIDENCE,
    Interval,
    as_samples,
    bootstrap_means,
    percentile_interval,
    success_rate,
)


def normalised_score(policy: float, random: float, optimal: float) -> float:
    """Normalise a score to chance, 0, and the optimum, 100.

    (policy - random) / (optimal - random) * 100: 0 is a random policy, 100 the oracle. It is not
    clipped: worse than chance is negative, and luck can exceed 100.

    Args:
        policy: Mean score of the policy, in the unit of the other two.
        random: Mean score of the random policy under the same budget.
        optimal: Mean score of the oracle under the same budget.

    Returns:
        The score in percent; nan where it is not defined: optimal <= random, or an argument is nan.
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
    """Return the normalised score of the means, with a percentile bootstrap interval.

    Instances are resampled with their three scores together. A resample whose optimal mean does not
    exceed its random mean has no score; it counts as arbitrarily low for the lower bound and as
    arbitrarily high for the upper one. So if chance and optimum can hardly be distinguished, the
    interval is (-inf, inf), not falsely narrow.

    Args:
        policy: Score of the policy on each instance, of shape (n,), n >= 1, finite.
        random: Score of the random policy on the same instances in the same order, of shape (n,);
            preferably a mean of many random episodes.
        optimal: Score of the oracle on the same instances, of shape (n,).
        resamples: Number of bootstrap samples, >= 1.
        seed: Seed >= 0, or a generator, which is advanced.
        clusters: Which instances belong together, of shape (n,), and are drawn together; None if they
            are independent.

    Returns:
        The interval in percent; all three numbers are nan if the mean optimal score does not exceed
        the mean random score.

    Raises:
        ValueError: If the samples are empty, not finite, not of one dimension or of different lengths.
    """
    played, chance, best = as_samples(policy=policy, random=random, optimal=optimal)
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
    :func:`success_bounds`. Arguments, range and errors are those of the two.
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
    """Return the normalised success with the interval of :func:`success_rate` on the scale of the score.

    Chance and optimum are taken as given. A level that nobody can solve is no trial: its outcome is certain.

    Args:
        solved: 1 for each episode that succeeded, else 0, of shape (n,), n >= 1.
        chance: Success of random play on the same levels, of shape (n,).
        best: Largest success of any agent on them, of shape (n,); its mean exceeds that of ``chance``.
        clusters: Which episodes belong together, of shape (n,); None if they are independent.

    Returns:
        The interval in percent.
    """
    played, random, optimal = as_samples(solved=solved, chance=chance, best=best)
    trials = (optimal > 0) | (played > 0)
    groups = None if clusters is None else number_clusters(clusters[trials].tolist())
    rate = success_rate(played[trials] > 0, groups)
    share, floor, top = trials.mean(), random.mean(), optimal.mean()
    return Interval(*(normalised_score(share * bound, floor, top) for bound in rate))


def at_most_by_chance(successes: int, chances: Sequence[float], clusters: Clusters | None) -> float:
    """Return the probability that random play succeeds at most so often.

    It is exact: the episodes are trials with chances of their own (a Poisson binomial distribution). The
    episodes of a cluster count as one trial that all of them win or lose, for an agent may do the same each
    time; the distribution is then the widest that these chances allow within clusters.

    Args:
        successes: Number of episodes that succeeded.
        chances: Success of random play in each episode, of length n.
        clusters: Which episodes belong together, of shape (n,); None if they are independent.
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
