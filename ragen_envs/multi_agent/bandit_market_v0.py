"""The market of bandits, version 0, as PettingZoo's classic module."""

from functools import partial

from ragen_envs.multi_agent.faces import aec_face, parallel_face, raw_face
from ragen_envs.multi_agent.games.bandit_market import BanditMarketEnv

parallel_env = partial(parallel_face, BanditMarketEnv)
raw_env = partial(raw_face, BanditMarketEnv)
env = partial(aec_face, BanditMarketEnv)

__all__ = ["env", "parallel_env", "raw_env"]
