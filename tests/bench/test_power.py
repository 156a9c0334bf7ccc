"""``ragen power``."""

import json
import math

import numpy as np
import pytest
from ragen_bench.__main__ import main
from ragen_bench.stats.paired import mcnemar_exact
from ragen_bench.stats.permutation import permutation_p
from ragen_bench.stats.power import Design, power_of_seeds
from scipy import stats


def rows(capsys, *arguments):
    assert main(["power", "--format", "json", *arguments]) == 0
    return json.loads(capsys.readouterr().out)["rows"]


def test_smaller_effects_take_more_seeds_and_levels_help(capsys):
    large, small = (rows(capsys, "--effect", effect) for effect in ("10pp", "3pp"))
    for a, b in zip(large, small, strict=True):
        assert 2 <= a["seeds_needed"] < b["seeds_needed"]
    needed = [row["seeds_needed"] for row in small]
    assert needed == sorted(needed, reverse=True)
    assert all(row["finds_20"] < row["finds_5"] for row in small)


def test_seeds_that_differ_more_take_more_of_them(capsys):
    calm, wild = (rows(capsys, "--effect", "5pp", "--seed-sd", sd) for sd in ("1pp", "8pp"))
    assert all(a["seeds_needed"] < b["seeds_needed"] for a, b in zip(calm, wild, strict=True))


def test_two_fixed_models_need_levels_and_no_seeds(capsys):
    found = rows(capsys, "--effect", "6pp", "--seed-sd", "0pp")
    power = [row["power"] for row in found]
    assert power == sorted(power)
    assert power[0] < 0.3 < 0.9 < power[-1]
    for row in found:
        assert (row["finds"] <= 0.06) == (row["power"] >= 0.8)
    assert main(["power", "--effect", "6pp", "--seed-sd", "0pp"]) == 0
    assert "for two fixed models that play each level once" in capsys.readouterr().out


def test_what_cannot_be_found_is_said(capsys):
    assert main(["power", "--effect", "1pp", "--seed-sd", "60pp"]) == 0
    said = capsys.readouterr().out
    assert "-: more than 1000 seeds" in said


@pytest.mark.parametrize(
    ("option", "value"),
    [("--effect", "much"), ("--effect", "0pp"), ("--effect", "0.03"), ("--seed-sd", "-1pp")],
)
def test_what_is_no_number_of_points_is_named(option, value, capsys):
    assert main(["power", option, value]) == 2
    assert f"{option} is '{value}'" in capsys.readouterr().err


@pytest.mark.parametrize(("rate", "points", "levels"), [(0.05, 5, 256), (0.2, 10, 128), (0.6, 8, 256)])
def test_the_power_of_two_fixed_models_is_that_of_the_test_that_compares_them(rate, points, levels):
    correlation, better = 0.3, rate + points / 100
    both = rate * better + correlation * math.sqrt(rate * (1 - rate) * better * (1 - better))
    draws = np.random.default_rng(0).multinomial(
        levels, [both, rate - both, better - both, 1 - rate - better + both], size=3000
    )
    found = 0
    for (one_only, other_only), count in zip(
        *np.unique(draws[:, 1:3], axis=0, return_counts=True), strict=True
    ):
        one = np.arange(levels) < one_only
        other = ~one & (np.arange(levels) < one_only + other_only)
        result = mcnemar_exact(other, one)
        found += count * (result.p_value <= 0.05 and result.difference.estimate > 0)
    design = Design(1, levels, rate, 0.0, correlation)
    assert design.power(points / 100) == pytest.approx(found / 3000, abs=0.03)


@pytest.mark.parametrize(("seeds", "alpha", "effect"), [(5, 0.025, 3.8), (6, 0.01, 4.2), (7, 0.0028, 4.7)])
def test_power_near_the_smallest_p_is_that_of_both_tests(seeds, alpha, effect):
    """In standard errors; Student's test alone would promise about 80%."""
    rng = np.random.default_rng(2)
    found = 0
    for _ in range(1000):
        a, b = rng.standard_normal((2, seeds))
        a += effect * math.sqrt(2 / seeds)
        by_model = stats.ttest_ind(a, b).pvalue
        found += max(by_model, permutation_p(a, b)) <= alpha and a.mean() > b.mean()
    assert power_of_seeds(effect, 1.0, seeds, alpha) == pytest.approx(found / 1000, abs=0.045)


def test_an_impossible_difference_is_not_found(capsys):
    impossible = ("--effect", "30pp", "--rate", "0.9", "--seed-sd")
    assert all(row["seeds_needed"] == 0 for row in rows(capsys, *impossible, "3pp"))
    assert all(row["power"] == 0 for row in rows(capsys, *impossible, "0pp"))
