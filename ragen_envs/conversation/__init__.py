"""Any game as a conversation: prompts, replies, defects."""

from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import load_env_creator

from ragen_envs.conversation.parser import Defect, ParsedReply, format_reply, parse_reply
from ragen_envs.conversation.settings import SETTING_NAMES, ConversationSettings
from ragen_envs.conversation.wrapper import ConversationWrapper, FreeText, TurnResult


def make_conversation(
    game: str, render_mode: str | None = None, **kwargs: Any
) -> ConversationWrapper:
    """Make a game by its id and wrap it as a conversation, without a time limit of its own.

    Args:
        game: Id of a registered game, such as ``"ragen/Sokoban-v0"``.
        render_mode: The game's render mode.
        **kwargs: Conversation settings by name; all others go to the game.
    """
    spec = gym.spec(game)
    settings = {name: kwargs.pop(name) for name in SETTING_NAMES if name in kwargs}
    creator = load_env_creator(spec.entry_point) if isinstance(spec.entry_point, str) else None
    if creator is None:
        raise TypeError(f"{game} must be registered with an entry point given as a string")
    env: gym.Env[Any, int] = creator(**{**spec.kwargs, **kwargs, "render_mode": render_mode})  # type: ignore[assignment]
    return ConversationWrapper(env, **settings)


__all__ = [
    "ConversationSettings",
    "ConversationWrapper",
    "Defect",
    "FreeText",
    "ParsedReply",
    "TurnResult",
    "format_reply",
    "make_conversation",
    "parse_reply",
]
