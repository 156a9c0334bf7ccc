"""Compute the seeds and levels that show a difference of a given size, by the tests of comparisons.

Of training runs this is the test of `mixed_effects_difference`, of two fixed models that of `compare_rates`.
"""

import math
from bisect import bisect_left
from collections.abc import Callable
from functools import lru_cache
from itertools import combinations
from typing import Final, NamedTuple

import numpy as np
import pandas as pd
from scipy import optimize, stats

from ragen_bench.stats.intervals import FloatArray
from ragen_bench.stats.paired import ALPHA
from ragen_bench.stats.permutation import smallest_p

__all__ = [
    "Design",
    "plan_designs",
    "plan_levels",
    "power_of_seeds",
    "seeds_for",
    "smallest_effect",
]

MOST_SEEDS = 1000
POWER: Final = 0.8
"""Chance with which a difference is to be found."""

_NEAR_FLOOR: Final = 50.0
"""Above so many times the smallest p-value of a permutation, the permutation costs hardly any power."""
_MOST_PERMUTED: Final = 10
"""Seeds of a setting above which it hardly ever does; more permutations would take long."""
_DRAWS: Final = 2000
_ROUNDING: Final = 1e-9


class Design(NamedTuple):
    """A planned comparison of two settings."""

    seeds: int
    """Training runs of each setting; 1 where two fixed models are compared."""
    levels: int
    """Different levels on which each run is tested, the same ones; episodes of one level count as one."""
    rate: float = 0.2
    """Success rate of the worse setting, in (0, 1) (the paper's tables: 0.2)."""
    seed_sd: float = 0.03
    """Standard deviation of the true success rate over seeds; 0 compares two fixed models."""
    correlation: float = 0.3
    """Correlation of two runs' outcomes on the same level: easy levels are easy for both."""

    def error(self, effect: float) -> float:
        """Return the standard error of the difference of two settings that truly differ by an effect."""
        chance = (
            self.rate * (1 - self.rate)
            + (self.rate + effect) * (1 - self.rate - effect)
            - 2 * self._covariance(effect)
        )
        return math.sqrt((2 * self.seed_sd**2 + chance / self.levels) / self.seeds)

    def power(self, effect: float) -> float:
        """Return the probability of detecting a true effect at the level 5%; 0 if it is impossible."""
        if self.rate + effect > 1:
            return 0.0
        if self.seed_sd > 0:
            return power_of_seeds(effect, self.error(effect), self.seeds)
        return self._power_of_mcnemar(effect)

    def _covariance(self, effect: float) -> float:
        """Return the covariance of both outcomes of a level, at most what the rates allow."""
        better = self.rate + effect
        spread = self.rate * (1 - self.rate) * better * (1 - better)
        return min(self.correlation * math.sqrt(spread), self.rate * (1 - better))

    def _power_of_mcnemar(self, effect: float) -> float:
        """Return the exact power of `mcnemar_exact` for two models that play each level once."""
        both = self.rate * (self.rate + effect) + self._covariance(effect)
        worse, better = self.rate - both, self.rate + effect - both
        pairs = np.arange(self.levels + 1)
        enough = stats.binom.isf(ALPHA / 2, pairs, 0.5)  # more wins than that among the discordant pairs
        wins = stats.binom.sf(enough, pairs, better / (better + worse))
        return float(stats.binom.pmf(pairs, self.levels, better + worse) @ wins)


def power_of_seeds(effect: float, error: float, seeds: int, alpha: float = ALPHA) -> float:
    """Return the chance that Student's test and the exact permutation both find a true effect.

    Args:
        effect: The true difference, >= 0.
        error: Standard error of its estimate, > 0, all of it from seeds.
        seeds: Of each setting, >= 1.
        alpha: Level of the test.
    """
    floor = smallest_p(seeds, seeds)
    if seeds < 2 or alpha < floor:
        return 0.0
    if seeds > _MOST_PERMUTED or alpha >= _NEAR_FLOOR * floor:
        return power_of(effect, error, 2.0 * (seeds - 1), alpha)
    return float(np.mean(_enough(seeds, alpha) <= effect / error))


@lru_cache(maxsize=64)
def _enough(seeds: int, alpha: float) -> FloatArray:
    """Return the effect, in standard errors, from which on both tests find it, for each of many experiments.

    An effect raises the mean of one setting, so in one experiment larger effects are found too.
    """
    noise = np.random.default_rng(0).standard_normal((_DRAWS, 2 * seeds))
    a, b = noise[:, :seeds], noise[:, seeds:]
    unit = math.sqrt(2 / seeds)  # the standard error
    errors = np.sqrt((a.var(axis=1, ddof=1) + b.var(axis=1, ddof=1)) / seeds)
    critical = stats.t.ppf(1 - alpha / 2, 2 * (seeds - 1))
    by_model = (critical * errors - a.mean(axis=1) + b.mean(axis=1)) / unit
    enough: FloatArray = np.maximum(by_model, _enough_permuted(noise, seeds, alpha) / unit)
    return enough


def _enough_permuted(noise: FloatArray, seeds: int, alpha: float) -> FloatArray:
    """Return from which rise of the first setting on the exact permutation finds it, by row.

    An assignment exchanges k runs of the settings. It counts against the rise up to the difference of the
    means of those runs, where the real one overtakes it, and its mirror image with it.
    """
    allowed = math.floor(alpha * math.comb(2 * seeds, seeds) / 2 * (1 + _ROUNDING))
    # With both sorted, the sum at ranks i and j is among the n largest only if (i + 1) (j + 1) <= n.
    pairs = np.array([(i, j) for i in range(allowed) for j in range(allowed // (i + 1))])
    rises = []
    for count in range(1, seeds + 1):
        runs = np.array(list(combinations(range(seeds), count)))
        leaving = np.sort(noise[:, :seeds][:, runs].mean(axis=2), axis=1)
        coming = np.sort(noise[:, seeds:][:, runs].mean(axis=2), axis=1)[:, ::-1]
        i, j = pairs[(pairs < len(runs)).all(axis=1)].T
        rises.append(coming[:, i] - leaving[:, j])
    largest: FloatArray = np.partition(np.concatenate(rises, axis=1), -allowed, axis=1)[:, -allowed]
    return largest


def power_of(effect: float, error: float, freedom: float, alpha: float = ALPHA) -> float:
    """Return the chance that a two-sided t-test finds a true effect, in its own direction.

    Args:
        effect: The true difference, >= 0.
        error: Standard error of its estimate, > 0.
        freedom: Degrees of freedom, > 0.
        alpha: Level of the test.
    """
    critical = stats.t.ppf(1 - alpha / 2, freedom)
    return float(stats.nct.sf(critical, freedom, effect / error))


def _first(counts: range, enough: Callable[[int], bool]) -> int | None:
    """Return the first count that is enough, as all larger ones are, or None."""
    place = bisect_left(counts, True, key=enough)
    return counts[place] if place < len(counts) else None


def smallest_effect(design: Design) -> float:
    """Return the smallest difference that a design finds with `POWER`, infinite if there is none."""

    def lacking(effect: float) -> float:
        return design.power(effect) - POWER

    largest = min(100 * design.error(0.0), 1 - design.rate)
    if lacking(largest) < 0:
        return math.inf
    return float(optimize.brentq(lacking, 1e-9, largest, xtol=1e-6))


def seeds_for(effect: float, of_seeds: float, of_levels: float = 0.0, alpha: float = ALPHA) -> int | None:
    """Return the number of seeds that a setting needs to find a difference.

    Args:
        effect: The true difference, > 0.
        of_seeds: Variance that one seed of both settings gives the difference, >= 0; n seeds give 1/n.
        of_levels: Variance that does not become less with seeds, >= 0.
        alpha: Level of the test.

    Returns:
        The number, at least 2, or None where not even `MOST_SEEDS` are enough: it takes more levels.
    """

    def enough(seeds: int) -> bool:
        error = math.sqrt(of_seeds / seeds + of_levels)
        if error == 0:
            return smallest_p(seeds, seeds) <= alpha
        return power_of_seeds(effect, error, seeds, alpha) >= POWER

    return _first(range(2, MOST_SEEDS + 1), enough)


_LEVELS = (64, 128, 256, 512, 1024, 2048)
_SEEDS = (4, 5, 10, 20)


def plan_designs(effect: float, base: Design) -> pd.DataFrame:
    """Return a row for each number of levels, for a difference of the given size.

    Columns: ``levels``; ``seeds_needed`` of each setting to find the effect with a power of 80%, 0 where
    it takes more than `MOST_SEEDS`; ``finds_N``, the smallest difference that N seeds find.
    """
    rows = []
    for levels in _LEVELS:
        here = base._replace(levels=levels)
        smallest = {f"finds_{n}": smallest_effect(here._replace(seeds=n)) for n in _SEEDS}
        rows.append({"levels": levels, "seeds_needed": _fewest(effect, here), **smallest})
    return pd.DataFrame(rows)


def plan_levels(effect: float, base: Design) -> pd.DataFrame:
    """Return a row for each number of levels that two fixed models play once (``base.seed_sd`` is 0).

    Columns: ``levels``; ``power``, the chance to find the effect; ``finds``, the smallest difference that
    is found with a power of 80%, infinite if there is none.
    """
    designs = [base._replace(seeds=1, levels=levels) for levels in _LEVELS]
    rows = [(d.levels, d.power(effect), smallest_effect(d)) for d in designs]
    return pd.DataFrame(rows, columns=["levels", "power", "finds"])


def _fewest(effect: float, design: Design) -> int:
    """Return the fewest seeds that find an effect with a power of 80%, 0 if they are too many."""
    seeds = range(2, MOST_SEEDS + 1)
    return _first(seeds, lambda n: design._replace(seeds=n).power(effect) >= POWER) or 0
