"""Measure the limits of this machine; say which limit each section of the report is held against."""

from collections.abc import Callable
from typing import Any, Final

import gymnasium as gym
import numpy as np
from gymnasium import spaces

LIMITS: Final = "Limits of this machine"
PYTHON, NUMPY, DECODE, STEP = (
    "a Python call", "a NumPy call", "36 bytes decoded", "a step through gym.make without a game",
)  # fmt: skip
LIMIT_OF: Final = {"One env": STEP}
"""The limit that no row of a section can beat; vectors of envs have a bound of their own, bytes moved."""
SIDES: Final = (128, 512, 1024)
"""Sides of the square matrices that are multiplied."""
SIZES: Final = {"256 KiB": 1 << 18, "64 MiB": 1 << 26}
"""Sizes of the arrays that are copied: one that the caches hold, and one that they do not."""


class NoGame(gym.Env[Any, Any]):
    """An env whose step does nothing, with the usual wrappers around it."""

    observation_space = spaces.Box(0, 6, (6, 6), np.uint8)
    action_space = spaces.Discrete(4)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Return a board."""
        super().reset(seed=seed, options=options)
        self._board = np.zeros((6, 6), np.uint8)
        return self._board, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Return the board."""
        del action
        return self._board, 0.0, False, False, {}


def empty_step() -> Callable[[], Any]:
    """Return a call that steps ``NoGame`` as Gymnasium makes it, with a time limit."""
    gym.register("NoGame-v0", entry_point=NoGame, max_episode_steps=1 << 30)
    env = gym.make("NoGame-v0")
    env.reset(seed=0)
    return lambda: env.step(0)


def product(side: int, dtype: str) -> Callable[[], Any]:
    """Return a call that multiplies two square matrices with torch."""
    import torch

    matrix = torch.randn(side, side, dtype=getattr(torch, dtype))
    into = torch.empty_like(matrix)
    return lambda: torch.mm(matrix, matrix, out=into)


def copy(size: int) -> Callable[[], Any]:
    """Return a call that copies an array of that many bytes."""
    source = np.ones(size, np.uint8)
    target = np.empty_like(source)
    return lambda: np.copyto(target, source)
