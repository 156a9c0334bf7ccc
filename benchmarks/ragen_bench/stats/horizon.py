"""The 50% horizon: the size of a level at which half of the episodes succeed."""

from typing import Final

import numpy as np
import numpy.typing as npt
from scipy import stats

from ragen_bench.stats.intervals import Interval

__all__ = ["half_horizon"]

_BEYOND: Final = 20.0
"""How far beyond the sizes, as a factor, a horizon is looked for."""
_HORIZONS, _SHAPES = 600, np.geomspace(0.25, 8, 41)


def half_horizon(
    sizes: npt.ArrayLike, successes: npt.ArrayLike, trials: npt.ArrayLike, confidence: float = 0.95
) -> Interval:
    """Return the size h at which the success is 1/2, fitted as success(x) = 2^-((x / h)^k).

    With k = 1 it is the success of an agent that errs with the same probability in each of x steps; with
    other k, errors become more or less frequent as levels grow. The interval is that of the profile
    likelihood over k. A bound is 0 or infinite where the data exclude no smaller or no larger horizon.

    Args:
        sizes: Of each rung, (n,), positive.
        successes: Solved episodes of each rung, (n,).
        trials: Independent episodes of each rung, (n,).
        confidence: Nominal coverage, in (0, 1).
    """
    x, solved, played = (np.asarray(each, np.float64) for each in (sizes, successes, trials))
    horizons = np.geomspace(x.min() / _BEYOND, x.max() * _BEYOND, _HORIZONS)
    powers = np.log(x / horizons[:, None, None]) * _SHAPES[:, None]
    decay = np.log(2) * np.exp(np.clip(powers, -30, 30))
    lost = np.log(-np.expm1(-decay))
    likelihood = (-solved * decay + (played - solved) * lost).sum(axis=2).max(axis=1)
    inside = likelihood >= likelihood.max() - stats.chi2.ppf(confidence, 1) / 2
    low, high = np.flatnonzero(inside)[[0, -1]]
    ends = np.concatenate([[0.0], horizons[1:-1], [np.inf]])
    best = ends[int(likelihood.argmax())]
    if not solved.any() or (solved == played).all():
        best = 0.0 if not solved.any() else np.inf
    return Interval(float(best), float(ends[low]), float(ends[high]))
