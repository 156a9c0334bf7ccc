"""Sokoban: push every box onto a target."""

from ragen_envs.games.sokoban.dynamics import REWARDS, Reward
from ragen_envs.games.sokoban.env import SokobanEnv
from ragen_envs.games.sokoban.oracle import solve

__all__ = ["REWARDS", "Reward", "SokobanEnv", "solve"]
