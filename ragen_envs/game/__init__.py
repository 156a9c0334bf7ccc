"""The parts every game is made of: the base classes, the text face, the oracle's types, errors."""

from ragen_envs.game.base import GameEnv
from ragen_envs.game.oracle import Advice, Budget
from ragen_envs.game.word_game import LEGAL, Legality, WordGameEnv, illegal
from ragen_envs.levels.seeding import Rng

__all__ = ["LEGAL", "Advice", "Budget", "GameEnv", "Legality", "Rng", "WordGameEnv", "illegal"]
