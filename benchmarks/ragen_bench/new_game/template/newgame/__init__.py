"""NewGame: walk along a corridor to the coin."""

from newgame.env import NewGameEnv
from ragen_envs import GameSpec, register_game

GAME = GameSpec(
    name="NewGame",
    namespace="newgame",
    entry_point="newgame:NewGameEnv",
    vector_entry_point=None,
    summary="walk along a corridor to the coin",
    max_episode_steps=100,
)
register_game(GAME)

__all__ = ["GAME", "NewGameEnv"]
