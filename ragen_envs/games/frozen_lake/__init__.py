"""FrozenLake: cross the ice to the goal without falling into a hole."""

from ragen_envs.games.frozen_lake.env import FrozenLakeEnv

__all__ = ["FrozenLakeEnv"]
