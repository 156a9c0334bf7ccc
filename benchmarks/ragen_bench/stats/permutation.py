"""Test by exact permutations of training seeds, which assume nothing of how runs differ.

Runs that either learn or collapse are not normal: with three against three, Student's test finds p-values
far below what three against three can show. If two settings do not differ, every assignment of the runs to
them is equally likely.
"""

from functools import lru_cache
from itertools import combinations
from math import comb

import numpy as np
import numpy.typing as npt

from ragen_bench.stats.intervals import FloatArray

__all__ = ["permutation_p", "sign_flip_p", "smallest_p"]

MOST_ASSIGNMENTS = 200_000
"""If there are more, as many are drawn."""

_ROUNDING = 1e-12


def permutation_p(a: npt.ArrayLike, b: npt.ArrayLike) -> float:
    """Return the two-sided p-value of a difference of means.

    Args:
        a: One number a run, (S,), S >= 1.
        b: Those of the other setting, (T,), T >= 1.

    Returns:
        The share of all assignments whose difference of means is at least as large as the one seen.
    """
    first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    pooled = np.concatenate([first, second])
    sums = _assignments(len(first), len(second)) @ (pooled - pooled.mean())
    seen = abs(float(first.sum() - len(first) * pooled.mean()))
    return float(np.mean(np.abs(sums) >= seen - _ROUNDING * max(1.0, float(np.abs(pooled).max()))))


def sign_flip_p(values: npt.ArrayLike) -> float:
    """Return the two-sided p-value of a mean that differs from 0, if signs are equally likely; (S,)."""
    numbers = np.asarray(values, dtype=np.float64)
    sums = _signs(len(numbers)) @ numbers
    near = _ROUNDING * max(1.0, float(np.abs(numbers).max()))
    return float(np.mean(np.abs(sums) >= abs(float(numbers.sum())) - near))


def smallest_p(seeds: int, others: int) -> float:
    """Return the smallest p-value that a two-sided permutation test can have."""
    ways = comb(seeds + others, seeds)
    # The mirrored assignment exchanges the two settings, which is another one only if they are as many.
    return (2 if seeds == others else 1) / min(ways, MOST_ASSIGNMENTS)


@lru_cache(maxsize=32)
def _assignments(seeds: int, others: int) -> FloatArray:
    """Return the runs of the first setting as 1, others as 0, (assignments, runs); first the real ones."""
    runs = seeds + others
    if comb(runs, seeds) <= MOST_ASSIGNMENTS:
        chosen = np.array(list(combinations(range(runs), seeds)))
    else:
        orders = np.tile(np.arange(runs), (MOST_ASSIGNMENTS, 1))
        np.random.default_rng(0).permuted(orders[1:], axis=1, out=orders[1:])
        chosen = orders[:, :seeds]
    first = np.zeros((len(chosen), runs))
    first[np.arange(len(chosen))[:, None], chosen] = 1.0
    return first


@lru_cache(maxsize=32)
def _signs(count: int) -> FloatArray:
    if 2**count <= MOST_ASSIGNMENTS:
        bits = np.arange(2**count)[:, None] >> np.arange(count) & 1
    else:
        bits = np.random.default_rng(0).integers(0, 2, (MOST_ASSIGNMENTS, count))
        bits[0] = 1
    signs: FloatArray = np.where(bits == 1, 1.0, -1.0).astype(np.float64)
    return signs
