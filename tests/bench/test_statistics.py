"""The harness's statistics: against slow implementations, known values and simulated truth."""

import itertools
import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ragen_bench.stats import intervals as rs
from ragen_bench.stats import paired

CONFIDENCE = st.sampled_from([0.8, 0.9, 0.95, 0.99])
RETURNS = st.floats(-1e3, 1e3, allow_nan=False).map(lambda x: round(x, 3))
quick = settings(max_examples=60)


def table(both, a_only, b_only, neither):
    """Two boolean samples with these counts."""
    counts = [both, a_only, b_only, neither]
    a = np.repeat([True, True, False, False], counts)
    b = np.repeat([True, False, True, False], counts)
    return a, b


# --- rates ---------------------------------------------------------------------------------------


def wilson_by_bisection(successes, n, confidence):
    """The rates whose score test just accepts the observation, found without the closed formula."""
    z, rate = NormalDist().inv_cdf((1 + confidence) / 2), successes / n

    def accepted(p):
        return (rate - p) ** 2 <= z * z * p * (1 - p) / n

    def border(outside):
        inside = rate
        for _ in range(200):
            middle = (inside + outside) / 2
            inside, outside = (middle, outside) if accepted(middle) else (inside, middle)
        return inside

    low = 0.0 if successes == 0 else border(0.0)
    return low, 1.0 if successes == n else border(1.0)


def test_wilson_known_values():
    assert rs.wilson(8, 10) == pytest.approx((0.8, 0.4901625, 0.9433178), abs=1e-6)
    z2 = 1.959963984540054**2
    assert rs.wilson(0, 10) == pytest.approx((0, 0, z2 / (10 + z2)), abs=1e-9)
    assert rs.wilson(10, 10) == pytest.approx((1, 10 / (10 + z2), 1), abs=1e-9)


@quick
@given(st.data(), st.integers(1, 300), CONFIDENCE)
def test_wilson_inverts_the_score_test(data, n, confidence):
    successes = data.draw(st.integers(0, n))
    rate, low, high = rs.wilson(successes, n, confidence)
    assert 0 <= low <= rate <= high <= 1
    assert low < high
    assert (low, high) == pytest.approx(wilson_by_bisection(successes, n, confidence), abs=1e-9)
    mirrored = rs.wilson(n - successes, n, confidence)
    assert (1 - mirrored.high, 1 - mirrored.low) == pytest.approx((low, high), abs=1e-12)
    wider = rs.wilson(successes, n, 0.999)
    assert wider.low <= low
    assert high <= wider.high
    if successes < n:
        more = rs.wilson(successes + 1, n, confidence)
        assert more.low > low or low == more.low == 0
        assert more.high > high


@pytest.mark.parametrize("n", [20, 100, 256])
def test_wilson_covers_the_true_rate(n):
    bounds = np.array([rs.wilson(k, n)[1:] for k in range(n + 1)])
    rng = np.random.default_rng(n)
    rates = rng.uniform(0.02, 0.98, 40_000)
    low, high = bounds[rng.binomial(n, rates)].T
    assert 0.94 < np.mean((low <= rates) & (rates <= high)) < 0.965
    width = np.array([rs.wilson(k, n, 0.8)[1:] for k in range(n + 1)])
    low, high = width[rng.binomial(n, rates)].T
    assert 0.78 < np.mean((low <= rates) & (rates <= high)) < 0.82


# --- mean returns --------------------------------------------------------------------------------


def test_bootstrap_mean_is_the_bootstrap_distribution():
    """Against all 5^5 equally likely resamples, not some of them."""
    values = [0.0, 1.0, 2.0, 5.0, 11.0]
    every = np.sort([np.mean(drawn) for drawn in itertools.product(values, repeat=5)])
    for confidence in (0.5, 0.8, 0.95):
        tail = (1 - confidence) / 2
        estimate, low, high = rs.bootstrap_mean(values, confidence, 40_000, seed=3)
        assert estimate == pytest.approx(3.8)
        assert low == pytest.approx(np.quantile(every, tail), abs=0.21)
        assert high == pytest.approx(np.quantile(every, 1 - tail), abs=0.21)


def test_bootstrap_mean_has_the_textbook_width_on_a_large_sample():
    values = np.random.default_rng(0).exponential(size=2000)
    estimate, low, high = rs.bootstrap_mean(values, seed=1)
    half = 1.96 * values.std() / math.sqrt(2000)
    assert estimate == pytest.approx(values.mean(), abs=1e-12)
    assert (low, high) == pytest.approx((estimate - half, estimate + half), abs=0.1 * half)


def test_bootstrap_mean_covers_the_true_mean():
    samples = np.random.default_rng(7).gamma(4.0, size=(2000, 60))
    intervals = np.array([rs.bootstrap_mean(s, 0.9, 300, seed=i) for i, s in enumerate(samples)])
    covered = np.mean((intervals[:, 1] <= 4.0) & (intervals[:, 2] >= 4.0))
    assert 0.87 < covered < 0.93


@pytest.mark.parametrize("value", [0.0, 0.1, -1 / 3, 1e15 + 0.5])
@pytest.mark.parametrize("n", [1, 2, 7, 1000])
def test_bootstrap_mean_of_a_constant_has_no_width(value, n):
    assert rs.bootstrap_mean([value] * n, resamples=50, seed=0) == (value, value, value)


@quick
@given(st.lists(RETURNS, min_size=1, max_size=40), CONFIDENCE, st.integers(0, 2**32))
def test_bootstrap_mean_properties(values, confidence, seed):
    first = rs.bootstrap_mean(values, confidence, 200, seed=seed)
    assert first == rs.bootstrap_mean(np.array(values), confidence, 200, seed=seed)
    assert min(values) - 1e-9 <= first.low <= first.estimate <= first.high <= max(values) + 1e-9
    assert first.estimate == pytest.approx(math.fsum(values) / len(values), abs=1e-9)
    wider = rs.bootstrap_mean(values, 0.999, 200, seed=seed)
    assert wider.low <= first.low
    assert first.high <= wider.high


def test_blocks_do_not_repeat_or_skip_resamples(monkeypatch):
    """A bootstrap that is split for memory is as good as one that is not, and seeds matter."""
    values = np.random.default_rng(5).normal(size=50)
    whole = rs.bootstrap_mean(values, resamples=4001, seed=9)
    assert whole != rs.bootstrap_mean(values, resamples=4001, seed=10)
    monkeypatch.setattr(rs, "_BLOCK", 700)
    means = rs.bootstrap_means(values[None], 4001, 9)[0]
    assert means.shape == (4001,)
    assert len(np.unique(means)) == 4001
    split = rs.bootstrap_mean(values, resamples=4001, seed=9)
    assert split == pytest.approx(whole, abs=0.03)


def test_percentile_interval_rounds_outwards_and_holds_the_estimate():
    resampled = np.array([3.0, 0, 2, 1])
    assert rs.percentile_interval(1.5, resampled, 0.5) == (1.5, 0, 3)
    assert rs.percentile_interval(9.0, resampled, 0.5) == (9, 0, 9)
    assert rs.percentile_interval(-9.0, resampled, 0.5) == (-9, -9, 3)


def test_samples_of_different_lengths_are_not_paired():
    with pytest.raises(ValueError, match="inhomogeneous"):
        paired.paired_bootstrap([1.0, 2.0], [2.0], resamples=10, seed=0)


def test_nothing_touches_the_global_generator():
    np.random.seed(1)
    before = np.random.get_state()[1].copy()
    rs.bootstrap_mean([1.0, 2.0], resamples=10, seed=0)
    paired.paired_bootstrap([1.0, 2.0], [2.0, 4.0], resamples=10, seed=0)
    assert (np.random.get_state()[1] == before).all()


# --- paired comparisons --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counts", "p_value"),
    [
        ((3, 0, 0, 4), 1.0),
        ((3, 1, 0, 4), 1.0),
        ((0, 5, 0, 0), 2 / 32),
        ((10, 1, 7, 20), 2 * (1 + 8) / 256),
        ((50, 2, 10, 5), 2 * (1 + 12 + 66) / 4096),
        ((9, 4, 4, 9), 1.0),
    ],
)
def test_mcnemar_by_hand(counts, p_value):
    a, b = table(*counts)
    result = paired.mcnemar_exact(a, b)
    assert result.p_value == pytest.approx(p_value, rel=1e-12)
    assert (result.n, result.a_better, result.b_better) == (sum(counts), counts[1], counts[2])
    assert result.difference.estimate == pytest.approx((counts[1] - counts[2]) / sum(counts))


def test_mcnemar_published_values():
    """Response before and after therapy (Cavo et al. 2012), as analysed by Fagerland et al. 2017.

    (Statistical Analysis of Contingency Tables, chapter 8.)
    """
    result = paired.mcnemar_exact(*table(59, 6, 16, 80))
    assert result.p_value == pytest.approx(0.052479, abs=1e-6)
    assert result.difference == pytest.approx((-0.0621, -0.1186, -0.0046), abs=5e-5)


def newcombe_with_wilson_roots(both, a_only, b_only, neither):
    """Method 10 from quadratic roots and the correlation of the samples."""
    n = both + a_only + b_only + neither
    z2 = NormalDist().inv_cdf(0.975) ** 2

    def roots(k):
        return sorted(np.roots([1 + z2 / n, -(2 * k + z2) / n, (k / n) ** 2]).real)

    a, b = table(both, a_only, b_only, neither)
    (low_a, high_a), (low_b, high_b) = roots(a.sum()), roots(b.sum())
    phi = 0.0
    if 0 < a.sum() < n and 0 < b.sum() < n:
        spread = n * n * a.std() * b.std()
        covariance = n * n * (np.mean(a * b) - a.mean() * b.mean())
        phi = (covariance if covariance < 0 else max(covariance - n / 2, 0)) / spread
    x, y = a.mean() - low_a, high_b - b.mean()
    v, w = high_a - a.mean(), b.mean() - low_b
    gap = a.mean() - b.mean()
    below = math.sqrt(x * x + y * y - 2 * phi * x * y)
    return gap - below, gap + math.sqrt(v * v + w * w - 2 * phi * v * w)


COUNTS = st.tuples(*[st.integers(0, 15)] * 4).filter(any)


@quick
@given(COUNTS)
def test_mcnemar_properties(counts):
    a, b = table(*counts)
    result = paired.mcnemar_exact(a, b)
    assert 0 < result.p_value <= 1
    assert -1 <= result.difference.low <= result.difference.estimate <= result.difference.high <= 1
    assert result.difference[1:] == pytest.approx(newcombe_with_wilson_roots(*counts), abs=1e-6)
    swapped = paired.mcnemar_exact(b, a)
    assert swapped.p_value == result.p_value
    mirrored = (-swapped.difference.high, -swapped.difference.low)
    assert mirrored == pytest.approx(result.difference[1:], abs=1e-12)
    assert (swapped.a_better, swapped.b_better) == (result.b_better, result.a_better)
    order = np.random.default_rng(0).permutation(len(a))
    assert paired.mcnemar_exact(a[order], b[order]) == result


def simulated_tables(probabilities, n, count, seed):
    """Results of comparing `count` simulated pairs of policies, computed once per distinct table."""
    tables, back = np.unique(
        np.random.default_rng(seed).multinomial(n, probabilities, size=count),
        axis=0,
        return_inverse=True,
    )
    results = [paired.mcnemar_exact(*table(*counts)) for counts in tables.tolist()]
    rows = [(*result.difference[1:], result.p_value) for result in results]
    return np.array(rows)[back.ravel()]


def test_mcnemar_false_positives_and_power():
    null = simulated_tables([0.3, 0.15, 0.15, 0.4], n=30, count=2500, seed=1)[:, 2]
    for alpha in (0.01, 0.05, 0.2):
        assert alpha / 10 < np.mean(null <= alpha) <= alpha
    better = simulated_tables([0.3, 0.25, 0.05, 0.4], n=100, count=500, seed=2)[:, 2]
    assert np.mean(better <= 0.05) > 0.85


@pytest.mark.parametrize("probabilities", [[0.3, 0.2, 0.1, 0.4], [0.6, 0.1, 0.1, 0.2]])
def test_mcnemar_interval_covers_the_true_difference(probabilities):
    low, high, _ = simulated_tables(probabilities, n=40, count=2000, seed=3).T
    truth = probabilities[1] - probabilities[2]
    assert 0.935 < np.mean((low <= truth) & (truth <= high)) < 0.975


def all_sign_flips(differences):
    sums = [
        abs(sum(s * d for s, d in zip(signs, differences, strict=True)))
        for signs in itertools.product((-1, 1), repeat=len(differences))
    ]
    return np.mean(np.array(sums) >= abs(sum(differences)) - 1e-9)


@pytest.mark.parametrize(
    "differences",
    [[3.0, -1, 2, 5, -0.5, 4, 1, 2], [0.1, 0.2, -0.3, 0.1, 0.1], [1.0] * 10, [2.0], [0.0, 0.0]],
)
def test_paired_p_value_against_every_sign_flip(differences):
    result = paired.paired_bootstrap(differences, [0.0] * len(differences), resamples=20_000, seed=6)
    assert result.p_value == pytest.approx(all_sign_flips(differences))
    assert result.difference.estimate == pytest.approx(np.mean(differences))


def test_drawn_signs_count_ties_however_their_sums_are_rounded():
    differences = [0.1, 0.2, -0.3, 0.1, 0.1] * 3  # more signs than draws
    result = paired.paired_bootstrap(differences, [0.0] * 15, resamples=20_000, seed=6)
    assert result.p_value == pytest.approx(all_sign_flips(differences), abs=0.012)


def test_paired_p_value_counts_the_observation_itself():
    result = paired.paired_bootstrap(np.ones(60), np.zeros(60), resamples=99, seed=0)
    assert result.p_value == 1 / 100
    assert result.difference == (1, 1, 1)
    assert (result.n, result.a_better, result.b_better) == (60, 60, 0)


def test_paired_test_agrees_with_mcnemar_on_success():
    a, b = table(20, 4, 13, 23)
    exact = paired.mcnemar_exact(a, b)
    sampled = paired.paired_bootstrap(a, b, seed=11)
    assert sampled.p_value == pytest.approx(exact.p_value, abs=0.01)
    assert sampled.difference == pytest.approx(exact.difference, abs=0.03)
    assert sampled[2:] == exact[2:]


def test_paired_bootstrap_uses_the_pairing():
    rng = np.random.default_rng(8)
    difficulty = rng.normal(scale=10, size=80)
    a = difficulty + 1 + rng.normal(size=80)
    b = difficulty + rng.normal(size=80)
    result = paired.paired_bootstrap(a, b, seed=0)
    assert result.p_value < 0.01
    assert result.difference == rs.bootstrap_mean(a - b, seed=0)
    assert paired.paired_bootstrap(a, b[::-1], seed=0).p_value > 0.05
    assert paired.paired_bootstrap(a, b, seed=0) == result
    assert paired.paired_bootstrap(a, b, seed=1) != result


def test_paired_bootstrap_false_positives():
    """Few and heavy-tailed instances, where a bootstrap p-value would be wrong."""
    rng = np.random.default_rng(12)
    a, b = rng.standard_t(3, size=(2, 3000, 8))
    p_values = np.array(
        [
            paired.paired_bootstrap(x, y, resamples=199, seed=i).p_value
            for i, (x, y) in enumerate(zip(a, b, strict=True))
        ]
    )
    for alpha in (0.05, 0.2):
        assert np.mean(p_values <= alpha) == pytest.approx(alpha, abs=0.02)


@quick
@given(st.lists(st.tuples(RETURNS, RETURNS), min_size=1, max_size=30), st.integers(0, 99))
def test_paired_bootstrap_properties(pairs, seed):
    a, b = np.array(pairs).T
    result = paired.paired_bootstrap(a, b, resamples=99, seed=seed)
    assert 0.01 <= result.p_value <= 1
    assert result.difference.low <= result.difference.estimate <= result.difference.high
    assert result.a_better + result.b_better == np.count_nonzero(a != b)
    assert paired.paired_bootstrap(b, a, resamples=99, seed=seed).p_value == result.p_value
    assert paired.paired_bootstrap(a, a, resamples=99, seed=seed).p_value == 1


@pytest.mark.parametrize("comparisons", [1, 100, 528, 4950])
def test_a_clear_difference_survives_any_number_of_comparisons(comparisons):
    resamples = paired.enough_resamples(comparisons)
    assert resamples >= 10_000
    a, b = np.ones(60, bool), np.zeros(60, bool)
    clusters = np.arange(60) // 2
    p = paired.compare_rates(a, b, clusters, resamples=resamples).p_value
    assert paired.holm([p, *[1.0] * (comparisons - 1)])[0] <= paired.ALPHA / 4


# --- many comparisons ----------------------------------------------------------------------------


def holm_rejections(p_values, alpha):
    """Step down as written: reject the smallest while it is at most alpha / (how many are left)."""
    rejected, left = set(), list(range(len(p_values)))
    while left:
        smallest = min(left, key=lambda i: p_values[i])
        if p_values[smallest] > alpha / len(left):
            break
        rejected.add(smallest)
        left.remove(smallest)
    return rejected


def test_of_hypotheses_that_exclude_each_other_one_is_counted():
    # Two questions are open, then one: the first has both of its hypotheses rejected.
    assert paired.holm_exclusive([0.01, 0.02, 0.04, 0.5], [0, 0, 1, 1]) == pytest.approx(
        [0.02, 0.04, 0.04, 0.5]
    )
    # Here the first question stays open after its first hypothesis is rejected.
    assert paired.holm_exclusive([0.01, 0.5, 0.04, 0.6], [0, 0, 1, 1]) == pytest.approx(
        [0.02, 1.0, 0.08, 1.0]
    )
    assert paired.holm_exclusive([], []).shape == (0,)


def test_holm_worked_example():
    adjusted = paired.holm([0.01, 0.04, 0.03, 0.005])
    assert adjusted == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert paired.holm([0.3, 0.6, 0.9]) == pytest.approx([0.9, 1, 1])
    assert paired.holm([0.2]) == pytest.approx([0.2])
    assert paired.holm([]).shape == (0,)


@quick
@given(st.lists(st.integers(0, 1000).map(lambda i: i / 1000), max_size=12), st.randoms())
def test_holm_properties(raw, shuffler):
    adjusted = paired.holm(raw)
    assert all(p <= q <= 1 for p, q in zip(raw, adjusted, strict=True))
    order = np.argsort(raw, kind="stable")
    assert (np.diff(adjusted[order]) >= 0).all()
    for alpha in (0.0123457, 0.0512347, 0.2012349):  # on no border, where rounding would decide
        assert set(np.flatnonzero(adjusted <= alpha)) == holm_rejections(raw, alpha)
    shuffled = list(range(len(raw)))
    shuffler.shuffle(shuffled)
    assert (paired.holm([raw[i] for i in shuffled]) == adjusted[shuffled]).all()


def test_holm_controls_false_rejections_in_a_family():
    rng = np.random.default_rng(4)
    families = rng.uniform(size=(4000, 8))
    any_rejected = np.mean([paired.holm(family).min() <= 0.05 for family in families])
    assert 0.035 < any_rejected < 0.06  # 1 - 0.95^8 = 0.34 without the correction
    families[:, :3] *= 1e-4  # three real effects: the five others still fail together at most 5%
    adjusted = np.array([paired.holm(family) for family in families])
    assert (adjusted[:, :3] <= 0.05).all()
    assert 0.035 < np.mean(adjusted[:, 3:].min(axis=1) <= 0.05) < 0.06  # Bonferroni: 0.03


@quick
@given(st.lists(st.booleans(), min_size=1, max_size=60), st.floats(0.5, 0.999))
def test_wilson_mean_of_zeros_and_ones_is_wilson(values, confidence):
    assert rs.wilson_mean(values, confidence) == pytest.approx(
        rs.wilson(sum(values), len(values), confidence), abs=1e-9
    )


@quick
@given(st.lists(st.floats(0, 1), min_size=1, max_size=60))
def test_wilson_mean_holds_the_mean_and_stays_in_range(values):
    found = rs.wilson_mean(values)
    assert found.estimate == pytest.approx(np.mean(values))
    assert 0 <= found.low <= found.estimate <= found.high <= 1
    assert found.low < found.high


def test_wilson_mean_of_shares_covers():
    """Averages of two correlated episodes: at least the nominal coverage."""
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(400):
        first = rng.random(40) < 0.7
        second = np.where(rng.random(40) < 0.5, first, rng.random(40) < 0.7)
        found = rs.wilson_mean(np.stack([first, second]).mean(axis=0))
        hits += found.low <= 0.7 <= found.high
    assert hits >= 0.93 * 400
