"""Minesweeper 5x5: open every cell without a mine."""

from ragen_envs.games.minesweeper.env import MinesweeperEnv

__all__ = ["MinesweeperEnv"]
