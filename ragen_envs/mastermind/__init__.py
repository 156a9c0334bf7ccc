"""Mastermind: find the hidden code."""

from ragen_envs.mastermind.env import MastermindEnv

__all__ = ["MastermindEnv"]
