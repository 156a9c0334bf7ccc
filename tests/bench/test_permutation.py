"""Tests over seeds that do not rest on normal effects: against brute force, and on runs that collapse."""

import math
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ragen_bench.stats.mixed_effects import mixed_effects_difference
from ragen_bench.stats.permutation import permutation_p, sign_flip_p, smallest_p
from ragen_bench.stats.power import Design, power_of_seeds

ROUNDS = 300
SIDE = st.lists(st.integers(0, 4).map(float), min_size=1, max_size=4)


def slow_permutation(a, b):
    pooled = a + b
    seen = abs(math.fsum(a) / len(a) - math.fsum(b) / len(b))
    extreme = count = 0
    for chosen in combinations(range(len(pooled)), len(a)):
        first = [pooled[i] for i in chosen]
        second = [pooled[i] for i in range(len(pooled)) if i not in chosen]
        gap = abs(math.fsum(first) / len(first) - math.fsum(second) / len(second))
        extreme += gap >= seen - 1e-9
        count += 1
    return extreme / count


@given(SIDE, SIDE)
def test_the_permutation_is_that_of_a_slow_count(a, b):
    assert permutation_p(a, b) == pytest.approx(slow_permutation(a, b))


@given(SIDE)
def test_signs_are_flipped_in_all_ways(values):
    sums = [
        abs(math.fsum(s * v for s, v in zip(signs, values, strict=True)))
        for signs in product((-1, 1), repeat=len(values))
    ]
    expected = np.mean([each >= abs(math.fsum(values)) - 1e-9 for each in sums])
    assert sign_flip_p(values) == pytest.approx(expected)


@pytest.mark.parametrize(("seeds", "expected"), [(2, 1 / 3), (3, 0.1), (5, 2 / 252), (6, 2 / 924)])
def test_no_p_value_is_below_what_the_seeds_allow(seeds, expected):
    assert smallest_p(seeds, seeds) == pytest.approx(expected)
    sure, never = np.ones((seeds, 64)), np.zeros((seeds, 64))
    found = mixed_effects_difference(sure, never)
    assert found.p_value == pytest.approx(expected)


def test_unequal_numbers_of_seeds():
    assert smallest_p(2, 3) == 0.1
    assert permutation_p([5.0, 6.0], [0.0, 1.0, 2.0]) == pytest.approx(0.1)


def test_too_many_assignments_are_drawn():
    rng = np.random.default_rng(0)
    a, b = rng.normal(0, 1, 14), rng.normal(0, 1, 14)
    from scipy import stats

    assert permutation_p(a, b) == pytest.approx(stats.ttest_ind(a, b).pvalue, abs=0.02)


def collapsing(rng, seeds, levels, chance=0.5):
    """Runs of which each either keeps 60% or has collapsed to 2%."""
    rates = np.where(rng.random((seeds, 1)) < chance, 0.02, 0.6)
    return (rng.random((seeds, levels)) < rates).astype(float)


@pytest.mark.parametrize("seeds", [3, 5, 6])
@pytest.mark.parametrize("level", [0.05, 0.005])
def test_runs_that_learn_or_collapse_are_rarely_told_apart(seeds, level):
    """Student's test alone finds p below 0.001 in two of a hundred such comparisons of three runs."""
    rng = np.random.default_rng(8)
    found = [
        mixed_effects_difference(collapsing(rng, seeds, 64), collapsing(rng, seeds, 64)).p_value
        for _ in range(ROUNDS)
    ]
    assert np.mean([p <= level for p in found]) <= level + 2.5 * math.sqrt(level / ROUNDS)


def test_holms_family_error_holds_for_runs_that_collapse():
    """Five comparisons of five runs each; without the permutation the family error is several times 5%."""
    from ragen_bench.stats.paired import holm

    rng = np.random.default_rng(9)
    wrong = 0
    for _ in range(300):
        ps = [
            mixed_effects_difference(collapsing(rng, 5, 32), collapsing(rng, 5, 32)).p_value for _ in range(5)
        ]
        wrong += min(holm(ps)) <= 0.05
    assert wrong / 300 <= 0.08


@pytest.mark.parametrize("seeds", [3, 4, 5])
def test_power_is_that_of_simulated_training_runs(seeds):
    """Of the whole test, on outcomes that are 0 or 1: 3 against 3 finds nothing at all."""
    rng = np.random.default_rng(10)
    design = Design(seeds, 128, rate=0.4, seed_sd=0.04, correlation=0.0)
    effect = 0.15
    found = 0
    for _ in range(ROUNDS):
        sides = [
            rng.random((seeds, 128)) < np.clip(rng.normal(rate, 0.04, (seeds, 1)), 0, 1)
            for rate in (0.4 + effect, 0.4)
        ]
        test = mixed_effects_difference(*(side.astype(float) for side in sides))
        found += test.p_value <= 0.05 and test.interval.estimate > 0
    assert design.power(effect) == pytest.approx(found / ROUNDS, abs=0.08)
    if seeds == 3:
        assert found == design.power(effect) == 0


def test_a_level_below_what_seeds_allow_is_never_reached():
    assert power_of_seeds(1.0, 0.001, 5, alpha=0.05 / 7) == 0.0
    assert power_of_seeds(1.0, 0.001, 6, alpha=0.05 / 7) == pytest.approx(1.0)
