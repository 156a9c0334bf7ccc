"""Minesweeper: its rules, and the exact probability to win against an independent search."""

import random
from fractions import Fraction
from functools import cache
from itertools import combinations

import numpy as np
import pytest

from ragen_envs.errors import InstanceError, SolverLimitError
from ragen_envs.game.oracle import Budget
from ragen_envs.games.minesweeper import MinesweeperEnv
from ragen_envs.games.minesweeper.dynamics import ALL, AROUND, CELLS
from ragen_envs.games.minesweeper.oracle import consistent
from ragen_envs.levels.instances import load_pack
from ragen_envs.levels.splits import SPLITS

CELL = range(25)
TURN = [5 * (c % 5) + 4 - c // 5 for c in CELL]
FLIP = [5 * (c // 5) + 4 - c % 5 for c in CELL]


def images(cells):
    """Return a list of cells in all rotations and reflections."""
    turned = [cells]
    for _ in range(3):
        turned.append([turned[-1][c] for c in TURN])
    return turned + [[image[c] for c in FLIP] for image in turned]


IMAGES = images(list(CELL))


def near(a, b):
    return a != b and abs(a // 5 - b // 5) <= 1 and abs(a % 5 - b % 5) <= 1


def start(level):
    env = MinesweeperEnv(level=level.split("/"))
    env.reset()
    return env


def view(mines, opened):
    """Return what a player sees: the number of each open cell."""
    return tuple((cell, sum(near(cell, m) for m in mines)) for cell in sorted(opened))


def slow_open(mines, opened, cell):
    found, border = set(opened), [cell]
    while border:
        at = border.pop()
        if at in found and at != cell:
            continue
        found.add(at)
        if not any(near(at, m) for m in mines):
            border += [c for c in CELL if near(at, c) and c not in found]
    return frozenset(found)


@cache
def chance(mines):
    """Return how likely a board is that shows a certain first cell, up to a factor."""
    firsts = [c for c in CELL if c not in mines and not any(near(c, m) for m in mines)]
    return Fraction(1, len(firsts))


@cache
def slow_value(boards, opened):
    """Return the greatest probability to win, trying every closed cell and no shortcut."""
    best, every = Fraction(0), sum(map(chance, boards))
    for cell in CELL:
        if cell in opened:
            continue
        parts, total = {}, Fraction(0)
        for mines in boards:
            if cell in mines:
                continue
            now = slow_open(mines, opened, cell)
            if len(now) == 25 - len(mines):
                total += chance(mines)
            else:
                parts.setdefault(view(mines, now), (now, []))[1].append(mines)
        for now, part in parts.values():
            total += sum(map(chance, part)) * slow_value(tuple(part), now)
        best = max(best, total / every)
    return best


def boards_like(mines, opened):
    seen = view(mines, opened)
    every = combinations(CELL, len(mines))
    return tuple(b for b in every if not set(b) & opened and view(b, opened) == seen)


def numbers(cells):
    return frozenset(cell for cell in CELL if cells >> cell & 1)


@pytest.mark.slow
@pytest.mark.parametrize("index", [*range(10), 12, 13, 15, 21, 28])
def test_the_probability_to_win_agrees_with_a_slow_search(index):
    row = load_pack("minesweeper-5x5-3", "test")[index]
    env = start(row.level)
    mines, opened = tuple(sorted(numbers(env.mined))), numbers(env.opened)
    boards = boards_like(mines, opened)
    assert sorted(numbers(b) for b in consistent(env.mined, env.opened)) is not None
    assert {numbers(b) for b in consistent(env.mined, env.opened)} == set(map(frozenset, boards))
    if len(boards) > 12:
        pytest.skip("too many boards for the slow search")
    value = float(slow_value(boards, opened))
    assert env.oracle().value == pytest.approx(value, abs=1e-12)
    assert row.facts["optimum"] == pytest.approx(value, abs=1e-6)


@pytest.mark.slow
def test_the_oracle_wins_as_often_as_it_says():
    env, values, wins = MinesweeperEnv(), [], []
    for seed in range(144):
        env.reset(seed=seed)
        values.append(env.oracle().value)
        ended = False
        while not ended:
            ended = env.step(env.oracle().action)[2]
        wins.append(env.success)
    error = 4 * np.std(np.array(wins) - values) / 12
    assert abs(np.mean(wins) - np.mean(values)) < error


def test_the_value_of_a_turn_is_an_average_over_the_boards():
    level = "**.../...../...../o..../...*."
    env, budget = start(level), Budget(50, 10, 5)
    before = env.oracle(budget).value
    assert env.turn_value(env.oracle(budget).actions, budget) == pytest.approx(before, abs=1e-12)
    worst = min(env.turn_value([cell], budget) for cell in env.available())
    assert worst < before


@pytest.mark.parametrize("seed", range(6))
def test_the_value_of_a_turn_of_several_cells_is_that_of_playing_it_on_every_board(seed):
    """The rest of a turn is not played once the game is won or lost."""
    env, budget = MinesweeperEnv(), Budget(50, 10, 5)
    env.reset(options={"split": "test", "index": seed})
    opened, boards = env.opened, consistent(env.mined, env.opened)
    safest = sorted(
        [cell for cell in range(CELLS) if not opened >> cell & 1],
        key=lambda cell: sum(board >> cell & 1 for board in boards),
    )[:5]
    actions = [f"r{cell // 5 + 1}c{cell % 5 + 1}" for cell in safest]
    left = Budget(budget.actions - len(actions), budget.turns - 1, 5)
    total, every, value = 0.0, 0.0, env.turn_value(actions, budget)
    for board in boards:
        env.reset(options={"split": "test", "index": seed})
        env.mined = board
        ended = False
        for action in actions:
            if not ended:
                ended = env.step(action)[2]
        weight = float(chance(tuple(sorted(numbers(board)))))
        total += weight * (float(env.success) if ended else env.oracle(left).value)
        every += weight
    assert value == pytest.approx(total / every, abs=1e-12)


def test_no_game_of_a_split_is_played_in_another():
    """A game is the same whichever cell of a region opened it, and so are its rotations and reflections."""
    games = {split: set() for split in SPLITS}
    for split, found in games.items():
        env = MinesweeperEnv(split=split)
        for index in range(len(load_pack(env.distribution, split))):
            env.reset(options={"index": index})
            opened = numbers(env.opened)
            cells = ["*" if env.mined >> c & 1 else "o" if c in opened else "." for c in CELL]
            found.add(min(tuple(cells[c] for c in image) for image in IMAGES))
    assert sum(map(len, games.values())) == len(set().union(*games.values()))


def test_what_a_turn_will_show_is_not_told_before_it():
    env, cells = start("o..../....*/...../.*..*/....."), ["r4c1", "r4c2", "r5c1"]
    told = [env.text.explain(env, [cell], None) for cell in cells]
    assert "has a mine on 1 of 2 possible boards" in told[1]
    assert env.text.explain(env, cells, None) == " ".join(told)


def test_opening_a_zero_opens_all_around_it():
    rng = random.Random(0)
    for _ in range(60):
        mines = rng.sample(CELL, 3)
        env = MinesweeperEnv()
        env.reset(seed=0)
        env.mined, env.opened = sum(1 << m for m in mines), 0
        cell = rng.choice([c for c in CELL if c not in mines])
        env.step(f"r{cell // 5 + 1}c{cell % 5 + 1}")
        assert numbers(env.opened) == slow_open(mines, frozenset(), cell)


def test_the_board_as_text():
    env = start("*..*./...../...../o..../.....")
    assert env.observe() == "#####\n11111\n00000\n00000\n00000"
    env = start("*.*../...../...../o..../.....")
    env.step("r1c1")
    assert "*" in env.observe()


def test_opening_an_open_cell_does_nothing():
    env = start("*.*../...../...../o..../.....")
    before = env.observe()
    observation, reward, ended, _, info = env.step("open r5c5")
    assert (observation, reward, ended) == (before, 0.0, False)
    assert (info["action_is_valid"], info["action_is_effective"]) == (True, False)


def test_limits_that_may_matter_are_refused():
    env = MinesweeperEnv(mines=4)
    with pytest.raises(SolverLimitError, match="allow more turns"):  # noqa: PT012
        for seed in range(30):
            env.reset(seed=seed)
            env.oracle(Budget(10, 2, 5))


@pytest.mark.parametrize(
    "level",
    [
        "o",
        "...../...../...../...../.....",
        "o..../...../...../...../....x",
        "o*.../...../...../...../.....",
        "o..../" * 4 + ".....",
    ],
)
def test_bad_levels(level):
    with pytest.raises(InstanceError, match="level"):
        MinesweeperEnv(level=level.split("/"))


def test_neighbors():
    for cell in CELL:
        assert numbers(AROUND[cell]) == {other for other in CELL if near(cell, other)}
    assert ALL == (1 << CELLS) - 1
