"""Intervals and tests over seeds and levels, on synthetic data whose truth is known."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ragen_bench.stats.mixed_effects import (
    distinct_levels,
    mixed_effects_difference,
    mixed_effects_rate,
    mixed_effects_rate_difference,
)
from ragen_bench.stats.power import Design, power_of, power_of_seeds, seeds_for, smallest_effect

ROUNDS = 300


def runs(rng, seeds, levels, seed_sd, level_sd, shift=0.0, ease=None):
    """Outcomes of training runs: a logistic model with an effect of the seed and one of the level."""
    easy = rng.normal(0, level_sd, levels) if ease is None else ease
    logit = -1 + shift + rng.normal(0, seed_sd, (seeds, 1)) + easy
    return (rng.random((seeds, levels)) < 1 / (1 + np.exp(-logit))).astype(float)


def true_rate(seed_sd, level_sd):
    rng = np.random.default_rng(99)
    both = rng.normal(0, math.hypot(seed_sd, level_sd), 400_000)
    return float((1 / (1 + np.exp(1 - both))).mean())


@pytest.mark.parametrize("seeds", [2, 3, 5])
@pytest.mark.parametrize(("seed_sd", "level_sd"), [(0.0, 1.5), (0.3, 1.5), (0.6, 0.0)])
def test_the_interval_covers_the_rate_of_other_seeds_and_levels(seeds, seed_sd, level_sd):
    rng = np.random.default_rng(1)
    truth = true_rate(seed_sd, level_sd)
    found = [mixed_effects_rate(runs(rng, seeds, 128, seed_sd, level_sd)) for _ in range(ROUNDS)]
    covered = np.mean([each.low <= truth <= each.high for each in found])
    assert covered >= 0.92


def test_an_interval_over_levels_alone_would_not_cover():
    """Why seeds count: of runs that differ, their pooled episodes know too much."""
    from ragen_bench.stats.intervals import wilson

    rng = np.random.default_rng(2)
    truth, covered = true_rate(0.6, 0.5), 0
    for _ in range(ROUNDS):
        sample = runs(rng, 3, 128, 0.6, 0.5)
        pooled = wilson(int(sample.sum()), sample.size)
        covered += pooled.low <= truth <= pooled.high
    assert covered / ROUNDS < 0.8


@pytest.mark.parametrize("seeds", [(2, 2), (3, 3), (3, 5), (1, 1), (1, 4)])
@pytest.mark.parametrize("seed_sd", [0.0, 0.5])
def test_equal_settings_are_rarely_told_apart(seeds, seed_sd):
    if 1 in seeds and seed_sd:
        return  # of one seed the difference to another setting is also that of the seed: documented
    rng = np.random.default_rng(3)
    rejected = 0
    for _ in range(ROUNDS):
        ease = rng.normal(0, 1.5, 128)
        a, b = (runs(rng, n, 128, seed_sd, 0, ease=ease) for n in seeds)
        rejected += mixed_effects_difference(a, b).p_value <= 0.05
    assert rejected / ROUNDS <= 0.07


def test_a_large_difference_is_found():
    rng = np.random.default_rng(4)
    found = 0
    for _ in range(100):
        ease = rng.normal(0, 1, 256)
        a = runs(rng, 4, 256, 0.1, 0, shift=1.0, ease=ease)
        b = runs(rng, 4, 256, 0.1, 0, ease=ease)
        result = mixed_effects_difference(a, b)
        found += result.p_value <= 0.05 and result.interval.low > 0
    assert found >= 95


def slow_variance(a, b):
    """The variance of a difference, written out with loops."""

    def mean(values):
        return math.fsum(values) / len(values)

    def variance(values):
        centre = mean(values)
        return math.fsum((v - centre) ** 2 for v in values) / (len(values) - 1)

    n, seeds_part, chance = len(a[0]), 0.0, 0.0
    for side in (a, b):
        rows, columns = [mean(r) for r in side], [mean(c) for c in zip(*side, strict=True)]
        grand = mean(rows)
        rest = math.fsum(
            (side[s][i] - rows[s] - columns[i] + grand) ** 2 for s in range(len(side)) for i in range(n)
        ) / ((len(side) - 1) * (n - 1))
        error = rest / (len(side) * n)
        seeds_part += max(variance(rows) / len(side), error)
        chance += error
    gaps = [mean(x) - mean(y) for x, y in zip(zip(*a, strict=True), zip(*b, strict=True), strict=True)]
    return seeds_part, max(variance(gaps) / n - chance, 0.0)


def test_the_variance_is_that_of_an_independent_slow_version():
    rng = np.random.default_rng(5)
    for _ in range(20):
        a, b = runs(rng, 3, 12, 0.5, 1), runs(rng, 4, 12, 0.5, 1)
        variance = mixed_effects_difference(a, b).variance
        assert (variance.seeds, variance.levels) == pytest.approx(slow_variance(a.tolist(), b.tolist()))


def test_one_seed_each_is_the_exact_test_of_mcnemar():
    from ragen_bench.stats.paired import mcnemar_exact

    rng = np.random.default_rng(6)
    a, b = runs(rng, 1, 64, 0, 1), runs(rng, 1, 64, 0, 1)
    found, exact = mixed_effects_difference(a, b), mcnemar_exact(a[0] == 1, b[0] == 1)
    assert (found.interval, found.p_value) == (exact.difference, exact.p_value)
    assert found.seeds == (1, 1)


samples = st.integers(1, 4).flatmap(
    lambda s: st.lists(st.lists(st.booleans(), min_size=6, max_size=6), min_size=s, max_size=s)
)


@given(samples)
def test_intervals_hold_their_estimate_and_stay_rates(sample):
    found = mixed_effects_rate(np.array(sample, dtype=float))
    assert 0 <= found.low <= found.estimate <= found.high <= 1
    assert found.low < found.high


def test_one_level_leaves_the_seeds_to_judge_by():
    found = mixed_effects_rate([[1.0], [0.0], [1.0]])
    assert found.estimate == pytest.approx(2 / 3)
    assert 0 <= found.low < found.estimate < found.high <= 1
    assert mixed_effects_difference([[1.0], [0.0]], [[0.0], [0.0]]).p_value > 0.05


@given(samples, samples)
def test_a_difference_turns_its_sign_with_the_sides(a, b):
    one = mixed_effects_difference(np.array(a, dtype=float), np.array(b, dtype=float))
    other = mixed_effects_difference(np.array(b, dtype=float), np.array(a, dtype=float))
    assert one.interval.estimate == pytest.approx(-other.interval.estimate)
    assert one.interval.low == pytest.approx(-other.interval.high, abs=1e-9)
    assert one.p_value == pytest.approx(other.p_value)
    assert 0 <= one.p_value <= 1


@given(
    st.lists(st.booleans(), min_size=9, max_size=9),
    st.lists(st.integers(0, 2), min_size=9, max_size=9),
)
def test_repeated_levels_keep_the_mean(solved, numbers):
    numbers = [*numbers[:-3], 0, 1, 2]
    values = distinct_levels([[float(s) for s in solved]], numbers)
    assert values.shape == (1, 3)
    assert values.mean() == pytest.approx(np.mean(solved))


def test_repeated_levels_do_not_count_as_independent():
    """Sixteen levels, each played sixteen times with the same outcome, are sixteen observations."""
    solved = np.repeat(np.arange(16) % 2, 16)[None].astype(float)
    levels = np.repeat(np.arange(16), 16).tolist()
    clustered = mixed_effects_rate(distinct_levels(solved, levels))
    naive = mixed_effects_rate(solved)
    assert clustered.high - clustered.low > 3 * (naive.high - naive.low)


def test_power_is_that_of_simulated_experiments():
    rng = np.random.default_rng(7)
    draws = rng.normal(0, 1, (20_000, 2, 4))
    draws[:, 0] += 1.8
    from scipy import stats

    found = stats.ttest_ind(draws[:, 0], draws[:, 1], axis=1)
    simulated = np.mean((found.pvalue <= 0.05) & (found.statistic > 0))
    assert power_of(1.8, math.sqrt(2 / 4), 6) == pytest.approx(simulated, abs=0.01)


def test_the_smallest_effect_has_the_power_that_was_asked_for():
    design = Design(5, 256)
    effect = smallest_effect(design)
    assert power_of_seeds(effect, design.error(effect), 5) == pytest.approx(0.8, abs=1e-3)
    assert smallest_effect(design._replace(seeds=20)) < effect


def test_seeds_are_enough_and_not_one_more_than_that():
    needed = seeds_for(0.05, 2 * 0.03**2)

    def power(n):
        return power_of(0.05, math.sqrt(2 * 0.03**2 / n), 2 * (n - 1))

    assert power(needed) >= 0.8 > power(needed - 1)
    assert seeds_for(0.05, 0.0, of_levels=0.1) is None


def test_a_seed_of_each_side_has_the_variance_of_both_sides():
    """Whatever number of them there is: five times one seed's variance of 1/5 is that of one."""
    rng = np.random.default_rng(3)
    draws = rng.normal(0, 1, (400, 25, 8)).mean(axis=2, keepdims=True) + np.zeros((1, 1, 8))
    found = [mixed_effects_difference(0.02 * draw[:20], 0.06 * draw[20:]).of_seed for draw in draws]
    expected = (0.02**2 + 0.06**2) / 8
    assert np.mean(found) == pytest.approx(expected, rel=0.1)


def test_the_difference_of_rates_ends_where_rates_do():
    sure, never = np.ones((3, 20)), np.zeros((3, 20))
    sure[0, :4] = 0
    found = mixed_effects_rate_difference(sure, never)
    assert found.interval.high == 1.0
    assert found.interval.low > 0.5
    assert found.p_value == mixed_effects_difference(sure, never).p_value
    assert mixed_effects_difference(sure, never).interval.high > 1.0
