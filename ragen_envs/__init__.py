"""RAGEN's games as a Gymnasium suite. Importing this package registers every id.

Examples:
    >>> import gymnasium as gym, ragen_envs
    >>> env = gym.make("ragen/Sokoban-v0", render_mode="ansi")
    >>> observation, info = env.reset(options={"split": "test", "index": 0})
    >>> observation.shape
    (6, 6)
"""

from ragen_envs._version import __version__
from ragen_envs.levels.seeding import SUITE_VERSION
from ragen_envs.pictures.png import show_envs_in_notebooks
from ragen_envs.registration import GAMES, GameSpec, register_all, register_game, register_text

register_all()
show_envs_in_notebooks()

__all__ = [
    "GAMES", "SUITE_VERSION", "GameSpec", "__version__", "register_game", "register_text"
]  # fmt: skip
