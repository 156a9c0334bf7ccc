"""Pickled and deep-copied envs: they play on like the original, and apart from it."""

import copy
import pickle
import subprocess
import sys

import gymnasium as gym
import numpy as np
import pettingzoo
import pytest
from gymnasium.vector import AutoresetMode
from playing import action_text, numeric_action

from ragen_envs.conversation import format_reply, make
from ragen_envs.multi_agent import MULTI_AGENT_GAMES
from ragen_envs.registration import GAMES, text_ids

NUMERIC = [game.id for game in GAMES]
COMPILED = [game.id for game in GAMES if game.vector_entry_point]
TEXTS = list(text_ids())
TABLES = [env_id for game in MULTI_AGENT_GAMES for env_id in (game.id, game.text_id)]
CORRIDOR = ["########", "#P_X_O_#", "########"]
VARIANTS = [
    *((env_id, {}) for env_id in COMPILED),
    ("ragen/Sokoban-v0", {"reward": "sparse"}),
    ("ragen/Sokoban-v0", {"level": CORRIDOR}),
    ("ragen/FrozenLake-v0", {"level": ["SFF", "FHF", "FFG"]}),
    ("ragen/Bandit-v0", {"level": ["Nurse", "Somebody"]}),
    *((env_id, {"copy": False}) for env_id in COMPILED),
    ("ragen/FrozenLake-v0", {"level": ["SFF", "FHF", "FFG"], "copy": False}),
    ("ragen/Bandit-v0", {"split": "test"}),
]


def pickled(env):
    return pickle.loads(pickle.dumps(env))


COPIES = [pytest.param(pickled, id="pickle"), pytest.param(copy.deepcopy, id="deepcopy")]


def assert_same(left, right):
    if isinstance(left, dict):
        assert left.keys() == right.keys()
        for key in left:
            assert_same(left[key], right[key])
    elif isinstance(left, tuple | list) or (isinstance(left, np.ndarray) and left.dtype == object):
        assert len(left) == len(right)
        for a, b in zip(left, right, strict=True):
            assert_same(a, b)
    else:
        np.testing.assert_array_equal(left, right)


def frozen(log):
    """Return a copy of what an env gave, which may be its own buffer."""
    return copy.deepcopy(log)


def play_vector(envs, steps, seed):
    rng = np.random.default_rng(seed)
    many = envs.num_envs
    return [frozen(envs.step(rng.integers(envs.single_action_space.n, size=many))) for _ in range(steps)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("copied", "mode"),
    [(pickled, AutoresetMode.NEXT_STEP), (copy.deepcopy, AutoresetMode.SAME_STEP)],
    ids=["pickle", "deepcopy"],
)
@pytest.mark.parametrize(("env_id", "kwargs"), VARIANTS)
def test_vector_envs(env_id, kwargs, copied, mode):
    envs = gym.make_vec(env_id, num_envs=3, autoreset_mode=mode, max_episode_steps=5, **kwargs)
    envs.reset(seed=1)
    play_vector(envs, 3, 0)
    twin = copied(envs)
    expected = play_vector(envs, 12, 1)
    assert_same(play_vector(twin, 12, 1), expected)
    for arguments in ({}, {"seed": 8}, {"seed": 8, "options": {"split": "test"}}):
        assert_same(frozen(twin.reset(**arguments)), frozen(envs.reset(**arguments)))
    before = frozen((envs._observations, envs._state))
    play_vector(twin, 9, 2)
    assert_same((envs._observations, envs._state), before)
    assert not twin.step(np.zeros(3, np.int64))[4]["_success"].flags.writeable


@pytest.mark.parametrize("copied", COPIES)
@pytest.mark.parametrize("env_id", COMPILED)
def test_frozen_levels_and_pictures_of_copied_vector_envs(env_id, copied):
    envs = gym.make_vec(env_id, num_envs=2, render_mode="ansi")
    twin = copied(envs)
    options = {"split": "test", "index": np.array([3, 8])}
    assert_same(twin.reset(options=options), envs.reset(options=options))
    for action in (0, 1):
        assert_same(twin.step(np.full(2, action)), envs.step(np.full(2, action)))
        assert twin.render() == envs.render()


@pytest.mark.parametrize("env_id", COMPILED)
def test_copies_before_the_first_reset(env_id):
    envs = gym.make_vec(env_id, num_envs=2)
    twin = pickled(envs)
    with pytest.raises(gym.error.ResetNeeded):
        twin.step(np.zeros(2, np.int64))
    assert_same(twin.reset(seed=5), envs.reset(seed=5))


@pytest.mark.slow
def test_a_pickled_vector_env_plays_on_in_another_process(tmp_path):
    envs = gym.make_vec("ragen/FrozenLake-v0", num_envs=3)
    envs.reset(seed=1)
    play_vector(envs, 3, 0)
    (tmp_path / "envs").write_bytes(pickle.dumps(envs))
    script = (
        "import pickle, sys, numpy as np; envs = pickle.load(open(sys.argv[1], 'rb'))\n"
        "print(envs.step(np.ones(3, int))[0].ravel().tolist(), envs.reset(seed=3)[0].ravel().tolist())"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "envs")],
        capture_output=True,
        text=True,
        check=True,
    )
    stepped = envs.step(np.ones(3, np.int64))[0].ravel().tolist()
    assert done.stdout.strip() == f"{stepped} {envs.reset(seed=3)[0].ravel().tolist()}"


@pytest.mark.slow
@pytest.mark.parametrize("env_id", [*NUMERIC, *TEXTS])
def test_deep_copies_of_gymnasiums_vector_envs(env_id):
    mode = {} if env_id in TEXTS else {"vectorization_mode": "sync"}
    envs = gym.make_vec(env_id, num_envs=2, **mode)
    envs.reset(seed=2)
    twin = copy.deepcopy(envs)
    for step in range(4):
        actions = (
            ["<think>a</think><answer>Up</answer>"] * 2
            if env_id in TEXTS
            else [numeric_action(env, step) for env in envs.envs]
        )
        assert_same(twin.step(actions), envs.step(actions))
    assert_same(twin.reset(seed=4), envs.reset(seed=4))


def some_action(env, number):
    if env.spec is None or env.spec.id in TEXTS:
        return format_reply([action_text(env, number)], "hm") if number % 3 else "no"
    return numeric_action(env, number)


@pytest.mark.slow
@pytest.mark.parametrize("copied", COPIES)
@pytest.mark.parametrize("env_id", [*NUMERIC, *TEXTS])
def test_single_envs_and_conversations(env_id, copied):
    env = gym.make(env_id, split="validation")
    env.reset(seed=11)
    if any(env.step(some_action(env, 1))[2:4]):
        env.reset()
    before = frozen(env.unwrapped.observe())
    twin, idle = copied(env), copied(env)
    for number in range(30):
        action = some_action(env, number)
        left, right = env.step(action), twin.step(action)
        assert_same(left, right)
        if left[2] or left[3]:
            assert_same(env.reset(), twin.reset())
    assert twin.unwrapped.instance == env.unwrapped.instance
    assert_same(idle.unwrapped.observe(), before)
    if env_id in TEXTS:
        assert twin.get_wrapper_attr("messages") == env.get_wrapper_attr("messages")


@pytest.mark.parametrize("copied", COPIES)
def test_a_conversation_outside_of_gymnasiums_wrappers(copied):
    env = make("ragen/SokobanText-v0", observation="both")
    env.reset(seed=3)
    twin = copied(env)
    assert twin.play(some_action(env, 1)) == env.play(some_action(env, 1))
    assert (twin.messages, twin.budget, twin.oracle()) == (env.messages, env.budget, env.oracle())


@pytest.mark.parametrize("face", ["parallel", "aec"])
@pytest.mark.parametrize("copied", COPIES)
@pytest.mark.parametrize("env_id", TABLES)
def test_games_for_several_players(env_id, copied, face):
    env = pettingzoo.make(face, env_id)
    env.reset(seed=3)
    reply = "<think>a</think><answer>Up</answer>"

    def step(table, number):
        if face == "aec":
            told = table.last()
            table.step(None if told[2] or told[3] else reply if "text" in env_id else number % 3)
            return table.agent_selection if table.agents else None, told
        return table.step(dict.fromkeys(table.agents, reply if "text" in env_id else number % 3))

    step(env, 0)
    twin = copied(env)
    number = 0
    while env.agents and number < 12:
        number += 1
        assert_same(step(twin, number), step(env, number))
        assert twin.agents == env.agents
    env.reset()
    twin.reset()
    levels = [getattr(t.unwrapped, "game", t.unwrapped) for t in (env, twin)]
    if face == "parallel":
        assert levels[0].instance == levels[1].instance
