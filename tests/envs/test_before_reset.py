"""What only an episode has cannot be asked for before the first reset, and the error says so."""

import copy
import pickle

import gymnasium as gym
import numpy as np
import pettingzoo
import pytest

from ragen_envs.errors import ResetNeededError
from ragen_envs.game.oracle import Budget
from ragen_envs.multi_agent import MULTI_AGENT_GAMES
from ragen_envs.registration import GAMES, text_ids

GAME_IDS = [game.id for game in GAMES]
TEXTS = [name for name in text_ids() if name.startswith("ragen/")]
VECTORS = [game.id for game in GAMES if gym.spec(game.id).vector_entry_point]
TABLES = [game.id for game in MULTI_AGENT_GAMES]
TABLE_TEXTS = [game.text_id for game in MULTI_AGENT_GAMES]
BUDGET = Budget(20, 20, 1)
NEEDED = pytest.raises(ResetNeededError, match=r"call reset\(\)")


@pytest.mark.parametrize("env_id", GAME_IDS)
def test_a_game_has_no_step_and_no_instance(env_id):
    env = gym.make(env_id).unwrapped
    for ask in (lambda: env.act(0), lambda: env.step(0), env.render, lambda: env.instance):
        with NEEDED:
            ask()
    for twin in (env, copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        twin.reset(seed=0)
        assert twin.instance.level == env.instance.level
        assert twin.max_return(BUDGET) == env.max_return(BUDGET)


@pytest.mark.parametrize("env_id", TABLES)
def test_a_game_of_several_players_has_nothing_to_show(env_id):
    for mode in ("human", "ansi", "rgb_array"):
        env = pettingzoo.make("parallel", env_id, render_mode=mode).unwrapped
        for ask in (env.render, lambda env=env: env.instance):
            with NEEDED:
                ask()
    env.reset(seed=0)
    assert env.render() is not None
    assert env.oracle(0).actions
    assert env.instance.seed == 0


@pytest.mark.parametrize("mode", ["ansi", "rgb_array"])
@pytest.mark.parametrize("env_id", VECTORS)
def test_a_vector_env_has_no_frames_before_every_env_was_reset(env_id, mode):
    envs = gym.make_vec(env_id, num_envs=2, render_mode=mode)
    with NEEDED:
        envs.render()
    envs.reset(seed=0, options={"reset_mask": np.array([True, False])})
    with NEEDED:
        envs.render()
    envs.reset(seed=0, options={"reset_mask": np.array([False, True])})
    assert len(envs.render()) == 2
