"""Sokoban: push every box onto a target."""

from ragen_envs.games.sokoban.dynamics import REWARDS, Reward
from ragen_envs.games.sokoban.env import SokobanEnv
from ragen_envs.games.sokoban.solver import solvable_within, solve, solve_batch

__all__ = ["REWARDS", "Reward", "SokobanEnv", "solvable_within", "solve", "solve_batch"]
