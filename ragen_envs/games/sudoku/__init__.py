"""Sudoku 4x4: fill the grid."""

from ragen_envs.games.sudoku.env import SudokuEnv

__all__ = ["SudokuEnv"]
