"""Claims that one cell solves more test levels than another."""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from ragen_bench.reproduction.findings import Finding
from ragen_bench.reproduction.measurements import Runs
from ragen_bench.reproduction.remedies import ONE_SEED, Remedy
from ragen_bench.reproduction.reproduction_config import Reproduction, SuccessClaim
from ragen_bench.stats.intervals import FloatArray
from ragen_bench.stats.mixed_effects import (
    Difference,
    mixed_effects_difference,
    mixed_effects_rate_difference,
)
from ragen_bench.stats.power import seeds_for

_POINTS: Final = 5.0
"""Difference that is worth finding where the paper prints none."""


def success_finding(what: Reproduction, claim: SuccessClaim, runs: Runs) -> Finding:
    """Return by how much one cell solves more levels than another."""
    columns = range(len(what.columns)) if claim.columns is None else claim.columns
    sides = [
        joined([runs.sample(what.columns[i], cell) for i in columns])
        for cell in (claim.more, claim.less)
    ]
    printed = _printed(what, claim, columns)
    paper = "" if printed is None else f"{printed:+.1f} points"
    if sides[0] is None or sides[1] is None:
        games = [what.columns[i].train for i in columns]
        missing = runs.lacking(games, (claim.more, claim.less))
        return Finding(False, math.nan, paper, "", remedy=lambda _: missing or Remedy())
    found = mixed_effects_rate_difference(sides[0], sides[1])
    low, high = (100 * bound for bound in found.interval[1:])
    ours = f"{100 * found.interval.estimate:+.1f} points [{low:+.1f}, {high:+.1f}]"
    favourable = found.interval.estimate > 0
    seeds = min(found.seeds)
    if seeds < 2:
        return Finding(favourable, math.nan, paper, ours, seeds, lambda _: Remedy(ONE_SEED))
    outside = printed is not None and not low <= printed <= high
    half = math.nan
    if printed is not None and printed > 0:
        below = mixed_effects_difference(sides[0] - printed / 200, sides[1])
        half = below.p_value if below.interval.estimate < 0 else 1.0

    def remedy(alpha: float) -> Remedy:
        needed = _seeds_needed(found, abs(printed) if printed else None, alpha)
        text = f"the paper's size is outside the interval; {needed.text}"
        return needed._replace(text=text) if outside else needed

    return Finding(favourable, found.p_value, paper, ours, seeds, remedy, half)


def joined(samples: Sequence[FloatArray | None]) -> FloatArray | None:
    """Return samples of several tests as one with all their levels, or None if one is missing.

    The mean of a run is that of its tests, as in the paper, and not that of its levels: where tests have
    different numbers of levels, deviations from it are scaled.
    """
    there = [sample for sample in samples if sample is not None]
    if len(there) < len(samples) or not there:
        return None
    seeds = min(len(sample) for sample in there)
    tests = [sample[:seeds] for sample in there]
    if len({test.shape[1] for test in tests}) == 1:
        return np.concatenate(tests, axis=1)
    mean = np.mean([test.mean(axis=1, keepdims=True) for test in tests], axis=0)
    usual = sum(test.shape[1] for test in tests) / len(tests)
    return np.concatenate([mean + usual / t.shape[1] * (t - mean) for t in tests], axis=1)


def _printed(what: Reproduction, claim: SuccessClaim, columns: Sequence[int]) -> float | None:
    """Return the paper's difference in points, mean over columns, or None where it prints none."""
    rows = [what.paper.get(cell) for cell in (claim.more, claim.less)]
    if rows[0] is None or rows[1] is None:
        return None
    gaps = [
        a - b for i in columns if (a := rows[0][i]) is not None and (b := rows[1][i]) is not None
    ]
    return sum(gaps) / len(gaps) if gaps else None


def _seeds_needed(found: Difference, printed: float | None, alpha: float) -> Remedy:
    """Return how many seeds find a difference with a power of 80%.

    It is the paper's; where the paper prints none, the one that was seen, but at least 5 points.
    """
    there = min(found.seeds)

    def needed(points: float) -> int | None:
        return seeds_for(points / 100, found.of_seed, found.variance.levels, alpha=alpha)

    seen = 100 * abs(found.interval.estimate)
    points, size = printed or _POINTS, f"{printed or _POINTS:.1f} points"
    if printed is not None:
        size = f"the paper's {size}"
    elif seen > _POINTS:
        points, size = seen, f"the {seen:.1f} points seen"
    seeds = needed(points)
    if seeds is None:
        return Remedy(f"more levels: no number of seeds finds {size} on these")
    if seeds > there:
        return Remedy(f"{seeds} seeds to find {size} with 80% power", seeds)
    would = f"these seeds would have found {size} with 80% power"
    smaller = needed(_POINTS) if points > _POINTS else None
    if smaller is None or smaller <= there:
        return Remedy(would)
    return Remedy(f"{would}; {smaller} seeds to find {_POINTS:.1f}", smaller)
