"""`GameVectorEnv.rollout`: many steps in one call."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from ragen_envs.errors import RagenError, ResetNeededError
from ragen_envs.registration import GAMES


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
@pytest.mark.parametrize("env_id", [game.id for game in GAMES if game.vector_entry_point])
def test_a_rollout_is_as_many_steps(env_id, mode):
    stepped, rolled = (
        gym.make_vec(env_id, num_envs=7, autoreset_mode=mode, max_episode_steps=9) for _ in range(2)
    )
    for envs in (stepped, rolled):
        envs.reset(seed=5)
    rng = np.random.default_rng(1)
    for count in (1, 60, 25):
        actions = rng.integers(stepped.single_action_space.n, size=(count, 7))
        steps = [stepped.step(row) for row in actions]
        found = rolled.rollout(actions)
        assert (found.observations == steps[-1][0]).all()
        for k, column in enumerate((found.rewards, found.terminations, found.truncations), 1):
            assert (column == np.stack([step[k] for step in steps])).all()
        for step, row in zip(steps, found.successes, strict=True):
            infos = step[4]
            final = infos.get("final_info", infos)
            over = step[2] | step[3]
            assert (row[over] == final["success"][over]).all()
            assert (row[~over] == infos["success"][~over]).all()
    assert found.terminations.any() or found.truncations.any()


def test_a_wrong_action_stops_a_rollout_before_it_begins():
    envs = gym.make_vec("ragen/Sokoban-v0", num_envs=3)
    first, _ = envs.reset(seed=0)
    actions = np.zeros((5, 3), np.int64)
    actions[4, 1] = 4
    with pytest.raises(RagenError, match="action 1 of step 4 is 4, but must be from 0 to 3"):
        envs.rollout(actions)
    assert (envs.rollout(actions[:0]).observations == first).all()
    with pytest.raises(RagenError, match=r"shape \(5, 2\)"):
        envs.rollout(actions[:, :2])


def test_a_rollout_without_autoreset_stops_at_an_end():
    envs = gym.make_vec("ragen/Bandit-v0", num_envs=2, autoreset_mode=AutoresetMode.DISABLED)
    envs.reset(seed=0)
    assert envs.rollout(np.zeros((1, 2), np.int64)).terminations.all()
    with pytest.raises(ResetNeededError, match="are over"):
        envs.rollout(np.zeros((1, 2), np.int64))
