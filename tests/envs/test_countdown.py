"""Countdown: its rules, and its optimum against brute force."""

from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragen_envs.errors import InstanceError
from ragen_envs.game.oracle import Budget
from ragen_envs.games.countdown import CountdownEnv
from ragen_envs.games.countdown.oracle import fewest, random_chance
from ragen_envs.levels.instances import load_pack

QUICK = settings(suppress_health_check=[HealthCheck.too_slow], max_examples=60)
NUMBERS = st.lists(st.integers(1, 12), min_size=2, max_size=4)


def start(level):
    env = CountdownEnv(level=level)
    env.reset()
    return env


def slow_results(numbers):
    """Yield (numbers after, chain) of every operation on ordered pairs, with exact fractions."""
    for i, j in permutations(range(len(numbers)), 2):
        rest = [n for k, n in enumerate(numbers) if k not in (i, j)]
        a, b = Fraction(numbers[i]), Fraction(numbers[j])
        for value in (a + b, a - b, a * b, a / b):
            if value > 0 and value.denominator == 1:
                yield [*rest, int(value)]


def slow_fewest(numbers, target):
    level, steps = [list(numbers)], 0
    while level:
        if any(target in each for each in level):
            return steps
        level = [after for each in level for after in slow_results(each)]
        level = [list(each) for each in {tuple(sorted(each)) for each in level}]
        steps += 1
    return None


@given(NUMBERS, st.integers(1, 60))
@QUICK
def test_fewest_operations_agree_with_brute_force(numbers, target):
    assert fewest(tuple(sorted(numbers)), target) == slow_fewest(numbers, target)


@given(NUMBERS, st.integers(1, 60))
@QUICK
def test_the_oracle_wins_with_the_fewest_operations(numbers, target):
    if target in numbers:
        return
    env = start(f"{target}: {' '.join(map(str, numbers))}")
    need = fewest(env.numbers, target)
    assert env.oracle().value == float(need is not None)
    if need is None:
        assert env.oracle().actions == ()
        return
    assert env.oracle(need - 1).value == 0
    actions = env.oracle(Budget(need, 1, need)).actions
    assert len(actions) == need
    for action in actions[:-1]:
        assert env.step(action)[1:3] == (0.0, False)
    assert env.step(actions[-1])[1:3] == (1.0, True)


def test_random_chance_agrees_with_random_play():
    env, rng = start("24: 2 3 4 6"), np.random.default_rng(0)
    wins = 0
    for _ in range(4000):
        env.reset()
        ended = False
        while not ended:
            _, reward, ended, _, _ = env.step(env.random_action(rng))
        wins += reward
    chance = random_chance((2, 3, 4, 6), 24, 3)
    assert abs(wins / 4000 - chance) < 4 * (chance * (1 - chance) / 4000) ** 0.5
    assert env.random_baseline().success == 1.0 if env.success else True


@pytest.mark.parametrize(
    ("action", "after"),
    [
        ("25 - 7", (3, 8, 18)),
        ("  8*7 = 56 ", (3, 25, 56)),
        ("8 x 7", (3, 25, 56)),
        ("7 × 8", (3, 25, 56)),
        ("25 + 3", (7, 8, 28)),
    ],
)
def test_forms_of_operations(action, after):
    env = start("60: 3 7 8 25")
    assert env.step(action)[4]["action_is_valid"]
    assert env.numbers == after


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        ("7 - 25", "7 - 25 is not a positive whole number"),
        ("25 / 7", "25 / 7 is not a positive whole number"),
        ("8 / 0", "0 is not among the numbers"),
        ("8 * 7 = 54", "8 * 7 is 56, not 54"),
        ("8 + 8", "there is only one 8"),
        ("8 + 9", "9 is not among the numbers"),
        ("8 + 7 + 3", "'8 + 7 + 3' does not have the form a + b, with one of + - * /"),
    ],
)
def test_reasons(action, reason):
    assert start("60: 3 7 8 25").legal(action).reason == reason


def test_the_game_ends_with_one_number():
    env = start("60: 3 7 8")
    assert env.step("3 + 7")[2] is False
    _, reward, ended, _, info = env.step("10 + 8")
    assert (reward, ended, info["success"]) == (0.0, True, False)


@pytest.mark.parametrize("level", ["60", "60: 3", "3: 3 7", "0: 3 7", "60: 3 x", "60:3 7", "5: 0 5"])
def test_bad_levels(level):
    with pytest.raises(InstanceError, match="level"):
        CountdownEnv(level=level)


def test_the_pack_says_what_is_true():
    for row in load_pack("countdown-4", "test")[:40]:
        env = start(row.level)
        assert row.facts["moves"] == slow_fewest(env.numbers, env.target) >= 2
        assert row.facts["chance"] == pytest.approx(env.random_baseline(10).success, abs=1e-6)


def test_results_of_many_digits_can_be_used():
    env = start("120000: 200000 300000 500000")
    reward, played = 0.0, []
    while not env.success:
        played.append(env.oracle().action)
        reward += env.step(played[-1])[1]
    assert reward == 1.0
    assert any(len(number) > 9 for action in played for number in action.split())


@pytest.mark.parametrize(
    ("level", "width", "actions"),
    [
        ("100: 2 3 4 5 6 7", 660, ("2 * 3",)),
        (
            "100: 999999 999998 999997 999996",
            552,
            ("999999 * 999998", "999997 * 999996", "999993000012 * 999997000002"),
        ),
    ],
    ids=["six numbers", "24 digits"],
)
def test_every_level_has_pictures_of_one_size(level, width, actions):
    env = CountdownEnv(level=level, render_mode="rgb_array")
    env.reset()
    assert env.render().shape == (180, width, 3)
    for action in actions:
        assert env.step(action)[4]["action_is_effective"]
        assert env.render().shape == (180, width, 3)
