"""Claims about numbers and events of single runs."""

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from typing import Final

import numpy as np
from scipy import stats

from ragen_bench.console.formats import number, percent
from ragen_bench.reproduction.findings import Finding
from ragen_bench.reproduction.measurements import Runs
from ragen_bench.reproduction.remedies import (
    ONE_SEED,
    Remedy,
    more_runs,
    p_of_gap,
    p_of_share,
    p_of_shares,
    p_of_shift,
)
from ragen_bench.reproduction.reproduction_config import ScalarClaim, ShareClaim
from ragen_bench.reproduction.run_measures import happened, scalar_of
from ragen_bench.stats.intervals import FloatArray, wilson
from ragen_bench.stats.permutation import permutation_p, sign_flip_p
from ragen_bench.sweeps.results import TaskResult

FLAT: Final = 0.3
"""A correlation is about zero if it is closer to it than this, Cohen's medium size (1988, section 3.2)."""
_LONGER: Final = "longer runs"
_CHANGES: Final = {
    "thought": " of the length", "reply": " of the tokens", "deviation": "", "kept": " of the groups"
}  # fmt: skip
"""Scalars that are logarithms of a ratio, and what follows the percentage."""
_CORRELATIONS: Final = (
    "information-success", "entropy-success", "information-over-entropy",
    "policy-rise", "entropy-rise", "divergence-rise", "policy-over-entropy",
)  # fmt: skip
_SHARES: Final = ("peak", "last", "clipped")
_SETTLED: Final = ("updates", "clipped")
"""Scalars that can follow from the settings alone; if one is the same in all runs, that is not chance."""


def scalar_finding(claim: ScalarClaim, runs: Runs) -> Finding:
    """Return how large a number of the runs is, compared with another cell's, or with zero."""
    cells = [cell for cell in (claim.more, claim.less) if cell is not None]
    there = _sides(claim, [runs.of(claim.train, cell) for cell in cells])
    sides = [values[np.isfinite(values)] for values in there]
    if not all(map(len, sides)):
        return _unknown(claim, runs.lacking((claim.train,), cells))
    means = [float(values.mean()) for values in sides]
    ours = " against ".join(map(partial(_shown, claim), sides, map(len, there)))
    seeds = min(map(len, sides))
    if claim.flat:
        favourable, p_value = abs(means[0]) < FLAT, _p_of_distance(sides[0])
    elif len(sides) == 1:
        favourable = means[0] > 0 if claim.more is not None else means[0] < 0
        p_value = _p_of_mean(sides[0])
    else:
        favourable, p_value = means[0] > means[1], _p_of_means(sides[0], sides[1])
    if claim.scalar in _SETTLED and not any(map(np.ptp, sides)):
        p_value = float(len(sides) == 2 and means[0] == means[1])
    fewest = min(map(len, there))
    if seeds < 2:
        needed = Remedy(ONE_SEED if fewest < 2 else _LONGER)
        return Finding(favourable, math.nan, claim.paper, ours, seeds, lambda _: needed)
    half = _p_of_half(claim, sides[0])

    def remedy(alpha: float) -> Remedy:
        return more_runs(fewest, partial(_p_at, claim, sides, list(map(len, there))), alpha)

    return Finding(favourable, p_value, claim.paper, ours, seeds, remedy, half)


def _sides(claim: ScalarClaim, cells: Sequence[Sequence[TaskResult]]) -> list[FloatArray]:
    """Return the numbers of the runs by cell.

    Times are those of seeds that were timed in all cells: a sweep takes over runs of another without their
    times, because those of another command are not comparable.
    """
    numbers = [{r.task.seed: scalar_of(r, claim.scalar) for r in results} for results in cells]
    if claim.scalar == "seconds":
        timed = [{seed for seed, each in cell.items() if math.isfinite(each)} for cell in numbers]
        both = set.intersection(*timed)
        numbers = [{seed: cell[seed] for seed in cell if seed in both} for cell in numbers]
    return [np.array(list(cell.values())) for cell in numbers]


def _p_at(claim: ScalarClaim, sides: Sequence[FloatArray], there: Sequence[int], n: int) -> float:
    """Return the p-value of ``n`` runs that have the number as often, with the same means and spread.

    It is that of the verdict: where the effect is below half of the paper's, also of the test of that half.

    Args:
        claim: The claim.
        sides: The numbers of the runs by cell.
        there: Runs by cell, also those without the number.
        n: Runs of each cell, or those that are there if they are more.
    """
    means, deviations = [float(s.mean()) for s in sides], [float(s.std(ddof=1)) for s in sides]
    counts = [_as_often(len(s), all_, n) for s, all_ in zip(sides, there, strict=True)]
    if len(sides) == 2:
        return p_of_gap(means[0] - means[1], (deviations[0], deviations[1]), (counts[0], counts[1]))
    shift = FLAT - abs(means[0]) if claim.flat else means[0]
    half = _half_above(claim, means[0])
    shifts = [shift] if half is None else [shift, half - means[0]]
    return min(p_of_shift(each, deviations[0], counts[0]) for each in shifts)


def _unknown(claim: ScalarClaim, missing: Remedy | None) -> Finding:
    """Return what is known without the numbers."""
    if claim.scalar != "seconds" or missing:
        needed = missing or Remedy(_LONGER)
        return Finding(False, math.nan, claim.paper, "", remedy=lambda _: needed)
    needed = Remedy("all cells in one command, with --results of their own")
    return Finding(False, math.nan, claim.paper, "timed in other commands", 0, lambda _: needed)


def _p_of_means(a: FloatArray, b: FloatArray) -> float:
    """Return the p-value of Welch's test, or of the exact permutation of the runs where that is larger."""
    if np.ptp(a) == 0 and np.ptp(b) == 0:
        return permutation_p(a, b)
    by_model = float(stats.ttest_ind(a, b, equal_var=False).pvalue)
    return max(by_model, permutation_p(a, b))


def _p_of_mean(values: FloatArray, about: float = 0.0) -> float:
    """Return the p-value of Student's test against a number, or of the exact one of signs if it is larger."""
    exact = sign_flip_p(values - about)
    if np.ptp(values) == 0:
        return exact
    return max(float(stats.ttest_1samp(values, about).pvalue), exact)


def _p_of_distance(values: FloatArray) -> float:
    """Return the p-value of a mean that lies within the bounds of `FLAT`, or else of one outside."""
    if abs(values.mean()) < FLAT:
        return max(_p_of_mean(values, FLAT), _p_of_mean(values, -FLAT))
    return _p_of_mean(values, math.copysign(FLAT, values.mean()))


def _p_of_half(claim: ScalarClaim, values: FloatArray) -> float:
    """Return the p-value of an effect of half of the paper's or more; nan where the paper prints none."""
    if claim.effect is None:
        return math.nan
    half = _half_above(claim, float(values.mean()))
    return 1.0 if half is None else _p_of_mean(values, half)


def _half_above(claim: ScalarClaim, mean: float) -> float | None:
    """Return half of the paper's effect if it prints one and the mean is smaller than that half."""
    if claim.effect is None:
        return None
    half = claim.effect / 2
    if claim.scalar in _CHANGES:
        half = math.log1p(half)
    return half if (mean < half) == (half > 0) else None


def _shown(claim: ScalarClaim, values: FloatArray, runs: int) -> str:
    """Return the mean, and of how many runs it is where others have no such number."""
    mean = _with_unit(claim, float(values.mean()))
    return mean if len(values) == runs else f"{mean} in {len(values)} of {runs} runs"


def _with_unit(claim: ScalarClaim, value: float) -> str:
    if claim.scalar in _CHANGES:
        return f"{round(100 * math.expm1(value)):+d}%{_CHANGES[claim.scalar]}"
    if claim.scalar in _CORRELATIONS:
        return f"{value:+.2f}"
    if claim.scalar == "template":
        return f"{100 * value:+.1f} points"
    if claim.scalar in _SHARES:
        return f"{percent(value)}%"
    return number(value) + (" s" if claim.scalar == "seconds" else "")


def share_finding(claim: ShareClaim, runs: Runs) -> Finding:
    """Return in how many runs something happened, compared with another cell's, or with half of them."""
    results = runs.of(claim.train, claim.cell)
    cells = [claim.cell, *([claim.less] if claim.less else [])]
    if missing := runs.lacking((claim.train,), cells):
        return Finding(False, math.nan, "", "", remedy=lambda _: missing)
    count, able = _counted(claim, results)
    if not able:
        none = f"none of {len(results)} runs collapsed"
        return Finding(False, math.nan, "", none, len(results), lambda _: Remedy(_LONGER))
    if claim.less is not None:
        return _compared(claim, runs, count, able)
    share = wilson(count, able)
    ours = f"{count} of {able} runs [{percent(share.low)}%, {percent(share.high)}%]"
    p_value = float(stats.binomtest(count, able).pvalue)
    favourable = (count > able / 2) == claim.most

    def p_at(n: int) -> float:
        return p_of_share(Fraction(count, able), _as_often(able, len(results), n))

    def remedy(alpha: float) -> Remedy:
        return more_runs(len(results), p_at, alpha)

    return Finding(favourable, p_value, "", ours, len(results), remedy)


def _compared(claim: ShareClaim, runs: Runs, count: int, able: int) -> Finding:
    """Return the finding on two cells, by Fisher's exact test."""
    results, others = runs.of(claim.train, claim.cell), runs.of(claim.train, claim.less or "")
    fewer, among = _counted(claim, others)
    ours = f"{count} of {able} runs against {fewer} of {among}"
    table = np.array([[count, able - count], [fewer, among - fewer]])
    p_value = float(stats.fisher_exact(table).pvalue) if among else math.nan
    favourable = bool(among) and count / able > fewer / among
    seeds = min(len(results), len(others))

    def p_at(n: int) -> float:
        shares = (Fraction(count, able), Fraction(fewer, max(among, 1)))
        more = (_as_often(able, len(results), n), _as_often(among, len(others), n))
        return p_of_shares(shares, more)

    def remedy(alpha: float) -> Remedy:
        if not count and not fewer:
            return Remedy("a setting in which it happens at all")
        return more_runs(seeds, p_at, alpha)

    return Finding(favourable, p_value, "", ours, seeds, remedy)


def _as_often(able: int, there: int, n: int) -> int:
    """Return how many of ``n`` runs can tell, if that is as usual as in those that are there.

    Where more than ``n`` are there, they stay.
    """
    return able * max(n, there) // there


def _counted(claim: ShareClaim, results: Sequence[TaskResult]) -> tuple[int, int]:
    """Return in how many runs it happened, and in how many it could have."""
    able = [one for r in results if (one := happened(r, claim.event)) is not None]
    return sum(able), len(able)
