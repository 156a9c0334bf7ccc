"""Cube: turn the 2x2x2 pocket cube until every face shows a single color."""

from ragen_envs.games.cube.env import CubeEnv

__all__ = ["CubeEnv"]
