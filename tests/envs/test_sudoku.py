"""Sudoku 4x4: one solution, symmetric keys, and placements that break no rule."""

from itertools import permutations, product

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragen_envs.errors import InstanceError
from ragen_envs.game.oracle import Budget
from ragen_envs.games.sudoku import SudokuEnv
from ragen_envs.games.sudoku.dynamics import complete_grids, solutions
from ragen_envs.levels.instances import load_pack

QUICK = settings(suppress_health_check=[HealthCheck.too_slow], max_examples=40)
LEVEL = ["____", "2_31", "__12", "_2_3"]


def start(level=LEVEL, **keywords):
    env = SudokuEnv(level=level, **keywords)
    env.reset()
    return env


def slow_grids():
    """Return all filled grids, from rows that are permutations."""
    rows = list(permutations((1, 2, 3, 4)))
    for grid in product(rows, repeat=4):
        columns = zip(*grid, strict=True)
        boxes = (grid[r][c : c + 2] + grid[r + 1][c : c + 2] for r in (0, 2) for c in (0, 2))
        if all(len(set(unit)) == 4 for unit in (*columns, *boxes)):
            yield bytes(digit for row in grid for digit in row)


@pytest.mark.slow
def test_there_are_288_filled_grids():
    assert sorted(complete_grids()) == sorted(slow_grids())
    assert len(complete_grids()) == 288


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_levels_have_one_solution_and_six_clues(split):
    full = complete_grids()
    for row in load_pack("sudoku-6", split)[:60]:
        env = start(row.level.split("/"))
        fits = [g for g in full if all(a in (0, b) for a, b in zip(env.grid, g, strict=True))]
        assert len(fits) == 1
        assert fits == list(solutions(env.grid))
        assert 16 - env.grid.count(0) == 6
        assert row.facts["moves"] == env.grid.count(0)


@given(st.integers(0, 511), st.permutations("1234"), st.integers(0, 3), st.booleans())
@QUICK
def test_keys_ignore_symmetries(index, names, turns, mirrored):
    level = load_pack("sudoku-6", "validation")[index].level
    rows = [row.translate(str.maketrans("1234", "".join(names))) for row in level.split("/")]
    for _ in range(turns):
        rows = ["".join(column) for column in zip(*rows[::-1], strict=True)]
    rows = [row[::-1] for row in rows] if mirrored else rows
    rows = [rows[1], rows[0], *rows[2:]]
    env = SudokuEnv()
    assert env.key("/".join(rows)) == env.key(level)


def test_the_oracle_solves_it_and_knows_when_it_is_lost():
    env = start()
    empty = env.grid.count(0)
    assert env.oracle(empty).value == 1
    assert env.oracle(empty - 1).value == 0
    advice = env.oracle(Budget(25, 5, 5))
    assert len(advice.actions) == 5
    while not env.success:
        reward = env.step(env.oracle().action)[1]
    assert reward == 1.0
    env = start()
    wrong = next(a for a in env.available() if not a.startswith("r1c4") and env_after_is_lost(a))
    env.step(wrong)
    assert (env.oracle().value, env.oracle().actions) == (0.0, ())


def env_after_is_lost(action):
    env = start()
    env.step(action)
    return not list(solutions(env.grid))


@pytest.mark.parametrize(
    "action", ["r1c4 = 4", "r1c4=4", "R1C4: 4", "row 1, column 4 is 4", "row 1 col 4 = 4"]
)
def test_forms_of_placements(action):
    env = start()
    assert env.step(action)[4]["action_is_valid"]
    assert env.grid[3] == 4


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        ("r2c1 = 3", "r2c1 already holds 2"),
        ("r1c1 = 2", "the column of r1c1 already has a 2"),
        ("r2c2 = 1", "the row of r2c2 already has a 1"),
        ("r1c3 = 1", "the column of r1c3 already has a 1"),
        ("r5c1 = 1", "'r5c1 = 1' must name a row, a column and a digit from 1 to 4"),
        ("r1c1 = 5", "'r1c1 = 5' must name a row, a column and a digit from 1 to 4"),
        ("4", "'4' does not have the form r1c2 = 3"),
    ],
)
def test_reasons(action, reason):
    assert start().legal(action).reason == reason


@pytest.mark.parametrize(
    "level",
    [
        ["____"] * 4,
        ["1_34"] * 4,
        ["12", "34"],
        ["1234", "3412", "2143", "4321"],
        ["11__", *["____"] * 3],
    ],
)
def test_bad_levels(level):
    with pytest.raises(InstanceError, match="level"):
        SudokuEnv(level=level)
