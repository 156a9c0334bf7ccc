"""`GameVectorEnv.rollout`: many steps in one call."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from ragen_envs.compiled.kernels import BLOCK
from ragen_envs.errors import RagenError, ResetNeededError
from ragen_envs.registration import GAMES


@pytest.mark.slow
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


def test_a_rollout_without_autoreset_is_refused():
    envs = gym.make_vec("ragen/Bandit-v0", num_envs=2, autoreset_mode=AutoresetMode.DISABLED)
    envs.reset(seed=0)
    with pytest.raises(RagenError, match="autoreset_mode is Disabled, but a rollout needs NextStep"):
        envs.rollout(np.zeros((1, 2), np.int64))


def test_a_rollout_before_the_reset_is_refused():
    envs = gym.make_vec("ragen/Bandit-v0", num_envs=2)
    with pytest.raises(ResetNeededError, match="call reset"):
        envs.rollout(np.zeros((1, 2), np.int64))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env_id", "settings", "mode"),
    [
        ("ragen/Sokoban-v0", {"reward": "shaped"}, AutoresetMode.NEXT_STEP),
        ("ragen/Sokoban-v0", {"reward": "shaped"}, AutoresetMode.SAME_STEP),
        (
            "ragen/Sokoban-v0",
            {"level": ["######", "#PX_O#", "#____#", "######"]},
            AutoresetMode.SAME_STEP,
        ),
        ("ragen/FrozenLake-v0", {"level": ["P_O", "___", "O_G"]}, AutoresetMode.NEXT_STEP),
        ("ragen/Bandit-v0", {"level": ["Teacher", "Pirate"]}, AutoresetMode.SAME_STEP),
    ],
)
def test_threads_and_blocks_change_no_result(env_id, settings, mode):
    count = 2 * BLOCK + 37
    keywords = {"num_envs": count, "autoreset_mode": mode, "max_episode_steps": 6, **settings}
    stepped, alone, shared = (gym.make_vec(env_id, **keywords) for _ in range(3))
    splits = np.arange(count) % 3 == 0
    for envs in (stepped, alone, shared):
        envs.reset(seed=3)
        envs.reset(seed=9, options={"split": "test", "reset_mask": splits})
    rng = np.random.default_rng(2)
    for length in (11, 0, 8):
        actions = rng.integers(stepped.single_action_space.n, size=(length, count))
        steps = [stepped.step(row) for row in actions]
        first, second = alone.rollout(actions), shared.rollout(actions, threads=3)
        for one, other in zip(first, second, strict=True):
            assert (one == other).all()
        if steps:
            assert (first.observations == steps[-1][0]).all()
            assert (first.rewards == np.stack([step[1] for step in steps])).all()
    row = rng.integers(stepped.single_action_space.n, size=count)
    after = [envs.step(row) for envs in (stepped, alone, shared)]
    assert all((found[0] == after[0][0]).all() and (found[1] == after[0][1]).all() for found in after)


def test_threads_are_counted_from_one():
    envs = gym.make_vec("ragen/Bandit-v0", num_envs=2)
    envs.reset(seed=0)
    with pytest.raises(RagenError, match="threads is 0"):
        envs.rollout(np.zeros((1, 2), np.int64), threads=0)
