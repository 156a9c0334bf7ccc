"""Bandit: pull one of two arms, whose names hint at which is the gamble."""

from ragen_envs.games.bandit.env import BanditEnv
from ragen_envs.games.bandit.generator import all_names, arm_names

__all__ = ["BanditEnv", "all_names", "arm_names"]
