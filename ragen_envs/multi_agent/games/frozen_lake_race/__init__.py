"""The race over the ice: several walkers, one goal."""

from ragen_envs.multi_agent.games.frozen_lake_race.env import FrozenLakeRaceEnv

__all__ = ["FrozenLakeRaceEnv"]
