"""Cooperative Sokoban, version 0, as PettingZoo's classic module."""

from functools import partial

from ragen_envs.multi_agent.faces import aec_face, parallel_face, raw_face
from ragen_envs.multi_agent.games.sokoban_coop import SokobanCoopEnv

parallel_env = partial(parallel_face, SokobanCoopEnv)
raw_env = partial(raw_face, SokobanCoopEnv)
env = partial(aec_face, SokobanCoopEnv)

__all__ = ["env", "parallel_env", "raw_env"]
