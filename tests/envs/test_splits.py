"""Which split levels come from: asked for once, it stays."""

from functools import partial

import gymnasium as gym
import numpy as np
import pettingzoo
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from ragen_envs.adapters.trl_tools import GameTools
from ragen_envs.conversation import make
from ragen_envs.errors import RagenError
from ragen_envs.levels.splits import SPLITS, split_of
from ragen_envs.multi_agent import MULTI_AGENT_GAMES
from ragen_envs.registration import GAMES, text_ids

NUMERIC = [game.id for game in GAMES]
COMPILED = [game.id for game in GAMES if game.vector_entry_point]
EVERY = [*NUMERIC, *text_ids()]
TABLES = [env_id for game in MULTI_AGENT_GAMES for env_id in (game.id, game.text_id)]


def assert_level_of(env, split):
    """Check what the env says of its level, and that the level's own key says the same."""
    instance = env.unwrapped.instance
    assert instance.split == split
    if "bandit" not in instance.distribution:
        assert split_of(int(instance.key, 16)) == split


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("env_id", EVERY)
def test_single_envs_stay_in_the_split_of_the_constructor(env_id, split):
    env = gym.make(env_id, split=split)
    for arguments in (
        {},
        {"seed": 4},
        {},
        {"options": {"noise": 2}},
        {"options": {"index": 3}},
        {},
    ):
        env.reset(**arguments)
        assert_level_of(env, split)
    pack = gym.make(env_id)
    pack.reset(options={"split": split, "index": 3})
    env.reset(options={"index": 3})
    assert env.unwrapped.instance == pack.unwrapped.instance


@pytest.mark.parametrize("env_id", EVERY)
def test_single_envs_stay_in_the_split_of_the_last_reset_that_named_one(env_id):
    env = gym.make(env_id)
    for options in ({"split": "test"}, {"split": "validation", "index": 0}, {"split": "train"}):
        env.reset(seed=1, options=options)
        for arguments in ({}, {"seed": 7}, {"options": {"index": 1}}, {}):
            env.reset(**arguments)
            assert_level_of(env, options["split"])


@pytest.mark.parametrize("env_id", NUMERIC)
def test_a_refused_reset_does_not_change_the_split(env_id):
    env = gym.make(env_id)
    with pytest.raises(RagenError):
        env.reset(options={"split": "test", "index": 10**9})
    env.reset()
    assert_level_of(env, "train")


@pytest.mark.parametrize("env_id", EVERY)
def test_the_split_of_the_constructor_gives_the_levels_of_the_option(env_id):
    for split in SPLITS:
        observation, _ = gym.make(env_id, split=split).reset(seed=5)
        expected, _ = gym.make(env_id).reset(seed=5, options={"split": split})
        assert np.array_equal(observation, expected)


@pytest.mark.parametrize(
    ("env_id", "split"),
    [*((env_id, "dev") for env_id in (*EVERY, *TABLES)), (EVERY[0], None), (EVERY[0], ["test"])],
)
def test_wrong_splits_are_refused_when_the_env_is_made(env_id, split):
    make = partial(pettingzoo.make, "parallel") if env_id in TABLES else gym.make
    with pytest.raises(RagenError, match=r"split is .*train, validation, test"):
        make(env_id, split=split)


@pytest.mark.parametrize("env_id", NUMERIC)
def test_wrong_splits_are_refused_when_the_vector_env_is_made(env_id):
    with pytest.raises(RagenError, match="split is 'dev'"):
        gym.make_vec(env_id, num_envs=2, split="dev")


def both(env_id, mode, **kwargs):
    """Return the game's vector env and Gymnasium's over the single envs."""
    ours = gym.make_vec(env_id, num_envs=4, autoreset_mode=mode, max_episode_steps=2, **kwargs)
    makers = [lambda: gym.make(env_id, max_episode_steps=2, **kwargs)] * 4
    return ours, SyncVectorEnv(makers, autoreset_mode=mode)


@pytest.mark.slow
@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("env_id", COMPILED)
def test_autoresets_stay_in_the_split(env_id, split, mode):
    for kwargs, options in (({"split": split}, {}), ({}, {"split": split})):
        ours, theirs = both(env_id, mode, **kwargs)
        for arguments in ({"seed": 3, "options": options}, {}, {"seed": 9}):
            first, _ = ours.reset(**arguments)
            assert np.array_equal(first, theirs.reset(**arguments)[0])
            for step in range(7):
                actions = np.full(4, step % 2)
                assert np.array_equal(ours.step(actions)[0], theirs.step(actions)[0])
        for env in theirs.envs:
            assert_level_of(env, split)


@pytest.mark.slow
@pytest.mark.parametrize("env_id", [i for i in EVERY if i not in COMPILED])
def test_autoresets_of_gymnasiums_vector_envs_stay_in_the_split(env_id):
    envs = gym.make_vec(env_id, num_envs=2, split="test")
    for arguments in ({"seed": 1}, {"options": {"split": "validation"}}, {}):
        envs.reset(**arguments)
        for _ in range(5):
            envs.step(envs.action_space.sample())
    for env in envs.envs:
        assert_level_of(env, "validation")


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("env_id", COMPILED)
def test_envs_of_one_vector_can_be_in_different_splits(env_id, mode):
    ours, theirs = both(env_id, mode)
    for envs in (ours, theirs):
        envs.reset(seed=0)
    masks = np.array([[True, False, False, True], [False, True, False, False]])
    for split, mask in zip(("test", "validation"), masks, strict=True):
        for envs in (ours, theirs):
            envs.reset(options={"split": split, "reset_mask": mask})
    assert [env.unwrapped.split for env in theirs.envs] == ["test", "validation", "train", "test"]
    if mode is AutoresetMode.DISABLED:
        assert np.array_equal(ours.reset()[0], theirs.reset()[0])
        return
    for step in range(9):
        actions = np.full(4, step % 2)
        assert np.array_equal(ours.step(actions)[0], theirs.step(actions)[0])
    mask = np.array([False, True, True, False])
    index = {"index": np.array([0, 5, 5, 0]), "reset_mask": mask}
    observations, _ = ours.reset(options=index)
    for i, split in ((1, "validation"), (2, "train")):
        frozen, _ = gym.make(env_id).reset(options={"split": split, "index": 5})
        assert np.array_equal(observations[i], frozen)


@pytest.mark.parametrize("env_id", TABLES)
def test_games_for_several_players_stay_in_their_split(env_id):
    for kwargs, options in (({"split": "test"}, None), ({}, {"split": "test"})):
        env = pettingzoo.make("parallel", env_id, **kwargs)
        game = getattr(env, "game", env)
        for arguments in ({"seed": 1, "options": options}, {}, {"seed": 2}):
            env.reset(**arguments)
            assert_level_of(game, "test")


def test_conversations_stay_in_their_split():
    env = make("ragen/FrozenLakeText-v0", split="validation")
    env.reset()
    assert_level_of(env, "validation")
    env.reset(seed=3, options={"split": "test"})
    env.reset()
    assert_level_of(env, "test")


def test_rows_of_a_dataset_do_not_change_the_split_of_the_next():
    tools, expected = (GameTools("ragen/FrozenLakeText-v0", split="validation") for _ in range(2))
    tools.reset(split="test", index=2)
    assert tools.reset(seed=4) == expected.reset(seed=4)
    env = make("ragen/FrozenLakeText-v0", split="validation", think=False)
    env.reset(seed=4)
    assert env.user in expected.reset(seed=4)
