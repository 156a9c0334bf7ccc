"""Episodes that share a level: intervals and tests count levels, not episodes."""

import numpy as np
import pytest
from ragen_bench.stats.intervals import bootstrap_mean, cluster_sums, number_clusters, wilson, wilson_mean
from ragen_bench.stats.paired import compare_rates, mcnemar_exact, paired_bootstrap
from ragen_bench.stats.scores import mean_score

LEVELS, EACH = 24, 8
CLUSTERS = np.repeat(np.arange(LEVELS), EACH)
RUNS = 400


def holds(interval, truth):
    return interval.low <= truth <= interval.high


def outcomes(rng, rate, alike):
    """Draw episodes of which those of a level are the same with the given probability."""
    by_level = np.repeat(rng.random(LEVELS) < rate, EACH)
    return np.where(rng.random(LEVELS * EACH) < alike, by_level, rng.random(LEVELS * EACH) < rate)


@pytest.mark.parametrize("rate", [0.2, 0.5, 0.85])
@pytest.mark.parametrize("alike", [0.0, 0.5, 1.0])
def test_a_rates_coverage_is_nominal_however_alike_the_episodes_of_a_level_are(rate, alike):
    rng = np.random.default_rng(0)
    samples = [outcomes(rng, rate, alike) for _ in range(RUNS)]
    clustered = np.mean([holds(wilson_mean(s, clusters=CLUSTERS), rate) for s in samples])
    assert clustered >= 0.92
    if alike == 1:
        assert np.mean([holds(wilson(int(s.sum()), len(s)), rate) for s in samples]) < 0.65


def test_coverage_is_close_to_nominal_and_not_far_above():
    rng = np.random.default_rng(1)
    samples = [outcomes(rng, 0.5, 1.0) for _ in range(RUNS)]
    assert np.mean([holds(wilson_mean(s, clusters=CLUSTERS), 0.5) for s in samples]) <= 0.985


@pytest.mark.parametrize("alike", [0.0, 1.0])
def test_a_test_of_two_equal_agents_errs_as_often_as_it_says(alike):
    rng = np.random.default_rng(2)
    pairs = [(outcomes(rng, 0.5, alike), outcomes(rng, 0.5, alike)) for _ in range(RUNS)]
    results = [compare_rates(a, b, CLUSTERS, resamples=400) for a, b in pairs]
    assert np.mean([result.p_value <= 0.05 for result in results]) <= 0.08
    assert np.mean([holds(result.difference, 0) for result in results]) >= 0.92
    if alike == 1:
        assert np.mean([mcnemar_exact(a, b).p_value <= 0.05 for a, b in pairs]) > 0.3


def test_a_real_difference_is_found():
    rng = np.random.default_rng(3)
    a, b = outcomes(rng, 0.95, 1.0), outcomes(rng, 0.1, 1.0)
    result = compare_rates(a, b, CLUSTERS)
    assert result.p_value < 0.001
    assert result.difference.low > 0.3
    assert result.difference.estimate == pytest.approx(a.mean() - b.mean())


@pytest.mark.parametrize("measure", ["mean", "paired"])
def test_bootstraps_draw_levels(measure):
    rng = np.random.default_rng(4)
    plain, clustered = [], []
    for seed in range(150):
        values = np.repeat(rng.normal(size=LEVELS), EACH)
        zeros = np.zeros_like(values)
        for found, clusters in ((plain, None), (clustered, CLUSTERS)):
            if measure == "mean":
                interval = bootstrap_mean(values, resamples=300, seed=seed, clusters=clusters)
            else:
                interval = paired_bootstrap(
                    values, zeros, resamples=300, seed=seed, clusters=clusters
                ).difference
            found.append(holds(interval, 0))
    assert np.mean(plain) < 0.7
    assert np.mean(clustered) > 0.87


def test_a_score_is_drawn_by_level_too():
    rng = np.random.default_rng(5)
    played = outcomes(rng, 0.5, 1.0)
    chance, best = np.full(len(played), 0.25), np.ones(len(played))
    plain = mean_score(played, chance, best, range(len(played)))
    clustered = mean_score(played, chance, best, CLUSTERS.tolist())
    assert clustered.estimate == pytest.approx(plain.estimate)
    assert clustered.high - clustered.low > 2 * (plain.high - plain.low)


def test_levels_of_their_own_leave_everything_as_it_was():
    rng = np.random.default_rng(6)
    a, b = rng.random(60) < 0.6, rng.random(60) < 0.4
    for keys in (range(60), ["the only level"] * 60):
        clusters = number_clusters(list(keys))
        assert clusters is None
        assert wilson_mean(a, clusters=clusters) == wilson(int(a.sum()), 60)
        assert compare_rates(a, b, clusters) == mcnemar_exact(a, b)


def test_levels_of_unequal_numbers_count_by_their_episodes():
    clusters = number_clusters(["x", "y", "x", "z", "x"])
    assert clusters.tolist() == [0, 1, 0, 2, 0]
    assert cluster_sums(np.arange(5.0), clusters).tolist() == [6, 1, 3]
    assert wilson_mean([True, False, True, False, True], clusters=clusters).estimate == 0.6


def test_without_any_success_a_level_counts_once():
    none = wilson_mean(np.zeros(LEVELS * EACH), clusters=CLUSTERS)
    assert none.low == none.estimate == 0
    assert none.high > wilson(0, LEVELS).high > wilson(0, LEVELS * EACH).high
