"""Scores between random play and the optimum: against slow implementations and simulated truth."""

import itertools
import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from ragen_bench.stats.intervals import wilson
from ragen_bench.stats.scores import (
    at_most_by_chance,
    normalised_interval,
    normalised_score,
    success_score,
)

RETURNS = st.floats(-1e3, 1e3, allow_nan=False).map(lambda x: round(x, 3))
quick = settings(max_examples=60)


def test_normalised_score():
    assert normalised_score(0.25, 0.25, 0.75) == 0
    assert normalised_score(0.75, 0.25, 0.75) == 100
    assert normalised_score(0.0, 0.25, 0.75) == -50
    assert normalised_score(-3.0, -5.0, -1.0) == 50
    assert math.isnan(normalised_score(0.5, 0.5, 0.5))
    assert math.isnan(normalised_score(0.5, 0.7, 0.5))
    assert math.isnan(normalised_score(0.5, math.nan, 0.5))


def test_normalised_interval_against_a_loop():
    rng = np.random.default_rng(2)
    random, gap = rng.normal(size=30), rng.uniform(1, 4, size=30)
    policy, optimal = random + gap * rng.uniform(size=30), random + gap
    slow, draw = [], np.random.default_rng(99)
    for _ in range(5000):
        i = draw.integers(30, size=30)
        span = optimal[i].mean() - random[i].mean()
        slow.append(100 * (policy[i].mean() - random[i].mean()) / span)
    estimate, low, high = normalised_interval(policy, random, optimal, seed=4)
    means = policy.mean(), random.mean(), optimal.mean()
    assert estimate == pytest.approx(normalised_score(*means))
    assert (low, high) == pytest.approx(tuple(np.quantile(slow, [0.025, 0.975])), abs=0.8)
    shuffled = normalised_interval(policy[::-1], random, optimal, seed=4)
    assert shuffled.high - shuffled.low > 2 * (high - low)  # the pairing is used


@quick
@given(st.lists(st.tuples(RETURNS, RETURNS), min_size=1, max_size=30), st.integers(0, 99))
def test_normalised_interval_of_the_controls(pairs, seed):
    """Random scores 0 and the oracle 100 on every resample on which they can be told apart."""
    random = [min(pair) for pair in pairs]
    optimal = [max(pair) for pair in pairs]
    for policy, score in ((random, 0), (optimal, 100)):
        got = normalised_interval(policy, random, optimal, resamples=100, seed=seed)
        if random == optimal:
            assert all(map(math.isnan, got))
        elif all(x < y for x, y in zip(random, optimal, strict=True)):
            assert got == (score, score, score)
        else:
            assert got.estimate == score
            assert got.low in (score, -math.inf)
            assert got.high in (score, math.inf)


def test_normalised_interval_is_unbounded_where_the_gap_may_vanish():
    random, optimal = np.zeros(5), np.array([1.0, 0, 0, 0, 0])
    got = normalised_interval(optimal / 2, random, optimal, seed=0)  # (4/5)^5 have no gap
    assert got == (50, -math.inf, math.inf)
    noisy = np.array([3.0, -1, -1, 3, -1, -1, -1, -1])
    got = normalised_interval(noisy, 0 * noisy, noisy + 0.6, seed=0)  # (3/4)^8 have a negative one
    assert got == (pytest.approx(0), -math.inf, math.inf)
    optimal = np.array([1.0, 1, 1, 1, 0])  # (1/5)^5 have no gap: too few to matter
    assert normalised_interval(optimal / 2, random, optimal, seed=0) == (50, 50, 50)


def test_the_interval_of_a_score_covers_rates_near_the_ends_and_is_not_wider_between_them():
    n, chance, best = 64, np.full(64, 0.2), np.ones(64)
    solved = [np.arange(n) < k for k in range(n + 1)]
    found = [success_score(s, chance, best, resamples=500, seed=0) for s in solved]
    bare = [normalised_interval(s, chance, best, resamples=500, seed=0) for s in solved]
    for rate in (0.01, 0.03, 0.2, 0.5, 0.8, 0.97, 0.99):
        score = 100 * (rate - 0.2) / 0.8
        chances = scipy.stats.binom.pmf(range(n + 1), n, rate)
        assert sum(chances[[i.low <= score <= i.high for i in found]]) > 0.92, rate
        if 0.2 <= rate <= 0.8:
            widths = [[i.high - i.low for i in each] @ chances for each in (found, bare)]
            assert widths[0] < 1.15 * widths[1]
    assert bare[0].low == bare[0].high  # why the interval of the success is needed
    assert found[0].estimate == bare[0].estimate == -25


def test_random_play_is_not_below_random_by_its_interval():
    """On levels that random play hardly ever solves, it solves none."""
    chance = np.full(128, 1e-5)
    score = success_score(np.zeros(128), chance, np.ones(128), seed=0)
    assert score.low <= 0 < score.high < 4


def test_levels_that_nobody_can_solve_are_no_trials():
    best = np.array([1.0] * 50 + [0.0] * 50)
    score = success_score(best, np.zeros(100), best, seed=0)
    assert score.high == score.estimate == 100
    assert score.low == pytest.approx(100 * wilson(50, 50).low)
    clusters = np.arange(100) // 2
    by_level = success_score(best, np.zeros(100), best, seed=0, clusters=clusters)
    assert by_level.low < score.low


def test_at_most_by_chance_against_all_outcomes():
    chances = [0.1, 0.5, 0.9, 0.3, 0.3]
    for clusters in (None, np.array([0, 1, 2, 3, 3])):
        groups = np.arange(5) if clusters is None else clusters
        odds = [chances[list(groups).index(group)] for group in range(max(groups) + 1)]
        by_count = np.zeros(6)
        for won in itertools.product([0, 1], repeat=len(odds)):
            chance = math.prod(o if w else 1 - o for o, w in zip(odds, won, strict=True))
            by_count[np.array(won)[groups].sum()] += chance
        for k in range(6):
            found = at_most_by_chance(k, chances, clusters)
            assert found == pytest.approx(by_count[: k + 1].sum())
