"""Mastermind: find the hidden code."""

from ragen_envs.games.mastermind.env import MastermindEnv

__all__ = ["MastermindEnv"]
