import time
import tracemalloc
from functools import lru_cache
from itertools import product

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv as Reference
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from playing import reachable
from scipy import stats

from ragen_envs.conversation import ConversationWrapper, format_reply, make
from ragen_envs.errors import InstanceError, RagenError, SolverLimitError
from ragen_envs.game.oracle import Budget
from ragen_envs.games.frozen_lake import FrozenLakeEnv, dynamics
from ragen_envs.games.frozen_lake.open_loop import transitions
from ragen_envs.games.frozen_lake.text import decode_level, encode_level

QUICK = settings(suppress_health_check=[HealthCheck.too_slow])

RATES = st.sampled_from([1 / 3, 0.0, 0.2, 0.8, 1.0])


@st.composite
def maps(draw, least=1, most=5):
    """Return the rows of a random map in Gymnasium's letters."""
    height, width = draw(st.integers(least, most)), draw(st.integers(max(2, least), most))
    size = height * width
    cells = [draw(st.sampled_from("FFFH")) for _ in range(size)]
    start, goal = draw(st.permutations(range(size)))[:2]
    cells[start], cells[goal] = "S", "G"
    return ["".join(cells[i : i + width]) for i in range(0, size, width)]


def reference(rows, rate, slippery=True):
    return Reference(desc=rows, is_slippery=slippery, success_rate=rate).P


def law_of(table, cells):
    """Return P[action, cell, next], rewards[action, cell] and which cells end the game."""
    law, reward = np.zeros((4, cells, cells)), np.zeros((4, cells))
    ends = np.zeros(cells, bool)
    for cell, actions in table.items():
        for action, outcomes in actions.items():
            for chance, there, paid, ended in outcomes:
                law[action, cell, there] += chance
                reward[action, cell] += chance * paid
                ends[there] |= ended
    return law, reward, ends


@given(maps(), RATES)
@QUICK
def test_law_is_gymnasiums(rows, rate):
    tiles, height, width, _ = decode_level("/".join(rows))
    ours = transitions(dynamics.Lake(bytes(tiles), height, width, rate))
    theirs, _, _ = law_of(reference(rows, rate), height * width)
    np.testing.assert_allclose(ours, theirs, atol=1e-12)


@given(maps())
@QUICK
def test_law_without_slipping_is_gymnasiums(rows):
    tiles, height, width, _ = decode_level("/".join(rows))
    ours = transitions(dynamics.Lake(bytes(tiles), height, width, 1.0))
    theirs, _, _ = law_of(reference(rows, 1 / 3, slippery=False), height * width)
    np.testing.assert_array_equal(ours, theirs)


@given(maps(), RATES)
@settings(QUICK, max_examples=40)
def test_steps_follow_gymnasiums_law(rows, rate):
    """Every action from every frozen cell, over an even grid of draws."""
    tiles, height, width, _ = decode_level("/".join(rows))
    table = reference(rows, rate)
    ways = dynamics.ways(height, width)
    draws = (np.arange(60) + 0.5) / 60
    for cell in np.flatnonzero(np.array(tiles) == dynamics.FROZEN).tolist():
        for action in range(4):
            expected = {}
            for chance, there, paid, ended in table[cell][action]:
                key = (there, float(paid), ended)
                expected[key] = expected.get(key, 0) + chance
            found = {}
            for draw in draws:
                direction = dynamics.slipped(action, rate, draw)
                key = dynamics.step(tiles, ways, cell, direction)
                found[key] = found.get(key, 0) + 1 / 60
            for key in expected.keys() | found.keys():
                assert found.get(key, 0) == pytest.approx(expected.get(key, 0), abs=0.02)


@pytest.mark.parametrize("rate", [1 / 3, 0.8])
@pytest.mark.parametrize("action", range(4))
def test_frequencies_of_steps(action, rate):
    rows = ["FGF", "HSF", "FFH"]
    env = FrozenLakeEnv(level=rows, success_rate=rate)
    env.reset(seed=1)
    outcomes, slips, count = {}, 0, 2000
    for _ in range(count):
        env.reset()
        board, reward, ended, _, info = env.step(action)
        there = int(np.flatnonzero(board.ravel() >= 3)[0])
        assert reward == float(there == 1)
        assert ended == (there in (1, 3))
        outcomes[there] = outcomes.get(there, 0) + 1
        slips += info["slipped"]
    chances = {}
    for chance, there, _, _ in reference(rows, rate)[4][action]:
        chances[there] = chances.get(there, 0) + chance
    assert outcomes.keys() == chances.keys()
    cells = sorted(chances)
    expected = [chances[cell] * count for cell in cells]
    assert stats.chisquare([outcomes[cell] for cell in cells], expected).pvalue > 1e-4
    assert abs(slips - count * (1 - rate)) < 4 * np.sqrt(count * rate * (1 - rate))


def test_frequencies_over_noise():
    env = FrozenLakeEnv(level=["FGF", "HSF", "FFH"])
    outcomes = np.zeros(9, int)
    for noise in range(1500):
        env.reset(seed=3, options={"noise": noise})
        outcomes[np.flatnonzero(env.step(1)[0].ravel() >= 3)[0]] += 1
    assert outcomes.sum() == outcomes[[3, 5, 7]].sum()
    assert stats.chisquare(outcomes[[3, 5, 7]]).pvalue > 1e-4


def test_slips_of_successive_steps_are_independent():
    env = FrozenLakeEnv(level=["S" + "F" * 14 + "G"])
    env.reset(seed=2)
    slipped = [env.step(0)[4]["slipped"] for _ in range(4001)]
    pairs = np.array([2 * a + b for a, b in zip(slipped[::2], slipped[1::2], strict=False)])
    expected = np.array([1, 2, 2, 4]) / 9 * len(pairs)
    assert stats.chisquare(np.bincount(pairs, minlength=4), expected).pvalue > 1e-4


def test_no_slips_on_rough_ice():
    env = gym.make("ragen/FrozenLakeDeterministic-v0", level=["SFFF", "FFFG"])
    env.reset(seed=0)
    steps = [env.step(action) for action in (2, 2, 0, 2, 3, 2, 1)]
    assert not any(step[4]["slipped"] for step in steps)
    assert [step[4]["action_is_effective"] for step in steps] == [
        True, True, True, True, False, True, True,
    ]  # fmt: skip
    assert [step[1] for step in steps] == [0, 0, 0, 0, 0, 0, 1]
    assert [step[2] for step in steps] == [False] * 6 + [True]
    assert steps[-1][4]["success"]
    np.testing.assert_array_equal(steps[-1][0], [[0, 0, 0, 0], [0, 0, 0, 5]])


def test_a_hole_ends_without_success():
    env = FrozenLakeEnv(level=["SHG"], success_rate=1.0)
    env.reset(seed=0)
    board, reward, ended, _, info = env.step(2)
    assert (reward, ended, info["success"]) == (0.0, True, False)
    np.testing.assert_array_equal(board, [[0, 4, 2]])


def finite_horizon(rows, rate, steps):
    """Return the largest probability of the goal from each cell, by value iteration."""
    cells = len(rows) * len(rows[0])
    law, reward, ends = law_of(reference(rows, rate), cells)
    for cell in np.flatnonzero(ends):
        law[:, cell] = 0
        reward[:, cell] = 0
    values = np.zeros(cells)
    for _ in range(steps):
        values = (reward + law @ np.where(ends, 0, values)).max(axis=0)
    return values


@given(maps(2), RATES, st.sampled_from([0, 1, 2, 5, 12, 40]))
@settings(QUICK, max_examples=60)
def test_closed_loop_values(rows, rate, steps):
    env = FrozenLakeEnv(level=rows, success_rate=rate)
    env.reset(seed=0)
    start = "".join(rows).index("S")
    expected = finite_horizon(rows, rate, steps)[start]
    for advice in (env.oracle(steps), env.oracle(Budget.closed_loop(steps))):
        assert advice.value == pytest.approx(expected, abs=1e-9)
        assert advice.expected_return == advice.value
        assert len(advice.actions) <= min(1, steps)


@pytest.mark.parametrize("steps", [100, 101, 250, 1000])
def test_long_horizons(steps):
    rows = ["SFHF", "FFFF", "HFFH", "FHFG"]
    env = FrozenLakeEnv(level=rows)
    env.reset(seed=0)
    expected = finite_horizon(rows, 1 / 3, steps)[0]
    assert env.oracle(steps).value == pytest.approx(expected, abs=1e-9)
    if steps == 100:
        assert env.oracle().value == env.oracle(steps).value


class BruteForce:
    """The optimum under a turn budget, by trying every run of actions in every state."""

    def __init__(self, rows, rate, per_turn):
        self.cells = len(rows) * len(rows[0])
        self.table = reference(rows, rate)
        self.tiles = "".join(rows)
        self.per_turn = per_turn
        self.best = lru_cache(maxsize=None)(self._best)

    def _best(self, cell, actions, turns):
        if self.tiles[cell] in "GH" or actions == 0 or turns == 0:
            return float(self.tiles[cell] == "G")
        return max(
            self.worth(cell, run, actions, turns)
            for length in range(1, min(self.per_turn, actions) + 1)
            for run in product(range(4), repeat=length)
        )

    def worth(self, cell, run, actions, turns):
        """Return the value of committing to a run now and playing on optimally."""
        where = {cell: 1.0}
        for action in run:
            after = {}
            for here, weight in where.items():
                for chance, there, _, _ in self.table[here][action]:
                    after[there] = after.get(there, 0) + weight * chance
            where = after
        return sum(
            weight * self.best(there, actions - len(run), turns - 1) for there, weight in where.items()
        )


SMALL = [["SFF", "FHG"], ["FSF", "HFG"], ["SFH", "FFF", "HFG"], ["FFS", "FHF", "GFF"]]
BUDGETS = [Budget(4, 2, 2), Budget(3, 3, 2), Budget(4, 2, 3), Budget(3, 1, 3), Budget(5, 4, 2)]


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("rows", SMALL, ids="/".join)
def test_turn_budgets_against_brute_force(rows, budget):
    brute = BruteForce(rows, 1 / 3, budget.actions_per_turn)
    for cell in range(brute.cells):
        if brute.tiles[cell] in "GH":
            continue
        moved = list(brute.tiles.replace("S", "F"))
        moved[cell] = "S"
        width = len(rows[0])
        env = FrozenLakeEnv(level=["".join(moved[i : i + width]) for i in range(0, len(moved), width)])
        env.reset(seed=0)
        advice = env.oracle(budget)
        best = brute.best(cell, budget.actions, budget.turns)
        assert advice.value == pytest.approx(best, abs=1e-9)
        assert 1 <= len(advice.actions) <= budget.actions_per_turn
        worth = brute.worth(cell, advice.actions, budget.actions, budget.turns)
        assert worth == pytest.approx(best, abs=1e-9)
        for run in [(), *product(range(4), repeat=1), *product(range(4), repeat=2)]:
            worth = brute.worth(cell, run, budget.actions, budget.turns)
            assert env.turn_value(run, budget) == pytest.approx(worth, abs=1e-9)
        assert env.position == cell  # nothing was played


class Unpruned:
    """The optimum under a turn budget, from every run of every length, as one product of matrices each."""

    def __init__(self, env, per_turn):
        self.law = transitions(dynamics.Lake(env.tiles, env.height, env.width, env.success_rate))
        self.goal = np.array([float(tile == 2) for tile in env.tiles])
        self.per_turn = per_turn
        self.values = lru_cache(maxsize=None)(self._values)

    def _values(self, actions, turns):
        if actions == 0 or turns == 0:
            return self.goal
        best = np.zeros(len(self.goal))
        for length in range(1, min(self.per_turn, actions) + 1):
            worth = self.values(actions - length, turns - 1)[None]
            for _ in range(length):
                worth = np.concatenate([worth @ law.T for law in self.law])
            best = np.maximum(best, worth.max(axis=0))
        return best


@pytest.mark.parametrize("per_turn", [2, 3, 4, 5])
@pytest.mark.parametrize("rate", [1 / 3, 0.8, 0.0])
def test_dropping_dominated_runs_changes_no_value(per_turn, rate):
    for seed in range(6):
        env = FrozenLakeEnv(success_rate=rate)
        env.reset(seed=seed)
        reference = Unpruned(env, per_turn)
        for actions, turns in ((10, 5), (7, 2), (per_turn, 1)):
            advice = env.oracle(Budget(actions, turns, per_turn))
            best = reference.values(actions, turns)[env.position]
            assert advice.value == pytest.approx(best, abs=1e-10)
            assert env.max_return(Budget(actions, turns, per_turn)) == advice.expected_return == advice.value


@pytest.mark.parametrize("per_turn", [10, 12])
def test_long_turns_are_solved_quickly(per_turn):
    env = FrozenLakeEnv()
    env.reset(seed=0)
    env.oracle(Budget(2, 1, 2))  # compiles
    for seed in range(12):
        env.reset(seed=seed)
        before = time.process_time()
        value = env.oracle(Budget(per_turn, 5, per_turn)).value
        assert time.process_time() - before < 1
        assert value >= env.oracle(Budget(per_turn, 5, 5)).value - 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("index", [54])
def test_the_row_of_seven_actions_a_turn_of_table_3_has_an_optimum(index):
    settings = {"max_turns": 5, "actions_per_turn": 7, "max_actions": 35}
    env = make("ragen/FrozenLakeText-v0", **settings)
    env.reset(options={"split": "test", "index": index})
    assert 0.3 < env.oracle().value <= 1


@pytest.mark.slow
def test_turns_that_are_too_long_are_refused_soon():
    env = FrozenLakeEnv(level=["FSFF", "FFFH", "FFFF", "HFFG"])
    env.reset(seed=0)
    env.oracle(Budget(2, 1, 2))  # compiles
    tracemalloc.start()
    before = time.process_time()
    with pytest.raises(SolverLimitError, match=r"actions_per_turn is 30, too many.* 5 are never"):
        env.oracle(Budget(60, 3, 30))
    assert time.process_time() - before < 20
    assert tracemalloc.get_traced_memory()[1] < 100e6
    tracemalloc.stop()
    assert env.oracle(Budget(30, 3, 5)).value > 0.2


@pytest.mark.parametrize("budget", [Budget(3, 3, 1), Budget(4, 2, 2), Budget(5, 1, 5)], ids=str)
@pytest.mark.parametrize("rows", SMALL, ids="/".join)
@pytest.mark.parametrize("rate", [1 / 3, 1.0])
def test_random_baseline_against_brute_force(rows, rate, budget):
    env = FrozenLakeEnv(level=rows, success_rate=rate)
    env.reset(seed=0)
    table, tiles = reference(rows, rate), "".join(rows)
    total = 0.0
    for actions in product(range(4), repeat=budget.reach):
        where = {tiles.index("S"): 1.0}
        for action in actions:
            after = {}
            for cell, weight in where.items():
                law = [(1.0, cell)] if tiles[cell] in "GH" else [t[:2] for t in table[cell][action]]
                for chance, there in law:
                    after[there] = after.get(there, 0.0) + weight * chance
            where = after
        total += where.get(tiles.index("G"), 0.0) / 4**budget.reach
    found = env.random_baseline(budget)
    assert found.success == pytest.approx(total, abs=1e-12)
    assert found.expected_return == found.success


@given(maps(2), RATES, st.integers(0, 12), st.integers(1, 4))
@settings(QUICK, max_examples=60)
def test_random_actions_gain_by_time_and_never_beat_the_oracle(rows, rate, actions, per_turn):
    env = FrozenLakeEnv(level=rows, success_rate=rate)
    env.reset(seed=0)
    shorter = env.random_baseline(Budget(actions, actions, per_turn)).success
    longer = env.random_baseline(Budget(actions + 1, actions + 1, per_turn)).success
    assert 0 <= shorter <= longer + 1e-12
    assert shorter <= env.oracle(Budget(actions, actions, per_turn)).value + 1e-9


@pytest.mark.parametrize("seed", range(4))
def test_more_budget_is_never_worse(seed):
    env = FrozenLakeEnv()
    env.reset(seed=seed)
    by_turns = [env.oracle(Budget(8, turns, 4)).value for turns in range(1, 9)]
    by_actions = [env.oracle(Budget(actions, 3, 3)).value for actions in range(10)]
    by_run = [env.oracle(Budget(6, 2, length)).value for length in range(1, 7)]
    for values in (by_turns, by_actions, by_run):
        assert np.diff(values).min() > -1e-12
        assert values[-1] > 0
    assert env.oracle(Budget(8, 8, 1)).value == pytest.approx(by_turns[-1])


@given(maps(2), st.integers(0, 12), st.integers(0, 5), st.integers(1, 5))
@settings(QUICK, max_examples=80)
def test_oracle_without_slipping(rows, actions, turns, per_turn):
    env = FrozenLakeEnv(level=rows, success_rate=1.0)
    board, _ = env.reset(seed=0)
    reach = min(actions, turns * per_turn)
    advice = env.oracle(Budget(actions, turns, per_turn))
    start = "".join(rows).index("S")
    assert advice.value == advice.expected_return == finite_horizon(rows, 1.0, reach)[start]
    assert len(advice.actions) <= min(per_turn, reach)
    if not reachable(board):
        assert advice.actions == ()
    if not advice.value:
        return
    left = Budget(actions, turns, per_turn)
    rewards = []
    while left.reach and 1 not in rewards:
        run = env.oracle(left).actions
        assert 0 < len(run) <= min(per_turn, left.reach)
        rewards += [env.step(action)[1] for action in run]
        left = Budget(left.actions - len(run), left.turns - 1, per_turn)
    assert rewards[-1] == sum(rewards) == 1


def test_oracle_after_the_end():
    env = FrozenLakeEnv(level=["SG"], success_rate=1.0)
    env.reset(seed=0)
    env.step(2)
    assert (env.oracle().actions, env.oracle().value, env.oracle().expected_return) == ((), 1.0, 0)
    env = FrozenLakeEnv(level=["SHG"], success_rate=1.0)
    env.reset(seed=0)
    env.step(2)
    assert (env.oracle().actions, env.oracle().value) == ((), 0.0)


def follow(env):
    while env.end is None:
        names = [env.names[action] for action in env.oracle().actions]
        result = env.play(format_reply(names, "") if env.settings.think else "")
        assert result.parsed.is_valid
    return env.success


@pytest.mark.slow
@pytest.mark.parametrize("limits", [(5, 5, 10), (4, 2, 6), (10, 1, 10)])
def test_value_is_the_success_of_following_the_oracle(limits):
    turns, per_turn, most = limits
    env = ConversationWrapper(FrozenLakeEnv(), max_turns=turns, actions_per_turn=per_turn, max_actions=most)
    surplus = variance = 0.0
    for seed in range(8):
        for noise in range(50):
            env.reset(seed=seed, options={"noise": noise})
            value = env.oracle().value
            surplus += follow(env) - value
            variance += value * (1 - value)
    assert variance > 20
    assert abs(surplus) < 4 * np.sqrt(variance)


@given(maps())
@QUICK
def test_level_text_round_trip(rows):
    level = "/".join(rows).translate(str.maketrans("SFH", "P_O"))
    tiles, height, width, start = decode_level(level)
    assert (height, width) == (len(rows), len(rows[0]))
    assert encode_level(tiles, width, start) == level
    assert decode_level("/".join(rows)) == (tiles, height, width, start)
    env = FrozenLakeEnv(level=rows)
    board, _ = env.reset(seed=0)
    assert env.instance.level == level
    env.step(2)
    assert env.instance.level == level
    assert board.ravel()[start] == 3


@pytest.mark.parametrize("seed", range(5))
def test_generated_maps_can_be_given_as_level(seed):
    env = gym.make("ragen/FrozenLake-v0")
    board, _ = env.reset(seed=seed)
    instance = env.unwrapped.instance
    again = FrozenLakeEnv(level=instance.level.split("/"))
    np.testing.assert_array_equal(again.reset(seed=0)[0], board)
    assert again.instance.key == instance.key


@pytest.mark.parametrize(
    ("level", "words"),
    [
        ("", "one start"),
        ("P_/G", "equal length"),
        ("P_?G", "symbols"),
        ("SFhG", "symbols"),
        ("__G", "one start"),
        ("PPG", "one start"),
        ("P__", "a goal"),
        ("P" + "_" * 15 + "G", "16"),
    ],
)
def test_bad_levels(level, words):
    with pytest.raises(InstanceError, match=words):
        decode_level(level)
    with pytest.raises(RagenError, match=words):
        FrozenLakeEnv(level=level.split("/"))


def test_observations_are_fresh():
    env = FrozenLakeEnv(level=["SFG"], success_rate=1.0)
    first, _ = env.reset(seed=0)
    copy = first.copy()
    env.step(2)[0][:] = 9
    np.testing.assert_array_equal(first, copy)
    np.testing.assert_array_equal(env.board, [[0, 3, 2]])


def test_ansi_rendering_is_the_map():
    env = FrozenLakeEnv(level=["SFH", "FFG"], success_rate=1.0, render_mode="ansi")
    env.reset(seed=0)
    assert env.render() == "P_O\n__G"
    for action in (1, 2, 2):
        env.step(action)
    assert env.render() == "__O\n__√"
    env.reset()
    env.step(2)
    env.step(2)
    assert env.render() == "__X\n__G"


def test_time_limit():
    env = gym.make("ragen/FrozenLakeDeterministic-v0", level=["SG"])
    env.reset(seed=0)
    cuts = [env.step(0)[3] for _ in range(100)]
    assert cuts == [False] * 99 + [True]


@pytest.mark.parametrize("action", [-1, 4, "Up", 1.0])
def test_a_turn_of_actions_that_do_not_exist_has_no_value(action):
    env = FrozenLakeEnv()
    env.reset(seed=0)
    with pytest.raises(RagenError, match=r"action is .* must be one of 0"):
        env.turn_value([0, action], Budget(5, 5, 5))
    assert env.turn_value([np.int64(0)], Budget(5, 5, 5)) == env.turn_value([0], Budget(5, 5, 5))
