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
    assert all(row["finds_20"] < row["finds_3"] for row in small)


def test_seeds_that_differ_more_take_more_of_them(capsys):
    calm, wild = (rows(capsys, "--effect", "5pp", "--seed-sd", sd) for sd in ("1pp", "8pp"))
    assert all(a["seeds_needed"] < b["seeds_needed"] for a, b in zip(calm, wild, strict=True))


@pytest.mark.parametrize(
    ("option", "value"), [("--effect", "much"), ("--effect", "0pp"), ("--seed-sd", "-1pp")]
)
def test_what_is_no_number_of_points_is_named(option, value, capsys):
    assert main(["power", option, value]) == 2
    assert f"{option} is '{value}'" in capsys.readouterr().err
