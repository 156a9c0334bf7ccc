from itertools import product

import gymnasium as gym
import pytest
from gymnasium.utils.env_checker import check_env
from newgame import GAME
from newgame.dynamics import step

from ragen_envs.conversation import format_reply
from ragen_envs.game.oracle import Budget
from ragen_envs.levels.splits import SPLITS, split_of


def test_passes_check_env():
    check_env(gym.make(GAME.id).unwrapped)


def test_rules():
    assert step((1, 5, 5), 6, 5) == ((1, 5), 1)


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        ("pay 10", "there is no coin of 10 left"),
        ("pay 5", "5 is more than the 3 that are due"),
        ("give 1", "'give 1' does not have the form pay 5"),
    ],
)
def test_illegal_actions_say_why(action, reason):
    env = gym.make(GAME.id).unwrapped
    env.reset(seed=0)
    env.start("3: 1 2 5")
    assert env.legal(action).reason == reason


@pytest.mark.parametrize("split", SPLITS)
def test_levels_belong_to_their_split(split):
    env = gym.make(GAME.id).unwrapped
    for index in range(20):
        env.reset(options={"split": split, "index": index})
        assert split_of(int(env.instance.key, 16)) == split


@pytest.mark.parametrize("budget", [Budget(3, 3, 1), Budget(4, 2, 2)])
def test_oracle_is_as_good_as_every_sequence_of_actions(budget):
    env = gym.make(GAME.id, coins=4).unwrapped
    for seed in range(20):
        env.reset(seed=seed)
        value, level, best = env.oracle(budget).value, env.instance.level, 0.0
        for actions in product(env.available(), repeat=budget.reach):
            env.start(level)
            env._over = False
            for action in actions:
                reward, ended, _ = env.act(action)
                best = max(best, reward)
                if ended:
                    break
        assert value == best


def test_conversation():
    env = gym.make(GAME.text_id)
    for seed in range(20):
        prompt, info = env.reset(seed=seed)
        assert "Actions: pay <coin>." in prompt
        over, value = False, env.get_wrapper_attr("oracle")().value
        while not over:
            actions = env.get_wrapper_attr("oracle")().actions
            _, _, terminated, truncated, info = env.step(format_reply(actions, "on my way"))
            over = terminated or truncated
        assert info["success"] == (value == 1.0)
