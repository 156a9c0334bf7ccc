"""Test each claim on the runs, before other claims are taken into account."""

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import partial
from typing import Final, NamedTuple

import numpy as np
from scipy import stats

from ragen_bench.console.formats import number, percent
from ragen_bench.reproduction.reproduction_config import (
    Column,
    Reproduction,
    ScalarClaim,
    ShareClaim,
    SuccessClaim,
)
from ragen_bench.reproduction.run_measures import VALIDATION, Runs, curve, happened, scalar_of
from ragen_bench.stats.intervals import FloatArray, wilson
from ragen_bench.stats.mixed_effects import (
    Difference,
    mixed_effects_difference,
    mixed_effects_rate_difference,
)
from ragen_bench.stats.permutation import permutation_p, sign_flip_p, smallest_p
from ragen_bench.stats.power import MOST_SEEDS, seeds_for
from ragen_bench.training_sweeps.results import TaskResult
from ragen_bench.training_sweeps.tasks import INITIAL, Choice

ONE_SEED: Final = "at least 2 seeds, to see how much they differ"
_SAME: Final = "if the effect stays as it is"


class Remedy(NamedTuple):
    """The way to decide a claim."""

    text: str = ""
    seeds: int = 0
    """Runs of each setting that it takes; 0 where that is not known or no number is enough."""


def more_runs(done: int, p_at: Callable[[int], float], alpha: float) -> Remedy:
    """Return the number of runs of each setting that decides half of the time if the effect stays as it is.

    ``p_at`` gives the p-value of so many runs.
    """
    more = range(done + 1, MOST_SEEDS + 1)
    needed = next((n for n in more if p_at(n) <= alpha), None)
    if needed is None:
        return Remedy(f"more than {MOST_SEEDS} seeds, {_SAME}")
    return Remedy(f"{needed} seeds, {_SAME}", needed)


def p_of_shift(shift: float, deviation: float, n: int) -> float:
    """Return the p-value of a mean that is ``shift`` away, by Student's test and the exact one of signs.

    ``deviation`` is over the ``n`` runs, of which one or none shows nothing.
    """
    if n < 2 or shift == 0:
        return 1.0
    by_model = float(2 * stats.t.sf(abs(shift) * math.sqrt(n) / deviation, n - 1)) if deviation else 0.0
    return max(by_model, 2.0 ** (1 - n))


def p_of_gap(gap: float, deviations: tuple[float, float], runs: tuple[int, int]) -> float:
    """Return the p-value of two means ``gap`` apart, by Welch's test and the exact permutation of runs.

    ``deviations`` are over the ``runs`` of either side, of which one or none shows nothing.
    """
    if min(runs) < 2 or gap == 0:
        return 1.0
    by_model = 0.0
    if any(deviations):
        test = stats.ttest_ind_from_stats(
            gap, deviations[0], runs[0], 0.0, deviations[1], runs[1], equal_var=False
        )
        by_model = float(test.pvalue)
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


class Finding(NamedTuple):
    """The effect that was seen, and how surprising it is if there is none."""

    favourable: bool
    """Whether what was seen is on the claim's side."""
    p_value: float
    """p-value, two-sided, of no effect; nan where nothing can be tested."""
    paper: str
    ours: str
    seeds: int = 0
    """Runs of each setting; the smaller number where they differ."""
    remedy: Callable[[float], Remedy] = lambda _: Remedy()
    """The way to decide it if it is undecided, by the level at which it must be tested."""
    p_half: float = math.nan
    """p-value of an effect of at least half of the paper's; nan where the paper prints none on that side."""
    gain: str = ""
    """The difference of the gains over the initial models, for success."""
    validation: str = ""
    """The difference on validation levels after training, for success; "" without validation."""


_POINTS: Final = 5.0
"""Difference that is worth finding where the paper prints none, and within which success is about equal."""


def _lacking(runs: Runs, games: Iterable[str], cells: Iterable[str]) -> Remedy | None:
    """Name the cells that have no run on one of the games, as the remedy of a claim."""
    missing = [cell for cell in cells if not all(runs.of(game, cell) for game in set(games))]
    if not missing:
        return None
    return Remedy(f"runs of {' and '.join(dict.fromkeys(missing))}", Choice.seeds)


def success_gap(
    exhibit: Reproduction, claim: SuccessClaim, runs: Runs, over_initial: bool = False
) -> Difference | None:
    """Return the difference of success, or of gains over the initial models; None where one is missing."""
    sides = _success_sides(exhibit, claim, runs, over_initial)
    return None if sides is None else mixed_effects_rate_difference(*sides)


def _success_sides(
    exhibit: Reproduction, claim: SuccessClaim, runs: Runs, over_initial: bool = False
) -> tuple[FloatArray, FloatArray] | None:
    def of(column: Column, cell: str) -> FloatArray | None:
        sample, initial = runs.sample(column, cell), runs.control(column, cell, INITIAL)
        if not over_initial or sample is None:
            return sample
        return None if initial is None else sample - initial

    columns = exhibit.columns_of(claim)
    more, less = (joined([of(column, cell) for column in columns]) for cell in (claim.more, claim.less))
    return None if more is None or less is None else (more, less)


def success_finding(exhibit: Reproduction, claim: SuccessClaim, runs: Runs) -> Finding:
    """Return by how much one cell solves more levels than another."""
    printed = printed_gap(exhibit, claim)
    paper = "" if printed is None else f"{printed:+.1f} points"
    sides = _success_sides(exhibit, claim, runs)
    if sides is None:
        games = [column.train for column in exhibit.columns_of(claim)]
        missing = _lacking(runs, games, (claim.more, claim.less))
        return Finding(False, math.nan, paper, "", remedy=lambda _: missing or Remedy())
    difference = mixed_effects_rate_difference(*sides)
    _, low, high = difference.interval
    gain = success_gap(exhibit, claim, runs, over_initial=True)
    shown = "" if gain is None else _points(gain)
    favourable, seeds = difference.interval.estimate > 0, min(difference.seeds)
    if claim.equal:
        favourable = abs(100 * difference.interval.estimate) < _POINTS
    held_out = _on_validation(exhibit, claim, runs)
    if seeds < 2:
        one = Remedy(ONE_SEED)
        return Finding(
            favourable, math.nan, paper, _points(difference), seeds, lambda _: one, math.nan, shown, held_out
        )
    outside = printed is not None and not low <= printed / 100 <= high
    half, p_value = math.nan, difference.p_value
    if claim.equal:
        p_value = _p_of_equal(sides, favourable)
    elif printed is not None and printed > 0:
        below = mixed_effects_difference(sides[0] - printed / 200, sides[1])
        half = below.p_value if below.interval.estimate < 0 else 1.0

    def remedy(alpha: float) -> Remedy:
        needed = _seeds_needed(difference, abs(printed) if printed else None, alpha)
        text = f"the paper's size is outside the interval; {needed.text}"
        return needed._replace(text=text) if outside and not claim.equal else needed

    return Finding(favourable, p_value, paper, _points(difference), seeds, remedy, half, shown, held_out)


def _on_validation(exhibit: Reproduction, claim: SuccessClaim, runs: Runs) -> str:
    """Return the difference of success in the last validations, which are of other levels than the tests."""
    gaps = []
    for column in exhibit.columns_of(claim):
        sides = [runs.of(column.train, cell) for cell in (claim.more, claim.less)]
        ends = [[curve(run, VALIDATION)[1][-1:] for run in side] for side in sides]
        if column.test != column.train or not all(len(end) for side in ends for end in side):
            return ""
        gaps.append(np.mean(ends[0]) - np.mean(ends[1]))
    return f"{100 * np.mean(gaps):+.1f} points"


def _points(difference: Difference) -> str:
    estimate, low, high = (100 * bound for bound in difference.interval)
    return f"{estimate:+.1f} points [{low:+.1f}, {high:+.1f}]"


def _p_of_equal(sides: tuple[FloatArray, FloatArray], within: bool) -> float:
    """Return the p-value of success that differs by less than five points, or else by more."""
    bounds = [mixed_effects_difference(sides[0] - sign * _POINTS / 100, sides[1]).p_value for sign in (1, -1)]
    return max(bounds) if within else min(bounds)


def joined(samples: Sequence[FloatArray | None]) -> FloatArray | None:
    """Return samples of several tests as one with all their levels, or None if one is missing.

    The mean of a run is that of its tests, as in the paper, and not that of its levels: where tests have
    different numbers of levels, deviations from it are scaled.
    """
    known = [sample for sample in samples if sample is not None]
    if len(known) < len(samples) or not known:
        return None
    seeds = min(len(sample) for sample in known)
    tests = [sample[:seeds] for sample in known]
    if len({test.shape[1] for test in tests}) == 1:
        return np.concatenate(tests, axis=1)
    mean = np.mean([test.mean(axis=1, keepdims=True) for test in tests], axis=0)
    usual = sum(test.shape[1] for test in tests) / len(tests)
    return np.concatenate([mean + usual / t.shape[1] * (t - mean) for t in tests], axis=1)


def printed_gap(exhibit: Reproduction, claim: SuccessClaim) -> float | None:
    """Return the paper's difference in points, mean over columns, or None where it prints none.

    Own questions have none: the paper's was found under other premises.
    """
    if claim.origin == "own":
        return None
    more, less = (exhibit.paper.get(cell) for cell in (claim.more, claim.less))
    if more is None or less is None:
        return None
    columns = range(len(exhibit.columns)) if claim.columns is None else claim.columns
    gaps = [a - b for i in columns if (a := more[i]) is not None and (b := less[i]) is not None]
    return sum(gaps) / len(gaps) if gaps else None


def _seeds_needed(difference: Difference, printed: float | None, alpha: float) -> Remedy:
    """Return the number of seeds that finds a difference with a power of 80%.

    It is the paper's; where the paper prints none, the one that was seen, but at least 5 points.
    """
    done = min(difference.seeds)

    def needed(points: float) -> int | None:
        return seeds_for(points / 100, difference.of_seed, difference.variance.levels, alpha=alpha)

    seen = 100 * abs(difference.interval.estimate)
    points, size = printed or _POINTS, f"{printed or _POINTS:.1f} points"
    if printed is not None:
        size = f"the paper's {size}"
    elif seen > _POINTS:
        points, size = seen, f"the {seen:.1f} points seen"
    seeds = needed(points)
    if seeds is None:
        return Remedy(f"more levels: no number of seeds finds {size} on these")
    if seeds > done:
        return Remedy(f"{seeds} seeds to find {size} with 80% power", seeds)
    would = f"these seeds would have found {size} with 80% power"
    smaller = needed(_POINTS) if points > _POINTS else None
    if smaller is None or smaller <= done:
        return Remedy(would)
    return Remedy(f"{would}; {smaller} seeds to find {_POINTS:.1f}", smaller)


FLAT: Final = 0.3
"""A correlation is about zero if it is closer to it than this, Cohen's medium size (1988, section 3.2)."""
_LONGER: Final = "longer runs"
_CHANGES: Final = {
    "thought": " of the length", "reply": " of the tokens", "deviation": "", "kept": " of the groups"
}  # fmt: skip
"""Scalars that are logarithms of a ratio, and what follows the percentage."""
_CORRELATIONS: Final = (
    "information-success", "entropy-success", "information-over-entropy",
    "policy-rise", "entropy-rise", "divergence-rise",
)  # fmt: skip


def scalar_finding(claim: ScalarClaim, runs: Runs) -> Finding:
    """Compare a number of the runs with another cell's, or with zero."""
    cells = [cell for cell in (claim.more, claim.less) if cell is not None]
    numbers = _sides(claim, [runs.of(claim.train, cell) for cell in cells])
    sides = [values[np.isfinite(values)] for values in numbers]
    if not all(map(len, sides)):
        return _unknown(claim, _lacking(runs, (claim.train,), cells))
    means = [float(values.mean()) for values in sides]
    ours = " against ".join(map(partial(_shown, claim), sides, map(len, numbers)))
    seeds = min(map(len, sides))
    if claim.flat:
        favourable, p_value = abs(means[0]) < FLAT, _p_of_distance(sides[0])
    elif len(sides) == 1:
        favourable = means[0] > 0 if claim.more is not None else means[0] < 0
        p_value = _p_of_mean(sides[0])
    else:
        favourable, p_value = means[0] > means[1], _p_of_means(sides[0], sides[1])
    fewest = min(map(len, numbers))
    if seeds < 2:
        needed = Remedy(ONE_SEED if fewest < 2 else _LONGER)
        return Finding(favourable, math.nan, claim.paper, ours, seeds, lambda _: needed)
    half = _p_of_half(claim, sides[0])
    p_at = partial(_p_at, claim, sides, list(map(len, numbers)))
    return Finding(favourable, p_value, claim.paper, ours, seeds, partial(more_runs, fewest, p_at), half)


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


def _p_at(claim: ScalarClaim, sides: Sequence[FloatArray], done: Sequence[int], n: int) -> float:
    """Return the p-value of ``n`` runs that have the number as often, with the same means and spread.

    It is that of the verdict: where the effect is below half of the paper's, also of the test of that half.
    ``done`` are the runs by cell, also those without the number; where they are more than ``n``, they count.
    """
    means, deviations = [float(s.mean()) for s in sides], [float(s.std(ddof=1)) for s in sides]
    counts = [_as_often(len(s), all_, n) for s, all_ in zip(sides, done, strict=True)]
    if len(sides) == 2:
        return p_of_gap(means[0] - means[1], (deviations[0], deviations[1]), (counts[0], counts[1]))
    shift = FLAT - abs(means[0]) if claim.flat else means[0]
    half = _half_above(claim, means[0])
    shifts = [shift] if half is None else [shift, half - means[0]]
    return min(p_of_shift(each, deviations[0], counts[0]) for each in shifts)


def _unknown(claim: ScalarClaim, missing: Remedy | None) -> Finding:
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
    if claim.scalar in ("peak", "first-move"):
        return f"{percent(value)}%"
    return number(value) + (" s" if claim.scalar == "seconds" else "")


def share_finding(claim: ShareClaim, runs: Runs) -> Finding:
    """Return in how many runs something happened, compared with another cell's, or with half of them."""
    results = runs.of(claim.train, claim.cell)
    cells = [claim.cell, *([claim.less] if claim.less else [])]
    if missing := _lacking(runs, (claim.train,), cells):
        return Finding(False, math.nan, "", "", remedy=lambda _: missing)
    count, able = _counted(claim, results)
    if not able:
        none = f"in none of {len(results)} runs it could"
        return Finding(False, math.nan, "", none, len(results), lambda _: Remedy(_LONGER))
    if claim.less is not None:
        return _compared(claim, runs, count, able)
    share = wilson(count, able)
    ours = f"{count} of {able} runs [{percent(share.low)}%, {percent(share.high)}%]"
    p_value = float(stats.binomtest(count, able).pvalue)
    favourable = (count > able / 2) == claim.most

    def p_at(n: int) -> float:
        return p_of_share(Fraction(count, able), _as_often(able, len(results), n))

    return Finding(favourable, p_value, "", ours, len(results), partial(more_runs, len(results), p_at))


def _compared(claim: ShareClaim, runs: Runs, count: int, able: int) -> Finding:
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


def _as_often(able: int, done: int, n: int) -> int:
    """Return the number of ``n`` runs that can tell, if it is as usual as in those that were done.

    Where more than ``n`` were done, they stay.
    """
    return able * max(n, done) // done


def _counted(claim: ShareClaim, results: Sequence[TaskResult]) -> tuple[int, int]:
    """Return in how many runs it happened, and in how many it could have."""
    able = [one for r in results if (one := happened(r, claim.event)) is not None]
    return sum(able), len(able)
