"""What a user writes: an agent, the games and a table. The last line is wrong on purpose."""

from typing import assert_type

import gymnasium as gym
import numpy as np
import ragen_bench as rb

from ragen_agents.policies.base import Policy, Reply, Request
from ragen_envs import GAMES, GameSpec


def cautious(request: Request) -> str:
    return f"<answer>{len(request.messages)}</answer>"


def play(seed: int) -> float:
    env = gym.make("ragen/Sokoban-v0", render_mode="ansi")
    observation, _ = env.reset(seed=seed)
    assert_type(np.asarray(observation).ndim, int)
    return float(env.step(0)[1])


def first_game() -> GameSpec:
    return GAMES[0]


def answer(policy: Policy, request: Request) -> Reply:
    return policy.act([request])[0]


run = assert_type(rb.evaluate(cautious, games=["FrozenLake"], episodes=8), rb.Run)
wrong: int = rb.load(run.folder)  # type: ignore[assignment]
