"""What would decide an open claim: how many runs, if they go on as those that are there."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Final, NamedTuple

import numpy as np
from scipy import stats

from ragen_bench.stats.permutation import smallest_p
from ragen_bench.stats.power import MOST_SEEDS

ONE_SEED: Final = "at least 2 seeds, to see how much they differ"
_SAME: Final = "if the effect stays as it is"


class Remedy(NamedTuple):
    """What would decide a claim."""

    text: str = ""
    seeds: int = 0
    """Runs of each setting that it takes; 0 where that is not known or no number is enough."""


def more_runs(there: int, p_at: Callable[[int], float], alpha: float) -> Remedy:
    """Return the number of runs that decides half of the time if the effect stays as it is.

    Args:
        there: Runs of each setting so far.
        p_at: The p-value of so many runs.
        alpha: The level at which the claim must be tested.
    """
    more = range(there + 1, MOST_SEEDS + 1)
    needed = next((n for n in more if p_at(n) <= alpha), None)
    if needed is None:
        return Remedy(f"more than {MOST_SEEDS} seeds, {_SAME}")
    return Remedy(f"{needed} seeds, {_SAME}", needed)


def p_of_shift(shift: float, deviation: float, n: int) -> float:
    """Return the p-value of a mean that is ``shift`` away, by Student's test and the exact one of signs.

    Args:
        shift: Distance of the mean from the value that is tested.
        deviation: Standard deviation over runs, >= 0.
        n: Number of runs; one or none shows nothing.
    """
    if n < 2 or shift == 0:
        return 1.0
    by_model = (
        float(2 * stats.t.sf(abs(shift) * math.sqrt(n) / deviation, n - 1)) if deviation else 0.0
    )
    return max(by_model, 2.0 ** (1 - n))


def p_of_gap(gap: float, deviations: tuple[float, float], runs: tuple[int, int]) -> float:
    """Return the p-value of two means ``gap`` apart, by Welch's test and the exact permutation of runs.

    Args:
        gap: Difference of the means.
        deviations: Standard deviations over runs, >= 0.
        runs: Numbers of runs; one or none of either shows nothing.
    """
    if min(runs) < 2 or gap == 0:
        return 1.0
    by_model = 0.0
    if any(deviations):
        found = stats.ttest_ind_from_stats(
            gap, deviations[0], runs[0], 0.0, deviations[1], runs[1], equal_var=False
        )
        by_model = float(found.pvalue)
    return max(by_model, smallest_p(*runs))


def p_of_share(share: Fraction, n: int) -> float:
    """Return the p-value of a share of ``n`` runs, rounded towards the half that it is tested against."""
    count = math.ceil(share * n) if 2 * share < 1 else math.floor(share * n)
    return float(stats.binomtest(count, n).pvalue)


def p_of_shares(shares: tuple[Fraction, Fraction], runs: tuple[int, int]) -> float:
    """Return Fisher's p-value of two shares of so many runs, rounded towards each other."""
    (low, few), (high, many) = sorted(zip(shares, runs, strict=True))
    least, most = math.ceil(low * few), math.floor(high * many)
    if not few or not many or least * many >= most * few:
        return 1.0
    return float(stats.fisher_exact(np.array([[least, few - least], [most, many - most]])).pvalue)
