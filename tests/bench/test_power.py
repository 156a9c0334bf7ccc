"""``ragen power``."""

import json

import pytest
from ragen_bench.__main__ import main


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


def test_two_fixed_models_need_plays_of_levels_and_no_seeds(capsys):
    """The paired test of one play of each level is that of as many differences as levels."""
    found = {
        row["levels"]: row["seeds_needed"]
        for row in rows(capsys, "--effect", "6pp", "--seed-sd", "0pp")
    }
    assert found[1024] == 1
    assert found[64] > 1


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
