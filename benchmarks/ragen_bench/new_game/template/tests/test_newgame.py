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
    assert step(1, 0, 5, 0) == (0, 1.0, True)
    assert step(0, 3, 5, 0) == (0, 0.0, False)
    assert step(4, 3, 5, 1) == (4, 0.0, False)


def test_same_seed_same_levels():
    one, other = gym.make(GAME.id).unwrapped, gym.make(GAME.id).unwrapped
    for seed in (3, None, None):
        one.reset(seed=seed)
        other.reset(seed=seed)
        assert one.instance == other.instance


@pytest.mark.parametrize("split", SPLITS)
def test_levels_belong_to_their_split(split):
    env = gym.make(GAME.id).unwrapped
    for index in range(20):
        env.reset(options={"split": split, "index": index})
        assert split_of(int(env.instance.key, 16)) == split


@pytest.mark.parametrize("budget", [Budget(4, 4, 1), Budget(6, 2, 3), Budget(5, 3, 2)])
def test_oracle_is_as_good_as_every_sequence_of_actions(budget):
    env = gym.make(GAME.id).unwrapped
    for seed in range(20):
        env.reset(seed=seed)
        value, level, best = env.oracle(budget).value, env.instance.level, 0.0
        for actions in product(range(env.action_space.n), repeat=budget.reach):
            env.start(level)
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
        assert "Actions: " in prompt
        over, value = False, env.get_wrapper_attr("oracle")().value
        while not over:
            advice = env.get_wrapper_attr("oracle")()
            names = [env.get_wrapper_attr("names")[action] for action in advice.actions]
            _, _, terminated, truncated, info = env.step(format_reply(names, "on my way"))
            over = terminated or truncated
        assert info["success"] == (value == 1.0)
