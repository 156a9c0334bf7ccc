"""Games for libraries that pass on texts, but no pictures."""

from typing import Any

from ragen_envs.conversation import ConversationWrapper, make
from ragen_envs.game.errors import RagenError
from ragen_envs.game.text import FORMATS, IMAGE


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
