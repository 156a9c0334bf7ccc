"""The race over the ice, version 0, as PettingZoo's classic module."""

from functools import partial

from ragen_envs.multi_agent.faces import aec_face, parallel_face, raw_face
from ragen_envs.multi_agent.games.frozen_lake_race import FrozenLakeRaceEnv

parallel_env = partial(parallel_face, FrozenLakeRaceEnv)
raw_env = partial(raw_face, FrozenLakeRaceEnv)
env = partial(aec_face, FrozenLakeRaceEnv)

__all__ = ["env", "parallel_env", "raw_env"]
