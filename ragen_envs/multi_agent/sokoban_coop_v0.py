"""Cooperative Sokoban, version 0, as PettingZoo's classic module."""

from ragen_envs.multi_agent.faces import faces_of
from ragen_envs.multi_agent.games.sokoban_coop import SokobanCoopEnv

parallel_env, raw_env, env = faces_of(SokobanCoopEnv)
