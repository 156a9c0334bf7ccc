"""What random actions are worth, and the largest return, against brute force and played games."""

from functools import cache
from itertools import product
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragen_agents.policies import Request
from ragen_agents.policies.controls import RandomPolicy
from ragen_envs.conversation import make
from ragen_envs.errors import RagenError
from ragen_envs.game.base import GameEnv
from ragen_envs.game.oracle import Budget
from ragen_envs.games.bandit import BanditEnv
from ragen_envs.games.cube import CubeEnv
from ragen_envs.games.cube.dynamics import is_solved, turned
from ragen_envs.games.sokoban import SokobanEnv

QUICK = settings(suppress_health_check=[HealthCheck.too_slow])
CORNER = ["######", "#P__##", "#_X_O#", "#_XO_#", "######"]
LOST = ["#####", "#X__#", "#P_O#", "#####"]
ROWS = {"corner": CORNER, "lost": LOST, "push": ["######", "#PX_O#", "#____#", "######"]}
UNEVEN = {"per_action": -0.3, "box_on": 2.0, "box_off": -0.5, "solved": 7.0}
BUDGETS = [Budget(0, 3, 2), Budget(1, 1, 1), Budget(4, 2, 2), Budget(5, 5, 5), Budget(5, 2, 5)]


def start(level, **keywords):
    env = SokobanEnv(level=level, **keywords)
    env.reset(seed=0)
    return env


def played(env, actions):
    """Return success and return of a sequence of actions from the start of a fixed level."""
    env.reset(seed=0)
    total, ended = 0.0, False
    for action in actions:
        if not ended:
            reward, ended, _ = env.act(action)
            total += reward
    return ended, total


@pytest.mark.parametrize(
    ("level", "reward", "budget"),
    [
        *(("corner", "dense", budget) for budget in BUDGETS),
        ("lost", "sparse", BUDGETS[2]),
        ("lost", "dense", BUDGETS[3]),
        *(("push", reward, BUDGETS[4]) for reward in ("sparse", UNEVEN)),
    ],
    ids=str,
)
def test_sokoban_against_every_sequence(level, reward, budget):
    env = start(ROWS[level], reward=reward)
    found, best = env.random_baseline(budget), env.max_return(budget)
    outcomes = [played(env, actions) for actions in product(range(4), repeat=budget.reach)]
    success, mean = np.mean(outcomes, axis=0)
    assert found.success == pytest.approx(success, abs=1e-12)
    assert found.expected_return == pytest.approx(mean, abs=1e-12)
    least = min(budget.turns, budget.reach)  # an action in each turn
    counts = range(least, budget.reach + 1)
    shorter = (played(env, a)[1] for n in counts for a in product(range(4), repeat=n))
    assert best == pytest.approx(max(shorter))


@given(st.integers(0, 50), st.integers(0, 12), st.integers(1, 4), st.integers(1, 5))
@settings(QUICK, max_examples=60)
def test_sokoban_gains_by_time_and_never_beats_the_oracle(seed, actions, turns, per_turn):
    env = SokobanEnv(size=7, boxes=2)
    env.reset(seed=seed)
    budget, more = Budget(actions, turns, per_turn), Budget(actions + 1, turns + 1, per_turn)
    baseline, advice = env.random_baseline(budget), env.oracle(budget)
    assert 0 <= baseline.success <= env.random_baseline(more).success
    assert baseline.success <= advice.value
    assert baseline.expected_return <= env.max_return(budget) + 1e-9
    assert advice.expected_return <= env.max_return(budget) + 1e-9


def test_the_largest_return_can_exceed_the_oracles():
    env = start(["#######", "#_____#", "#PX_O_#", "#___X_#", "#_O___#", "#######"])
    length = next(n for n in range(40) if env.oracle(n).value)
    assert env.max_return(length) == pytest.approx(env.oracle(length).expected_return)
    budget = Budget(length - 1, 1, length)
    assert env.oracle(budget).value == 0
    assert env.max_return(budget) == pytest.approx(0.8)  # two pushes that put one box on a target
    assert env.oracle(budget).expected_return < 0.8


def test_solved_levels_are_worth_their_success():
    env = start(ROWS["push"])
    for action in (3, 3):
        env.step(action)
    assert env.random_baseline(10) == env.random_baseline(0)
    assert (env.random_baseline(10).success, env.max_return(10)) == (1.0, 0.0)


@pytest.mark.slow
def test_too_many_states_are_no_baseline():
    env = SokobanEnv(size=16, boxes=6)
    env.reset(seed=0)
    assert env.random_baseline(10) is not None
    assert env.random_baseline(60) is None
    cube = CubeEnv()
    cube.reset(seed=0)
    assert cube.random_baseline(14) is not None
    assert cube.random_baseline(15) is None


@cache
def chance_to_solve(state, steps):
    if is_solved(state) or steps == 0:
        return float(is_solved(state))
    return sum(chance_to_solve(turned(state, action), steps - 1) for action in range(6)) / 6


@pytest.mark.slow
@pytest.mark.parametrize("scramble", [1, 2, 3, 5])
def test_cube_against_every_sequence(scramble):
    env = CubeEnv(scramble=scramble)
    for seed in range(2):
        env.reset(seed=seed)
        for steps in range(7):
            found = env.random_baseline(steps)
            assert found.success == pytest.approx(chance_to_solve(env.state, steps), abs=1e-15)
            assert found.expected_return == found.success
    assert env.random_baseline(14).success > found.success > 0


def test_bandits():
    env = BanditEnv()
    env.reset(seed=0)
    found = env.random_baseline(Budget(1, 1, 1))
    assert (found.success, found.expected_return) == (0.5, pytest.approx(0.2))
    assert env.random_baseline(0).success == 0
    env.step(1 - env.sure_arm)
    assert (env.random_baseline(1).success, env.random_baseline(1).expected_return) == (1, 0)
    assert env.max_return(1) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings_",
    [{}, {"max_turns": 2, "actions_per_turn": 3}, {"max_turns": 9, "actions_per_turn": 1}],
    ids=["default", "two turns", "single actions"],
)
@pytest.mark.parametrize("game", ["SokobanText", "FrozenLakeText", "FrozenLakeDeterministicText", "CubeText"])
def test_the_random_policy_earns_what_the_baseline_says(game, settings_):
    keywords = {"scramble": 2} if game == "CubeText" else {}
    env = make(f"ragen/{game}-v0", **settings_, **keywords)
    policy, rng = RandomPolicy(), np.random.default_rng(0)
    surplus, gains = [], []
    for seed in range(160):
        env.reset(seed=seed % 40, options={"noise": seed})
        expected = env.random_baseline()
        total = 0.0
        while env.end is None:
            (reply,) = policy.act([Request(env.messages, int(rng.integers(2**62)), env)])
            total += env.play(reply.text).reward
        surplus.append(env.success - expected.success)
        gains.append(total - expected.expected_return)
    for sample in (surplus, gains):
        assert np.std(sample) > 0
        assert abs(np.mean(sample)) < 4 * np.std(sample) / np.sqrt(len(sample))


def test_games_of_other_packages_need_none():
    class Other(GameEnv):
        start = observe = success = None

        def oracle(self, budget=None):
            return SimpleNamespace(expected_return=0.25)

    assert Other().random_baseline(Budget(3, 2, 2)) is None
    assert Other().max_return() == 0.25


@pytest.mark.parametrize("env_id", ["ragen/Minesweeper-v0", "ragen/Cube-v0", "ragen/FrozenLake-v0"])
def test_an_oracle_is_not_asked_about_fewer_steps_than_none(env_id):
    env = gym.make(env_id).unwrapped
    env.reset(seed=0)
    with pytest.raises(RagenError, match="budget is -1"):
        env.oracle(-1)


@pytest.mark.parametrize("budget", [2.5, 2.0, "3", True, (5, 5, 1), np.float64(3)])
@pytest.mark.parametrize("env_id", ["ragen/Sokoban-v0", "ragen/Cube-v0", "ragen/Countdown-v0"])
def test_a_budget_of_another_type_is_refused(env_id, budget):
    env = gym.make(env_id).unwrapped
    env.reset(seed=0)
    for asked in (env.oracle, env.random_baseline, env.max_return):
        with pytest.raises(RagenError, match=r"budget is .* but must be an integer >= 0"):
            asked(budget)


def test_integers_of_numpy_are_a_budget():
    assert Budget(np.int64(4), np.uint8(2), np.int32(2)) == Budget(4, 2, 2)
    env = SokobanEnv(level=CORNER)
    env.reset()
    assert env.oracle(np.int64(9)) == env.oracle(9)
    assert env.random_baseline(np.int64(9)) == env.random_baseline(9)
