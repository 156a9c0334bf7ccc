"""After its end an episode gives nothing more, and Gymnasium's own checker agrees with every env."""

import random
import warnings

import gymnasium as gym
import numpy as np
import pettingzoo
import pytest
from gymnasium.utils.env_checker import check_env
from playing import best_texts, numeric_action

from ragen_envs.conversation import EndReason, format_reply, make
from ragen_envs.errors import ResetNeededError
from ragen_envs.game.oracle import Advice, RandomBaseline
from ragen_envs.multi_agent import MULTI_AGENT_GAMES
from ragen_envs.registration import GAMES, text_ids

NUMERIC = [game.id for game in GAMES]
TEXTS = list(text_ids())
TABLES = [env_id for game in MULTI_AGENT_GAMES for env_id in (game.id, game.text_id)]


def finish(env):
    """Play the oracle's actions until the game ends; the game must have been reset."""
    game = env.unwrapped
    for _ in range(1000):
        actions = game.oracle().actions
        if game.step(actions[0] if actions else 0)[2]:
            return
    raise AssertionError("the game does not end")


@pytest.mark.parametrize("face", ["gym.make", "unwrapped", "act"])
@pytest.mark.parametrize("env_id", NUMERIC)
def test_no_action_after_the_end(env_id, face):
    env = gym.make(env_id, disable_env_checker=True)
    game = env.unwrapped
    step = {"gym.make": env.step, "unwrapped": game.step, "act": game.act}[face]
    for seed in range(3):
        env.reset(seed=seed)
        finish(env)
        before, info = game.observe(), game.info(effective=False)
        for action in (0, 1):
            with pytest.raises(ResetNeededError, match=r"episode has ended.*reset\(\)"):
                step(action)
        assert np.all(game.observe() == before)
        assert game.info(effective=False) == info
    env.reset()
    step(numeric_action(env, 1))


def test_falling_into_a_hole_ends_it_too():
    env = gym.make("ragen/FrozenLake-v0", level=["PO", "_G"], success_rate=1.0).unwrapped
    env.reset(seed=0)
    assert env.step(2)[1:3] == (0.0, True)
    with pytest.raises(gym.error.ResetNeeded):
        env.step(0)


@pytest.mark.parametrize("env_id", NUMERIC)
def test_no_action_before_the_first_reset(env_id):
    env = gym.make(env_id).unwrapped
    for method in (env.step, env.act):
        with pytest.raises(ResetNeededError, match=r"reset\(\) before the first action"):
            method(0)


@pytest.mark.parametrize("env_id", TEXTS)
def test_no_reply_after_the_end(env_id):
    env = gym.make(env_id, max_turns=1)
    env.reset(seed=0)
    env.step("no")
    with pytest.raises(ResetNeededError, match="episode has ended"):
        env.step("no")


@pytest.mark.parametrize("env_id", TEXTS)
def test_no_action_after_a_conversation_ended_the_game(env_id):
    env = make(env_id, max_turns=50, max_actions=50)
    env.reset(seed=0)
    while env.end is None:
        names = best_texts(env) or [env.names[0]]
        env.play(format_reply(names, "hm"))
    if env.end is EndReason.TERMINATED:
        with pytest.raises(ResetNeededError):
            env.unwrapped.step(0)


@pytest.mark.parametrize("env_id", TABLES)
def test_no_round_after_the_end_of_a_game_for_several(env_id):
    env = pettingzoo.make("parallel", env_id, max_cycles=2)
    with pytest.raises(ResetNeededError, match=r"call reset\(\) first"):
        env.step({})
    env.reset(seed=0)
    action = "<think>a</think><answer>Up</answer>" if env_id.endswith("_text-v0") else 0
    everybody = list(env.agents)
    while env.agents:
        env.step(dict.fromkeys(env.agents, action))
    for actions in ({}, dict.fromkeys(everybody, action)):
        with pytest.raises(ResetNeededError, match=r"call reset\(\) first"):
            env.step(actions)


@pytest.mark.slow
@pytest.mark.parametrize("env_id", [*NUMERIC, *TEXTS])
def test_check_env(env_id):
    env = gym.make(env_id, render_mode="ansi")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # A conversation is a wrapper, which is what this warning is about.
        warnings.filterwarnings("ignore", ".*is different from the unwrapped version")
        check_env(env if env_id in TEXTS else env.unwrapped)


@pytest.mark.parametrize("env_id", TEXTS)
def test_limits_that_the_prompt_states_terminate(env_id):
    env = gym.make(env_id, max_turns=1)
    env.reset(seed=0)
    _, _, terminated, truncated, info = env.step("no")
    assert (terminated, truncated, info["end"]) == (True, False, "budget")


def test_time_limits_that_no_prompt_states_truncate():
    game = gym.make("ragen/Sokoban-v0", max_episode_steps=1)
    env = make(game)
    env.reset(seed=0)
    name = random.Random(0).choice(env.names)
    _, _, terminated, truncated, info = env.step(format_reply([name], "hm"))
    assert (terminated, truncated, info["end"]) == (False, True, "truncated")


@pytest.mark.parametrize("env_id", TEXTS)
def test_after_the_end_a_conversation_is_worth_its_success(env_id):
    env = make(env_id)
    env.reset(options={"split": "test", "index": 0})
    while env.end is None:
        env.play(format_reply(best_texts(env), "so"))
    assert env.oracle() == Advice((), float(env.success), 0.0)
    assert env.random_baseline() == RandomBaseline(float(env.success), 0.0)
    assert env.max_return() == 0.0


@pytest.mark.parametrize("end", [EndReason.INVALID, EndReason.TRUNCATED, EndReason.BUDGET])
def test_an_episode_that_was_cut_short_is_worth_nothing(end):
    limited = gym.make("ragen/Sokoban-v0", max_episode_steps=1 if end == "truncated" else 100)
    env = make(limited, invalid="end", max_turns=1 if end == "budget" else 5)
    env.reset(options={"split": "test", "index": 5})
    assert env.oracle().value == 1.0
    env.play("what?" if end == "invalid" else format_reply([env.names[0]], "so"))
    assert env.end == end
    assert env.oracle() == Advice((), 0.0, 0.0)
    assert env.random_baseline() == RandomBaseline(0.0, 0.0)
    assert env.max_return() == 0.0
