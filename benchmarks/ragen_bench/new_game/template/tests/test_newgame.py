"""Checks that every game must pass. Add tests of your rules."""

import copy

import gymnasium as gym
import pytest
from gymnasium.utils.env_checker import check_env
from newgame import GAME

from ragen_envs.conversation import format_reply
from ragen_envs.game import Budget
from ragen_envs.levels.splits import SPLITS


def can_win(game, left):
    """Return whether some sequence of at most so many actions wins; all of them are tried."""
    if game.success or not left:
        return game.success
    choices = game.available() if hasattr(game, "available") else range(len(game.action_names))
    for action in choices:
        twin = copy.deepcopy(game)
        _, ended, _ = twin.act(action)
        if twin.success or (not ended and can_win(twin, left - 1)):
            return True
    return False


def test_passes_check_env():
    check_env(gym.make(GAME.id).unwrapped)


def test_same_seed_same_levels():
    one, other = gym.make(GAME.id).unwrapped, gym.make(GAME.id).unwrapped
    for seed in (3, None, None):
        one.reset(seed=seed)
        other.reset(seed=seed)
        assert one.instance == other.instance


def test_a_level_can_be_played_again():
    first = gym.make(GAME.id).unwrapped
    first.reset(seed=3)
    again = gym.make(GAME.id, level=first.instance.level).unwrapped
    again.reset(seed=8)
    assert (again.instance.level, again.instance.key) == (first.instance.level, first.instance.key)


def test_splits_share_no_level():
    env = gym.make(GAME.id).unwrapped
    keys = dict.fromkeys(SPLITS, frozenset())
    for split in SPLITS:
        for index in range(20):
            env.reset(options={"split": split, "index": index})
            keys[split] |= {env.instance.key}
    assert len(frozenset().union(*keys.values())) == sum(map(len, keys.values()))


@pytest.mark.parametrize("budget", [Budget(3, 3, 1), Budget(4, 2, 2)])
def test_the_oracle_is_as_good_as_every_sequence_of_actions(budget):
    game = gym.make(GAME.id).unwrapped
    for seed in range(20):
        game.reset(seed=seed)
        assert game.oracle(budget).value == can_win(game, budget.reach)


def test_the_oracle_solves_what_it_says_in_a_conversation():
    env = gym.make(GAME.text_id)
    for seed in range(20):
        env.reset(seed=seed)
        over, value = False, env.get_wrapper_attr("oracle")().value
        names = env.get_wrapper_attr("names")
        while not over:
            actions = env.get_wrapper_attr("oracle")().actions
            words = [each if isinstance(each, str) else names[each] for each in actions]
            _, _, terminated, truncated, info = env.step(format_reply(words, "on my way"))
            over = terminated or truncated
        assert info["success"] == (value == 1.0)
