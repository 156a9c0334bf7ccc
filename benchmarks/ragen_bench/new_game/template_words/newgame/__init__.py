"""NewGame: pay an amount exactly."""

from newgame.env import NewGameEnv
from ragen_envs import GameSpec, register_game

GAME = GameSpec(
    name="NewGame",
    namespace="newgame",
    entry_point="newgame:NewGameEnv",
    vector_entry_point=None,
    summary="pay an amount exactly with the coins of a purse",
    max_episode_steps=20,
)
register_game(GAME)

__all__ = ["GAME", "NewGameEnv"]
