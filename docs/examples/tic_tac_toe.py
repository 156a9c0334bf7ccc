"""Tic-tac-toe of PettingZoo in words, against a random opponent. Needs pygame."""

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray
from pettingzoo.classic import tictactoe_v3

from ragen_envs import register_text
from ragen_envs.multi_agent.seat_env import SeatEnv

CELLS = [f"{column}{row}" for row in "123" for column in "abc"]


def describe(seen: NDArray[np.int8]) -> str:
    """Return the board; the planes of the observation are the marks of the player and of the opponent."""
    rows = ("".join("XO."[[mine, theirs, 1].index(1)] for mine, theirs in row) for row in seen)
    return "\n".join(["  abc", *(f"{number} {row}" for number, row in enumerate(rows, start=1))])


gym.register("mine/TicTacToe-v0", entry_point=lambda: SeatEnv(tictactoe_v3.env()))
register_text(
    "mine/TicTacToeText-v0", "mine/TicTacToe-v0",
    actions=CELLS, describe=describe, success=1, max_turns=9, actions_per_turn=1, max_actions=9,
    rules="Play tic-tac-toe as X and begin. Occupied cells cannot be chosen. Rewards: 1 for three in a row, "
    "-1 if the opponent has three in a row.",
)  # fmt: skip
