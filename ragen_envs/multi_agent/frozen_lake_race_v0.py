"""The race over the ice, version 0, as PettingZoo's classic module."""

from ragen_envs.multi_agent.faces import faces_of
from ragen_envs.multi_agent.games.frozen_lake_race import FrozenLakeRaceEnv

parallel_env, raw_env, env = faces_of(FrozenLakeRaceEnv)
