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
    mean_score,
    normalised_score,
    success_bounds,
)

RATES = st.floats(0, 1).map(lambda x: round(x, 3))
quick = settings(max_examples=60)


def test_normalised_score():
    assert normalised_score(0.25, 0.25, 0.75) == 0
    assert normalised_score(0.75, 0.25, 0.75) == 100
    assert normalised_score(0.0, 0.25, 0.75) == -50
    assert normalised_score(-3.0, -5.0, -1.0) == 50
    assert math.isnan(normalised_score(0.5, 0.5, 0.5))
    assert math.isnan(normalised_score(0.5, 0.7, 0.5))
    assert math.isnan(normalised_score(0.5, math.nan, 0.5))


def test_the_mean_score_of_games_against_a_loop():
    rng, n = np.random.default_rng(2), 60
    games, chance = np.arange(n) % 2, rng.uniform(0, 0.3, n)
    best = chance + rng.uniform(0.3, 0.7, n)
    solved = rng.random(n) < np.where(games == 0, 0.9, 0.4)
    slow, draw = [], np.random.default_rng(99)
    for _ in range(5000):
        drawn = draw.integers(n, size=n)
        parts = [drawn[games[drawn] == game] for game in (0, 1)]
        slow.append(
            np.mean([normalised_score(*(x[part].mean() for x in (solved, chance, best))) for part in parts])
        )
    bounds = [success_bounds(*(x[games == game] for x in (solved, chance, best))) for game in (0, 1)]
    estimate = np.mean([each.estimate for each in bounds])
    below = math.hypot(*(each.estimate - each.low for each in bounds)) / 2
    above = math.hypot(*(each.high - each.estimate for each in bounds)) / 2
    low, high = np.quantile(slow, [0.025, 0.975])
    wanted = (estimate, min(low, estimate - below), max(high, estimate + above))
    assert mean_score(solved, chance, best, range(n), games) == pytest.approx(wanted, abs=1.5)


@quick
@given(st.lists(st.tuples(RATES, RATES), min_size=1, max_size=30))
def test_scores_of_the_controls(pairs):
    random = [min(pair) for pair in pairs]
    optimal = [max(pair) for pair in pairs]
    for policy, score in ((random, 0), (optimal, 100)):
        estimate, low, high = mean_score(policy, random, optimal, range(len(pairs)), resamples=100)
        if random == optimal:
            assert all(map(math.isnan, (estimate, low, high)))
        else:
            assert estimate == pytest.approx(score)
            assert low <= estimate <= high


def test_the_interval_of_a_score_is_unbounded_where_the_gap_may_vanish():
    random, optimal = np.zeros(5), np.array([1.0, 0, 0, 0, 0])
    got = mean_score(optimal / 2, random, optimal, range(5))  # (4/5)^5 have no gap
    assert got == (50, -math.inf, math.inf)
    optimal = np.array([1.0, 1, 1, 1, 0])  # (1/5)^5 have no gap: too few to matter
    assert math.isfinite(mean_score(optimal / 2, random, optimal, range(5)).low)


def test_the_interval_of_a_score_covers_rates_near_the_ends_and_is_not_wider_between_them():
    n, chance, best = 64, np.full(64, 0.2), np.ones(64)
    scores = [mean_score(np.arange(n) < k, chance, best, range(n), resamples=500) for k in range(n + 1)]
    for rate in (0.01, 0.03, 0.2, 0.5, 0.8, 0.97, 0.99):
        score = 100 * (rate - 0.2) / 0.8
        chances = scipy.stats.binom.pmf(range(n + 1), n, rate)
        assert sum(chances[[i.low <= score <= i.high for i in scores]]) > 0.92, rate
        if 0.2 <= rate <= 0.8:
            normal = 100 * 2 * 1.96 * math.sqrt(rate * (1 - rate) / n) / 0.8
            assert [i.high - i.low for i in scores] @ chances < 1.15 * normal
    assert scores[0].estimate == pytest.approx(-25)
    assert scores[0].high > -25


def test_random_play_is_not_below_random_by_its_interval():
    """On levels that random play hardly ever solves, it solves none."""
    chance = np.full(128, 1e-5)
    score = mean_score(np.zeros(128), chance, np.ones(128), range(128))
    assert score.low <= 0 < score.high < 4


def test_levels_that_nobody_can_solve_are_no_trials():
    best = np.array([1.0] * 50 + [0.0] * 50)
    score = mean_score(best, np.zeros(100), best, range(100))
    assert score.high == score.estimate == 100
    assert score.low == pytest.approx(100 * wilson(50, 50).low)
    by_level = mean_score(best, np.zeros(100), best, [k // 2 for k in range(100)])
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
