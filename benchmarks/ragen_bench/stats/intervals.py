"""Estimate rates and mean returns with intervals. Scores are in :mod:`ragen_bench.stats.scores`.

Pure functions of numbers and arrays. Entries of a sample must be independent of each other, unless
``clusters`` says which belong together; then whole clusters are the unit. An agent that reads one prompt
twice tends to do the same twice, so where levels repeat, the cluster is a level with all of its episodes.
Comparisons of two policies on the same instances are in :mod:`ragen_bench.stats.paired`.

Whatever draws random numbers takes a seed and uses a generator of its own: equal arguments give
equal results.
"""

import math
from collections.abc import Hashable, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import special

__all__ = [
    "Interval",
    "bootstrap_mean",
    "bounds_of_several",
    "wilson",
    "wilson_mean",
]

FloatArray: TypeAlias = npt.NDArray[np.float64]

_BLOCK = 1 << 21
"""Most indices drawn at once; bounds the memory of a bootstrap to some tens of MiB."""
CONFIDENCE: Final = 0.95
"""Nominal coverage of intervals."""


Clusters: TypeAlias = npt.NDArray[np.int64]
"""Cluster number of each entry of a sample, from 0 without gaps."""


def number_clusters(keys: Sequence[Hashable]) -> Clusters | None:
    """Return the cluster of each entry, or None where the entries are independent.

    They are if each has a key of its own. They are too if all have the same key: such a sample holds for
    this one level, given which its episodes are independent, and says nothing about other levels.
    """
    numbers: dict[Hashable, int] = {}
    clusters = np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)
    return clusters if 1 < len(numbers) < len(clusters) else None


def cluster_sums(values: FloatArray, clusters: Clusters) -> FloatArray:
    """Return the sum of the values of each cluster, of shape (clusters,)."""
    return np.bincount(clusters, weights=values).astype(np.float64)


class Interval(NamedTuple):
    """An estimate and its confidence interval: low <= estimate <= high, where they are not nan."""

    estimate: float
    low: float
    high: float

    def columns(self, name: str) -> dict[str, float]:
        """Return the columns of a table that hold it."""
        return {name: self.estimate, f"{name}_low": self.low, f"{name}_high": self.high}


def wilson(successes: int, n: int, confidence: float = CONFIDENCE) -> Interval:
    """Return a success rate with Wilson's score interval (Wilson 1927).

    It stays inside [0, 1], has no zero width at 0% or 100%, and its coverage is close to nominal on
    average over rates, also for few trials; at a single rate it can be some points below.

    Args:
        successes: Number of successes, in [0, n].
        n: Number of independent trials, >= 1.
        confidence: Nominal coverage, in (0, 1).
    """
    return score_interval(successes / n, n, float(special.ndtri((1 + confidence) / 2)))


def wilson_mean(
    values: npt.ArrayLike, confidence: float = CONFIDENCE, clusters: Clusters | None = None
) -> Interval:
    """Return a mean of shares with Wilson's score interval, as if each were one trial.

    For a success that is averaged over several episodes of an instance: a number in [0, 1] varies no
    more than a coin with its mean, so the interval is that of :func:`wilson` for 0 and 1, and too wide
    rather than too narrow for what lies between.

    With clusters it is Wilson's interval for the number of independent trials that would have the same
    variance (Korn & Graubard 1998), which comes from the sums of the clusters' residuals, with Student's
    quantile. If all values are the same, each cluster counts as one trial.

    Args:
        values: One share in [0, 1] per instance, of shape (n,), n >= 1.
        confidence: Nominal coverage, in (0, 1).
        clusters: Which values belong together, of shape (n,); None if they are independent.
    """
    sample = np.asarray(values, np.float64)
    mean = math.fsum(sample) / len(sample)
    if clusters is None:
        return score_interval(mean, len(sample), float(special.ndtri((1 + confidence) / 2)))
    residuals = cluster_sums(sample - mean, clusters)
    count, spread = len(residuals), mean * (1 - mean)
    variance = count / (count - 1) * float((residuals**2).sum()) / len(sample) ** 2
    trials = spread / max(variance, spread / len(sample)) if spread > 0 else count
    quantile = float(special.stdtrit(count - 1, (1 + confidence) / 2))
    return score_interval(mean, trials, quantile)


def score_interval(rate: float, trials: float, quantile: float) -> Interval:
    """Return the score interval of a rate in [0, 1] of so many trials, of which there can be a fraction."""
    share = quantile * quantile / trials
    centre = (rate + share / 2) / (1 + share)
    half = math.sqrt(share * rate * (1 - rate) + share * share / 4) / (1 + share)
    return Interval(rate, min(max(centre - half, 0.0), rate), max(min(centre + half, 1.0), rate))


def bootstrap_mean(
    values: npt.ArrayLike,
    confidence: float = CONFIDENCE,
    resamples: int = 10_000,
    *,
    seed: int | np.random.Generator,
    clusters: Clusters | None = None,
) -> Interval:
    """Return a mean with its percentile bootstrap interval (Efron 1979).

    Meant for returns and lengths; for success rates :func:`wilson` is better. Below about 30 values
    the interval is too narrow, and a constant sample (so also a single value) has zero width, which
    says nothing about how certain the mean is.

    Args:
        values: One finite number per instance, of shape (n,), n >= 1, in any unit.
        confidence: Nominal coverage, in (0, 1).
        resamples: Number of bootstrap samples, >= 1.
        seed: Seed >= 0, or a generator, which is advanced.
        clusters: Which values belong together, of shape (n,), and are drawn together; None if they are
            independent.
    """
    sample = np.asarray(values, np.float64)
    deviations = sample - sample[0]  # a constant sample is then exact zeros, free of rounding
    if clusters is None:
        means = sample[0] + bootstrap_means(deviations[None], resamples, seed)[0]
    else:
        columns = [cluster_sums(each, clusters) for each in (deviations, np.ones_like(sample))]
        sums, sizes = bootstrap_means(np.stack(columns), resamples, seed)
        means = sample[0] + sums / sizes
    return percentile_interval(float(sample[0] + deviations.mean()), means, confidence)


def bounds_of_several(bootstrap: Interval, levels: int) -> Interval:
    """Return an interval, whose bounds are nan if it has no width because all values are of one level.

    Such values do not say how certain their mean is.

    Args:
        bootstrap: The interval of a bootstrap.
        levels: Number of different levels, >= 1.
    """
    if levels > 1 or bootstrap.low < bootstrap.high:
        return bootstrap
    return Interval(bootstrap.estimate, math.nan, math.nan)


def bootstrap_means(columns: FloatArray, resamples: int, seed: int | np.random.Generator) -> FloatArray:
    """Return the means, of shape (c, resamples), of rows (c, n) whose entries are drawn jointly."""
    rng = np.random.default_rng(seed)
    n = columns.shape[1]
    block = max(1, _BLOCK // columns.size)
    means = np.empty((len(columns), resamples))
    for start in range(0, resamples, block):
        chosen = rng.integers(n, size=(min(block, resamples - start), n))
        means[:, start : start + block] = columns[:, chosen].mean(axis=2)
    return means


def percentile_interval(estimate: float, resampled: FloatArray, confidence: float) -> Interval:
    """Return the central share of a statistic's resampled values, widened to hold the estimate.

    Bounds are resampled values, rounded outwards. A nan stands for a value that may be anything: it
    counts against both bounds. If the estimate itself is nan, so are the bounds.
    """
    if math.isnan(estimate):
        return Interval(math.nan, math.nan, math.nan)
    unknown, tail = np.isnan(resampled), (1 - confidence) / 2
    low = np.quantile(np.where(unknown, -np.inf, resampled), tail, method="lower")
    high = np.quantile(np.where(unknown, np.inf, resampled), 1 - tail, method="higher")
    return Interval(estimate, min(float(low), estimate), max(float(high), estimate))
