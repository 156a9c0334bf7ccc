"""A state as text."""

# ruff: noqa: D103

from typing import Any

import gymnasium as gym
import pytest
from measuring import measure

TEXT = "A state as text"


@pytest.mark.parametrize("game", ["Sokoban", "FrozenLake"])
def test_texts(benchmark: Any, game: str) -> None:
    envs = gym.make_vec(f"ragen/{game}-v0", num_envs=1024, render_mode="ansi")
    envs.reset(seed=0)
    measure(benchmark, envs.render, TEXT, game, items=1024, note="1,024 at once")


@pytest.mark.parametrize("game", ["Sokoban", "FrozenLake", "Bandit"])
def test_text(benchmark: Any, game: str) -> None:
    env = gym.make(f"ragen/{game}-v0", render_mode="ansi").unwrapped
    env.reset(seed=0)

    def work() -> None:
        for _ in range(100):
            env.render()

    measure(benchmark, work, TEXT, game, items=100, note="one")
