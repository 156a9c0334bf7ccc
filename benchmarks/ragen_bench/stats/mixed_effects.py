"""Estimate over seeds and levels at once: training runs are a sample, and so are the levels.

A sample has shape (S, n): entry (s, i) is the outcome of the run of seed s on level i, with the same levels
for all runs. Seeds and levels are crossed random effects: a seed shifts the outcomes on all levels, a level
those of all seeds. The variance of a mean comes from the two-way analysis of variance, its degrees of freedom
from Satterthwaite's approximation (1946). One seed says nothing about other seeds; the variance then covers
the levels only, and results hold for this run alone, as with one level they hold for that level alone. A
single outcome has no bounds.

Intervals take the effects of seeds to be about normal. Tests do not rest on that: with several seeds on both
sides the p-value is the larger one of this model's and of the exact permutation of seeds.
"""

import math
from functools import reduce
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from ragen_bench.stats.intervals import CONFIDENCE, FloatArray, Interval, score_interval
from ragen_bench.stats.paired import mcnemar_exact
from ragen_bench.stats.permutation import permutation_p

__all__ = ["Difference", "mixed_effects_difference", "mixed_effects_rate", "mixed_effects_rate_difference"]


class VarianceComponents(NamedTuple):
    """The variance of a mean or of a difference, by random effect."""

    seeds: float
    """Variance of the random effect of the seeds; 0 where there is one seed."""
    levels: float
    """Variance of the random effect of the levels."""
    degrees_of_freedom: float
    """Degrees of freedom of the sum, >= 1."""

    @property
    def total(self) -> float:
        """Variance of the estimate."""
        return self.seeds + self.levels


class Difference(NamedTuple):
    """The mean of sample a minus that of sample b."""

    interval: Interval
    p_value: float
    """Two-sided: the larger of the model's and, with several seeds on both sides, of the permutation's."""
    variance: VarianceComponents
    seeds: tuple[int, int]
    """Number of seeds on each side."""
    of_seed: float
    """Variance that one seed of each side gives the difference; n seeds of each give 1/n of it."""


def mixed_effects_rate(sample: npt.ArrayLike) -> Interval:
    """Return a success rate with its interval over seeds and levels.

    Wilson's score interval for the number of independent trials that would have the same variance (Korn
    & Graubard 1998), with Student's quantile. So it stays inside [0, 1] and has no zero width.

    Args:
        sample: (S, n), S >= 1 and n >= 1, with a mean in [0, 1]; see :func:`distinct_levels`.
    """
    values = np.asarray(sample, dtype=np.float64)
    rate = float(values.mean())
    variance = _variance(values)
    n = values.shape[1]
    spread = rate * (1 - rate)
    trials = min(spread / variance.total, values.size) if spread > 0 and variance.total > 0 else n
    return score_interval(rate, trials, _quantile(variance.degrees_of_freedom))


def mixed_effects_difference(a: npt.ArrayLike, b: npt.ArrayLike) -> Difference:
    """Compare two settings on the same levels, each with seeds of its own.

    Levels are paired, seeds are not: the runs of one setting share nothing with those of the other. There
    are two tests, and the larger p-value counts: Student's with the variance above, which is never taken to
    be below that of a single level's change, and the exact permutation of the seeds' means, which needs no
    normal effects and cannot fall below 0.10 with three against three, 0.008 with five against five.
    With one seed on a side only the first is possible, and with one seed on both sides and outcomes that
    are 0 or 1 it is the exact McNemar test.

    Args:
        a: (S, n), S >= 1 and n >= 1.
        b: (T, n), T >= 1, the same levels in the same order.
    """
    first, second = (np.asarray(sample, dtype=np.float64) for sample in (a, b))
    variance = _variance(first, second)
    estimate = float(first.mean() - second.mean())
    seeds = (len(first), len(second))
    of_seed = sum(_seed_variance(side)[0] * len(side) for side in (first, second))
    if seeds == (1, 1) and _is_binary(first) and _is_binary(second):
        exact = mcnemar_exact(first[0] == 1, second[0] == 1)
        return Difference(exact.difference, exact.p_value, variance, seeds, of_seed)
    error = math.sqrt(max(variance.total, 1 / first.shape[1] ** 2))
    half = _quantile(variance.degrees_of_freedom) * error
    by_model = float(2 * scipy.stats.t.sf(abs(estimate) / error, variance.degrees_of_freedom))
    exact_p = permutation_p(first.mean(axis=1), second.mean(axis=1)) if min(seeds) > 1 else 0.0
    return Difference(
        Interval(estimate, estimate - half, estimate + half), max(by_model, exact_p), variance,
        seeds, of_seed,
    )  # fmt: skip


def mixed_effects_rate_difference(a: npt.ArrayLike, b: npt.ArrayLike) -> Difference:
    """Return `mixed_effects_difference` of success rates, its interval clipped to [-1, 1]."""
    difference = mixed_effects_difference(a, b)
    estimate, low, high = difference.interval
    return difference._replace(interval=Interval(estimate, max(low, -1.0), min(high, 1.0)))


def distinct_levels(successes: npt.ArrayLike, levels: list[int] | None) -> FloatArray:
    """Return one value for each distinct level, such that the mean of a run stays what it is.

    Several episodes of one level are not independent. Each level's value is the run's mean plus the sum
    of its episodes' deviations, scaled; with equally many episodes a level it is its success rate.

    Args:
        successes: (S, episodes).
        levels: The distinct level of each episode, from 0; None where none repeats.

    Returns:
        (S, distinct levels).
    """
    values = np.asarray(successes, dtype=np.float64)
    if levels is None:
        return values
    members = np.equal.outer(np.arange(max(levels) + 1), levels).astype(np.float64)
    means = values.mean(axis=1, keepdims=True)
    scale = len(members) / values.shape[1]
    result: FloatArray = means + scale * ((values - means) @ members.T)
    return result


def _variance(*samples: FloatArray) -> VarianceComponents:
    """Return the variance of the mean of a sample (S, n), or of the difference of two on the same levels."""
    sides = [(*_seed_variance(values), len(values) - 1) for values in samples]
    n = samples[0].shape[1]
    by_level = reduce(np.subtract, [values.mean(axis=0) for values in samples])
    levels = max(float(by_level.var(ddof=min(n - 1, 1))) / n - sum(error for _, error, _ in sides), 0.0)
    seeds = [(v, freedom) for v, _, freedom in sides]
    parts = [(v, freedom) for v, freedom in [*seeds, (levels, n - 1)] if v > 0 and freedom > 0]
    total = sum(v for v, _ in parts)
    if not total:
        return VarianceComponents(0.0, 0.0, sum(freedom for _, freedom in seeds) or n - 1)
    freedom = total**2 / sum(v**2 / each for v, each in parts)
    return VarianceComponents(sum(v for v, _ in seeds), levels, max(freedom, 1.0))


def _seed_variance(values: FloatArray) -> tuple[float, float]:
    """Return the variance of the mean over seeds, and the part of it that is no seed's, but chance.

    The first holds the second: the means of runs differ by chance too.
    """
    seeds, n = values.shape
    if seeds == 1:
        return 0.0, 0.0
    by_seed, by_level = values.mean(axis=1), values.mean(axis=0)
    residual = values - by_seed[:, None] - by_level + values.mean()
    error = float((residual**2).sum()) / ((seeds - 1) * max(n - 1, 1)) / (seeds * n)
    return max(float(by_seed.var(ddof=1)) / seeds, error), error


def _quantile(freedom: float) -> float:
    return float(scipy.stats.t.ppf(1 - (1 - CONFIDENCE) / 2, freedom))


def _is_binary(values: FloatArray) -> bool:
    return bool(((values == 0) | (values == 1)).all())
