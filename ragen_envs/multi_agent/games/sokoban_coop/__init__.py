"""Cooperative Sokoban: push every box onto a target together."""

from ragen_envs.multi_agent.games.sokoban_coop.env import SokobanCoopEnv

__all__ = ["SokobanCoopEnv"]
