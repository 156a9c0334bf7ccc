"""Vector envs with ``copy=False``: the same results as with copies, in the same arrays at each step."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import RecordEpisodeStatistics

import ragen_envs  # noqa: F401

LAKE = ["SFF", "FHF", "FFG"]
GAMES = [
    ("ragen/Sokoban-v0", {}),
    ("ragen/Sokoban-v0", {"level": ["######", "#P_XO#", "######"]}),
    ("ragen/FrozenLake-v0", {}),
    ("ragen/FrozenLake-v0", {"level": LAKE}),
    ("ragen/FrozenLake-v0", {"level": LAKE, "success_rate": 1.0}),
    ("ragen/Bandit-v0", {}),
]
MODES = (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP)
COUNT, STEPS = 5, 40


def pair(env_id, mode, kwargs):
    return [
        gym.make_vec(env_id, num_envs=COUNT, max_episode_steps=7, autoreset_mode=mode, copy=copy, **kwargs)
        for copy in (True, False)
    ]


def assert_same(left, right):
    if isinstance(left, dict):
        assert left.keys() == right.keys()
        for key in left:
            assert_same(left[key], right[key])
    elif isinstance(left, tuple) or (isinstance(left, np.ndarray) and left.dtype == object):
        assert len(left) == len(right)
        for a, b in zip(left, right, strict=True):
            assert_same(a, b)
    else:
        np.testing.assert_array_equal(left, right)
        if left is not None:
            assert left.dtype == right.dtype


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("env_id", "kwargs"), GAMES)
def test_results_are_those_of_copies(env_id, kwargs, mode):
    copying, in_place = pair(env_id, mode, kwargs)
    assert_same(copying.reset(seed=3), in_place.reset(seed=3))
    drawn = np.random.default_rng(0).integers(copying.single_action_space.n, size=(STEPS, COUNT))
    ended = 0
    for actions in drawn:
        expected = copying.step(actions)
        assert_same(expected, in_place.step(actions))
        ended += (expected[2] | expected[3]).sum()
    assert ended


@pytest.mark.parametrize(("env_id", "kwargs"), GAMES)
def test_steps_return_the_same_arrays(env_id, kwargs):
    _, envs = pair(env_id, AutoresetMode.NEXT_STEP, kwargs)
    board, _ = envs.reset(seed=0)
    first = envs.step(np.zeros(COUNT, np.int64))
    second = envs.step(np.ones(COUNT, np.int64))
    assert board is first[0]
    assert all(a is b for a, b in zip(first[:4], second[:4], strict=True))
    assert all(np.shares_memory(first[4][key], value) for key, value in second[4].items())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("env_id", "kwargs"), GAMES)
def test_wrappers_add_their_infos(env_id, kwargs, mode):
    copying, in_place = map(RecordEpisodeStatistics, pair(env_id, mode, kwargs))
    for envs in (copying, in_place):
        envs.reset(seed=3)
    seen = 0
    for _ in range(STEPS):
        actions = np.ones(COUNT, np.int64)
        expected, found = copying.step(actions)[4], in_place.step(actions)[4]
        assert expected.keys() == found.keys()
        if "episode" in expected:
            seen += 1
            np.testing.assert_array_equal(expected["episode"]["r"], found["episode"]["r"])
    assert seen


@pytest.mark.parametrize(("env_id", "kwargs"), GAMES)
def test_the_state_of_the_games_cannot_be_overwritten(env_id, kwargs):
    _, envs = pair(env_id, AutoresetMode.NEXT_STEP, kwargs)
    board, _ = envs.reset(seed=0)
    with pytest.raises(ValueError, match="read-only"):
        board[:] = 0
    infos = envs.step(np.zeros(COUNT, np.int64))[4]
    if "boxes_on_target" in infos:
        with pytest.raises(ValueError, match="read-only"):
            infos["boxes_on_target"][:] = 9


@pytest.mark.parametrize(("env_id", "kwargs"), GAMES)
def test_fresh_results_stay_as_they_were(env_id, kwargs):
    envs, _ = pair(env_id, AutoresetMode.NEXT_STEP, kwargs)
    envs.reset(seed=0)
    first = envs.step(np.zeros(COUNT, np.int64))
    kept = tuple(value.copy() for value in first)
    for _ in range(9):
        envs.step(np.ones(COUNT, np.int64))
    assert_same(kept, first)
