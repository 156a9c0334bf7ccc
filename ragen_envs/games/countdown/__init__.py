"""Countdown: reach a number with the given ones."""

from ragen_envs.games.countdown.env import CountdownEnv

__all__ = ["CountdownEnv"]
