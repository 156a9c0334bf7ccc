"""Split the variance of outcomes on twins: the same levels in several forms, tried several times.

An outcome is the sum of a level's effect, of one effect for each way to change its form (a factor, such as
the orientation) on this level, and of sampling, all independent. Each factor is varied alone: its forms
differ from the reference in this factor only. All components are method-of-moments estimates:

- sampling: the variance of attempts at the same form;
- a factor: the variance over its forms of a level's mean success, less what sampling adds to it;
- level: the covariance, over levels, of forms that share no factor; of a single factor, the variance of
  levels' means less what its forms add.
"""

from collections.abc import Mapping
from itertools import combinations
from typing import Final

import numpy as np

from ragen_bench.stats.intervals import CONFIDENCE, Clusters, FloatArray, Interval, percentile_interval

__all__ = ["variance_shares"]

LEVEL: Final = "level"
SAMPLING: Final = "sampling"


def variance_shares(
    factors: Mapping[str, FloatArray], clusters: Clusters | None = None, resamples: int = 2000
) -> dict[str, Interval]:
    """Return each component's share of the variance, in [0, 1], with its bootstrap interval over levels.

    Components below 0 count as 0. Shares are nan where nothing varies.

    Args:
        factors: By name of the factor the outcomes in each form, of shape (levels, forms, attempts) with at
            least two levels and forms; form 0 is the reference, the same for all factors. With one attempt,
            sampling cannot be told apart, and is part of the other shares.
        clusters: Which levels are the same one, of shape (levels,), and are drawn together; None if none are.
        resamples: Number of bootstrap samples.
    """
    levels = len(next(iter(factors.values())))
    groups = np.arange(levels) if clusters is None else clusters
    count = int(groups.max()) + 1
    drawn = np.random.default_rng(0).multinomial(count, [1 / count] * count, resamples)
    weights = np.concatenate([np.ones((1, levels)), drawn[:, groups]])
    weights /= weights.sum(axis=1, keepdims=True)
    parts = _components(factors, weights)
    values = np.maximum(np.stack(list(parts.values())), 0.0)
    totals = values.sum(axis=0)
    shares = np.divide(values, totals, out=np.full_like(values, np.nan), where=totals > 0)
    whole = [percentile_interval(float(share[0]), share[1:], CONFIDENCE) for share in shares]
    return {
        name: Interval(share, max(low, 0.0), min(high, 1.0))
        for name, (share, low, high) in zip(parts, whole, strict=True)
    }


def _components(factors: Mapping[str, FloatArray], weights: FloatArray) -> dict[str, FloatArray]:
    """Return the components under each row of weights of the levels, (rows, levels)."""
    means = {name: outcomes.mean(axis=2) for name, outcomes in factors.items()}
    noise, parts = {}, {}
    for name, outcomes in factors.items():
        attempts = outcomes.shape[2]
        spread = outcomes.var(axis=2, ddof=1) if attempts > 1 else np.zeros(outcomes.shape[:2])
        noise[name] = weights @ spread.mean(axis=1)
        parts[name] = weights @ means[name].var(axis=1, ddof=1) - noise[name] / attempts
    if len(means) > 1:
        others = [mean[:, 1:].mean(axis=1) for mean in means.values()]
        level = np.mean([_covariance(a, b, weights) for a, b in combinations(others, 2)], axis=0)
    else:
        ((name, mean),) = means.items()
        own = mean.mean(axis=1)
        level = _covariance(own, own, weights) - (parts[name] + noise[name] / attempts) / mean.shape[1]
    return {LEVEL: level, **parts, SAMPLING: np.mean(list(noise.values()), axis=0)}


def _covariance(a: FloatArray, b: FloatArray, weights: FloatArray) -> FloatArray:
    n = len(a)
    result: FloatArray = (weights @ (a * b) - (weights @ a) * (weights @ b)) * n / (n - 1)
    return result
