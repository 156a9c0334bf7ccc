"""What games are made of. This package exports the names that most games of one's own need."""

from ragen_envs.game.base import GameEnv
from ragen_envs.game.oracle import Advice, Budget
from ragen_envs.game.word_game import LEGAL, Legality, WordGameEnv, illegal
from ragen_envs.levels.seeding import Rng

__all__ = ["LEGAL", "Advice", "Budget", "GameEnv", "Legality", "Rng", "WordGameEnv", "illegal"]
