"""Slips of a single lake, and moves of a subclass."""

import gymnasium as gym
import numpy as np

from ragen_envs.games.frozen_lake import FrozenLakeEnv, dynamics


def test_slips_on_one_map_are_those_of_a_vector():
    level = ["SFFF", "FHFH", "FFFH", "HFFG"]
    env = gym.make("ragen/FrozenLake-v0", level=level, max_episode_steps=20)
    vector = gym.make_vec(
        "ragen/FrozenLake-v0", num_envs=1, level=level, max_episode_steps=20,
        autoreset_mode="Disabled",
    )  # fmt: skip
    env.reset(seed=3)
    vector.reset(seed=3)
    rng, over, slips = np.random.default_rng(0), False, 0
    for _ in range(1000):
        if over:
            env.reset()
            vector.reset(options={"reset_mask": np.array([True])})
        action = int(rng.integers(4))
        seen, reward, *ends, info = env.step(action)
        others, rewards, *all_ends, infos = vector.step(np.array([action]))
        assert (seen == others[0]).all()
        assert (reward, *ends) == (rewards[0], all_ends[0][0], all_ends[1][0])
        assert info["slipped"] == infos["slipped"][0]
        over, slips = any(ends), slips + info["slipped"]
    assert slips > 500


class Ski(FrozenLakeEnv):
    """Moves to the edge, by rules that do not go through those of FrozenLake."""

    def act(self, action):
        before, self.position = self.position, self.width - 1 if action == dynamics.RIGHT else 0
        over = self.tiles[self.position] != dynamics.FROZEN
        return float(over), over, self.position != before


def test_success_in_a_subclass_with_moves_of_its_own():
    env = Ski(level=["P__G", "____"])
    env.reset(seed=0)
    assert env.step(dynamics.LEFT)[4]["success"] is False
    _, _, terminated, _, info = env.step(dynamics.RIGHT)
    assert terminated
    assert info["success"] is True
    assert info["action_is_effective"] is True
