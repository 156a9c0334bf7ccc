"""Make games for libraries that send texts only and play a level several times at once."""

import random
from typing import Any, Final

from ragen_envs.conversation import ConversationWrapper, make
from ragen_envs.errors import RagenError
from ragen_envs.game.text import FORMATS, IMAGE

_NOISE_BITS: Final = 48


def make_text_only(env_id: str, **settings: Any) -> ConversationWrapper:
    """Make a conversation env.

    Raises:
        RagenError: There is no such game, or it would show pictures.
    """
    env = make(env_id, **settings)
    if env.settings.observation == IMAGE:
        raise RagenError(
            f"observation is 'image', but must be one of {', '.join(FORMATS)}: only texts are passed on"
        )
    return env


def check_whole_history(env: ConversationWrapper) -> None:
    """Raise `RagenError` unless a conversation keeps its whole history, where a library sends all of it."""
    history = env.settings.history
    if history != "full":
        raise RagenError(
            f"history is '{history}', but must be 'full': every earlier turn is sent to the model"
        )


def draw_noise() -> int:
    """Return a seed of the random events of one episode, in [0, 2^48); two are hardly ever equal.

    Members of a group that share their luck are compared by it: where a gamble pays nobody, its group learns
    to avoid it, whatever it is worth. The seed is from Python's ``random``, which trainers seed, in every
    process differently.
    """
    return random.getrandbits(_NOISE_BITS)
