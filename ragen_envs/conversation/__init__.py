"""Any game as a conversation: prompts, replies, defects."""

from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import load_env_creator

from ragen_envs.conversation.parser import Defect, ParsedReply, format_reply, parse_reply
from ragen_envs.conversation.player_view import Playable
from ragen_envs.conversation.settings import SETTING_NAMES, ConversationSettings
from ragen_envs.conversation.vector import ConversationVector
from ragen_envs.conversation.wrapper import ConversationWrapper, FreeText, Picture, TurnResult
from ragen_envs.errors import RagenError
from ragen_envs.text import IMAGE


def make_conversation(
    game: str, render_mode: str | None = None, **kwargs: Any
) -> ConversationWrapper:
    """Make a game by its id and wrap it as a conversation, without a time limit of its own.

    Args:
        game: Id of a registered game, such as ``"ragen/Sokoban-v0"``.
        render_mode: The game's render mode; "rgb_array" in any case where the observation is "image".
        **kwargs: Conversation settings by name; all others go to the game.
    """
    spec = gym.spec(game)
    settings = {name: kwargs.pop(name) for name in SETTING_NAMES if name in kwargs}
    if settings.get("observation") == IMAGE:
        render_mode = "rgb_array"
    if not isinstance(spec.entry_point, str):
        raise RagenError(f"{game} must be registered with an entry point given as a string")
    creator = load_env_creator(spec.entry_point)
    try:
        env: Any = creator(**{**spec.kwargs, **kwargs, "render_mode": render_mode})
    except TypeError as error:
        raise RagenError(
            f"{game} does not take these keywords ({error}); conversation settings are "
            f"{', '.join(SETTING_NAMES)}"
        ) from None
    return ConversationWrapper(env, **settings)


def make_conversation_vector(game: str, num: int, **kwargs: Any) -> ConversationVector:
    """Make ``num`` conversations of one game; see ``make_conversation`` for the keywords."""
    return ConversationVector([make_conversation(game, **kwargs) for _ in range(num)])


__all__ = [
    "ConversationSettings",
    "ConversationVector",
    "ConversationWrapper",
    "Defect",
    "FreeText",
    "ParsedReply",
    "Picture",
    "Playable",
    "TurnResult",
    "format_reply",
    "make_conversation",
    "make_conversation_vector",
    "parse_reply",
]
