"""Compare two policies that played the same instances, and correct for many comparisons.

Entry i of both samples belongs to the same instance. Entries are independent of each other, unless
``clusters`` says which belong together; then whole clusters are the unit. All differences are first minus
second.
"""

import math
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from ragen_bench.stats.intervals import (
    Clusters,
    FloatArray,
    Interval,
    bootstrap_mean,
    cluster_sums,
    wilson,
    wilson_mean,
)
from ragen_bench.stats.permutation import MOST_ASSIGNMENTS, sign_flip_p

__all__ = [
    "PairedResult",
    "compare_rates",
    "enough_resamples",
    "holm",
    "mcnemar_exact",
    "paired_bootstrap",
    "square_and_add",
]


ALPHA: Final = 0.05
"""Significance level: the largest adjusted p-value that is called a difference."""
_RESAMPLES: Final = 10_000
"""Resamples of a test on its own."""


class PairedResult(NamedTuple):
    """The outcome of a paired comparison of policy a with policy b.

    Interval and test are computed by different methods: close to the border one may call a
    difference significant and the other not. The p-value decides, the interval shows the size.

    Attributes:
        difference: Mean of a minus mean of b, with its interval.
        p_value: Two-sided, in (0, 1].
        n: Number of instances.
        a_better: On how many instances a scored more than b.
        b_better: On how many instances b scored more than a.
    """

    difference: Interval
    p_value: float
    n: int
    a_better: int
    b_better: int


def mcnemar_exact(a: npt.ArrayLike, b: npt.ArrayLike) -> PairedResult:
    """Compare two success rates by the exact conditional McNemar test (McNemar 1947).

    Under the null hypothesis each discordant pair is a fair coin, so the p-value is that of a
    two-sided binomial test; it is conservative, and 1 if no pair is discordant. The interval is
    Newcombe's square-and-add of two Wilson intervals with the corrected correlation ("method 10",
    Newcombe 1998, Statistics in Medicine 17:2635); it stays inside [-1, 1].

    Args:
        a: Whether the first policy solved each instance: booleans of shape (n,), n >= 1.
        b: The same for the second policy, of shape (n,).

    Returns:
        The comparison; differences of rates in [-1, 1].
    """
    first, second = (np.asarray(solved, dtype=np.bool_) for solved in (a, b))
    a_only = int(np.count_nonzero(first & ~second))
    b_only = int(np.count_nonzero(second & ~first))
    both = int(np.count_nonzero(first & second))
    discordant = a_only + b_only
    p_value = float(scipy.stats.binomtest(a_only, discordant).pvalue) if discordant else 1.0
    difference = _newcombe(both, a_only, b_only, len(first))
    return PairedResult(difference, p_value, len(first), a_only, b_only)


def compare_rates(
    a: npt.ArrayLike, b: npt.ArrayLike, clusters: Clusters | None, resamples: int = _RESAMPLES
) -> PairedResult:
    """Compare two success rates, by :func:`mcnemar_exact` if the instances are independent.

    With clusters the p-value is that of the sign-flip test on the clusters' sums of differences, and the
    interval is the square-and-add of the two clustered Wilson intervals (Zou & Donner 2008), with the
    correlation of the clusters' residuals, drawn towards 0 if it is positive.

    Args:
        a: Whether the first policy solved each instance: booleans of shape (n,), n >= 1.
        b: The same for the second policy, of shape (n,).
        clusters: Which instances belong together, of shape (n,); None if they are independent.
        resamples: Number of sign-flips, >= 1.

    Returns:
        The comparison; differences of rates in [-1, 1].
    """
    if clusters is None:
        return mcnemar_exact(a, b)
    solved = [np.asarray(each, dtype=np.bool_) for each in (a, b)]
    first, second = (each.astype(np.float64) for each in solved)
    one, other = (wilson_mean(each, clusters=clusters) for each in (first, second))
    left, right = (cluster_sums(each - each.mean(), clusters) for each in (first, second))
    scale = math.sqrt(float((left**2).sum() * (right**2).sum()))
    phi = float(left @ right) / scale if scale else 0.0
    if phi > 0:
        phi *= 1 - 2 / len(left)
    return PairedResult(
        square_and_add(float((first - second).mean()), one, other, phi),
        sign_flip(cluster_sums(first - second, clusters), resamples, np.random.default_rng(0)),
        len(first),
        int(np.count_nonzero(solved[0] & ~solved[1])),
        int(np.count_nonzero(solved[1] & ~solved[0])),
    )


def paired_bootstrap(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    resamples: int = _RESAMPLES,
    *,
    seed: int | np.random.Generator,
    clusters: Clusters | None = None,
) -> PairedResult:
    """Compare two mean returns.

    The interval is the percentile bootstrap of the mean difference over instances. The p-value is that of the
    sign-flip test (Fisher 1935): if both policies are exchangeable on each instance, every difference is as
    likely with the other sign, so the test is valid for any number of instances, where a bootstrap p-value is
    not (for one instance it would be the smallest possible). With success coded as 0 and 1 it estimates the
    p-value of :func:`mcnemar_exact`. The observed signs count as one of the draws (Phipson & Smyth 2010), so
    no p-value is below 1 / (resamples + 1).

    Args:
        a: Return of the first policy on each instance, of shape (n,), n >= 1, finite.
        b: Return of the second policy on the same instances, of shape (n,), in the same unit.
        resamples: Number of bootstrap samples, and of sign-flips, >= 1.
        seed: Seed >= 0, or a generator, which is advanced.
        clusters: Which instances belong together, of shape (n,): they are drawn together and change their
            signs together. None if they are independent.

    Returns:
        The comparison; differences in the unit of the returns.
    """
    first, second = np.array([a, b], np.float64)
    differences = first - second
    rng = np.random.default_rng(seed)
    return PairedResult(
        bootstrap_mean(differences, resamples=resamples, seed=rng, clusters=clusters),
        sign_flip(differences if clusters is None else cluster_sums(differences, clusters), resamples, rng),
        len(first),
        int(np.count_nonzero(differences > 0)),
        int(np.count_nonzero(differences < 0)),
    )


def holm(p_values: npt.ArrayLike) -> FloatArray:
    """Return p-values adjusted for their number by Holm's step-down method (Holm 1979).

    Rejecting where the adjusted value is at most alpha keeps the chance of any false rejection in
    the family at most alpha, however the tests depend on each other.

    Args:
        p_values: The p-values of one family, of shape (m,), in [0, 1]; m may be 0.

    Returns:
        Adjusted p-values in the order of the argument, of shape (m,): never smaller than the
        original, in the same ranking, at most 1.
    """
    raw = np.asarray(p_values, dtype=np.float64)
    return holm_exclusive(raw, np.arange(len(raw)))


def holm_exclusive(p_values: npt.ArrayLike, questions: npt.ArrayLike) -> FloatArray:
    """Return `holm`'s adjusted p-values where of several hypotheses on one question only one can be true.

    An effect cannot be both zero and at least half of what was published. So a p-value is multiplied by the
    number of questions, not of hypotheses, on which something is not rejected yet (Shaffer 1986).

    Args:
        p_values: (m,), in [0, 1].
        questions: (m,), the question that each hypothesis is about.

    Returns:
        Adjusted p-values in the order of the argument, (m,).
    """
    raw, question = np.asarray(p_values, dtype=np.float64), np.asarray(questions)
    order = np.argsort(raw, kind="stable")
    open_questions = [len(np.unique(question[order[step:]])) for step in range(len(raw))]
    adjusted = np.empty_like(raw)
    adjusted[order] = np.minimum(np.maximum.accumulate(raw[order] * open_questions), 1.0)
    return adjusted


def _newcombe(both: int, a_only: int, b_only: int, n: int) -> Interval:
    neither = n - both - a_only - b_only
    first, second = wilson(both + a_only, n), wilson(both + b_only, n)
    association = float(both * neither - a_only * b_only)
    if association > 0:
        association = max(association - n / 2, 0.0)
    margins = math.prod((both + a_only, b_only + neither, both + b_only, a_only + neither))
    phi = association / math.sqrt(margins) if margins else 0.0
    return square_and_add((a_only - b_only) / n, first, second, phi)


def square_and_add(estimate: float, first: Interval, second: Interval, correlation: float) -> Interval:
    """Return the interval for the difference of two correlated rates from the intervals of each."""

    def combine(x: float, y: float) -> float:
        return math.sqrt(max(x * x - 2 * correlation * x * y + y * y, 0.0))

    below = combine(first.estimate - first.low, second.high - second.estimate)
    above = combine(first.high - first.estimate, second.estimate - second.low)
    return Interval(estimate, max(estimate - below, -1.0), min(estimate + above, 1.0))


def sign_flip(differences: FloatArray, resamples: int, rng: np.random.Generator) -> float:
    """Return the two-sided p-value of the sum of differences under random signs (Fisher 1935).

    It is exact where signs have no more combinations than there are draws.

    Args:
        differences: Of independent units, of shape (n,), n >= 1.
        resamples: Number of draws of all signs, >= 1; the observed signs count as one more.
        rng: Draws the signs, unless the p-value is exact.
    """
    moved = differences[differences != 0]
    if len(moved) == 0:
        return 1.0
    if 2 ** len(moved) <= min(resamples, MOST_ASSIGNMENTS):
        return sign_flip_p(moved / np.abs(moved).max())
    # A sum that ties with the observed one must count, whatever the order of summation rounded.
    bound = abs(float(differences.sum())) - 1e-12 * float(np.abs(differences).sum())
    sums = np.zeros(resamples)
    # How many of the equal differences are positive is all that counts, and quicker to draw than their signs.
    for size, count in zip(*np.unique(np.abs(differences), return_counts=True), strict=True):
        if size > 0:
            sums += size * (2.0 * rng.binomial(count, 0.5, resamples) - count)
    return (1 + int(np.count_nonzero(np.abs(sums) >= bound))) / (1 + resamples)


def enough_resamples(comparisons: int) -> int:
    """Return the number of resamples per test that leaves small p-values after Holm's correction.

    The smallest p-value is 1 / (resamples + 1), which is multiplied by the number of comparisons.
    """
    return max(_RESAMPLES, 100 * comparisons)
