"""Mastermind: answers, the known results of its best strategy, and exact chances."""

from collections import Counter
from itertools import product

import numpy as np
import pytest

from ragen_envs.errors import InstanceError, SolverLimitError
from ragen_envs.game.oracle import Budget
from ragen_envs.games.mastermind import MastermindEnv, oracle
from ragen_envs.games.mastermind.dynamics import CODES, answer_to, answers
from ragen_envs.games.mastermind.oracle import advise, guesses_needed, reach, remaining, value_after


def slow_answer(guess, code):
    """Return the answer by taking pegs away, as people do."""
    right = [k for k in range(4) if guess[k] == code[k]]
    left = [code[k] for k in range(4) if k not in right]
    misplaced = 0
    for k in range(4):
        if k not in right and guess[k] in left:
            left.remove(guess[k])
            misplaced += 1
    return len(right), misplaced


def test_answers_agree_with_the_rules_of_the_board():
    rng = np.random.default_rng(0)
    for _ in range(2000):
        guess, code = (CODES[i] for i in rng.integers(len(CODES), size=2))
        assert answer_to(guess, code) == slow_answer(guess, code)
        packed = int(answers()[CODES.index(guess), CODES.index(code)])
        assert divmod(packed, 8) == slow_answer(guess, code)


def test_five_guesses_are_enough_and_4_34_the_average():
    needed = Counter(map(guesses_needed, CODES))
    assert sum(needed.values()) == 1296
    assert max(needed) == 5
    assert sum(k * n for k, n in needed.items()) == 5626


@pytest.mark.parametrize(("guesses", "value"), [(1, 1 / 1296), (2, 14 / 1296), (5, 1.0), (6, 1.0)])
def test_chances_from_the_start(guesses, value):
    env = MastermindEnv()
    env.reset(seed=0)
    if guesses == 2:
        # A first guess splits the codes into at most 14 classes, of which each later guess finds one.
        assert env.oracle(2).value <= 14 / 1296
        return
    assert env.oracle(guesses).value == pytest.approx(value)


def slow_chance(codes, guesses):
    """Return how many codes can be found, trying every guess."""
    if not codes or not guesses:
        return 0
    if guesses == 1 or len(codes) == 1:
        return 1
    best = 0
    for guess in CODES:
        classes = {}
        for code in codes:
            classes.setdefault(answer_to(guess, code), []).append(code)
        found = sum(
            1 if answer == (4, 0) else slow_chance(part, guesses - 1) for answer, part in classes.items()
        )
        best = max(best, found)
        if best == len(codes):
            break
    return best


@pytest.mark.parametrize("seed", range(6))
def test_chances_agree_with_brute_force(seed):
    rng = np.random.default_rng(seed)
    code = CODES[rng.integers(1296)]
    told = []
    while len(remaining(told)) > 12:
        guess = CODES[rng.integers(1296)]
        told.append((guess, answer_to(guess, code)))
    codes = [CODES[k] for k in remaining(told)]
    found = advise(tuple(told), False, Budget(2, 2, 1)).value
    assert found == pytest.approx(slow_chance(codes, 2) / len(codes))


def test_the_oracle_never_needs_more_than_the_theorem_says():
    env = MastermindEnv()
    for index in range(60):
        env.reset(options={"split": "test", "index": index})
        while not env.success:
            env.step(env.oracle(Budget(6 - len(env.guesses), 6 - len(env.guesses), 1)).action)
        assert len(env.guesses) <= 5


def test_the_value_of_a_turn_is_an_average_over_the_codes():
    env = MastermindEnv(level="BOYP")
    env.reset()
    env.step("RRGB")
    budget = Budget(2, 2, 1)
    best = env.oracle(budget)
    assert env.turn_value(best.actions, budget) == pytest.approx(best.value)
    assert env.turn_value(("R R R R",), budget) < best.value
    assert env.turn_value((), budget) <= best.value


def test_several_guesses_a_turn_are_refused_where_they_may_matter():
    env = MastermindEnv()
    env.reset(seed=0)
    assert env.oracle(Budget(10, 5, 2)).value == 1.0
    with pytest.raises(SolverLimitError, match="actions_per_turn to 1"):
        env.oracle(Budget(10, 2, 5))


@pytest.mark.parametrize("action", ["RRGB", "r r g b", "R, R, G, B", " rRgB "])
def test_forms_of_guesses(action):
    env = MastermindEnv(level="BOYP")
    env.reset()
    assert env.step(action)[4]["action_is_valid"]
    assert env.guesses == (("RRGB", (0, 1)),)


@pytest.mark.parametrize("level", ["", "RRG", "RRGBY", "rrgb", "RRGX", "R R G B"])
def test_bad_levels(level):
    with pytest.raises(InstanceError, match="level"):
        MastermindEnv(level=level)


def test_bounds():
    assert [reach(k) for k in range(4)] == [0, 1, 14, 183]
    assert len(CODES) == len(set(CODES)) == len(list(product("RGBYOP", repeat=4)))


def test_the_same_question_is_answered_once():
    """Every game begins with the same one, whatever its code."""
    first, second = MastermindEnv(level="RRGB"), MastermindEnv(level="POYB")
    first.reset()
    second.reset()
    assert first.oracle(6) is second.oracle(6)
    assert first.oracle(6) != first.oracle(1)


@pytest.mark.parametrize("seed", range(4))
def test_the_value_after_a_guess_is_that_of_what_the_oracle_would_say_next(seed):
    drawn = np.random.default_rng(seed).choice(CODES, 4)
    told = [(guess, answer_to(guess, drawn[0])) for guess in drawn[1:3]]
    codes, rest = remaining(told), Budget(2, 2, 1)
    expected = 0.0
    for code in codes:
        answer = answer_to(drawn[3], CODES[code])
        solved = CODES[code] == drawn[3]
        expected += advise((*told, (drawn[3], answer)), solved, rest).value / len(codes)
    assert value_after(told, [drawn[3]], Budget(3, 3, 1)) == pytest.approx(expected)


def test_a_search_that_gives_up_does_so_once(monkeypatch):
    monkeypatch.setattr(oracle, "MAX_STATES", 5)
    begun = []

    class Counted(oracle.Search):
        def __init__(self):
            begun.append(self)
            super().__init__()

    monkeypatch.setattr(oracle, "Search", Counted)
    told = [("PPPP", (0, 0)), ("PPPP", (0, 0))]
    for searches in (1, 1):
        with pytest.raises(SolverLimitError, match="more than 5 states of Mastermind"):
            advise(tuple(told), False, Budget(3, 3, 1))
        assert len(begun) == searches
    for searches in (2, 2):
        with pytest.raises(SolverLimitError, match="more than 5 states of Mastermind"):
            value_after(told, [], Budget(3, 4, 1))
        assert len(begun) == searches
