import math
from collections import Counter
from itertools import combinations, islice, product

import gymnasium as gym
import numpy as np
import pytest

from ragen_envs.errors import InstanceError, RagenError
from ragen_envs.game.oracle import Budget
from ragen_envs.games.bandit import BanditEnv, all_names, arm_names
from ragen_envs.games.packs import COUNTS
from ragen_envs.games.packs import bandits as rows

VARIANTS = ["ragen/Bandit-v0", "ragen/BanditRev-v0", "ragen/BanditTrap-v0"]
CHANCE = {"ragen/Bandit-v0": 0.25, "ragen/BanditRev-v0": 0.25, "ragen/BanditTrap-v0": 0.10}
LISTED = [pair for names in arm_names().values() for pair in zip(*names, strict=True)]


def gamble_of(env_id, safe, risky):
    return safe if env_id == "ragen/BanditRev-v0" else risky


def better_of(env_id, safe, risky):
    return safe if env_id in ("ragen/BanditRev-v0", "ragen/BanditTrap-v0") else risky


@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize("env_id", VARIANTS)
def test_roles(env_id, swap):
    for safe, risky in LISTED:
        shown = [risky, safe] if swap else [safe, risky]
        env = gym.make(env_id, level=shown)
        for arm, name in enumerate(shown):
            env.reset(seed=arm)
            assert env.unwrapped.names == tuple(shown)
            assert shown[env.unwrapped.sure_arm] != gamble_of(env_id, safe, risky)
            _, reward, ended, cut, info = env.step(arm)
            assert ended
            assert not cut
            assert info["gambled"] == (name == gamble_of(env_id, safe, risky))
            assert info["success"] == (name == better_of(env_id, safe, risky))
            assert reward in ((0.0, 1.0) if info["gambled"] else (0.15,))
            assert type(reward) is float


@pytest.mark.parametrize("env_id", VARIANTS)
def test_payoffs(env_id):
    env = gym.make(env_id)
    env.reset(seed=0)
    gambled, sure, count = 0.0, set(), 3000
    for _ in range(count):
        env.reset()
        gambled += env.step(1 - env.unwrapped.sure_arm)[1]
        env.reset()
        sure.add(env.step(env.unwrapped.sure_arm)[1])
    chance = CHANCE[env_id]
    assert sure == {0.15}
    assert abs(gambled - count * chance) < 4 * math.sqrt(count * chance * (1 - chance))


@pytest.mark.parametrize("env_id", VARIANTS)
def test_success_does_not_depend_on_the_payoff(env_id):
    env = gym.make(env_id)
    paid, success = set(), set()
    for seed in range(100):
        env.reset(seed=seed)
        _, reward, _, _, info = env.step(1 - env.unwrapped.sure_arm)
        paid.add(reward)
        success.add(info["success"])
    assert paid == {0.0, 1.0}
    assert success == {env_id != "ragen/BanditTrap-v0"}


def test_names_of_the_splits_are_disjoint():
    names = {split: {*lists.safe, *lists.risky} for split, lists in arm_names().items()}
    assert set(names) == {"train", "validation", "test"}
    for left, right in combinations(names.values(), 2):
        assert not {n.casefold() for n in left} & {n.casefold() for n in right}
    assert len(all_names()) == len({name.casefold() for name in all_names()})
    assert set(all_names()) == set().union(*names.values())


def test_names_are_single_capitalised_words_that_fit_the_picture():
    for name in all_names():
        assert name.isalpha()
        assert name == name.capitalize()
        assert len(name) <= 12


def test_each_split_has_as_many_safe_as_risky_names():
    counts = {split: {len(names) for names in lists} for split, lists in arm_names().items()}
    assert counts == {"train": {96}, "validation": {32}, "test": {48}}


def test_the_papers_names():
    train, test = arm_names()["train"], arm_names()["test"]
    assert {"Phoenix", "Teacher"} <= set(train.safe)
    assert {"Dragon", "Engineer"} <= set(train.risky)
    assert "Librarian" in test.safe
    assert "Trader" in test.risky


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_fresh_pairs_come_from_their_split(split):
    env = BanditEnv()
    env.reset(seed=1, options={"split": split})
    drawn = []
    for _ in range(2000):
        env.reset(options={"split": split})
        drawn.append(env.names if env.sure_arm == 0 else env.names[::-1])
    assert {safe for safe, _ in drawn} == set(arm_names()[split].safe)
    assert {risky for _, risky in drawn} == set(arm_names()[split].risky)
    pairs = len(arm_names()[split].safe) ** 2
    expected = pairs * (1 - (1 - 1 / pairs) ** len(drawn))
    assert len(set(drawn)) == pytest.approx(expected, rel=0.03)


def test_order_is_fair():
    env = BanditEnv()
    env.reset(seed=0)
    first = 0
    for _ in range(2000):
        env.reset()
        first += env.sure_arm == 0
    assert abs(first - 1000) < 4 * math.sqrt(500)


@pytest.mark.parametrize("env_id", VARIANTS)
def test_oracle(env_id):
    env = gym.make(env_id)
    sure_is_better = CHANCE[env_id] < 0.15
    for seed in range(30):
        env.reset(seed=seed)
        advice = env.unwrapped.oracle()
        sure = env.unwrapped.sure_arm
        assert advice.actions == ((sure if sure_is_better else 1 - sure),)
        assert advice.value == 1
        assert advice.expected_return == pytest.approx(max(0.15, CHANCE[env_id]))
        assert env.unwrapped.oracle(Budget(1, 1, 1)) == advice
        assert env.unwrapped.oracle(0).value == 0
        assert env.unwrapped.oracle(0).actions == ()
        assert env.step(advice.action)[4]["success"]
        assert env.unwrapped.oracle().actions == ()
        assert env.unwrapped.oracle().value == 1


def test_oracle_after_the_worse_arm():
    env = BanditEnv()
    env.reset(seed=0)
    env.step(env.sure_arm)
    advice = env.oracle()
    assert (advice.actions, advice.value, advice.expected_return) == ((), 0.0, 0.0)


@pytest.mark.parametrize("env_id", VARIANTS)
def test_oracles_return_is_what_it_earns(env_id):
    env = gym.make(env_id)
    env.reset(seed=5)
    count, earned = 2000, 0.0
    for _ in range(count):
        env.reset()
        advice = env.unwrapped.oracle()
        earned += env.step(advice.action)[1] - advice.expected_return
    assert abs(earned) <= 4 * math.sqrt(count * 0.25 * 0.75)


def test_observations_name_the_arms():
    env = BanditEnv()
    for seed in range(20):
        observation, _ = env.reset(seed=seed)
        assert tuple(all_names()[i] for i in observation) == env.names
        assert observation in env.observation_space
    env = BanditEnv(level=["Nurse", "Quark"])
    observation, _ = env.reset(seed=0)
    assert observation.tolist() == [all_names().index("Nurse"), len(all_names())]
    assert observation in env.observation_space


def test_unknown_names_make_the_second_arm_risky():
    env = BanditEnv(level=["Quark", "Gluon"])
    env.reset(seed=0)
    assert env.sure_arm == 0
    reverse = BanditEnv(level=["Quark", "Gluon"], gamble="sounds_safe")
    reverse.reset(seed=0)
    assert reverse.sure_arm == 1


def test_text_says_nothing_before_the_pull():
    env = BanditEnv(render_mode="ansi")
    for seed in range(10):
        env.reset(seed=seed)
        assert env.render() == f"Arms: {env.names[0]}, {env.names[1]}"
    env.step(env.sure_arm)
    assert "paid 0.15" in env.render()


def test_a_wrong_action_leaves_the_text_of_vectors_as_it_was():
    envs = gym.make_vec(VARIANTS[0], num_envs=2, render_mode="ansi", copy=False)
    envs.reset(seed=0)
    rewards = envs.step(np.zeros(2, np.int64))[1]
    shown = envs.render()
    rewards[:] = 7
    with pytest.raises(RagenError, match="the action of env 1 is 2"):
        envs.step(np.array([0, 2]))
    assert envs.render() == shown


def test_the_three_variants_tell_the_same_story():
    prompts = set()
    for name in ("Bandit", "BanditRev", "BanditTrap"):
        env = gym.make(f"ragen/{name}Text-v0", level=["Nurse", "Spy"])
        prompts.add(env.reset(seed=0)[0])
    assert len(prompts) == 1


def test_custom_payoffs():
    env = BanditEnv(sure=2.0, jackpot=10.0, chance=1.0)
    env.reset(seed=0)
    assert env.step(env.sure_arm)[1] == 2.0
    env.reset()
    assert env.oracle().expected_return == 10.0
    assert env.step(1 - env.sure_arm)[1] == 10.0


def test_equal_arms_are_refused():
    with pytest.raises(RagenError, match=r"0\.25"):
        BanditEnv(sure=0.25)


@pytest.mark.parametrize(
    "level",
    [
        ["Nurse"],
        ["Nurse", "Nurse"],
        ["Nurse", ""],
        ["A", "B", "C"],
        ["Dragon", "dragon"],
        [" A", "A"],
        ["A||B", "C"],
    ],
)
def test_bad_levels(level):
    with pytest.raises(InstanceError, match="two different names"):
        BanditEnv(level=level)


def test_key_ignores_the_order():
    env = BanditEnv()
    assert env.key("Nurse/Spy") == env.key("Spy/Nurse")
    pairs = [pair for names in arm_names().values() for pair in product(*names)]
    keys = {env.key(f"{a}/{b}") for a, b in pairs}
    assert len(keys) == len(pairs) == 96 * 96 + 32 * 32 + 48 * 48
    assert all(0 <= key < 2**63 for key in keys)


def test_episodes_are_one_pull():
    env = BanditEnv()
    observation, _ = env.reset(seed=0)
    after, _, ended, _, info = env.step(0)
    assert ended
    assert info["action_is_effective"]
    np.testing.assert_array_equal(after, observation)


def pack_of(split):
    """Return the pairs (safe, risky) of the split's pack, and whether the safe one comes first."""
    safe = set(arm_names()[split].safe)
    levels = [row["level"].split("/") for row in islice(rows(split), COUNTS[split])]
    return [((a, b), True) if a in safe else ((b, a), False) for a, b in levels]


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_a_pack_holds_different_pairs_of_its_split(split):
    pairs = [pair for pair, _ in pack_of(split)]
    assert len(set(pairs)) == len(pairs) == COUNTS[split]
    assert set(pairs) <= set(product(*arm_names()[split]))


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_each_prefix_of_a_pack_is_balanced(split):
    shown, first = Counter(dict.fromkeys([n for lists in arm_names()[split] for n in lists], 0)), 0
    for number, ((safe, risky), safe_first) in enumerate(pack_of(split), 1):
        shown.update((safe, risky))
        first += safe_first
        assert max(shown.values()) - min(shown.values()) <= 1
        assert abs(2 * first - number) <= 1


def test_the_order_of_the_arms_in_a_pack_does_not_depend_on_the_names():
    pack = pack_of("train")
    for name in arm_names()["train"].safe:
        orders = [first for (safe, _), first in pack if safe == name]
        assert 3 <= sum(orders) <= len(orders) - 3


def test_the_rows_of_a_pack_go_through_all_pairs():
    env = BanditEnv()
    keys = [env.key(row["level"]) for row in islice(rows("validation"), 5000)]
    assert len(set(keys)) == len(keys) == 32 * 32
